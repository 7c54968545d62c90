"""What the kinds share in decoding their integers: counts, columns, and bands of plausible entries."""

import math
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
from lintra_protocol.mechanisms.row_count import CountedRows
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
    counts = row_counts[:, np.newaxis].astype(np.float64)
    draws = mechanism.draws_in_rows(row_counts)[:, np.newaxis].astype(np.float64)
    sigmas = np.pad(mechanism.sigmas(task.num_columns), (0, mechanism.exact_count_words))
    noise = np.sqrt(draws) * sigmas[: task.sketch_words].astype(np.float64)
    band: FloatArray = counts * float(mechanism.largest_report_word()) + deviations * noise
    if mechanism.exact_count_words and mechanism.contributors is not None:
        band[:, -1] = counts[:, 0] * mechanism.contributors.max_rows
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
    mechanism = task.mechanism
    if not mechanism.clip_words:
        return None
    num_clients = int(row_counts.sum()) // rows_of_a_report
    variance = mechanism.draws(num_clients) * mechanism.sigma**2 + task.num_servers * mechanism.smoothing**2
    sd = math.sqrt(variance) / mechanism.clip_steps
    counted = ClippedRows(mechanism.clipped_rows(sketch), sd, num_clients)
    if not shrunk_only:
        return counted
    farthest = task.schema_arrays.largest_norm()
    return replace(counted, row_bound=float(fraction(mechanism.row_bound)), farthest=farthest)


def counted_rows(
    mechanism: CountedRows, sketch: IntArray, row_counts: IntArray, relative: float = 1.0
) -> RowCount | None:
    """Return how many rows were not left out, or None if every report is a row.

    `sketch` has shape `(1, w)`, in ring units; `row_counts` are the reports in the one row, shape `(1,)`. `relative` is
    the deviation of the count word's noise, in multiples of `sigma`.
    """
    if not mechanism.count_words:
        return None
    num_clients = int(row_counts.sum())
    sd = relative * math.sqrt(mechanism.draws(num_clients)) * mechanism.sigma / mechanism.count_steps
    return RowCount(mechanism.counted_rows(sketch), sd, num_clients, mechanism.contributors is not None)


def number_of_rows(mechanism: Mechanism, sketch: IntArray, row_counts: IntArray) -> int:
    """Return how many rows a release is about: the reports, or where organisations contribute the rows they counted.

    At least one, and a whole number also where the count carries noise. `sketch` has shape `(1, w)`, in ring units;
    `(m, w/c)` where every report is a row. `row_counts` are the reports in each row, shape `(m,)`; each report enters
    one of them.
    """
    if mechanism.contributors is None:
        return int(row_counts.sum())
    return max(round(mechanism.released_rows(sketch)), 1)


def norm_of_rows(mechanism: CountedRows) -> float:
    """Return the largest norm of a row in normalised units; of contributions, that of all rows of a person together."""
    if mechanism.contributors is None:
        return float(fraction(mechanism.row_bound))
    return mechanism.person_norm


def scaled_columns(task: Task) -> tuple[ScaledColumn, ...]:
    """Return the columns of a task as a release has them."""
    found = []
    for held in task.columns:
        spread = held.kind == "category" and not task.mechanism.takes_levels
        found += [_scaled(c, held if spread else None) for c in (held.indicators() if spread else (held,))]
    return tuple(found)


def _scaled(column: Column, category: Column | None) -> ScaledColumn:
    """Return one column of an encoded row, an indicator with the category that it is of."""
    center, scale, lower, upper = (float(end) for end in (column.center, column.scale, column.lower, column.upper))
    name, levels = ("", ()) if category is None else (category.name, category.levels)
    return ScaledColumn(column.name, center, scale, lower, upper, column.unit, column.kind, name, levels)
