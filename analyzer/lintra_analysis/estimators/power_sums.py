"""F_k, the sum of |x|^k over the rows (Burkhardt et al. 2025, Section 3.1), from rows counted in public cells.

A cell says between which numbers |x|^k lies in it, so the sum over all rows lies between two linear functions of the
counts, whatever lies where inside a cell; the noise of both is Gaussian and known. Any k can be asked for afterwards.
"""

import math
from collections.abc import Sequence

import numpy as np

from lintra_analysis.estimators.estimates import check_confidence, quantile
from lintra_analysis.estimators.histogram import adjusted_counts
from lintra_analysis.estimators.power_sums_estimate import ColumnPowers, PowerSum, PowerSumsEstimate
from lintra_analysis.releases.cell_counts import CellCounts
from lintra_analysis.releases.columns import MAGNITUDE, ScaledColumn
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

MOST_POWER = 20
COHORT_NOTE = "sums are over the cohort's own rows that have a value, moved inside the bounds as the cells have them"
CELL_NOTE = (
    "the interval holds wherever the rows lie inside their cells; the value takes them to lie evenly, and `cells` is "
    "how much of the interval's width the cells leave open"
)


def power_sums(
    release: Release,
    powers: Sequence[int] = (1, 2, 3, 4),
    columns: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> PowerSumsEstimate:
    """Return the sums of |x|^k over the cohort, in the columns' own units.

    >>> from lintra_analysis import open_release, power_sums
    >>> found = power_sums(open_release("ages.npz"), powers=[1, 3], columns=["age"])["age"]
    >>> [one.power for one in found.sums]
    [1, 3]
    >>> low, high = found.sums[0].interval
    >>> low < found.sums[0].value < high
    True

    Args:
        release: a histogram.
        powers: whole numbers from 1 to 20.
        columns: numbers and booleans; by default all of these.
        confidence: of the intervals, each on its own.

    Raises:
        InvalidAnalysisError: the release is no histogram, a column is a category, or an argument does not fit it.
    """
    check_confidence(confidence)
    asked = sorted(set(powers))
    if not asked or not all(isinstance(k, int) and not isinstance(k, bool) and 1 <= k <= MOST_POWER for k in asked):
        raise InvalidAnalysisError(f"powers are whole numbers from 1 to {MOST_POWER}, got {list(powers)}")
    held = release.need("cells") if columns is None else release.need("cells").restrict(columns)
    numbers = [i for i in range(len(held.columns)) if not held.levels[i] or held.columns[i].kind == "boolean"]
    if columns is not None and len(numbers) < len(held.columns):
        category = next(column.name for i, column in enumerate(held.columns) if i not in numbers)
        raise InvalidAnalysisError(
            f"{category!r} is a category, which has no powers; ask for its shares by `histogram`"
        )
    if not numbers:
        raise InvalidAnalysisError("no column of this release is a number; ask for shares of levels by `histogram`")
    return PowerSumsEstimate(
        num_clients=held.num_clients,
        confidence=float(confidence),
        columns=tuple(_column(held, i, asked, confidence) for i in numbers),
        notes=(COHORT_NOTE, CELL_NOTE),
    )


def _column(held: CellCounts, i: int, powers: Sequence[int], confidence: float) -> ColumnPowers:
    column = held.columns[i]
    low, high = _ends(column, held.edges[i])
    furthest = max(abs(float(low[0])), abs(float(high[-1])), 1.0)
    if furthest ** powers[-1] * held.num_clients > MAGNITUDE:
        raise InvalidAnalysisError(
            f"column {column.name!r} reaches {furthest:g}, and the sum of its powers {powers[-1]} beyond "
            f"{MAGNITUDE:g}; ask for lower powers, or choose a larger unit"
        )
    rows = adjusted_counts(held.counts[i], float(held.missing[i]), held.rows_of(i))
    found = tuple(_sum(power, low, high, rows, held.noise_sd, confidence, counted=held.counted) for power in powers)
    return ColumnPowers(column.name, column.unit, found)


def _ends(column: ScaledColumn, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return between which values those of each cell lie, each of shape `(m,)`; whole numbers for integers."""
    if not edges.size:
        return np.array([0.0, 1.0]), np.array([0.0, 1.0])
    low, high = edges[:-1], edges[1:]
    if column.kind != "integer":
        return low, high
    whole_low, whole_high = np.ceil(low), np.floor(high)
    empty = whole_low > whole_high
    return np.where(empty, low, whole_low), np.where(empty, high, whole_high)


def _sum(
    power: int,
    low: FloatArray,
    high: FloatArray,
    rows: FloatArray,
    noise_sd: float,
    confidence: float,
    *,
    counted: bool,
) -> PowerSum:
    """Return one sum: its least and its most are linear in the counts, and each is left at half of the doubt.

    `power` is k; `low` is least values of the cells, shape `(m,)`. `high` is the largest values, shape `(m,)`. `rows`
    are in each cell and, last, without a value; they add up to all clients, shape `(m + 1,)`. `counted` says whether
    the number of rows carries noise, so that nothing was spread over the cells.
    """
    ends = np.abs(low) ** power, np.abs(high) ** power
    most = np.maximum(*ends)
    least = np.where((low < 0) & (high > 0), 0.0, np.minimum(*ends))
    totals = [_linear(values, rows, noise_sd, counted=counted) for values in (least, _even(power, low, high), most)]
    (bottom, below), (value, noise), (top, above) = totals
    reach = quantile(confidence)
    interval = max(bottom - reach * below, 0.0), max(top + reach * above, 0.0)
    return PowerSum(power, min(max(value, interval[0]), interval[1]), interval, noise, max(top - bottom, 0.0))


def _even(power: int, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the mean of |x|^k over each cell, shape `(m,)`."""
    width = high - low
    above = np.sign(high) * np.abs(high) ** (power + 1) - np.sign(low) * np.abs(low) ** (power + 1)
    mean: FloatArray = np.divide(above, (power + 1) * width, out=np.abs(low) ** power, where=width > 0)
    return mean


def _linear(values: FloatArray, rows: FloatArray, noise_sd: float, *, counted: bool) -> tuple[float, float]:
    """Return the sum of a number for each row of a cell, 0 without a value, and the deviation of its noise.

    What counts lack of all clients was spread over them alike, so only differences of the numbers carry noise; unless
    the number of rows is itself the sum of the cells.
    """
    whole = np.append(values, 0.0)
    about = 0.0 if counted else float(whole.mean())
    return float(whole @ rows), noise_sd * math.sqrt(float(np.sum((whole - about) ** 2)))
