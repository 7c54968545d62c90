"""Every closed form against draws of the loss: the right parameter is accepted, one that is 2 % off is not.

Seeds are fixed. The estimate is the average of (1 - e^(epsilon - L))_+ over draws of L; its error is compared with 5
measured deviations, a false-alarm rate of 6e-7 each. The parameter that must be rejected moves delta by more than ten.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest

from lintra_analysis.releases.sampling import gaussians
from lintra_curator.ndis import (
    GaussianPair,
    delta,
    delta_als,
    delta_ols,
    delta_rp,
    hoeffding_samples,
    monte_carlo_delta,
    ols_pair,
    pair_from_gaussians,
    rp_pair,
)
from lintra_curator.ndis.monte_carlo import sample_losses
from lintra_protocol.crypto.ring import FloatArray
from support import source

DRAWS = 400_000
DEVIATIONS = 5.0


def agrees(losses: FloatArray, at: float, claimed: float) -> bool:
    excess = np.maximum(0.0, -np.expm1(np.minimum(at - losses, 0.0)))
    return bool(abs(excess.mean() - claimed) <= DEVIATIONS * excess.std() / math.sqrt(len(losses)))


def simulated_losses(first: tuple[FloatArray, FloatArray], second: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Draw from the first law and form the log ratio of the two densities, from their definitions."""
    z = gaussians((DRAWS, len(first[0])), source("simulated losses"))
    x = first[0] + z @ np.linalg.cholesky(first[1]).T
    logs = []
    for mean, covariance in (first, second):
        centered = x - mean
        quadratic = np.einsum("ni,ij,nj->n", centered, np.linalg.inv(covariance), centered)
        logs.append(-0.5 * (quadratic + np.linalg.slogdet(covariance)[1]))
    result: FloatArray = logs[0] - logs[1]
    return result


MIXED = (np.array([0.3, -0.2, 0.1]), np.array([[2, 0.5, 0.1], [0.5, 1, 0], [0.1, 0, 1.2]]))
OTHER = (np.zeros(3), np.diag([1.0, 1.5, 1.2]))


@pytest.mark.parametrize("reverse", [False, True])
def test_the_profile_is_that_of_the_densities_and_this_test_would_notice_if_not(reverse: bool) -> None:
    first, second = (OTHER, MIXED) if reverse else (MIXED, OTHER)
    losses = simulated_losses(first, second)
    right, wrong = pair_from_gaussians(*first, *second), pair_from_gaussians(1.02 * first[0], 1.02 * first[1], *second)
    curve = (-0.3, 0.0, 0.4, 0.8)
    assert all(agrees(losses, at, delta(right, at, 1e-6).value) for at in curve)
    assert not all(agrees(losses, at, delta(wrong, at, 1e-6).value) for at in curve)


CLOSED: list[tuple[str, GaussianPair, float, Callable[[float], float]]] = [
    ("one dimension", pair_from_gaussians(2.0, 4.0, 0.0, 2.25), 0.1,
     lambda x: delta(pair_from_gaussians(2.0 * x, 4.0 * x, 0.0, 2.25), 0.1).value),
    ("equal covariance", pair_from_gaussians(1.0, 1.0, 0.0, 1.0), 0.5,
     lambda x: delta(pair_from_gaussians(x, 1.0, 0.0, 1.0), 0.5).value),
    ("projection, remove", rp_pair(0.1, 60), 0.4, lambda x: float(delta_rp(0.4, 0.1 * x, 60))),
    ("projection, add", rp_pair(0.1, 60).reverse(), 0.4, lambda x: float(delta_rp(0.4, 0.1 * x, 60, "add"))),
    ("least squares, remove", ols_pair(0.1, 0.2, 60, 5), 0.4,
     lambda x: delta_ols(0.4, 0.1 * x, 0.2 * x, 60, 5, "remove")),
    ("least squares, add", ols_pair(0.1, 0.2, 60, 5).reverse(), 0.4,
     lambda x: delta_ols(0.4, 0.1 * x, 0.2 * x, 60, 5, "add")),
    ("composition", rp_pair(0.02, 100).compose(pair_from_gaussians(0.6, 1.0, 0.0, 1.0)), 0.3,
     lambda x: delta(rp_pair(0.02 * x, 100).compose(pair_from_gaussians(0.6 * x, 1.0, 0.0, 1.0)), 0.3, 1e-6).value),
    ("real multiplicity", GaussianPair([0.3, -0.2], [2.5, 7.25], [0.1, 0.0]), 0.1,
     lambda x: delta(GaussianPair([0.3 * x, -0.2 * x], [2.5, 7.25], [0.1 * x, 0.0]), 0.1, 1e-6).value),
]  # fmt: skip


