"""Figures of docs/reference/mechanisms/ that follow from a formula: each is computed anew.

Figures stand here as on the pages, rounded to the digits that these show.
"""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from papers.calibrated import plan_ptr_published, published_logistic_sensitivity
from papers.gaussian_process import RadialKernel, plan_gaussian_process
from papers.least_squares_corner import corner_sigma
from papers.ron_gauss_sensitivity import centred_covariance_distance, product_distance, published_factor
from scipy.optimize import minimize_scalar

from lintra_analysis.kinds.clip_count import USUAL_WEIGHT
from lintra_curator.calibrated.calibrated_gaussian import CalibratedPlan, calibrate
from lintra_curator.calibrated.logistic_regression import plan_logistic
from lintra_curator.claims.claim import curator_claim
from lintra_curator.least_squares.private_least_squares import influence_delta, ols_sigma
from lintra_curator.ndis.closed_form import rp_pstar
from lintra_curator.projection.ptr_projection import plan_ptr, ptr_delta
from lintra_curator.projection.random_projection import plan_projection, rp_sigma
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import FalseClaimError
from lintra_protocol.mechanisms import Histogram, OsnapPublished, SecondMoment, WishartSecondMoment
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Claim
from support.measured import calibrated_for, layout_of, measurement_of

DELTA = 1e-6
MU = gaussian_mu(1, DELTA)
ZERO_OUT = curator_claim(1.0, DELTA, "zero-out")


def test_the_usual_weight_of_a_clip_counter() -> None:
    assert fraction(USUAL_WEIGHT) == Fraction("0.2")
    assert float(fraction(USUAL_WEIGHT)) == 0.2


# --- private_least_squares --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sketch_rows", "features", "rows", "shown"),
    [
        (300, 12, 2809, (7.1488, 4.9932, 4.8871, 6.1041)),
        pytest.param(1200, 2, 327_346, (11.8039, 8.3125, 8.2684, 10.13), marks=pytest.mark.slow),
        pytest.param(3000, 91, 515_345, (15.0551, 10.619, 10.5114, 12.7826), marks=pytest.mark.slow),
    ],
)
def test_private_least_squares_needs_this_noise(
    sketch_rows: int, features: int, rows: int, shown: tuple[float, float, float, float]
) -> None:
    corner = corner_sigma(1, 1 / rows, sketch_rows, features, 1.0)
    gaussian, exact = (ols_sigma(1, 1 / rows, sketch_rows, features, 1.0, law) for law in ("gaussian", "t"))
    sketch = rp_sigma(1, 1 / rows, sketch_rows, 1.0)
    assert tuple(round(sigma, 4) for sigma in (corner, gaussian, exact, sketch)) == shown
    assert 42 <= round(100 * (corner / gaussian - 1)) <= 43
    assert 18 <= round(100 * (1 - exact / sketch)) <= 20


def test_along_the_hypotenuse_there_are_two_maxima() -> None:
    delta, total = 1 / 327_346, 1 / (1 + 8.26811**2)

    def part(share: float) -> float:
        return influence_delta(1, share * total, (1 - share) * total, 1200, 2, "t") / delta

    found = [
        -minimize_scalar(lambda share: -part(share), bounds=bounds, method="bounded", options={"xatol": 1e-9}).fun
        for bounds in ((0.01, 0.5), (0.5, 0.99))
    ]
    assert part(0.5) < 0.999
    assert (round(found[0], 4), round(found[1], 4)) == (1.0, 1.0012)
    assert round(100 * (found[1] - 1), 2) == 0.12
    assert round(ols_sigma(1, delta, 1200, 2, 1.0, "t"), 5) == 8.26838


