"""The audits of `sum_laplace`: opposite rows under noise that needs no delta."""

from functools import partial

from lintra_audit.exact.laplace_release import audit_laplace_release
from lintra_audit.kinds.kind_audit import KindAudit
from lintra_audit.kinds.laplace import EXCESS, faults_of, laplace_test, variances
from lintra_audit.trials.audit_case import Case, make_case_task, numbers
from lintra_audit.trials.scaled_task import MAX_CLIENTS, small_claim, task_of_claim
from lintra_protocol.mechanisms.sum_laplace import SumLaplace
from lintra_protocol.task import Task

_PLAIN = SumLaplace(row_bound="1", fraction_bits=0, sigma=4)


def cases() -> list[Case]:
    """Return a cohort of which half is corrupt, one column alone, and the null row."""
    half = partial(make_case_task, _PLAIN, num_columns=2, min_clients=12, max_corrupt_clients=6)
    lone = partial(make_case_task, _PLAIN, num_columns=1, min_clients=4, epsilon="2")
    null = partial(make_case_task, _PLAIN, num_columns=2, min_clients=12, neighbours="zero-out")
    return [
        Case("sum-pure", "sum with pure epsilon, n = 12, d = 2, t = 6", half, 12),
        Case("sum-pure-lone", "sum with pure epsilon, n = 4, d = 1", lone, 4),
        Case("sum-pure-null-row", "sum with pure epsilon, n = 12, d = 2, row or null row", null, 12),
    ]


def twin(task: Task) -> Task:
    """Return a task of one or two columns and few clients, calibrated to the task's claim."""
    claim = small_claim(task, min(task.claim.min_clients, MAX_CLIENTS))
    return task_of_claim(task, task.mechanism, claim, numbers(min(task.num_columns, 2)))


AUDIT = KindAudit(
    cases=cases,
    faults=faults_of("sum_laplace", "sum-pure-lone", "sum-pure", 6),
    twin=twin,
    kept=lambda task: "claim",
    test=laplace_test,
    variances=variances,
    excess=EXCESS,
    of_task=audit_laplace_release,
)
