"""The privacy curve of Wishart noise, and the Gaussian curve above it."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from lintra_curator.second_moment.curves import wishart_pair_delta
from lintra_protocol.privacy.gaussian import gaussian_delta, gaussian_mu
from lintra_protocol.privacy.statement import Neighbours
from lintra_protocol.privacy.wishart import (
    MIN_FREEDOM,
    ChiSquare,
    dominating_mu,
    failure_of,
    failure_of_two_steps,
    passed_on,
    wishart_delta,
)

KINDS: tuple[Neighbours, ...] = ("replace-one", "zero-out")
EXAMPLES: list[tuple[int, float, Neighbours, float]] = [
    (MIN_FREEDOM, 0.3, "replace-one", 1e-6),
    (200, 3.0, "replace-one", 1e-7),
    (979, 1.3, "replace-one", 1e-5),
    (979, 1.3, "zero-out", 1e-5),
    (100_000, 60.0, "zero-out", 1e-9),
]


@pytest.mark.parametrize("freedom", [20, 57, 1000, 100_000])
def test_the_distribution_function_is_that_of_the_chi_square_also_far_out(freedom: int) -> None:
    law = stats.chi2(freedom)
    x = law.ppf([1e-15, 1e-9, 1e-4, 0.1, 0.5, 0.9, 0.999999])
    assert ChiSquare.of(freedom).cdf(x) == pytest.approx(law.cdf(x), rel=1e-10)
    assert ChiSquare.of(freedom).cdf(np.array([-1.0, 0.0, 1e9])) == pytest.approx([0.0, 0.0, 1.0], abs=1e-14)


@pytest.mark.parametrize(
    ("epsilon", "freedom", "weight", "delta"), [(0.3, 20, 1.0, 1.599176320e-02), (0.1, 900, 1.0, 1.544291994e-05)]
)
def test_replacing_a_row_costs_what_high_precision_says(
    epsilon: float, freedom: int, weight: float, delta: float
) -> None:
    assert wishart_delta(epsilon, freedom, weight, "replace-one") == pytest.approx(delta, rel=1e-6)


def test_a_null_row_costs_what_high_precision_says() -> None:
    assert wishart_delta(0.05, 36, 0.5, "zero-out") == pytest.approx(9.431900356e-03, rel=1e-7)


@pytest.mark.parametrize(
    ("epsilon", "delta", "honest", "scale"), [(0.1, math.exp(-9), 1000, 0.769537066), (1.0, 1e-6, 667, 0.172041913)]
)
def test_one_example_per_client_at_22_columns_needs_the_known_scale(
    epsilon: float, delta: float, honest: int, scale: float
) -> None:
    def gap(candidate: float) -> float:
        return wishart_delta(epsilon, honest - 21, 1 / candidate, "replace-one") / delta - 1

    assert brentq(gap, scale / 1.05, scale * 1.05, rtol=1e-12) == pytest.approx(scale, rel=1e-8)


@pytest.mark.parametrize("neighbours", KINDS)
def test_delta_falls_in_epsilon_and_in_the_degrees_of_freedom_and_grows_with_the_weight(neighbours: Neighbours) -> None:
    by_epsilon = [wishart_delta(epsilon, 500, 2.0, neighbours) for epsilon in (0, 0.05, 0.1, 0.2, 0.4)]
    by_freedom = [wishart_delta(0.1, freedom, 2.0, neighbours) for freedom in (30, 60, 120, 500, 2000)]
    by_weight = [wishart_delta(0.1, 500, weight, neighbours) for weight in (8.0, 4.0, 2.0, 1.5, 1.0)]
    for deltas in (by_epsilon, by_freedom, by_weight):
        assert deltas == sorted(set(deltas), reverse=True)


def test_the_exact_curve_is_never_under_reported() -> None:
    """Without a row against with it: the best event is a half-line, whatever its end; none beats the curve."""
    for epsilon, freedom, weight in ((0.0, 20, 0.5), (0.1, 100, 1.0), (0.5, 900, 12.0), (0.02, 5000, 1.0)):
        law = stats.chi2(freedom)
        ends = np.linspace(law.ppf(1e-9), law.ppf(1 - 1e-9) + weight, 20_000)
        lower = law.cdf(ends) - math.exp(epsilon) * law.cdf(ends - weight)
        upper = law.sf(ends - weight) - math.exp(epsilon) * law.sf(ends)
        stated = wishart_delta(epsilon, freedom, weight, "zero-out")
        assert max(lower.max(), upper.max()) <= stated
        assert max(lower.max(), upper.max()) > stated * (1 - 1e-5)


@pytest.mark.slow
def test_one_minus_delta_is_log_concave_in_the_difference_of_two_rows_so_the_worst_is_a_corner() -> None:
    """The lemma of docs/proofs/wishart.md#wishart along chords of the square; delta itself is not convex there."""
    rng = np.random.default_rng(73)
    smallest, turns = 1.0, set()
    for freedom in (20, 40, 200):
        for _ in range(12):
            weight = float(rng.uniform(0.1, 8)) * math.sqrt(freedom)
            epsilon = float(rng.uniform(0, 1.5)) * weight / math.sqrt(freedom)
            first, second = rng.uniform(0, weight, (2, 2))
            pairs = first, (first + second) / 2, second
            low, middle, high = (wishart_pair_delta(epsilon, freedom, float(up), float(down)) for up, down in pairs)
            smallest = min(smallest, math.log1p(-middle) - (math.log1p(-low) + math.log1p(-high)) / 2 + 1e-9)
            turns.add(middle > (low + high) / 2)
    assert smallest > 0
    assert turns == {False, True}