# --- calibrated_gaussian ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("regularization", "rows", "ours", "published", "alone"),
    [
        (1, 1000, (4.6133, 4), (6.3847, 4), (4.2247, 4)),
        (10, 1000, (0.40440, 5), (1.41432, 5), (0.42247, 5)),
        (100, 10_000, (0.021629, 6), (0.41767, 5), (0.042247, 6)),
    ],
)
@pytest.mark.grid(3)
def test_logistic_regression_needs_this_noise(
    regularization: float, rows: int, ours: tuple[float, int], published: tuple[float, int], alone: tuple[float, int]
) -> None:
    def by_paper() -> CalibratedPlan:
        return calibrate(ZERO_OUT, lambda sigma: published_logistic_sensitivity(sigma, 1.0, regularization, 10, rows))

    assert round(plan_logistic(ZERO_OUT, 1.0, regularization, rows).sigma, ours[1]) == ours[0]
    assert round(by_paper().sigma, published[1]) == published[0]
    assert round(1 / regularization / MU, alone[1]) == alone[0]


def test_a_gaussian_process_needs_this_noise() -> None:
    plan = plan_gaussian_process(ZERO_OUT, RadialKernel(1.0, 1.0), 0.1, 1.0, 100)
    assert round(plan.calibrated.sigma, 1) == 66.9


# --- histogram --------------------------------------------------------------------------------------------------


