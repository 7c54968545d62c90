"""The rule that gives columns their bounds, centres and scales, and rows their norm bound, from numbers at hand.

The rule is fixed beforehand and the same for every table. Where the numbers are a private table, what it gives is not
private: it serves to try things out, or is applied to public, synthetic or separately released numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lintra_analysis.trial.files.table import DAYS, FileColumn, FileTable
from lintra_protocol.documents import Real, real
from lintra_protocol.ring import FloatArray
from lintra_protocol.schema import Column, Schema

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


def bounds_of(table: FileTable) -> Bounds:
    """Apply the rule to a table.

    A number has the 0.1 % and 99.9 % points as bounds, its mean as centre, and as scale the larger of half the width
    between its 10 % and 90 % points and a quarter of its range. A boolean has its share as centre and the scale 1, so
    that one that hardly varies has small squares; the indicators of a category are 0 and 1. With z a normalised row,
    m_j the mean and s_j the deviation of z_j^2, the squared norm bound is sum m_j + 2 sum s_j: since deviations add up
    at most, a fifth of the rows can be longer, whatever the dependence (Cantelli's inequality), and hardly any is in
    practice. The intercept is half the norm bound.
    """
    columns = tuple(_column(column) for column in table.columns)
    block, _ = table.complete()
    schema = Schema(columns, indicators=True)
    squares = np.square(schema.normalise(block))
    squared = float(squares.mean(axis=0).sum() + 2 * squares.std(axis=0).sum())
    bound = min(math.sqrt(squared), schema.largest_norm())
    return Bounds(columns, _rounded(bound), _rounded(bound / 2))


def clipped_share(columns: Sequence[Column], row_bound: float, rows: FloatArray) -> float:
    """Return which part of rows of shape `(n, d)`, in users' units, a bound of a column or of the norm changes."""
    schema = Schema(columns, indicators=True)
    moved = ((rows < schema.lower) | (rows > schema.upper)).any(axis=1)
    longer = np.linalg.norm(schema.normalise(rows), axis=1) > row_bound
    return float((moved | longer).mean())


def _column(column: FileColumn) -> Column:
    if column.kind == "boolean":
        share = float(np.nanmean(column.values))
        return Column(name=column.name, lower="0", upper="1", center=_spelled(round(share, DIGITS)), kind="boolean")
    if column.kind == "category":
        last = str(len(column.levels) - 1)
        return Column(name=column.name, lower="0", upper=last, kind="category", levels=column.levels)
    known = column.values[~np.isnan(column.values)]
    lower, tenth, ninetieth, upper = np.percentile(known, [LOWER, *INNER, UPPER])
    if not lower < upper:
        lower, upper = known.min(), known.max()
    if column.kind == "integer":
        lower, upper = math.floor(lower), math.ceil(upper)
    scale = max((ninetieth - tenth) / 2, (upper - lower) / 4)
    center = float(np.clip(known, lower, upper).mean())
    # Rounded to the scale, so that a large number keeps the digits that matter.
    step = 10.0 ** (math.floor(math.log10(scale)) - DIGITS + 1)
    spelled = {
        "lower": lower if column.kind == "integer" else math.floor(lower / step) * step,
        "upper": upper if column.kind == "integer" else math.ceil(upper / step) * step,
        "center": round(center / step) * step,
        "scale": math.ceil(scale / step) * step,
    }
    return Column(
        name=column.name,
        kind="integer" if column.kind == "integer" else "real",
        unit=DAYS if column.kind == "date" else "",
        lower=_spelled(spelled["lower"]),
        upper=_spelled(spelled["upper"]),
        center=_spelled(spelled["center"]),
        scale=_spelled(spelled["scale"]),
    )


def _spelled(value: float) -> Real:
    return real(f"{value:.15g}")


def _rounded(value: float) -> Real:
    return real(f"{value:.{DIGITS}g}")