def test_no_pair_between_the_corners_is_worse_at_any_of_these_points() -> None:
    """What the lemma says, at 96 pairs on the edges."""
    worst = 0.0
    for freedom, ratio in ((20, 0.02), (20, 0.3), (40, 0.1), (1000, 0.3)):
        weight = ratio * math.sqrt(freedom)
        for epsilon in (0.2 * ratio, ratio, 4 * ratio):
            corner = wishart_delta(epsilon, freedom, weight, "replace-one")
            for share in (1 / 16, 0.25, 0.75, 15 / 16):
                for up, down in ((weight, share * weight), (share * weight, weight)):
                    worst = max(worst, wishart_pair_delta(epsilon, freedom, up, down) / corner)
    assert 0.9 < worst <= 1.0


@pytest.mark.parametrize(("freedom", "weight", "neighbours", "failure"), EXAMPLES)
def test_the_dominating_curve_lies_above_the_whole_curve_and_a_slightly_lower_one_does_not(
    freedom: int, weight: float, neighbours: Neighbours, failure: float
) -> None:
    mu = dominating_mu(freedom, weight, neighbours, failure)
    epsilons = np.linspace(0, 8, 97) * mu
    exact = np.array([wishart_delta(float(epsilon), freedom, weight, neighbours) for epsilon in epsilons])

    def above(candidate: float) -> bool:
        curve = np.array([gaussian_delta(float(epsilon), candidate) for epsilon in epsilons])
        return bool(np.all(exact <= failure + (1 - failure) * curve))

    assert above(mu)
    assert not above(mu * 0.99)


def test_many_clients_give_the_gaussian_mechanism() -> None:
    # s = mu sqrt(m) where a row is replaced, sqrt(2) times that against the null row.
    for neighbours, factor in (("replace-one", 1.0), ("zero-out", math.sqrt(2))):
        mu = dominating_mu(1_000_000, gaussian_mu(1, 1e-6) * 1000 * factor, neighbours, 1e-8)
        assert mu == pytest.approx(gaussian_mu(1, 1e-6), rel=1e-2)


def test_more_failure_allows_a_smaller_mu_and_too_little_allows_none() -> None:
    mus = [dominating_mu(60, 2.0, "replace-one", failure) for failure in (1e-4, 1e-6, 1e-8)]
    assert mus == sorted(set(mus))
    # The loss is infinite with probability F_20(3) = 2e-6.
    assert dominating_mu(20, 3.0, "zero-out", 1e-7) == math.inf


@pytest.mark.parametrize(
    ("epsilon", "freedom", "weight"),
    [(-0.1, 100, 1.0), (math.nan, 100, 1.0), (0.1, MIN_FREEDOM - 1, 1.0), (0.1, 100, 0.0), (0.1, 100, math.inf)],
)
def test_arguments_outside_the_domain_are_refused(epsilon: float, freedom: int, weight: float) -> None:
    with pytest.raises(ValueError, match="no curve"):
        wishart_delta(epsilon, freedom, weight, "replace-one")


@pytest.mark.parametrize("failure", [0.0, 1.0, math.nan])
def test_a_failure_that_is_no_probability_is_refused(failure: float) -> None:
    with pytest.raises(ValueError, match="probability of failure"):
        dominating_mu(100, 1.0, "replace-one", failure)


@pytest.mark.parametrize("size", [1e-6, 0.01, 0.3, 2.0])
@pytest.mark.parametrize("probability", [1e-40, 1e-12, 1e-6])
def test_what_a_rare_event_becomes_a_step_further_is_never_under_stated(probability: float, size: float) -> None:
    exact = stats.norm.cdf(stats.norm.ppf(probability) + size)
    assert exact <= passed_on(probability, size)
    # Where it is not too rare to matter the bound is tight, so that a step left out would show.
    assert probability < 1e-12 or passed_on(probability, size) < 1.25 * exact


def test_a_failure_beside_a_curve_is_covered_by_a_failure_that_shows_everything() -> None:
    for mu in (0.1, 0.5, 2.0):
        joined = failure_of(1e-7, mu)
        for epsilon in (0.0, 0.5, 2.0):
            curve = gaussian_delta(epsilon, mu)
            assert 1e-7 + curve <= joined + (1 - joined) * curve
        assert failure_of_two_steps(1e-7, mu) > 2 * failure_of(1e-7, mu)
    assert failure_of(1e-7, math.inf) == failure_of_two_steps(1e-7, math.inf) == 1.0
