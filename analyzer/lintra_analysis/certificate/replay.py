"""The result of a replay, and the parts of the certificate that it recomputes; also for third parties."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from lintra_analysis.certificate.certificate import RecordedVerification, ReleaseRecord, SignedRecord
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.encoding.documents import rounded_up
from lintra_protocol.errors import LintraError
from lintra_protocol.rules.verification import Judgement, checks_hash, parameters_of
from lintra_protocol.task import Task


@dataclass(frozen=True)
class ReplayedCheck:
    """One question that a replay asked, with its answer.

    `passed` says whether the answer is yes; `detail` is the numbers, or what differs.
    """

    question: str
    passed: bool
    detail: str


def signature_check(signed: SignedRecord, analyzer_key: str) -> ReplayedCheck:
    """Say whether an analyzer's key signed a record."""
    question = "Did this analyzer sign the certificate?"
    try:
        signed.verified(analyzer_key)
    except LintraError as error:
        return ReplayedCheck(question, False, error.detail or error.title())
    return ReplayedCheck(question, True, f"with its key {analyzer_key}")


def compared_fields(question: str, names: Sequence[str], record: ReleaseRecord, again: ReleaseRecord) -> ReplayedCheck:
    """Compare some fields of a record with those of one that was written again."""
    differing = [name for name in names if getattr(record, name) != getattr(again, name)]
    if differing:
        return ReplayedCheck(question, False, f"the certificate differs in {', '.join(differing)}")
    return ReplayedCheck(question, True, _said(names[0], again))


def _said(name: str, record: ReleaseRecord) -> str:
    """Return what was found, in numbers."""
    match name:
        case "inventories":
            return f"{record.num_clients:,} reports with the root {record.cohort_root}"
        case "servers":
            return f"{len(record.servers)} shares, opened and checked against what each server signed"
        case "privacy":
            return f"{record.privacy}, leverage {record.privacy.leverage:.6g}"
        case "noise":
            return f"deviation {record.noise.smallest_sd} to {record.noise.largest_sd} in normalised units"
        case _:
            return str(getattr(record, name))


def recorded_verification(task: Task, judgement: Judgement) -> RecordedVerification:
    """Return what a certificate says of the reports of a verified task that were checked."""
    frozen, squared = judgement.frozen, parameters_of(task).squared_bound
    return RecordedVerification(
        frozen_root=frozen.cohort.root,
        frozen=frozen.cohort.count,
        accepted=len(judgement.accepted),
        rejected=judgement.rejected,
        max_rejected=task.max_rejected or "0",
        check_seed=base64url(frozen.seed),
        checks=base64url(checks_hash(judgement.check_shares)),
        squared_bound=str(squared),
        influence=rounded_up(Decimal(math.isqrt(squared) + 1) * Decimal(2) ** -task.mechanism.sigma_bits),
    )
