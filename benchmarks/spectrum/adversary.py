"""How far from tight is the calibrated mechanism? Neighbouring tables that are searched for tell the most they can.

The planned noise keeps its claim against every pair of tables. The search looks for the pair that a private logistic
regression tells apart best: five groups of equal records in three columns, within the public bounds, and one record
more. Random starts and the method of Nelder and Mead find a lower bound of what the worst pair does. What lies between
it and the claim is what the bound wastes, or what the search misses.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from showing import Cell, FloatArray, Shown

from lintra_curator.calibrated.logistic_regression import plan_logistic
from lintra_curator.claims.claim import curator_claim
from lintra_curator.ndis.gaussian_pair import pair_from_gaussians
from lintra_curator.ndis.profile_evaluation import delta
from lintra_protocol.privacy.bisection import NoBoundaryError, furthest, log_excess

GROUPS, COLUMNS = 5, 3
EPSILON, DELTA = 1.0, 1e-6
CASES = ((1.0, 1000), (10.0, 100), (10.0, 1000), (30.0, 1000), (100.0, 10_000))


@dataclass(frozen=True, eq=False)
class Tables:
    """A table and one record more: groups of equal records times their labels, their sizes, and the record last."""

    rows: FloatArray
    counts: FloatArray
    regularization: float

    @classmethod
    def of(cls, numbers: FloatArray, max_rows: int, regularization: float) -> "Tables":
        """Read tables within the bounds, rows of norm at most 1, out of any numbers."""
        points, sizes = (
            numbers[:-GROUPS].reshape(GROUPS + 1, COLUMNS),
            np.exp(numbers[-GROUPS:] - numbers[-GROUPS:].max()),
        )
        rows = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1)
        return cls(rows, np.floor(np.append(sizes / sizes.sum() * (max_rows - 1), 1.0)), regularization)

    def law(self, *, record: bool) -> tuple[FloatArray, FloatArray]:
        """Return optimum and scatter with or without the record; by Newton's method, apart from the library's."""
        counts = self.counts * np.append(np.ones(GROUPS), record)
        ridge, theta = self.regularization * np.eye(COLUMNS), np.zeros(COLUMNS)

        def objective(at: FloatArray) -> float:
            return float(counts @ np.logaddexp(0, -self.rows @ at) + self.regularization / 2 * at @ at)

        for _ in range(100):
            miss = expit(-self.rows @ theta)
            gradient = self.regularization * theta - self.rows.T @ (counts * miss)
            if np.linalg.norm(gradient) < 1e-10:
                break
            step = np.linalg.solve(ridge + (self.rows.T * (counts * miss * (1 - miss))) @ self.rows, gradient)
            scale = 1.0
            while objective(theta - scale * step) > objective(theta) and scale > 1e-8:
                scale /= 2
            theta = theta - scale * step
        return theta, np.linalg.inv(ridge + (self.rows.T * counts) @ self.rows / 4)

    def shift(self, sigma: float) -> float:
        """Return the distance of the optima in the metric of the smaller scatter and the noise."""
        (before, _), (after, scatter) = self.law(record=False), self.law(record=True)
        moved = after - before
        return math.sqrt(moved @ np.linalg.solve(scatter + sigma**2 * np.eye(COLUMNS), moved))

    def delta(self, sigma: float) -> float:
        """Return the delta at epsilon 1 of the two releases, in the worse order: its certified lower end."""
        noise = sigma**2 * np.eye(COLUMNS)
        laws = [(mean, scatter + noise) for mean, scatter in (self.law(record=True), self.law(record=False))]
        pair = pair_from_gaussians(*laws[0], *laws[1])
        return max(delta(one, EPSILON).lo for one in (pair, pair.reverse()))


def worst(sigma: float, regularization: float, max_rows: int, starts: int) -> Tables:
    """Return the tables of the largest shift that were found."""
    rng, best, found = np.random.default_rng([9, max_rows]), 0.0, None
    for _ in range(starts):
        numbers = rng.normal(size=(GROUPS + 1) * COLUMNS + GROUPS) * 1.5

        def loss(at: FloatArray) -> float:
            return -Tables.of(at, max_rows, regularization).shift(sigma)

        answer = minimize(loss, numbers, method="Nelder-Mead", options={"maxfev": 700, "xatol": 1e-4, "fatol": 1e-7})
        if -answer.fun > best:
            best, found = -float(answer.fun), Tables.of(answer.x, max_rows, regularization)
    assert found is not None
    return found


def needed(tables: Tables) -> float:
    """Return the noise that these two tables alone ask for."""
    if tables.delta(1e-6) <= DELTA:
        return 0.0
    try:
        return furthest(1.0, lambda sigma: log_excess(tables.delta(sigma), DELTA), width=1e-4, factor=math.exp(-2))
    except NoBoundaryError:
        return math.nan


def search(starts: int) -> Shown:
    """Return what the search finds beside what is claimed."""
    claim, rows = curator_claim(EPSILON, DELTA, "zero-out"), []
    for regularization, max_rows in CASES:
        plan = plan_logistic(claim, 1.0, regularization, max_rows)
        tables = worst(plan.sigma, regularization, max_rows, starts)
        line: tuple[Cell, ...] = (
            regularization, max_rows, plan.sensitivity.shift, tables.shift(plan.sigma), plan.sigma, needed(tables),
            1e-6, tables.delta(plan.sigma),
        )  # fmt: skip
        rows.append(line)
    return Shown(
        "ndis-calibrated-search",
        "Calibrated mechanism for logistic regression: what is claimed, and the worst pair that was found",
        ("lambda", "n at most", "shift, bound", "shift, found", "sigma, planned", "sigma that the pair needs",
         "delta, claimed", "delta, found"),
        tuple(rows),
        "l = 1, epsilon 1. The shift is the distance of the two optima over the scatter that hides it. The search has "
        f"{starts} starts over five groups of records in three columns, and gives a lower bound of what the worst pair "
        "does. Mathematics, with the search's seeds.",
    )  # fmt: skip
