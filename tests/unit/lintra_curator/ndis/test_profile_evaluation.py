"""Profiles: digits against 30- to 50-digit references, certificates that hold, and the identities of a profile."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from lintra_curator.ndis import (
    CertifiedValue,
    GaussianPair,
    delta,
    delta_rp,
    epsilon,
    ols_pair,
    pair_from_gaussians,
    rp_pair,
)
from lintra_curator.ndis.profile_evaluation import RTOL
from lintra_protocol.privacy.gaussian import gaussian_delta

S1, S2 = np.array([[2, 0.5], [0.5, 1]]), np.diag([1.0, 1.5])
MIXED = pair_from_gaussians([0.3, -0.2], S1, [0.0, 0.0], S2)
SIXTEEN = GaussianPair([0.02, 0.03], [8, 8], [0.01, 0.02])

# 30-digit arithmetic: incomplete gamma functions, or one integral over them (two ratios, least squares).
REFERENCES = [
    (rp_pair(0.05, 30), 1, 8.8550908996802766e-6),
    (rp_pair(0.05, 30), 3, 6.370321747345644e-18),
    (rp_pair(0.01, 300), 1, 1.6462286761238336e-13),
    (rp_pair(0.01, 300), 1.5, 2.007570860304923e-23),
    (rp_pair(0.01, 300), 8, 7.4309464661052516e-229),
    (rp_pair(0.3, 4), 5, 7.3192854883637567e-6),
    (rp_pair(0.3, 7), 5, 4.5444522777587899e-5),
    (rp_pair(0.001, 20000), 0.5, 1.086672329884611e-8),
    (rp_pair(0.001, 20000), 2, 6.375911916685318e-81),
    (rp_pair(0.1, 40).reverse(), 0.3, 0.076449305836322071),
    (rp_pair(0.1, 40).reverse(), 1.9, 1.3100447643847985e-15),
    (rp_pair(0.1, 40).reverse(), 2, 3.1773007540144159e-21),
    (GaussianPair([0.02 / 0.98, -0.02], [100, 100], [0, 0]), 1, 8.0801899540822704e-8),
    (GaussianPair([0.02 / 0.98, -0.02], [100, 100], [0, 0]), 2, 2.1971483141076344e-19),
    (GaussianPair([0.5, -0.3], [5, 3], [0, 0]), 3, 0.0033065369519686447),
    (ols_pair(0.016, 0.0226, 300, 12), 1, 0.00035958888326810253),
    (ols_pair(0.016, 0.0226, 300, 12), 2, 2.3057203967528187e-9),
    (ols_pair(0.016, 0.0226, 300, 12), 4, 6.2544062285624569e-27),
]

# Vectors to 12 or 13 digits.
VECTORS = [
    (pair_from_gaussians(1.0, 1.0, 0.0, 1.0), 1, 0.1269367375066),
    (pair_from_gaussians(0.5, 1.0, 0.0, 1.0), 3, 3.400911735674e-10),
    (pair_from_gaussians(2.0, 4.0, 0.0, 2.25), 0.1, 0.4241521023291),
    (pair_from_gaussians(2.0, 4.0, 0.0, 2.25).reverse(), 0.1, 0.4077055710288),
    (pair_from_gaussians(0.0, 4.0, 0.0, 2.25), 0.1, 0.1157029863588),
    (pair_from_gaussians(0.0, 4.0, 0.0, 2.25).reverse(), 0.1, 0.07900882384379),
    (MIXED, 0.5, 0.1299951968769),
    (MIXED.reverse(), 0.5, 0.1144637716786),
    (rp_pair(0.2, 1), 0.5, 0.004882050006045),
    (rp_pair(0.2, 1).reverse(), 0.05, 0.0236198197555),
    (rp_pair(0.002, 1000), 0.1, 2.629474867538e-4),
    (rp_pair(0.002, 1000).reverse(), 0.1, 1.600113552443e-4),
    (ols_pair(0.016, 0.0226, 300, 12).reverse(), 1, 1.756359227769e-4),
    (ols_pair(0.02, 0.02, 50, 4), 0.5, 1.814870974534e-5),
    (SIXTEEN, 0.3, 0.007747023012133),
    (SIXTEEN.reverse(), 0.3, 0.002642549120491),
    (pair_from_gaussians(0.3, 1.0, 0.0, 1.0).compose(rp_pair(0.02, 100)), 1, 2.303202548555e-4),
]


def brute_force(mu1: float, v1: float, mu2: float, v2: float, at: float) -> float:
    """Integrate (f - e^epsilon g)_+ over the line, cut where it changes sign."""
    first, second = stats.norm(mu1, math.sqrt(v1)), stats.norm(mu2, math.sqrt(v2))
    reach = max(abs(mu1), abs(mu2)) + 12 * math.sqrt(max(v1, v2))
    grid = np.linspace(-reach, reach, 4001)
    sign = first.logpdf(grid) - second.logpdf(grid) > at
    cuts = grid[1:][np.diff(sign.astype(int)) != 0]

    def excess(x: float) -> float:
        return max(0.0, float(first.pdf(x)) - math.exp(at) * float(second.pdf(x)))

    ends = [-reach, *(cuts + [-reach / 2000] * len(cuts)), *cuts, reach]
    ends = sorted(ends)
    return sum(quad(excess, a, b, epsabs=1e-14, limit=200)[0] for a, b in pairwise(ends))


@pytest.mark.parametrize(("pair", "at", "exact"), REFERENCES)
def test_the_certified_interval_holds_a_30_digit_reference_and_is_as_narrow_as_asked(
    pair: GaussianPair, at: float, exact: float
) -> None:
    found = delta(pair, at)
    assert found.lo * (1 - 1e-14) <= exact <= found.hi * (1 + 1e-14)
    assert found.hi <= exact * (1 + 6 * RTOL)
    assert found.lo >= exact * (1 - 6 * RTOL)


@pytest.mark.parametrize(("pair", "at", "exact"), VECTORS)
def test_vectors_agree_to_all_their_digits(pair: GaussianPair, at: float, exact: float) -> None:
    found = delta(pair, at)
    assert found.value == pytest.approx(exact, rel=1e-9, abs=0)
    assert found.lo <= exact * (1 + 1e-12)
    assert exact <= found.hi * (1 + 1e-12)


@pytest.mark.parametrize(("pair", "at", "exact"), REFERENCES[:6])
def test_a_coarse_computation_has_a_wide_interval_that_still_holds(pair: GaussianPair, at: float, exact: float) -> None:
    found = delta(pair, at, rtol=1e-2)
    assert found.lo <= exact <= found.hi <= 1.2 * exact


@pytest.mark.parametrize("numbers", [(2, 4, 0, 2.25), (0, 1, 0.7, 1.9), (-1, 0.3, 0.2, 0.2), (0.1, 1, 0, 1.0001)])
@pytest.mark.parametrize("at", [-0.7, 0.0, 0.1, 1.3])
@pytest.mark.grid(3)
@pytest.mark.slow
def test_one_dimension_agrees_with_brute_force(numbers: tuple[float, float, float, float], at: float) -> None:
    found = delta(pair_from_gaussians(*numbers), at)
    assert found.value == pytest.approx(brute_force(*numbers, at), abs=1e-9)
    assert found.hi - found.lo < 1e-9


def test_one_dimension_agrees_with_the_contour_in_two() -> None:
    for eta, tsq, at in [(0.3, 0.2, 0.8), (-0.4, 0.1, 0.5), (1e-5, 0.04, 1.0), (-1e-7, 0.04, 1.0)]:
        alone = delta(GaussianPair([eta], [1], [tsq]), at)
        contour = delta(GaussianPair([eta, 0.5 * eta], [1, 1e-300], [tsq, 0.0]), at, 1e-6)
        assert contour.lo <= alone.hi
        assert alone.lo <= contour.hi
        assert contour.hi <= alone.hi * 1.001


def test_the_zero_clause_of_the_paper_is_not_used_where_x_is_more_spread() -> None:
    pair, at = pair_from_gaussians(0.0, 1.2, 0.0, 1.0), 0.5 * math.log(1.2)
    assert delta(pair, at).value == pytest.approx(0.0245517517, rel=1e-8, abs=0)
    assert delta(pair.reverse(), at).hi < 1e-14
    assert delta(pair.reverse(), at * (1 + 1e-9)) == CertifiedValue(0.0, 0.0, 0.0)


def test_just_below_the_largest_loss_delta_is_small_and_positive() -> None:
    pair = GaussianPair([-0.1], [8], [0.3])
    largest = pair.max_loss
    assert delta(pair, largest).hi < 1e-12
    found = [delta(pair, largest - gap).value for gap in (1e-4, 1e-3, 1e-2, 1e-1)]
    assert 0 < found[0] < found[1] < found[2] < found[3]


def test_a_loss_that_nearly_always_exceeds_epsilon_gives_delta_near_1() -> None:
    found = delta(pair_from_gaussians([50.0, 0, 0], np.eye(3), [0.0, 0, 0], np.diag([1.0, 2, 3])), 1.0)
    assert found.lo > 1 - 1e-6
    assert found.hi == 1.0


@pytest.mark.parametrize("pair", [MIXED, SIXTEEN, rp_pair(0.1, 9), pair_from_gaussians(2.0, 4.0, 0.0, 2.25)])
def test_negative_epsilons_continue_the_curve_by_the_reverse_pair(pair: GaussianPair) -> None:
    for at in (0.2, 1.0):
        expected = 1 - math.exp(-at) + math.exp(-at) * delta(pair.reverse(), at).value
        assert delta(pair, -at).value == pytest.approx(expected, rel=1e-12, abs=0)
    assert delta(pair, -math.inf) == CertifiedValue(1.0, 1.0, 1.0)
    assert delta(pair, math.inf) == CertifiedValue(0.0, 0.0, 0.0)


def test_equal_laws_have_no_profile_and_disjoint_ones_a_profile_of_1() -> None:
    same = pair_from_gaussians([1.0, 2.0], S1, [1.0, 2.0], S1)
    assert delta(same, 0.0) == CertifiedValue(0.0, 0.0, 0.0)
    assert delta(same, -1.0).value == pytest.approx(1 - math.exp(-1))
    apart = GaussianPair([], [], [], disjoint=True)
    assert delta(apart, 50.0) == CertifiedValue(1.0, 1.0, 1.0)
    assert epsilon(apart, 0.5) == CertifiedValue(math.inf, math.inf, math.inf)


@pytest.mark.slow
def test_huge_epsilons_and_ratios_fail_closed() -> None:
    for pair in (
        GaussianPair([1e8], [3], [1.0]),
        GaussianPair([-1 + 1e-9, 5.0], [2, 1], [1e5, 0]),
        GaussianPair([1e-3], [1], [1e6]),
    ):
        for at in (1e-6, 5.0, 650.0, 1e9):
            found = delta(pair, at, 1e-4)
            assert 0 <= found.lo <= found.hi <= 1


@pytest.mark.slow
def test_epsilon_inverts_delta_on_the_safe_side() -> None:
    for pair in (MIXED, SIXTEEN, rp_pair(0.05, 30), pair_from_gaussians(2.0, 4.0, 0.0, 2.25)):
        for target in (0.05, 1e-12):
            found = epsilon(pair, target, 1e-5)
            assert delta(pair, found.hi, 1e-5).hi <= target
            assert found.lo == 0 or delta(pair, found.lo, 1e-5).lo > target
            assert found.hi - found.lo <= 1e-4
    assert epsilon(GaussianPair([-0.01], [1], [0.0]), 0.5) == CertifiedValue(0.0, 0.0, 0.0)


def test_exact_composition_of_equal_covariances_adds_squares() -> None:
    pair = pair_from_gaussians(0.3, 1.0, 0.0, 1.0).compose(GaussianPair([0.0], [3], [0.16]))
    assert delta(pair, 0.7).value == pytest.approx(gaussian_delta(0.7, 0.5), rel=1e-10, abs=0)


@pytest.mark.parametrize(
    ("at", "rtol", "words"), [(math.nan, 1e-9, "epsilon"), (1.0, 1.0, "rtol"), (1.0, math.nan, "rtol")]
)
def test_arguments_that_make_no_sense_are_refused(at: float, rtol: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        delta(SIXTEEN, at, rtol)


@pytest.mark.parametrize("target", [0.0, 1.0, math.nan])
def test_a_target_outside_the_unit_interval_is_refused(target: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        epsilon(SIXTEEN, target)


def test_an_interval_that_does_not_hold_its_value_is_refused() -> None:
    with pytest.raises(ValueError, match="does not hold"):
        CertifiedValue(0.5, 0.6, 0.7)
    assert CertifiedValue.of(math.nan, 0.1) == CertifiedValue(1.0, 0.0, 1.0)
    assert 0.5 in CertifiedValue(0.5, 0.4, 0.6)
    assert 0.7 not in CertifiedValue(0.5, 0.4, 0.6)


@pytest.mark.slow
def test_the_contour_and_the_closed_form_agree_over_three_hundred_cases() -> None:
    rng = np.random.default_rng(11)
    for _ in range(150):
        r, p = float(rng.integers(6, 3000)), 10 ** rng.uniform(-3.5, -0.5)
        at = 10 ** rng.uniform(-2, 0.8)
        closed = [float(delta_rp(at, p, r, direction)) for direction in ("remove", "add")]
        for value, pair in zip(closed, (rp_pair(p, r), rp_pair(p, r).reverse()), strict=True):
            found = delta(pair, at, 1e-6)
            assert value <= found.hi * (1 + 1e-6) + 1e-13
            assert value >= found.lo * (1 - 1e-6) - 1e-13


# Computed with 60 digits: the line runs close to the end of the strip, where the logarithm's argument cancels.
@pytest.mark.parametrize(
    ("eta", "columns", "at", "truth"),
    [
        (0.039647001691637304, 3, 25.017084551232582, 2.2813601578626280653e-275),
        (0.02, 4, 9.0, 4.5385174031220042504e-196),
        (0.5, 6, 250.0, 2.6490805992300683846e-214),
    ],
)
@pytest.mark.slow
def test_the_interval_holds_the_truth_where_the_line_runs_close_to_the_end_of_the_strip(
    eta: float, columns: int, at: float, truth: float
) -> None:
    for rtol in (1e-9, 1e-12):
        found = delta(GaussianPair([eta], [columns], [0.0]), at, rtol)
        assert found.lo <= truth <= found.hi <= truth * (1 + 1e-8)


@pytest.mark.slow
def test_a_difference_near_the_smallest_double_gives_an_interval_and_no_error() -> None:
    for pair in (GaussianPair([1e-300, 2e-300], [1, 5], [1e-300, 0.0]), GaussianPair([1e-160], [3], [1e-320])):
        for at in (0.0, 1e-300, 1.0):
            found = delta(pair, at)
            assert 0 <= found.lo <= 1e-140 <= found.hi + 1e-140 <= 1.1


def test_equal_covariances_have_a_profile_at_any_epsilon_that_they_need() -> None:
    found = epsilon(GaussianPair([0.0], [1.0], [4000.0]), 1e-6)
    assert 2000 < found.lo <= found.hi <= found.lo * (1 + 1e-9)
    assert gaussian_delta(found.hi, math.sqrt(4000)) == pytest.approx(1e-6, rel=1e-5)


@pytest.mark.slow
def test_where_nothing_finite_can_be_certified_the_answer_is_infinity_and_comes() -> None:
    # A ratio 1 + 1e-300 is 1 to every digit that is kept: the sum cannot be formed, and the bound that is left is 1.
    assert epsilon(GaussianPair([1e-300], [5], [1.0]), 0.5) == CertifiedValue(math.inf, 0.0, math.inf)
