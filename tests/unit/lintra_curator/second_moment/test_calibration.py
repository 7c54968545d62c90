"""Calibrations: reference values, the private side of every root, what is published, and what is refused."""

import math

import numpy as np
import pytest

from lintra_curator.claims.claim import CalibrationError, curator_claim
from lintra_curator.second_moment.adaptive import LOOK_SHARE, gaussian_then_projection, look_at_eigenvalue
from lintra_curator.second_moment.calibration import (
    adaptive_weight,
    gaussian_sigma,
    projection_weight,
    wishart_degrees,
    wishart_freedom,
    wishart_scale,
)
from lintra_curator.second_moment.curves import projection_delta, wishart_delta
from lintra_protocol.privacy.gaussian import gaussian_delta, gaussian_mu
from lintra_protocol.privacy.statement import Claim, Neighbours
from papers import published

NINE = math.exp(-9)
WEAK = curator_claim(0.1, NINE)
STRONG = curator_claim(1, 1e-6)

RIDGES: list[tuple[float, float, int, Neighbours, float]] = [
    (0.1, NINE, 44, "replace-one", 162.08151611),
    (0.5, NINE, 44, "replace-one", 39.36327478),
    (1, 1e-6, 44, "replace-one", 29.86571782),
    (1, 1e-6, 1000, "replace-one", 133.65504216),
    (0.1, NINE, 44, "zero-out", 130.89632338),
    (1, 1e-6, 44, "zero-out", 25.57213992),
]
FREEDOMS: list[tuple[float, float, Neighbours, float]] = [
    (0.1, NINE, "replace-one", 585.633624),
    (0.5, NINE, "replace-one", 50.206575),
    (1, 1e-6, "replace-one", 44.237502),
    (0.1, NINE, "zero-out", 366.438213),
    (1, 1e-6, "zero-out", 42.844715),
]
# epsilon, delta; then w2/B^2 exact, Theorem 3.1, ICML 2017 (r = 44); k exact, published (c = 1, d = 22);
# sd/B^2 exact, published.
PUBLISHED_AGAINST_EXACT = [
    (0.05, NINE, (294.0, 1633.6, 8541), (1927, 116348), (43.5, 85.9)),
    (0.1, NINE, (162.1, 821.2, 4271), (607, 29103), (23.9, 42.9)),
    (0.5, NINE, (39.4, 171.3, 854), (72, 1185), (5.78, 8.59)),
    (1, 1e-6, (29.9, 111.4, 554), (66, 447), (4.22, 5.30)),
]


@pytest.mark.parametrize(("epsilon", "delta", "rows", "neighbours", "ridge"), RIDGES)
def test_projection_ridges_have_their_reference_values(
    epsilon: float, delta: float, rows: int, neighbours: Neighbours, ridge: float
) -> None:
    assert 1 / projection_weight(curator_claim(epsilon, delta, neighbours), rows) == pytest.approx(ridge, rel=1e-8)


@pytest.mark.parametrize(("epsilon", "delta", "neighbours", "freedom"), FREEDOMS)
@pytest.mark.slow
def test_wishart_degrees_have_their_reference_values(
    epsilon: float, delta: float, neighbours: Neighbours, freedom: float
) -> None:
    assert wishart_freedom(curator_claim(epsilon, delta, neighbours), 1.0) == pytest.approx(freedom, rel=1e-8)


@pytest.mark.slow
def test_wishart_scales_of_one_example_for_each_client_have_their_reference_values() -> None:
    assert wishart_scale(WEAK, 1000 - 21) == pytest.approx(0.769537066, rel=1e-8)
    assert wishart_scale(STRONG, 667 - 21) == pytest.approx(0.172041913, rel=1e-8)


def test_gaussian_deviations_have_their_reference_values() -> None:
    assert 50 * gaussian_sigma(WEAK) == pytest.approx(1194.864439, rel=1e-8)
    assert 50 * gaussian_sigma(curator_claim(0.1, NINE, "zero-out")) == pytest.approx(844.896748, rel=1e-8)
    assert 50 * gaussian_sigma(STRONG) == pytest.approx(211.233944, rel=1e-8)
    assert 50 * gaussian_sigma(curator_claim(1, 1e-6, "zero-out")) == pytest.approx(149.364955, rel=1e-8)


@pytest.mark.parametrize(("epsilon", "delta", "ridges", "degrees", "sigmas"), PUBLISHED_AGAINST_EXACT)
@pytest.mark.slow
def test_published_and_exact_calibrations_stand_side_by_side_as_in_the_table(
    epsilon: float,
    delta: float,
    ridges: tuple[float, float, float],
    degrees: tuple[int, int],
    sigmas: tuple[float, float],
) -> None:
    claim = curator_claim(epsilon, delta)
    found = [
        1 / projection_weight(claim, 44),
        published.theorem_3_1_ridge(claim, 44),
        published.least_squares_ridge(claim, 44),
    ]
    assert found == pytest.approx(ridges, rel=2e-3)
    assert (wishart_degrees(claim, 22, 1.0), published.wishart_degrees(claim, 22)) == degrees
    assert [gaussian_sigma(claim), published.gaussian_sigma(claim)] == pytest.approx(sigmas, rel=2e-3)


