"""The audits of `histogram_laplace`: rows that share no cell, under noise that needs no delta."""

from functools import partial
from typing import cast

from lintra_audit.exact.laplace_release import audit_laplace_release
from lintra_audit.kinds.histogram import farthest, hostile, nearest
from lintra_audit.kinds.kind_audit import KindAudit
from lintra_audit.kinds.laplace import EXCESS, faults_of, laplace_test, variances
from lintra_audit.trials.audit_case import Case, make_case_task, numbers
from lintra_audit.trials.scaled_task import MAX_CLIENTS, small_claim, task_of_claim
from lintra_protocol.mechanisms.histogram_laplace import HistogramLaplace
from lintra_protocol.task import Task

_EDGES = ("-1", "0", "1")


def _of_columns(num_columns: int, indicator: int) -> HistogramLaplace:
    return HistogramLaplace(sigma=4, edges=(_EDGES,) * num_columns, levels=(0,) * num_columns, indicator=indicator)


def cases() -> list[Case]:
    """Return two columns of two cells with half of the cohort corrupt, and one column with the null row."""
    half = partial(make_case_task, _of_columns(2, 64), num_columns=2, min_clients=12, max_corrupt_clients=6)
    null = partial(make_case_task, _of_columns(1, 64), num_columns=1, min_clients=4, neighbours="zero-out", epsilon="2")
    return [
        Case("cells-pure", "cells of two columns with pure epsilon, n = 12, t = 6", half, 12),
        Case("cells-pure-null-row", "cells of a column with pure epsilon, n = 4, row or null row", null, 4),
    ]


def twin(task: Task) -> Task:
    """Return one or two columns of two cells and few clients, calibrated to the task's claim."""
    columns, own = min(task.num_columns, 2), cast("HistogramLaplace", task.mechanism)
    claim = small_claim(task, min(task.claim.min_clients, MAX_CLIENTS))
    return task_of_claim(task, _of_columns(columns, own.indicator), claim, numbers(columns))


AUDIT = KindAudit(
    cases=cases,
    faults=faults_of("histogram_laplace", "cells-pure-null-row", "cells-pure", 6),
    farthest=farthest,
    nearest=nearest,
    hostile=hostile,
    twin=twin,
    kept=lambda task: "claim",
    test=laplace_test,
    variances=variances,
    excess=EXCESS,
    of_task=audit_laplace_release,
)