def test_a_histogram_of_130_cells_has_these_errors() -> None:
    cells, rows = 130, 10_000
    edges = tuple(str(edge) for edge in range(cells))
    promise = Claim(epsilon="1", delta="0.000001", min_clients=rows, max_corrupt_clients=rows * 5 // 100)
    planned = calibrated_for(Histogram(sigma=4, edges=(edges,), levels=(0,)), 1, promise, rows)
    assert layout_of(planned, 1).num_noised == cells
    noise = sqrt(rows) * planned.sigma / planned.indicator
    assert round(noise, 1) == 6.2
    # But for the integer deviation it does not depend on n.
    assert noise == pytest.approx(sqrt(2) / MU / sqrt(1 - 5 / 100), rel=0.01)
    # The sum of i of m cells with what they lack of n spread over all: half of them, i = (m + 1) / 2.
    below = (cells + 1) / 2
    assert round(noise * sqrt(below * (cells + 1 - below) / (cells + 1)) / rows, 4) == 0.0035
    assert sqrt(0.5 * 0.5 / rows) == 0.005


def test_powers_of_rows_have_these_errors() -> None:
    places = (np.arange(64) + 0.5) / 64
    for power, shown in ((1, 3.3), (4, 3.0)):
        weights = np.append(places**power, 0.0)  # the last is the cell of missing values
        assert round(sqrt(2 * np.square(weights - weights.mean()).sum()), 1) == shown
        ends = np.arange(65) / 64
        left_open = np.diff(ends**power).mean() / np.mean(places**power)
        assert left_open == pytest.approx((power + 1) / 64, rel=0.01)


# --- central_ron_gauss ------------------------------------------------------------------------------------------


def test_the_published_noise_is_this_much_too_small() -> None:
    for dimension, factor in ((4, 0.94), (6, 1.06), (10, 1.27), (50, 2.57)):
        assert round(published_factor(dimension, mirrored=True), 2) == factor
    for dimension, factor in ((10, 2.24), (50, 5)):
        assert round(published_factor(dimension, mirrored=False), 2) == factor
        assert product_distance(dimension) / (2 * sqrt(dimension)) == pytest.approx(sqrt(dimension / 2))


def test_centring_costs_this_factor_at_most() -> None:
    factors = [4 * (rows - 1) / rows**2 / (sqrt(2) / rows) for rows in (2, 10, 1000, 10**9)]
    assert sorted(factors) == factors
    assert round(factors[-1], 2) == 2.83
    assert factors[1] == pytest.approx(centred_covariance_distance(10) / (sqrt(2) / 10))


# --- random_projection ------------------------------------------------------------------------------------------


def test_a_projection_of_the_song_data_needs_this_noise() -> None:
    longest = 0.224128987  # which the paper prints as its noise
    assert round(longest, 3) == 0.224
    assert round(rp_sigma(1, 1 / 515_345, 20_000, longest), 3) == 4.559
    assert round(longest / sqrt(rp_pstar(1, 1 / 515_345, 20_000)), 3) == 4.565


def test_replacing_a_row_of_a_projection_costs_this_much_more() -> None:
    replaced = curator_claim(1.0, DELTA, "replace-one")
    for rows, more in ((4, 2), (30, 7), (300, 13)):
        ratio = plan_projection(replaced, rows, 1.0).sigma2 / plan_projection(ZERO_OUT, rows, 1.0).sigma2
        assert round(100 * (sqrt(ratio) - 1)) == more


@pytest.mark.slow
def test_testing_first_uses_up_this_little_and_pays_from_here_on() -> None:
    published = plan_ptr_published(ZERO_OUT, 100, 1.0)
    assert ptr_delta(1.0, published.test, 100) / DELTA == pytest.approx(4e-5, rel=0.1)
    exact = plan_ptr(ZERO_OUT, 100, 1.0, deviation=8, margin=1)
    plain = 1 / rp_pstar(1, DELTA, 100) - 1
    # The expected ridge is cap less (lambda_min less margin).
    assert [round(plan.test.cap + plan.test.margin - plain) for plan in (published, exact)] == [80, 28]


# --- second_moment_wishart --------------------------------------------------------------------------------------


def deviation(kind: type[WishartSecondMoment | SecondMoment], promise: Claim, columns: int, weight: str = "0") -> float:
    """Return the deviation of a client's noise in a product, as a part of B^2."""
    plain = kind(row_bound="1", fraction_bits=0, sigma=4, clip_count_weight=weight)
    found = calibrated_for(plain, columns, promise, promise.min_clients)
    return float(found.sigma * 4.0**-found.fraction_bits)


FEW = Claim(epsilon="1", delta="0.000001", min_clients=600)


@pytest.mark.parametrize(
    ("promise", "columns", "ratio", "digits"),
    [
        (FEW, 3, 1.042, 3),
        (FEW.model_copy(update={"min_clients": 667}), 22, 1.054, 3),
        pytest.param(Claim(epsilon="1", delta="0.00000001", min_clients=99_000), 10, 1.004, 3, marks=pytest.mark.slow),
        (Claim(epsilon="4", delta="0.00001", min_clients=600, neighbours="zero-out"), 3, 1.21, 2),
    ],
)
def test_wishart_noise_has_this_deviation_beside_gaussian_noise(
    promise: Claim, columns: int, ratio: float, digits: int
) -> None:
    found = deviation(WishartSecondMoment, promise, columns) / deviation(SecondMoment, promise, columns)
    assert round(found, digits) == ratio


def test_a_clip_counter_costs_wishart_noise_this_much() -> None:
    counted = deviation(WishartSecondMoment, FEW, 3, "0.2") / deviation(WishartSecondMoment, FEW, 3)
    assert round(100 * (counted - 1), 1) == 1.8


# --- osnap_published --------------------------------------------------------------------------------------------


def test_a_claim_below_the_exact_one_is_refused() -> None:
    asked = OsnapPublished(entry_bound="1", fraction_bits=0, sigma=4, rows=1, published_epsilon="1")
    claim = Claim(epsilon="1.12", delta="0.000001", min_clients=120)
    noised = calibrated_for(asked, 1, claim, 1000)
    statement = measurement_of(noised, 1, claim).privacy(120)
    statement.require(claim)
    assert (float(claim.epsilon), round(statement.epsilon, 3)) == (1.12, 1.115)
    for epsilon in ("1", "1.11"):
        with pytest.raises(FalseClaimError, match=r"give epsilon 1\.115"):
            calibrated_for(asked, 1, claim.model_copy(update={"epsilon": epsilon}), 1000)
