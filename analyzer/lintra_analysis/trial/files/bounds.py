"""The rule that derives bounds, centres and scales of columns, and the norm bound of rows, from given numbers.

The rule is fixed beforehand and the same for every table. Its result discloses numbers of a private table. It therefore
serves for trials, or for public, synthetic or separately released numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lintra_analysis.trial.files.table import FileColumn, FileTable
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Real, real
from lintra_protocol.fields.schema import Column, Kind, Schema

LOWER, UPPER = 0.1, 99.9
"""Percentiles that become the bounds of a column."""

INNER = (10.0, 90.0)
"""Percentiles between which half the width is the scale, if that is more than a quarter of the range."""

DIGITS = 4
"""Significant digits of what the rule gives."""


@dataclass(frozen=True)
class Bounds:
    """What the rule gives for a table: the columns of a task, and the norm that rows are clipped to."""

    columns: tuple[Column, ...]
    row_bound: Real
    intercept: Real


@dataclass(frozen=True)
class ColumnSpread:
    """Mean and deviation of the square of one normalised number."""

    mean: float
    deviation: float


def bounds_of(table: FileTable) -> Bounds:
    """Apply the rule to a table.

    A number has the 0.1 % and 99.9 % points as bounds, its mean as centre, and as scale the larger of half the width
    between its 10 % and 90 % points and a quarter of its range. A boolean has its share as centre and the scale 1, so
    that one that hardly varies has small squares; the indicators of a category are 0 and 1. With z a normalised row,
    m_j the mean and s_j the deviation of z_j^2, the squared norm bound is sum m_j + 2 sum s_j: since deviations add up
    at most, a fifth of the rows can be longer, whatever the dependence (Cantelli's inequality), and hardly any is in
    practice. The intercept is half the norm bound.
    """
    columns = tuple(column_of(column) for column in table.columns)
    block, _ = table.complete()
    schema = Schema(columns, indicators=True)
    squares = np.square(schema.normalise(block))
    means, deviations = squares.mean(axis=0).tolist(), squares.std(axis=0).tolist()
    return row_bound_of(columns, [ColumnSpread(*pair) for pair in zip(means, deviations, strict=True)])


def row_bound_of(columns: Sequence[Column], spreads: Sequence[ColumnSpread]) -> Bounds:
    """Return columns with the norm bound that the spread of each squared normalised number gives."""
    squared = sum(each.mean for each in spreads) + 2 * sum(each.deviation for each in spreads)
    bound = min(math.sqrt(squared), Schema(columns, indicators=True).largest_norm())
    return Bounds(tuple(columns), _rounded(bound), _rounded(bound / 2))


def clipped(
    columns: Sequence[Column], norm: float, rows: FloatArray, persons: IntArray | None = None
) -> tuple[FloatArray, float]:
    """Return rows of shape `(n, d)`, in users' units, as they are collected, shape `(n, k)`, and the part that changed.

    A bound of a column changes a row, or `norm`, which all rows of a person have together in normalised units; inf for
    none.
    `persons` has the number of each row's person, shape `(n,)`; without it every row is that of another.
    """
    schema, persons = Schema(columns, indicators=True), np.arange(len(rows)) if persons is None else persons
    normalised = schema.normalise(rows)
    lengths = np.sqrt(np.bincount(persons, weights=np.square(normalised).sum(axis=1)))
    shrink = np.ones(len(rows)) if math.isinf(norm) else np.minimum(1.0, norm / np.maximum(lengths, norm))[persons]
    moved = ((rows < schema.lower) | (rows > schema.upper)).any(axis=1)
    return normalised * shrink[:, np.newaxis], float((moved | (shrink < 1)).mean())


def column_of(column: FileColumn) -> Column:
    """Return the column that the rule gives for the values of one."""
    if column.kind == "boolean":
        return bounded_column(column.name, "boolean", (0.0, 0.0, 1.0, 1.0), float(np.nanmean(column.values)))
    if column.kind == "category":
        last = str(len(column.levels) - 1)
        return Column(name=column.name, lower="0", upper=last, kind="category", levels=column.levels)
    known = column.values[~np.isnan(column.values)]
    lower, tenth, ninetieth, upper = np.percentile(known, [LOWER, *INNER, UPPER])
    if not lower < upper:
        lower, upper = known.min(), known.max()
    if column.kind == "integer":
        lower, upper = math.floor(lower), math.ceil(upper)
    kind: Kind = "integer" if column.kind == "integer" else "real"
    center = float(np.clip(known, lower, upper).mean())
    return bounded_column(column.name, kind, (lower, tenth, ninetieth, upper), center, unit=column.unit)


def bounded_column(
    name: str,
    kind: Kind,
    points: tuple[float, float, float, float],
    center: float,
    *,
    unit: str = "",
    within: tuple[float, float] = (-math.inf, math.inf),
) -> Column:
    """Return a column whose numbers are rounded to digits that matter.

    `kind` is "real", "integer" or "boolean"; `points` are the lower bound, 10 % point, 90 % point, upper bound. `unit`
    is its unit; `within` is bounds that its own may not exceed.
    """
    if kind == "boolean":
        return Column(name=name, lower="0", upper="1", center=_spelled(round(center, DIGITS)), kind="boolean")
    lower, tenth, ninetieth, upper = points
    if kind == "integer":
        lower, upper = math.floor(lower), math.ceil(upper)
    scale = max((ninetieth - tenth) / 2, (upper - lower) / 4)
    # Rounded to the scale, so that a large number keeps the digits that matter.
    step = 10.0 ** (math.floor(math.log10(scale)) - DIGITS + 1)
    if kind != "integer":
        lower, upper = math.floor(lower / step) * step, math.ceil(upper / step) * step
    return Column(
        name=name,
        kind=kind,
        unit=unit,
        lower=_spelled(max(lower, within[0])),
        upper=_spelled(min(upper, within[1])),
        center=_spelled(round(center / step) * step),
        scale=_spelled(math.ceil(scale / step) * step),
    )


def _spelled(value: float) -> Real:
    return real(f"{value:.15g}")


def _rounded(value: float) -> Real:
    return real(f"{value:.{DIGITS}g}")