@pytest.mark.parametrize(("name", "pair", "at", "formula"), CLOSED, ids=[case[0] for case in CLOSED])
@pytest.mark.grid(3)
@pytest.mark.slow
def test_every_closed_form_agrees_with_draws_and_a_parameter_2_percent_off_does_not(
    name: str, pair: GaussianPair, at: float, formula: Callable[[float], float]
) -> None:
    losses = sample_losses(pair, DRAWS, source(name))
    assert agrees(losses, at, formula(1.0))
    assert not agrees(losses, at, formula(1.02))


@pytest.mark.slow
def test_sketched_least_squares_has_the_exact_law_and_not_its_gaussian_limit() -> None:
    """Solve sketched problems outright, with the row and without; their law is t, and the loss is its ratio."""
    rng = np.random.default_rng(17)
    r, trials = 12, 60_000
    features = rng.standard_normal((30, 2))
    target = features @ np.array([1.0, -1.0]) + 0.7 * rng.standard_normal(30)
    target[0] += 2.0
    gram = features.T @ features
    x = np.linalg.solve(gram, features.T @ target)
    residual = target - features @ x
    squared = float(residual @ residual)
    p, s = float(features[0] @ np.linalg.solve(gram, features[0])), float(residual[0] ** 2) / squared
    g = rng.standard_normal((trials, r, 30))
    sketched, answers = g @ features, g @ target
    inner = np.einsum("tri,trj->tij", sketched, sketched)
    solutions = np.linalg.solve(inner, np.einsum("tri,tr->ti", sketched, answers)[..., np.newaxis])[..., 0]
    losses = log_density(solutions, x, gram, squared, r)
    kept = gram - np.outer(features[0], features[0])
    without = np.linalg.solve(kept, features[1:].T @ target[1:])
    rest = target[1:] - features[1:] @ without
    losses -= log_density(solutions, without, kept, float(rest @ rest), r)
    for at in (0.05, 0.2):
        assert agrees(losses, at, delta_als(at, p, s, r, 2, "remove"))
        assert not agrees(losses, at, delta_als(at, 1.15 * p, 1.15 * s, r, 2, "remove"))
        assert not agrees(losses, at, delta_ols(at, p, s, r, 2, "remove"))


def log_density(points: FloatArray, center: FloatArray, gram: FloatArray, squared: float, r: int) -> FloatArray:
    """Return the multivariate t density's logarithm, up to a constant of r alone."""
    quadratic = np.einsum("ti,ij,tj->t", points - center, gram, points - center) / squared
    constant = 0.5 * np.linalg.slogdet(gram / squared)[1]
    result: FloatArray = constant - (r + 1) / 2 * np.log1p(quadratic)
    return result


def test_the_sampling_estimator_keeps_its_error_and_would_miss_another_pair() -> None:
    pair = pair_from_gaussians(2.0, 4.0, 0.0, 2.25)
    found = monte_carlo_delta(pair, 0.1, 2e-3, 1e-6, source("estimator"))
    assert found.lo <= delta(pair, 0.1).value <= found.hi
    assert found.hi - found.lo == pytest.approx(4e-3)
    wrong = delta(pair_from_gaussians(2.04, 4.0, 0.0, 2.25), 0.1).value
    assert not found.lo <= wrong <= found.hi
    assert monte_carlo_delta(GaussianPair([], [], [], disjoint=True), 3.0, 0.1, 0.1, source("apart")).lo == 1.0


def test_the_sample_size_is_hoeffdings() -> None:
    assert hoeffding_samples(1e-2, 1e-2) == 26492
    assert hoeffding_samples(1e-3, 1e-6) == 7254329
    for error, failure in ((0.0, 0.1), (0.1, 1.0), (math.nan, 0.1)):
        with pytest.raises(ValueError, match="strictly between"):
            hoeffding_samples(error, failure)


def test_a_group_that_cannot_carry_a_mean_shift_is_refused() -> None:
    with pytest.raises(ValueError, match="multiplicity"):
        monte_carlo_delta(GaussianPair([0.1], [0.5], [0.1]), 0.1, 0.1, 0.1, source("half"))
