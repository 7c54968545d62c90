"""One cell of the grid: how often intervals hold the truth over many releases."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from coverage_grid.batches import Batch, r2_accepts
from coverage_grid.cohorts import Cohort
from lintra_analysis.estimators.concentrated.regressions import Regression, penalty_beside
from lintra_analysis.estimators.design import design
from lintra_analysis.estimators.estimates import Of, Residuals
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.solve import solve
from lintra_protocol.crypto.ring import FloatArray

TWO_SIDED = 1.959964


@dataclass(frozen=True)
class Truth:
    """What a release's own rows, or the population, would give.

    Attributes:
        solution: the coefficients, an intercept first, shape `(p,)`.
        told: which of them the rows determine at all.
        r2: about the mean where there is an intercept.
    """

    solution: FloatArray
    told: NDArray[np.bool_]
    r2: float


def truth(held: Cohort) -> Truth:
    """Return the least squares of the rows behind a Gram matrix."""
    gram = held.gram
    features, cross = gram[:-1, :-1], gram[:-1, -1]
    values, vectors = np.linalg.eigh(features)
    kept = values > 1e-9 * values[-1]
    solution = (vectors[:, kept] / values[kept]) @ (vectors[:, kept].T @ cross)
    about = gram[-1, -1] - (gram[0, -1] ** 2 / gram[0, 0] if held.constant else 0.0)
    told = np.abs(vectors[:, ~kept]).max(axis=1, initial=0.0) < 1e-6
    return Truth(solution, told, 1 - float(gram[-1, -1] - cross @ solution) / about)


@dataclass(frozen=True)
class Cell:
    """Coverage of 95 % intervals over the draws of one cell; unbounded sets hold everything.

    Attributes:
        coverage: of each coefficient, an intercept first; those that the rows do not determine are covered where the
            sets are unbounded.
        unbounded: share of the draws without finite intervals.
        bounded: coverage in the others, over all coefficients; None if there were none.
        penalised: coverage of the coefficients under the penalty beside, each, in the draws without finite intervals.
        r2: share of the draws whose r2 interval holds the truth; no interval holds everything. None for the population,
            where r2 is not asked for.
        r2_told: share of the draws with an interval of r2.
        checked: how many draws were computed again by `regression` itself.
        different: how many of their intervals said something else about the truth than the batch.
        width: median width of their finite intervals over that of the linearised one with one residual variance.
        strength: the smallest eigenvalue of the features' products over the deviation of the noise in one of them.
    """

    table: str
    log2_clients: int
    intercept: bool
    epsilon: float
    of: str
    draws: int
    coverage: list[float]
    unbounded: float
    bounded: float | None
    penalised: list[float] | None
    r2: float | None
    r2_told: float | None
    checked: int
    different: int
    width: float | None
    strength: float


def measure(
    name: str,
    held: Cohort,
    epsilon: float,
    matrices: FloatArray,
    of: Of = "cohort",
    checked: int = 4,
    residuals: Residuals = "alike",
) -> Cell:
    """Count over releases, `matrices` of shape `(B, q, q)`; the truth is that of `held`."""
    true, law = truth(held), held.law(epsilon)
    longest = held.longest if residuals == "any" else 0.0
    batch = Batch(matrices, law, held.num_clients if of == "population" else 0, longest)
    bounded = batch.bounded()
    inside = batch.accepts(true.solution) | ~bounded[:, np.newaxis]
    hits = np.where(true.told, inside, ~bounded[:, np.newaxis])
    penalised = _penalised(held, replace(batch, matrices=matrices[~bounded])) if not bounded.all() else None
    shares = _r2(held, epsilon, matrices, bounded, true.r2) if of == "cohort" else None
    again = [_by_regression(held, epsilon, one, of, residuals, true) for one in matrices[:checked]]
    different = sum(int((one.inside != inside[i])[true.told].sum()) for i, one in enumerate(again))
    if shares is not None:
        different += sum(one.r2 != tuple(shares[i]) for i, one in enumerate(again))
    widths = [width for one in again for width in one.widths]
    return Cell(
        table=name,
        log2_clients=int(np.log2(held.num_clients)),
        intercept=bool(held.constant),
        epsilon=epsilon,
        of=of,
        draws=len(matrices),
        coverage=hits.mean(axis=0).tolist(),
        unbounded=float(np.mean(~bounded)),
        bounded=float(hits[bounded].mean()) if bounded.any() else None,
        penalised=None if penalised is None else penalised.mean(axis=0).tolist(),
        r2=None if shares is None else float(shares[:, 0].mean()),
        r2_told=None if shares is None else float(shares[:, 1].mean()),
        checked=len(again),
        different=different,
        width=float(np.median(widths)) if widths else None,
        strength=float(np.linalg.eigvalsh(held.gram[:-1, :-1])[0]) / held.sigma(epsilon),
    )


def _penalised(held: Cohort, batch: Batch) -> NDArray[np.bool_]:
    """Return which penalised coefficients are accepted, shape `(B, p)`."""
    start, fitted = int(bool(held.constant)), len(held.gram) - 1
    penalty = penalty_beside(batch.law.sigma, fitted)
    shrinking = penalty * np.diag([0.0] * start + [1.0] * (fitted - start))
    shrunk = np.linalg.solve(held.gram[:-1, :-1] + shrinking, held.gram[:-1, -1])
    return batch.accepts(np.asarray(shrunk, np.float64), penalty, tuple(range(start)))


@dataclass(frozen=True)
class _Reported:
    """What `regression` says of one release: which intervals hold the truth, their widths, and r2 as in `Cell`."""

    inside: NDArray[np.bool_]
    widths: list[float]
    r2: tuple[bool, bool]


def _by_regression(
    held: Cohort, epsilon: float, matrix: FloatArray, of: Of, residuals: Residuals, true: Truth
) -> _Reported:
    """Ask `regression` itself."""
    release = held.released(matrix, epsilon)
    found = regression(release, "y", of=of, residuals=residuals)
    alike = found if residuals == "alike" else regression(release, "y", of=of)
    rows, beside = (
        (each.intercept, *each.coefficients) if held.constant else each.coefficients for each in (found, alike)
    )
    inside, widths = [], []
    for one, usual, value in zip(rows, beside, true.solution.tolist(), strict=True):
        inside.append(one.interval is None or one.interval[0] <= value <= one.interval[1])
        if one.interval is not None and usual.standard_error is not None:
            linear = 2 * TWO_SIDED * usual.standard_error.total
            widths.append((one.interval[1] - one.interval[0]) / linear)
    share = found.r2_interval
    return _Reported(np.array(inside), widths, (share is None or share[0] <= true.r2 <= share[1], share is not None))


def _r2(held: Cohort, epsilon: float, matrices: FloatArray, bounded: NDArray[np.bool_], true: float) -> FloatArray:
    """Return whether the interval of r2 that `regression` gives holds the truth, and whether it gives one."""
    found = np.zeros((len(matrices), 2), bool)
    linear = np.zeros(len(matrices), bool)
    for i in np.flatnonzero(bounded):
        chosen = design(held.released(matrices[i], epsilon), "y")
        raw, size = solve(chosen, repaired=False), chosen.fitted
        sets = Regression.of_design(chosen, 0.0, "cohort", 0.95, np.eye(size), np.zeros(size))
        if sets is None or not sets.nearly_linear:
            continue
        if raw.r2 is not None and raw.r2_sd is not None and not solve(chosen).regularised:
            interval = raw.r2_interval(TWO_SIDED)
            found[i], linear[i] = (interval is None or interval[0] <= true <= interval[1], interval is not None), True
    if not linear.all():
        found[~linear] = r2_accepts(matrices[~linear], held.law(epsilon), bool(held.constant), true)
    return found
