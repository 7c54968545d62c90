"""A task's own release, audited exactly: a matrix as servers draw it, and the audit that its mechanism brings."""

import numpy as np

from lintra_audit.exact.task_audit import TaskAudit
from lintra_audit.kinds.kind_audit import AUDITS
from lintra_audit.trials.simulated_release import request_release
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix


def audit_task(task: Task, num_clients: int, seed: bytes) -> TaskAudit:
    """Draw the matrix of a cohort as servers do, and audit what a release under it would tell.

    `seed` is 32 bytes for made-up identifiers and nonces.
    """
    task.check()
    return audit_matrix(task, request_release(task, np.arange(num_clients), set(), seed).matrix)


def audit_matrix(task: Task, matrix: PublicMatrix) -> TaskAudit:
    """Audit what a release under a matrix that was really drawn tells, by another route than the service.

    Raises:
        InvalidTaskError: the mechanism brings no audit.
        LintraError: the service itself refuses this matrix.
        ValueError: the matrix is too large to be factorised.
    """
    return AUDITS[task.mechanism.kind].of_task(task, matrix)
