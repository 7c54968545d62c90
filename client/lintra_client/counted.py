"""Asks the servers for a proof that a report is in the cohort that they froze, or that it is not.

A proof leads to the cohort's Merkle root, so what has to be believed is the root alone. All servers must name the same
one; and the certificate of a release, which its analyst publishes, names the one that the release is of. A task whose
reports are verified has two: what was frozen, and what was accepted of it, which the release is of.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lintra_client.sending.connection import Channel
from lintra_protocol.crypto.signing import verify
from lintra_protocol.encoding.canonical import (
    HASH_BYTES,
    JsonValue,
    canonical_json,
    parse_base64url,
    parse_canonical_json,
)
from lintra_protocol.errors import BatchOpenError, CohortConflictError, InvalidMessageError, InventoryMismatchError
from lintra_protocol.messages.inclusion import Absence, Inclusion, Judged
from lintra_protocol.task import Task

MAX_CERTIFICATE_BYTES = 8 << 20


@dataclass(frozen=True)
class Counted:
    """What all servers proved about one report.

    Attributes:
        report_id: in base64url.
        batch: of the task: 0, or the number of a window.
        included: whether it is one of the cohort's reports, and in a verified task one of those that were accepted.
        num_clients: reports in the cohort that was asked about: in a verified task those that were accepted, unless the
            report was not even frozen.
        cohort_root: that cohort's Merkle root, in base64url.
        certified: whether a certificate names this very cohort; else the servers alone do, of which one must be honest.
        rejected: whether it was frozen, and left out because its check failed.
        lost: of a report that is not in the cohort, by the index of each server that lost reports and does not list
            this one: how many it lost, at most. It is one of them if that server gave a receipt for it.
    """

    report_id: str
    batch: int
    included: bool
    num_clients: int
    cohort_root: str
    certified: bool
    rejected: bool = False
    lost: Mapping[int, int] = field(default_factory=dict)


_Cohort = tuple[str, int]
"""Root and size."""


@dataclass(frozen=True)
class CountedReport:
    """The cohorts that a certificate names: what the release is of, and what was frozen; without checks the same."""

    released: _Cohort
    frozen: _Cohort


@dataclass(frozen=True)
class _Shown:
    """What one server proved: of the frozen cohort, and of what was accepted of it, if that is known.

    How many reports it lost is its own affair, and not compared.
    """

    frozen: _Cohort
    in_frozen: bool
    accepted: _Cohort | None = None
    in_accepted: bool = False
    lost: int = field(default=0, compare=False)


async def ask_counted(
    task: Task, channels: Sequence[Channel], report_id: str, batch: int, certificate: str | None = None
) -> Counted:
    """Ask every server for a proof, and check all of them.

    `report_id` is in base64url, as a receipt has it; `batch` is 0, or the number of the report's window. `certificate`
    is that of the release, as `GET /v1/releases/{release_id}` of an analyzer answers it.

    Raises:
        BatchOpenError, UnknownResourceError: some server has frozen no cohort yet, or judged none of a verified task.
        AbandonedError: nothing of the batch will ever be released.
        InventoryMismatchError: a proof shows nothing.
        CohortConflictError: the servers, or the certificate, name different cohorts.
        InvalidMessageError, UnauthorizedError: the identifier, a proof or the certificate is malformed, or somebody
            else's than the task's analyzer.
    """
    wanted = parse_base64url(report_id, HASH_BYTES)
    path = f"/v1/tasks/{task.task_id}/batches/{batch}/inclusion/{report_id}"
    named = None if certificate is None else certified_cohorts(task, batch, certificate)
    bodies = await asyncio.gather(*(channel.fetch(path, "inclusion", "absence", "judged") for channel in channels))
    every = [_shown(task, body, wanted) for body in bodies]
    if any(shown.in_frozen and shown.accepted is None for shown in every) and task.verified is not None:
        raise BatchOpenError("its reports are checked before they are released, and not every server has judged them")
    first = every[0]
    if any(shown != first for shown in every):
        raise CohortConflictError("the servers prove it of different cohorts: one of them does not say the truth")
    if named is not None and (named.frozen != first.frozen or first.accepted not in (None, named.released)):
        raise CohortConflictError("the certificate is of another cohort than the one that the servers froze")
    root, count = first.accepted or first.frozen
    included = first.in_frozen if first.accepted is None else first.in_accepted
    lost = {server: shown.lost for server, shown in enumerate(every) if shown.lost}
    rejected = first.in_frozen and not included
    return Counted(report_id, batch, included, count, root, named is not None, rejected, lost)


def certified_cohorts(task: Task, batch: int, certificate: str) -> CountedReport:
    """Return the cohorts that a certificate names; only what is used of it is looked at.

    Raises InvalidMessageError if it is no certificate of this task and batch.
    """
    try:
        found: JsonValue = json.loads(certificate[:MAX_CERTIFICATE_BYTES])
        match found:
            case {"record": {"kind": str(kind)} as record, "signature": str(signature)}:
                signed = canonical_json(record)
            case _:
                raise InvalidMessageError("a certificate has a record and a signature")
    except (ValueError, TypeError, RecursionError):
        raise InvalidMessageError("the certificate is not one in JSON") from None
    verify(task.analyzer.identity_key, signature, kind, signed)
    match record:
        case {"task_id": task.task_id, "batch": number, "cohort_root": str(root), "num_clients": int(count)} if (
            kind == "release" and number == batch
        ):
            return CountedReport((root, count), _certified_frozen(task, record, (root, count)))
    raise InvalidMessageError("the certificate is of another task or window")


def _certified_frozen(task: Task, record: JsonValue, released: _Cohort) -> _Cohort:
    if task.verified is None:
        return released
    match record:
        case {"verification": {"frozen_root": str(root), "frozen": int(count)}}:
            return root, count
    raise InvalidMessageError("the certificate does not say of which reports those were that were accepted")


def _shown(task: Task, body: bytes, wanted: bytes) -> _Shown:
    """Check a server's proofs, and return what they show."""
    match parse_canonical_json(body):
        case {"kind": "judged"} if task.verified is not None:
            judged = Judged.from_canonical(body)
            left = judged.accepted or judged.rejected
            if left is None or (judged.accepted is not None and judged.rejected is not None):
                raise InventoryMismatchError("a report was either accepted or rejected")
            judged.frozen.verify(judged.frozen, wanted)
            left.verify(left, wanted)
            frozen = judged.frozen.root, judged.frozen.count
            return _Shown(frozen, True, (left.root, left.count), judged.accepted is not None)
        case {"kind": "absence"}:
            absence = Absence.from_canonical(body)
            absence.verify(absence, wanted)
            return _Shown((absence.root, absence.count), False, lost=absence.lost)
    inclusion = Inclusion.from_canonical(body)
    inclusion.verify(inclusion, wanted)
    return _Shown((inclusion.root, inclusion.count), True)
