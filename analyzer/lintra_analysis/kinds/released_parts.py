"""What the kinds share in decoding their integers: counts, columns, and bands of plausible entries."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lintra_analysis.releases.clipped import ClippedRows
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.row_count import RowCount
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.layout import CLIPPED, ROWS
from lintra_protocol.task import Task


def nothing_impossible(task: Task, mechanism: Mechanism, sketch: IntArray, row_counts: IntArray) -> list[str]:
    """Return nothing: no total of this kind, whatever its shape, is looked at."""
    del task, mechanism, sketch, row_counts
    return []


Earlier = Callable[[str], Release | None]
"""Gives the release of an earlier task by that task's identifier; None if there is none to be had."""


def nothing_earlier(task_id: str) -> None:
    """Give no release of an earlier task."""
    del task_id


def one_row(mechanism: Mechanism) -> int:
    """Return 1: every report enters one row of the released numbers."""
    del mechanism
    return 1


def band_of_sums(task: Task, mechanism: Mechanism, row_counts: IntArray, deviations: float) -> FloatArray:
    """Return how large an entry of a plain sum may plausibly be: nothing cancels, so c B and the noise on top.

    `mechanism` is its mechanism; B is the largest word of a report. `row_counts` are c of each row, shape `(m,)`.
    """
    del mechanism
    layout, setting = task.measurement.layout, task.setting
    counts = row_counts[:, np.newaxis].astype(np.float64)
    draws = np.array([[setting.draws(int(count))] for count in row_counts], np.float64)
    sigmas = layout.sigmas[: layout.num_released]
    noise = np.sqrt(draws * np.square(sigmas, dtype=np.float64) + layout.floor.variance(sigmas))
    band: FloatArray = counts * float(setting.rows_per_report * layout.bound) + deviations * noise
    if ROWS in layout:
        band[:, layout.released(ROWS)] = counts * setting.rows_per_report
    return band


def clipped_rows(
    task: Task, sketch: IntArray, row_counts: IntArray, *, rows_of_a_report: int = 1, shrunk_only: bool = True
) -> ClippedRows | None:
    """Return what the clip counter of released integers says, or None without one.

    `task` is the task, whose mechanism shrinks rows to its bound; `sketch` has shape `(m, w/c)`, in ring units.
    `row_counts` are the reports in each row, shape `(m,)`; `rows_of_a_report` times as many as there are.
    `rows_of_a_report` is s, how many rows a report enters. `shrunk_only` says whether a row within its columns' bounds
    is shrunk to `row_bound` and nothing else, so that it is known how far clipping can have moved it.
    """
    measurement, layout = task.measurement, task.measurement.layout
    if CLIPPED not in layout:
        return None
    num_clients = int(row_counts.sum()) // rows_of_a_report
    sd = layout.deviation(CLIPPED, task.setting.draws(num_clients), task.num_servers * measurement.smoothing**2)
    counted = ClippedRows(measurement.clipped_rows(sketch), float(sd), num_clients)
    if not shrunk_only:
        return counted
    farthest = task.schema_arrays.largest_norm()
    return replace(counted, row_bound=float(fraction(task.mechanism.row_bound)), farthest=farthest)


def counted_rows(task: Task, sketch: IntArray, row_counts: IntArray) -> RowCount | None:
    """Return how many rows were not left out, or None if every report is a row.

    `sketch` has shape `(1, w)`, in ring units; `row_counts` are the reports in the one row, shape `(1,)`.
    """
    measurement, num_clients = task.measurement, int(row_counts.sum())
    if "count" not in measurement.layout:
        return None
    sd = measurement.layout.count_deviation(task.setting.draws(num_clients))
    return RowCount(measurement.counted_rows(sketch), sd, num_clients, task.contributors is not None)


def number_of_rows(task: Task, sketch: IntArray, row_counts: IntArray) -> int:
    """Return how many rows a release is about: the reports, or where organisations contribute the rows they counted.

    At least one, and a whole number also where the count carries noise. `sketch` has shape `(1, w)`, in ring units;
    `(m, w/c)` where every report is a row. `row_counts` are the reports in each row, shape `(m,)`; each report enters
    one of them.
    """
    if task.contributors is None:
        return int(row_counts.sum())
    return max(round(task.measurement.counted_rows(sketch)), 1)


def norm_of_rows(task: Task) -> float:
    """Return the largest norm of a row in normalised units; of contributions, that of all rows of a person together."""
    norm = None if task.contributors is None else task.measurement.person_norm
    return float(fraction(task.mechanism.row_bound)) if norm is None else norm


def scaled_columns(task: Task) -> tuple[ScaledColumn, ...]:
    """Return the columns of a task as a release has them."""
    found = []
    for held in task.columns:
        spread = held.kind == "category" and "levels" not in task.mechanism.allows
        found += [_scaled(c, held if spread else None) for c in (held.indicators() if spread else (held,))]
    return tuple(found)


def _scaled(column: Column, category: Column | None) -> ScaledColumn:
    """Return one column of an encoded row, an indicator with the category that it is of."""
    center, scale, lower, upper = (float(end) for end in (column.center, column.scale, column.lower, column.upper))
    name, levels = ("", ()) if category is None else (category.name, category.levels)
    return ScaledColumn(column.name, center, scale, lower, upper, column.unit, column.kind, name, levels)
