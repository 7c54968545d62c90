"""What would become of a table in a task, before anything is sent or charged: levels, losses, values that move."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.tables.sent_columns import SentColumn
from lintra_protocol.task import Task


@dataclass(frozen=True)
class RehearsedColumn:
    """What becomes of one column."""

    name: str
    kind: str
    missing: int
    """Cells that say that their value is missing."""
    moved: int
    """Numbers beyond a bound, which are moved to it."""
    levels: dict[str, int]
    """Rows of each level of a category."""
    translated: dict[str, str]
    """Texts that the code book takes for a level, and the level."""
    others: dict[str, int]
    """Texts that the sender confirmed to be of no level, and how many cells there are of each."""


@dataclass(frozen=True)
class Rehearsal:
    """What becomes of a table: counts, never a row."""

    rows: int
    columns: tuple[RehearsedColumn, ...]
    left_out_rows: int
    """Rows that take part in nothing since a value is missing; 0 where the task counts them all the same."""
    shrunk: int
    """Rows that are longer than the task's bound, each by itself."""
    weight: float | None = None
    """The average weight of a row, where the task weights rows: 1 if none is shrunk, 0 for a row that is left out."""

    def document(self) -> dict[str, object]:
        """Return this as JSON holds it."""
        return asdict(self)


def rehearse(task: Task, values: FloatArray, columns: Sequence[SentColumn]) -> Rehearsal:
    """Return what becomes of a table.

    `values` are its checked rows, shape `(n, d)`, in the user's units; `columns` are how they were read.
    """
    lacking = np.isnan(values).any(axis=1)
    left_out = lacking if task.measurement.leaves_out else np.zeros(len(values), np.bool_)
    normalised = task.schema_arrays.normalise(values)
    shrunk = task.measurement.is_clipped(normalised) & ~left_out
    weight = task.measurement.average_weight(normalised)
    return Rehearsal(len(values), tuple(map(_column, columns)), int(left_out.sum()), int(shrunk.sum()), weight)


def _column(read: SentColumn) -> RehearsedColumn:
    return RehearsedColumn(
        read.column.name,
        read.column.kind,
        read.missing,
        0 if read.column.kind == "category" else read.moved(),
        read.levels(),
        {text: level for text, (level, _) in read.translated.items()},
        dict(read.others),
    )