def test_the_published_ridge_of_theorem_3_1_has_its_reference_values() -> None:
    assert published.theorem_3_1_ridge(WEAK, 44) == pytest.approx(821.194111, rel=1e-8)
    assert published.theorem_3_1_ridge(STRONG, 44) == pytest.approx(111.366360, rel=1e-8)


def test_the_published_gaussian_noise_does_not_keep_its_promise_when_a_row_is_replaced() -> None:
    mu = math.sqrt(2) / published.gaussian_sigma(STRONG)
    assert gaussian_delta(1, mu) == pytest.approx(9.3e-6, rel=0.01)


@pytest.mark.parametrize("claim", [curator_claim(e, d) for e, d in ((0.1, 1e-6), (1, 1e-15), (5, 1e-9), (0.3, 0.2))])
@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.grid(2)
@pytest.mark.slow
def test_every_calibration_keeps_its_claim_and_slightly_less_noise_breaks_it(
    claim: Claim, neighbours: Neighbours
) -> None:
    claim = curator_claim(claim.float_epsilon, claim.float_delta, neighbours)
    weight = projection_weight(claim, 30)
    assert projection_delta(claim.float_epsilon, weight, 30, neighbours) <= claim.float_delta
    assert projection_delta(claim.float_epsilon, weight * 1.0001, 30, neighbours) > claim.float_delta
    freedom = wishart_freedom(claim, 0.5)
    assert wishart_delta(claim.float_epsilon, freedom, 2.0, neighbours) <= claim.float_delta
    assert wishart_delta(claim.float_epsilon, freedom - 1e-4 * (freedom - 2), 2.0, neighbours) > claim.float_delta
    scale = wishart_scale(claim, 80.0)
    assert wishart_delta(claim.float_epsilon, 80.0, 1 / scale, neighbours) <= claim.float_delta
    assert wishart_delta(claim.float_epsilon, 80.0, 1.0001 / scale, neighbours) > claim.float_delta


def test_the_joint_calibration_keeps_a_tenth_of_delta_for_the_look_and_spends_the_rest() -> None:
    look = gaussian_mu(WEAK.float_epsilon, WEAK.float_delta) / 2
    weight = adaptive_weight(WEAK, 44, look)
    spent = gaussian_then_projection(WEAK.float_epsilon, look, weight, 44)
    assert spent == pytest.approx((1 - LOOK_SHARE) * WEAK.float_delta, rel=1e-9)
    assert spent <= (1 - LOOK_SHARE) * WEAK.float_delta
    assert weight < projection_weight(WEAK, 44)


def test_the_ridge_falls_short_of_the_look_by_one_row_and_the_quantile_of_its_noise() -> None:
    test = look_at_eigenvalue(0.1, 0.025, 1e-4)
    assert 1e4 - test.ridge(np.array(1250.0)) == pytest.approx(1250 - (1 + 1.959963985 / 0.1))
    assert test.ridge(np.array(2.5)) == 1e4


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.parametrize(("epsilon", "delta"), [(2000.0, 1e-9), (900.0, 0.5), (1e-4, 0.9), (1e-3, 0.6)])
@pytest.mark.grid(3)
@pytest.mark.slow
def test_claims_that_promise_nearly_nothing_are_calibrated_all_the_same(
    epsilon: float, delta: float, neighbours: Neighbours
) -> None:
    claim = curator_claim(epsilon, delta, neighbours)
    assert projection_delta(epsilon, projection_weight(claim, 3), 3, neighbours) <= delta
    assert wishart_delta(epsilon, wishart_freedom(claim, 1.0), 1.0, neighbours) <= delta


def test_calibrations_outside_their_domain_are_refused() -> None:
    for rows in (0, 10**7):
        with pytest.raises(CalibrationError, match="from 1 to 1000000 rows"):
            projection_weight(WEAK, rows)
    with pytest.raises(ValueError, match="positive"):
        wishart_freedom(WEAK, 0.0)
    with pytest.raises(CalibrationError, match="above 2"):
        wishart_scale(WEAK, 2.0)
    with pytest.raises(CalibrationError, match="smaller scale"):
        wishart_freedom(curator_claim(1e-5, 1e-9), 1.0)
    with pytest.raises(CalibrationError, match="spends all"):
        adaptive_weight(WEAK, 44, gaussian_mu(WEAK.float_epsilon, WEAK.float_delta))
