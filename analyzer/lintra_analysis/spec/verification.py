"""Decides whether the reports of a new task are verified, and which noise goes with that."""

from dataclasses import replace
from typing import Any, Literal

from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.kind import KINDS
from lintra_analysis.spec.specification import Specification
from lintra_protocol.encoding.documents import Real
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.report.wire import share_bytes
from lintra_protocol.task import Task
from lintra_protocol.trust import MOST_BYTES

Verification = Literal["none", "norm"]

USUAL_MAX_REJECTED = "0.1"
"""The largest part of a verified cohort that may fail its proof, if the author does not say."""


def may_be_verified(asked: Specification) -> bool:
    """Return whether verification is offered for what is asked for, as far as it shows before calibration."""
    together = asked.contributors is not None or asked.share_form == "spread"
    return asked.mechanism.takes_proofs and _is_one_task(asked) and not together


def is_small(task: Task) -> bool:
    """Return whether a client sends no more than `MOST_BYTES` of a report to all servers together."""
    return sum(share_bytes(task, server) for server in range(task.num_servers)) <= MOST_BYTES


def measurement_of(asked: Specification, context: CalibrationContext[Any], verification: Verification) -> Measurement:
    """Return the measurement of a specification; a verified task keeps its claim beside what shares show.

    Raises InvalidTaskError if what is asked for cannot be verified.
    """
    build = KINDS[asked.mechanism.kind].build
    if verification == "none":
        return build(context)
    if not _is_one_task(asked):
        raise InvalidTaskError("verification: a task with a second round, or in a study, cannot be verified so far")
    if not asked.mechanism.takes_proofs:
        raise InvalidTaskError(
            f"verification: reports of {asked.mechanism.kind} with these options have no proven bound; use 'none'"
        )
    proven = context.verified()
    measured = build(proven)
    return replace(measured, claim=context.claim) if measured.claim == proven.claim else measured


def max_rejected(asked: Specification, verification: Verification) -> Real | None:
    """Return the largest part of a cohort that may fail its proof; none without proofs.

    Raises InvalidTaskError if it was given, and reports carry no proofs.
    """
    if verification == "norm":
        return USUAL_MAX_REJECTED if asked.max_rejected is None else asked.max_rejected
    if asked.max_rejected is not None:
        raise InvalidTaskError("max_rejected: without verification no report is checked; leave it out")
    return None


def _is_one_task(asked: Specification) -> bool:
    return asked.mechanism.num_rounds == 1 and asked.study is None
