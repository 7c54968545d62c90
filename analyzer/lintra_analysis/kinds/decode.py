"""From the released integers of a mechanism to a release: one module a kind, looked up here by that kind."""

import math

import numpy as np

from lintra_analysis.kinds.kind import KINDS
from lintra_analysis.kinds.released_parts import Earlier, nothing_earlier
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.task import Task

FALSE_ALARM = 1e-9
"""How likely it may be that an honest cohort has any row outside the plausible band."""


def read(task: Task, sketch: IntArray, row_counts: IntArray, earlier: Earlier = nothing_earlier) -> Release:
    """Return the released integers of a task as the estimators read them.

    `sketch` has shape `(m, w/c)`, in ring units; `row_counts` has shape `(m,)`, the reports in each row. `earlier`
    gives the release of an earlier task that this one builds on, such as the first of two rounds.
    """
    mechanism = task.mechanism
    return KINDS[mechanism.kind].read(task, mechanism, sketch, row_counts, earlier)


def rows_of_a_report(task: Task) -> int:
    """Return s, how many rows of the released numbers a report enters."""
    return KINDS[task.mechanism.kind].rows_of_a_report(task.mechanism)


def implausible_totals(task: Task, sketch: IntArray, row_counts: IntArray) -> list[str]:
    """Return what cannot be about the totals of organisations, each in words; nothing where every report is a row.

    `sketch` has shape `(1, w)`, in ring units; `row_counts` has shape `(1,)`.
    """
    if task.contributors is None:
        return []
    return KINDS[task.mechanism.kind].totals(task, task.mechanism, sketch, row_counts)


def implausible_rows(task: Task, sketch: IntArray, row_counts: IntArray) -> tuple[float, list[int]]:
    """Find the rows that clients within their bounds would hardly ever give.

    `sketch` has shape `(m, w/c)`, in ring units; `row_counts` has shape `(m,)`.

    Returns:
        The threshold z in deviations, at which honest rows are flagged with probability `FALSE_ALARM` at most, and the
        numbers of the rows with an entry beyond it.
    """
    z = math.sqrt(2 * math.log(2 * sketch.size / FALSE_ALARM))
    band = KINDS[task.mechanism.kind].band(task, task.mechanism, row_counts, z)
    outside = (np.abs(sketch.astype(np.float64)) > band).any(axis=1)
    return z, [int(row) for row in np.flatnonzero(outside)]
