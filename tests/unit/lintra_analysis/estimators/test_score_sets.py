"""Confidence sets of noisy score equations: the smallest Q is SciPy's, and the sets cover as often as they say."""

import numpy as np
import pytest
from scipy import optimize, stats

from lintra_analysis.estimators.score_sets import ScoreEquations
from lintra_protocol.crypto.ring import FloatArray

LIMIT = float(stats.chi2(1).ppf(0.95))
HESSIAN = np.array([[40.0, 6.0, -3.0], [6.0, 25.0, 4.0], [-3.0, 4.0, 12.0]])
TRUTH = np.array([0.4, -0.3, 0.5])


def noisy(
    seed: int, gradient_sd: float = 1.0, hessian_sd: float = 1.5, anchors: FloatArray | None = None
) -> ScoreEquations:
    """Return equations whose solution without noise is TRUTH; each anchor brings noise of its own."""
    generator, anchors = np.random.default_rng(seed), np.zeros((1, 3)) if anchors is None else anchors
    right, hessian = HESSIAN @ TRUTH, HESSIAN.copy()
    for anchor in anchors:
        square = generator.normal(0, hessian_sd, (3, 3))
        noise = np.triu(square, 1) + np.triu(square, 1).T + np.diag(np.diagonal(square)) * 2**0.5
        hessian += noise
        right = right + noise @ anchor + generator.normal(0, gradient_sd, 3)
    return ScoreEquations(right, hessian, anchors, len(anchors) * gradient_sd**2, hessian_sd**2, np.zeros((3, 3)))


@pytest.mark.parametrize("seed", range(4))
def test_the_smallest_distance_is_that_of_a_general_minimiser(seed: int) -> None:
    equations = noisy(seed, hessian_sd=3.0)
    statements, values = np.eye(3), TRUTH + np.array([0.5, -0.6, 1.5])
    found = equations.smallest(statements, values)
    for place in range(3):
        free = [number for number in range(3) if number != place]

        def distance(some: FloatArray, place: int = place, free: list[int] = free) -> float:
            point = np.zeros(3)
            point[place], point[free] = values[place], some
            return float(equations.distance(point[np.newaxis])[0])

        tries = [optimize.minimize(distance, start, method="BFGS") for start in (TRUTH[free], -TRUTH[free], [0.0, 0.0])]
        assert found[place] == pytest.approx(min(one.fun for one in tries), rel=2e-3)


def test_without_noise_in_the_hessian_an_interval_is_the_normal_one() -> None:
    equations = noisy(1, hessian_sd=1e-9)
    ends = equations.intervals(np.eye(3), LIMIT)
    errors = np.sqrt(np.diagonal(np.linalg.inv(HESSIAN) @ np.linalg.inv(HESSIAN)))
    width = LIMIT**0.5 * errors
    np.testing.assert_allclose(
        ends, np.column_stack([equations.solution - width, equations.solution + width]), rtol=1e-3
    )


def test_the_ends_are_where_the_smallest_distance_is_the_limit() -> None:
    equations = noisy(2, hessian_sd=2.0)
    ends = equations.intervals(np.eye(3), LIMIT)
    for column in range(2):
        np.testing.assert_allclose(equations.smallest(np.eye(3), ends[:, column]), LIMIT, rtol=1e-2)


def test_a_direction_that_noise_may_have_made_has_no_end() -> None:
    drowned = ScoreEquations(np.ones(3), np.diag([40.0, 25.0, 0.5]), np.zeros((1, 3)), 1.0, 4.0, np.zeros((3, 3)))
    ends = drowned.intervals(np.eye(3), LIMIT)
    assert np.isinf(ends[2]).all()


TWO = np.array([[0.0, 0.0, 0.0], [0.3, -0.2, 0.4]])


@pytest.mark.parametrize(
    ("anchors", "draws"),
    [(TWO, 60), *(pytest.param(anchors, 400, marks=pytest.mark.slow) for anchors in (TWO, TWO[:1]))],
)
def test_the_truth_is_accepted_in_95_of_100_draws_and_less_often_with_noise_left_out(
    anchors: FloatArray, draws: int
) -> None:
    inside, short = np.zeros(3), np.zeros(3)
    for seed in range(draws):
        equations = noisy(100 + seed, anchors=anchors)
        inside += equations.smallest(np.eye(3), TRUTH) <= LIMIT
        # As if only one half of the gradient's noise were there, and none of the Hessian's.
        wrong = ScoreEquations(equations.right, equations.hessian, anchors, len(anchors) / 4, 1e-12, np.zeros((3, 3)))
        short += wrong.smallest(np.eye(3), TRUTH) <= LIMIT
    # Four binomial deviations; three coefficients raise a false alarm in one of 5,000 seeds.
    assert np.abs(inside / draws - 0.95).max() < 4 * (0.95 * 0.05 / draws) ** 0.5
    assert (short / draws).max() < 0.8
