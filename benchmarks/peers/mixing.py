"""Iterative Hessian Mixing and Linear Mixing, as we read their paper and its authors' public program.

Lev, Shenfeld, Srinivasan, Ligett, Wilson, "Near-optimal private linear regression via iterative Hessian mixing" (arXiv
2601.07545, 2026). Both sketch the rows with Gaussian numbers and add a ridge, so that what a sketch of k rows shows is
k draws of N(0, A^T A + ridge): so it is drawn here, which has exactly the law of a sketch and costs the same for any
number of rows. Constants, degrees and the split of the budget are those of the program. Whoever's row may be there or
become the null row is protected; features have norm at most 1, the target lies in [-1, 1].
"""

import math
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from showing import FloatArray

from lintra_protocol.privacy.gaussian import gaussian_mu

ROUNDS = 3
HESSIAN_ROWS, LINEAR_ROWS = 6.0, 2.5
"""T of Iterative Hessian Mixing; rows of a sketch per column, or per logarithm of the failure probability."""


def renyi_epsilon(order: float, rows: int, ridge: float, squared_row: float, rounds: int, delta: float) -> float:
    """Return the epsilon that the Renyi bound of one order promises at delta, for a look and `rounds` sketches.

    `ridge` is what is added to the second moments, `squared_row` the square of the longest row.
    """
    share = squared_row / ridge
    if not 1 < order < 1 / share:
        return math.inf
    one = rows / (2 * (order - 1)) * (order * math.log1p(-share) - math.log1p(-order * share))
    converted = (math.log(1 / delta) + (order - 1) * math.log1p(-1 / order) - math.log(order)) / (order - 1)
    look = math.sqrt(2 * math.log(1.25 / delta)) * math.sqrt(rows) / ridge
    return rounds * one + converted + look


@lru_cache(maxsize=4096)
def ridge_of(epsilon: float, delta: float, rows: int, squared_row: float, rounds: int) -> float:
    """Return the least ridge with which a noisy look at the smallest eigenvalue and the sketches keep the promise."""

    def excess(log_ridge: float) -> float:
        ridge = math.exp(log_ridge)
        most = ridge / squared_row
        if most <= 1 + 1e-9:
            return 1e9

        def spent(log_order: float) -> float:
            return renyi_epsilon(1 + math.exp(log_order), rows, ridge, squared_row, rounds, delta / 3)

        best = minimize_scalar(spent, bounds=(math.log(1e-5), math.log(most - 1)), method="bounded")
        return min(float(best.fun), 1e9) - epsilon

    return math.exp(brentq(excess, math.log(squared_row), math.log(squared_row) + 60, xtol=1e-9))


def sketch(gram: FloatArray, ridge: float, rows: int, rng: np.random.Generator) -> FloatArray:
    """Return the products of a sketch: of `rows` draws of N(0, gram + ridge), shape `(D, D)`."""
    size = len(gram)
    root = np.linalg.cholesky(gram + ridge * np.eye(size) + 1e-12 * np.trace(gram) * np.eye(size))
    drawn = rng.normal(size=(rows, size)) @ root.T
    return np.asarray(drawn.T @ drawn)


def ridge_after_look(
    gram: FloatArray, needed: float, deviation: float, shift: float, rng: np.random.Generator
) -> float:
    """Return what is still to be added where a noisy look finds the smallest eigenvalue as large as it is."""
    seen = max(0.0, float(np.linalg.eigvalsh(gram)[0]) - deviation * (shift - float(rng.normal())))
    return max(0.0, needed - seen)


def hessian_mixing(
    features: FloatArray, target: FloatArray, epsilon: float, delta: float, rng: np.random.Generator
) -> FloatArray:
    """Return the coefficients of Iterative Hessian Mixing."""
    size, failure = features.shape[1], delta / 10
    rows = int(max(HESSIAN_ROWS * size, HESSIAN_ROWS * math.log(4 * ROUNDS / failure)))
    needed = ridge_of(epsilon / 2, 3 * delta / 4, rows, 1.0, ROUNDS)
    gram = features.T @ features
    shift = math.sqrt(2 * math.log(max(4 / delta, 4 / failure)))
    ridge = ridge_after_look(gram, needed, needed / math.sqrt(rows), shift, rng)
    noise = math.sqrt(ROUNDS) / gaussian_mu(epsilon / 2, delta / 4)
    found = np.zeros(size)
    for _ in range(ROUNDS):
        residual = np.clip(target - features @ found, -1, 1)
        products = features.T @ residual + noise * rng.normal(size=size)
        found = found + np.linalg.solve(sketch(gram, ridge, rows, rng) / rows, products)
    return found


def linear_mixing(
    features: FloatArray, target: FloatArray, epsilon: float, delta: float, rng: np.random.Generator
) -> FloatArray:
    """Return the coefficients of Linear Mixing: least squares on one sketch of features and target."""
    size, failure = features.shape[1], delta / 10
    rows = int(max(int(LINEAR_ROWS * size), int(LINEAR_ROWS * math.log(2 / failure))))
    needed = ridge_of(epsilon, delta, rows, 2.0, 1)
    table = np.column_stack([features, target])
    gram = table.T @ table
    shift = math.sqrt(2 * math.log(max(3 / delta, 2 / failure)))
    ridge = ridge_after_look(gram, needed, math.sqrt(2) * needed / math.sqrt(rows), shift, rng)
    seen = sketch(gram, ridge, rows, rng)
    return np.asarray(np.linalg.solve(seen[:-1, :-1], seen[:-1, -1]))
