"""Figures of docs/proofs that follow from a formula: each is computed anew.

Figures stand here as on the pages, rounded to the digits that these show. Where a formula is short it is written out,
so that the library's function and this file would both have to be wrong.
"""

import math
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from lintra_analysis.kinds.coalition import usual_claim
from lintra_analysis.kinds.osnap import default_rows
from lintra_analysis.kinds.range_finder import usual_projected_bound
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.mechanisms import Osnap, RangeFinder, Sum, WishartSecondMoment
from lintra_protocol.mechanisms.collusion import DEFAULT_PART
from lintra_protocol.mechanisms.range_finder import FREE_TRACE
from lintra_protocol.mechanisms.row_quota import MARGIN
from lintra_protocol.noise.joint_noise import JointNoise
from lintra_protocol.privacy.calibration import published_mu, published_sigma
from lintra_protocol.privacy.discrete import kappa, row_slack
from lintra_protocol.privacy.gaussian import gaussian_epsilon, gaussian_mu
from lintra_protocol.privacy.statement import SMOOTHING, Claim
from lintra_protocol.privacy.wishart import wishart_delta
from lintra_protocol.transforms.osnap import BalancedOsnap
from support.measured import calibrated_for, measurement_of, row_distance, words_of_steps
from support.worst_rows import worst_pair

DELTA = 1e-6
MU = gaussian_mu(1, DELTA)


def independent_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon of a Gaussian pair from SciPy's normal law, which keeps enough digits for six."""
    return float(
        brentq(
            lambda e: norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta, 0, 60, xtol=1e-12
        )
    )


def epsilon(mu: float, delta: float = DELTA) -> float:
    found = gaussian_epsilon(mu, delta)
    assert found == pytest.approx(independent_epsilon(mu, delta), rel=1e-6)
    return found


def test_leverage_is_planned_above_the_worst_that_was_drawn() -> None:
    assert round(100 * (MARGIN - 1)) == 5


@pytest.mark.parametrize(("columns", "rank", "reached"), [(1000, 20, 0.98), (1000, 64, 0.97), (5000, 32, 0.99)])
def test_how_far_apart_rows_of_a_range_finder_are(columns: int, rank: int, reached: float) -> None:
    found = []
    for seed in range(5):
        mechanism = RangeFinder(
            row_bound="1",
            fraction_bits=14,
            sigma=4,
            rank=rank,
            omega_seed=base64url(bytes([seed] * 32)),
            projected_bound=usual_projected_bound("1", columns, rank),
        )
        first, second = words_of_steps(mechanism, worst_pair(mechanism, columns, seed)).astype(object)
        squared = Fraction(int(np.square(first - second).sum()), 1)
        found.append(sqrt(squared / row_distance(mechanism, "replace-one")))
    assert reached < min(found) < reached + 0.01


def test_the_constant_of_a_free_trace() -> None:
    y = np.linspace(0, 1, 100_001)[:-1]
    least = float(((3 + y) / ((1 - y) * (1 + y) ** 2)).min())
    assert round(least, 4) == round((11 + 5 * sqrt(5)) / 8, 4) == round(float(FREE_TRACE), 4) == 2.7725


def test_what_weights_of_joint_releases_cost() -> None:
    def squared(weight: Fraction, histograms: int, tables: int, count_weight: int = 1) -> float:
        given = JointNoise(10**8, 10**4, 4, 2, histograms, weight**2, tables, Fraction(1), Fraction(count_weight) ** 2)
        # For a variance of 2 of a product of a coordinate with itself; here it is q^2 D^2.
        return 2 * float(given.squared_row_distance("replace-one")) / 10**16

    alone, tables = squared(Fraction(6, 10), 3, 0), squared(Fraction(6, 10), 3, 5)
    assert (round(alone, 2), round(tables, 2)) == (4.78, 6.78)
    assert round(sqrt(tables / alone), 2) == 1.19
    assert (squared(Fraction(1), 0, 0), squared(Fraction(1), 0, 0, 3)) == (4.5, 8.5)
    assert alone == pytest.approx(0.6**4 / 2 + 2 * 0.6**2 + 2 + 2)
    # Part by part, with r^2 from nothing to 2: counts, sums and products with classes, sums and products without.
    squares = np.linspace(0.01, 2, 200)
    planned = squares**2 / 2 + 2 * squares + 2
    assert round(float(np.sqrt((squares**2 / 2 + 4 * squares + 2) / planned).max()), 2) == 1.22
    assert round(float(np.sqrt((4 * squares + 2) / planned).max()), 2) == 1.15


