"""Which part of a table is tried: the columns that can be collected, and rows as a task would encode them."""

import math

import numpy as np

from lintra_analysis.trial.files.bounds import Bounds
from lintra_analysis.trial.files.table import FileTable, reasons
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidTableError
from lintra_protocol.fields.schema import Schema
from lintra_protocol.noise.clipping import clip_norms

MOST_MISSING = 0.5
"""A feature that is missing in a larger part of the rows is left out: every row without it would be."""

LEAST_ROWS = 50
"""Fewer rows than this say nothing that survives the noise at any usual epsilon."""


def chosen_columns(table: FileTable, target: str) -> FileTable:
    """Return the columns of a table that are collected, the target last; what is left out says why.

    Raises:
        InvalidTableError: the target is missing or a category of several levels, or there is no feature.
    """
    table = without_sparse(table, target)
    features = [column.name for column in table.columns if column.name != target]
    if table.column(target).kind == "category":
        levels = ", ".join(table.column(target).levels)
        raise InvalidTableError(
            f"column {target!r} is a category ({levels}); a regression explains a number, or zeros and ones: write a "
            "column of 0 and 1 that says which rows are of the level in question"
        )
    if not features:
        why = f": {reasons(table.left_out)}" if table.left_out else ""
        raise InvalidTableError(f"the file has no other column that could explain {target!r}{why}")
    return FileTable(table.keep([*features, target]).columns, table.num_rows, table.left_out)


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


def without_sparse(table: FileTable, target: str) -> FileTable:
    """Return a table without the features that are missing in most rows; what is left out says so."""
    shares = {column.name: column.missing / table.num_rows for column in table.columns if column.name != target}
    sparse = {name: share for name, share in shares.items() if share > MOST_MISSING}
    kept = tuple(column for column in table.columns if column.name not in sparse)
    reasons = {name: f"it is missing in {100 * share:.0f} % of the rows" for name, share in sparse.items()}
    return FileTable(kept, table.num_rows, table.left_out | reasons)


def encoded(bounds: Bounds, rows: FloatArray, *, clip: bool) -> FloatArray:
    """Return rows of shape `(n, d)` as a task encodes them, shape `(n, k)`; with or without what its bounds do.

    `rows` are in users' units. `clip` says whether values are moved into the bounds, and long rows shrunk to the norm
    bound.
    """
    schema = Schema(bounds.columns, indicators=True)
    if not clip:
        schema.lower, schema.upper = np.full(schema.lower.shape, -math.inf), np.full(schema.upper.shape, math.inf)
        return schema.normalise(rows)
    return clip_norms(schema.normalise(rows), float(fraction(bounds.row_bound)))
