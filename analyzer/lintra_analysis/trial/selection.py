"""Selects the part of a table that is tried: the columns that can be collected, and rows as a task encodes them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.trial.files.bounds import Bounds, clipped
from lintra_analysis.trial.files.table import FileColumn, FileTable, reasons
from lintra_analysis.trial.row_weights import RowWeighting
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidTableError
from lintra_protocol.fields.schema import OTHER, Schema

MOST_MISSING = 0.5
"""A feature that is missing in a larger part of the rows is left out: every row without it would be."""

LEAST_ROWS = 50
"""Fewer rows than this say nothing that survives the noise at any usual epsilon."""


def chosen_columns(table: FileTable, target: str) -> FileTable:
    """Return the columns of a table that are collected, the target last; what is left out says why.

    Of a target with two levels the rarer one is explained, so that the reserved level, which nobody has, is none.

    Raises:
        InvalidTableError: the target is missing or a category of several levels, or there is no feature.
    """
    missing = next((report.missing for report in table.reports if report.name == target), 0)
    table = without_sparse(table, target)
    features = [column.name for column in table.columns if column.name != target]
    explained = _explained(table.column(target), missing)
    if not features:
        why = f": {reasons(table.left_out)}" if table.left_out else ""
        raise InvalidTableError(f"the file has no other column that could explain {target!r}{why}")
    return FileTable((*table.keep(features).columns, explained), table.num_rows, table.left_out)


def _explained(target: FileColumn, missing: int) -> FileColumn:
    """Return a target without the reserved level, which takes its `missing` cells (see `chosen_columns` for errors)."""
    if target.kind != "category":
        return target
    two = target.levels[:-1]
    others = int((target.values == len(two)).sum())
    if len(two) == 2 and others <= missing:
        return replace(target, levels=two, values=np.where(target.values < len(two), target.values, np.nan))
    raise InvalidTableError(
        f"column {target.name!r} is a category ({', '.join(target.levels)}), "
        + (f"and {others} rows are of none of its levels; " if len(two) == 2 else "")
        + "a regression explains a number, or one of two levels: write a column of 0 and 1 that says which rows are of "
        "the level in question"
    )


def logistic_columns(table: FileTable, target: str) -> FileTable:
    """Return a table without reserved levels that nobody has.

    In rounds a feature cannot be left out afterwards, and the noise of one that nobody has hides all slopes.

    Raises:
        InvalidTableError: the target is no column of zeros and ones.
    """
    if table.column(target).kind not in {"boolean", "category"}:
        raise InvalidTableError(
            f"column {target!r} does not hold zeros and ones; a logistic regression explains a yes or no"
        )
    kept, left_out = [], dict(table.left_out)
    for column in table.columns:
        if OTHER in column.levels and column.values.max() < len(column.levels) - 1:
            left_out[f"{column.name}[{column.levels[-1]}]"] = "it is a level that nobody has"
            column = replace(column, levels=column.levels[:-1])
        kept.append(column)
    return FileTable(tuple(kept), table.num_rows, left_out)


def complete_rows(table: FileTable) -> tuple[FloatArray, int]:
    """Return the rows in which no number is missing, shape `(k, d)`, and how many others there are.

    Raises:
        InvalidTableError: there are too few for a trial.
    """
    rows, incomplete = table.complete()
    if len(rows) < LEAST_ROWS:
        raise InvalidTableError(
            f"{len(rows)} of {table.num_rows} rows have all their numbers; a trial needs at least {LEAST_ROWS}"
        )
    return rows, incomplete


def missing_of(table: FileTable) -> dict[str, int]:
    """Return the columns with missing numbers, and in how many rows; the largest first."""
    found = {column.name: column.missing for column in table.columns if column.missing}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def without_sparse(table: FileTable, target: str) -> FileTable:
    """Return a table without the features that are missing in most rows; what is left out says so."""
    shares = {column.name: column.missing / table.num_rows for column in table.columns if column.name != target}
    sparse = {name: share for name, share in shares.items() if share > MOST_MISSING}
    kept = tuple(column for column in table.columns if column.name not in sparse)
    reasons = {name: f"it is missing in {100 * share:.0f} % of the rows" for name, share in sparse.items()}
    return FileTable(kept, table.num_rows, table.left_out | reasons)


@dataclass(frozen=True, eq=False, repr=False)
class EncodedRows:
    """Rows of a table as a task encodes them, k numbers each, the target last.

    Attributes:
        scale: shape `(k,)`; and so is `center`, in the columns' own units.
        own: shape `(n, k)`, with nothing clipped.
        collected: shape `(n, k)`, as they are collected; where rows are weighted, before a row's own factor.
        roots: these factors, the roots of the rows' weights, shape `(n,)`; 1 where rows are not weighted.
        changed: the part of them that a bound changed.
    """

    names: list[str]
    scale: FloatArray
    center: FloatArray
    own: FloatArray
    collected: FloatArray
    roots: FloatArray
    changed: float

    @classmethod
    def of(
        cls,
        bounds: Bounds,
        rows: FloatArray,
        persons: IntArray | None,
        person_norm: float | None,
        weighting: RowWeighting | None = None,
    ) -> "EncodedRows":
        """Encode rows of shape `(n, d)`, in users' units; a missing number stands at its column's centre.

        `persons` has the number of each row's person, shape `(n,)`, whose rows are clipped together to `person_norm`;
        without it every row is that of another, and without the norm the rule's bound of a row is taken.
        """
        schema = Schema(bounds.columns, indicators=True)
        rows = np.where(np.isnan(rows), schema.center, rows)
        norm = float(bounds.row_bound) if person_norm is None else person_norm
        collected, changed = clipped(bounds.columns, math.inf if weighting else norm, rows, persons)
        roots = np.ones(len(rows))
        if weighting is not None:
            vectors, roots = weighting.vectors(collected)
            moved = vectors[:, -1] / weighting.target_factor
            changed += float(np.mean(np.abs(moved - collected[:, -1]) > 1e-12))
            collected = np.column_stack([collected[:, :-1], moved])
        schema.lower, schema.upper = np.full(schema.lower.shape, -math.inf), np.full(schema.upper.shape, math.inf)
        scale, center = (
            np.array([float(getattr(column, field)) for column in schema.encoded]) for field in ("scale", "center")
        )
        names = [column.name for column in schema.encoded]
        return cls(names, scale, center, schema.normalise(rows), collected, roots, min(changed, 1.0))

    def places(self, features: Sequence[str]) -> list[int]:
        """Return where the encoded columns of these names stand."""
        return [place for place, name in enumerate(self.names) if name in features]

    def in_units(self, block: FloatArray) -> FloatArray:
        """Return a normalised block of shape `(n, k)` in the columns' own units."""
        return block * self.scale + self.center