def test_what_persons_of_several_rows_need() -> None:
    generator = np.random.default_rng(3)
    rows = np.minimum(generator.geometric(1 / 4, 400_000), 20)
    ends = np.cumsum(rows)
    norms = generator.uniform(0, 2, ends[-1])
    totals = np.add.reduceat(norms, np.concatenate([[0], ends[:-1]]))
    assert totals.max() <= 20 * 2 == 40
    assert round(float(np.quantile(totals, 99 / 100))) == 17


def test_what_a_promise_for_one_organisation_is_worth_in_several() -> None:
    assert [round(epsilon(places * MU), 2) for places in (2, 3, 5)] == [2.12, 3.32, 5.93]
    assert [round(epsilon(MU * sqrt(4 / honest)), 2) for honest in (5, 3, 1)] == [0.89, 1.17, 2.12]
    assert round(epsilon(MU * sqrt(19)), 2) == 5.06


def test_the_slack_of_one_honest_organisation() -> None:
    assert row_slack(1, 1, 1e12, SMOOTHING) == pytest.approx(2.05e-34, rel=5e-4, abs=0)
    assert kappa(SMOOTHING) == pytest.approx(4 * math.exp(-2 * math.pi**2 * 4), rel=1e-9, abs=0)


def test_what_a_clip_counter_costs_and_tells() -> None:
    weight = 0.2
    assert round(100 * (sqrt(1 + weight**2) - 1)) == 2
    assert round(sqrt(1 + weight**2) / (weight * MU), 1) == 21.5


def test_the_two_parts_of_an_example() -> None:
    coarse = WishartSecondMoment(row_bound="1", fraction_bits=0, sigma=4100).coarse
    least = 1 / (1 / coarse**2 + 1 / 4)
    assert math.floor(1000 * least) / 1000 == 3.996
    assert least > 3.9


def of_the_exact_curve(clients: int, columns: int, promise: Claim) -> tuple[float, float, float]:
    """Return mu, the grid's rho, and a planned example's scale over that which the exact curve alone would need."""
    plain = WishartSecondMoment(row_bound="1", fraction_bits=0, sigma=4)
    planned = calibrated_for(plain, columns, promise, 10 * clients)
    scale, freedom = planned.variance / planned.squared_bound, clients - columns + 1

    def excess(candidate: float) -> float:
        return math.log(wishart_delta(promise.float_epsilon, freedom, 1 / candidate, "replace-one") / DELTA)

    exact = brentq(excess, 0.9 * scale, 1.001 * scale, xtol=1e-9)
    words, fine = columns * (columns + 1) // 2, 2.0**-18
    z = sqrt(2 * math.log(20 * words / 1e-40))
    # Step (3) of the proof, in row steps squared: products rounded up or down, and what is below the fine grid.
    length = sqrt(planned.variance) * (sqrt(clients) + z)
    moved = z * sqrt(clients) / 2 + fine * 4 * z * length + fine**2 * 4 * (1.4 * clients + 2 * z**2)
    grid = sqrt(words) * moved / sqrt(clients * planned.grid_noise**2 - 4)
    return measurement_of(planned, columns, promise).privacy(clients).mu, grid, scale / exact


def test_what_integers_and_composition_cost_wishart_noise() -> None:
    for clients, columns, cost in ((667, 22, 0.2), (100, 3, 2.5)):
        promise = Claim(epsilon="1", delta="0.000001", min_clients=clients)
        mu, grid, above = of_the_exact_curve(clients, columns, promise)
        assert round(100 * (above - 1), 1) == cost
        if columns == 22:
            assert round(grid, 5) == 6e-5
            assert round(mu, 3) == 0.236


def test_what_tolerating_a_coalition_costs_in_noise() -> None:
    def noise(mechanism: Sum | Osnap, promise: Claim) -> float:
        found = calibrated_for(mechanism, 10, promise, 10 * promise.min_clients)
        return found.sigma * 2.0**-found.fraction_bits

    def cost(clients: int, per_row: int | None) -> float:
        promise = usual_claim(epsilon="1", delta="0.000001", min_clients=clients, is_sketch=True)
        alone = promise.model_copy(update={"max_corrupt_clients": 0, "delta_coalition": "0"})
        rows = default_rows(promise, 10) if per_row is None else clients // per_row
        plain = Osnap(row_bound="1", fraction_bits=0, sigma=4, rows=rows)
        return 100 * (noise(plain, promise) / noise(plain, alone) - 1)

    assert Fraction(5, 100) == DEFAULT_PART
    told = usual_claim(epsilon="1", delta="0.000001", min_clients=10_000, is_sketch=False)
    alone = told.model_copy(update={"max_corrupt_clients": 0})
    plain = Sum(row_bound="1", fraction_bits=0, sigma=4)
    assert round(100 * (noise(plain, told) / noise(plain, alone) - 1), 1) == 2.6
    assert [round(cost(10**power, None)) for power in (3, 4, 5, 6)] == [25, 11, 9, 10]
    costs = [cost(10**power, 60) for power in (3, 4, 5, 6)]
    assert (round(min(costs)), round(max(costs))) == (23, 30)


def test_sums_of_squares_stay_below_the_headroom() -> None:
    # ln E exp(g^2 / (4 v)) for g normal is ln(2) / 2, and n of these at the exponent t / 4: t - 4 n ln(2) / 2.
    assert 4 * math.log(2) / 2 < 1.4


def published_epsilon(asked: float, clients: int, rows: int, sparsity: int, columns: int) -> float:
    """Return what equation (4) gives of a cohort that is dealt to the rows in turn, for entries up to 1."""
    sigma = published_sigma(asked, DELTA, clients, rows, sparsity, columns, 1.0, 0)
    matrix = BalancedOsnap(rows, clients, bytes(32), sparsity)
    return epsilon(published_mu(sigma, matrix.row_counts(), sparsity, columns, 1.0, 0))


def test_what_the_published_calibration_gives_exactly() -> None:
    found = [published_epsilon(asked, 120, 1, 1, 1) for asked in (0.2, 1, 8)]
    assert (round(found[0], 3), round(found[1], 3), round(found[2], 1)) == (0.199, 1.115, 11.6)
    assert found[1] > 1.1
    assert round(published_epsilon(1, 120, 1, 1, 2), 3) == 0.729
    assert round(published_epsilon(1, 100_000, 64, 1, 10), 3) == 0.305
    assert round(published_epsilon(1, 100_000, 64, 4, 10), 4) == 0.0315


def test_how_much_noise_the_published_calibration_wastes() -> None:
    for sparsity, factor in ((1, 3), (4, 25)):
        sigma = published_sigma(1, DELTA, 100_000, 256, sparsity, 10, 1.0, 0)
        counts = BalancedOsnap(256, 100_000, bytes(32), sparsity).row_counts()
        # The noise that would do, for the same copies under the same matrix, is smaller in proportion to mu.
        assert round(MU / published_mu(sigma, counts, sparsity, 10, 1.0, 0)) == factor


def test_second_moments_beside_a_trace() -> None:
    # The least-squares combination of d squares and their sum, all of variance 2: its covariance from the normal
    # equations, and the variance of the trace that it gives.
    columns = 22
    design = np.vstack([np.eye(columns), np.ones(columns)])
    covariance = 2 * np.linalg.inv(design.T @ design)
    assert (round(sqrt(2 * columns), 1), round(sqrt(covariance.sum()), 1)) == (6.6, 1.4)
