"""Was a report counted? The servers prove it: that it is in the cohort that they froze, or that it is not.

A proof leads to the cohort's Merkle root, so what has to be believed is the root alone. All servers must name the same
one; and the certificate of a release, which its analyst publishes, names the one that the release is of.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass

from lintra_client.channel import Channel
from lintra_protocol.canonical import HASH_BYTES, JsonValue, canonical_json, parse_base64url, parse_canonical_json
from lintra_protocol.errors import CohortConflictError, InvalidMessageError, UnsupportedFeatureError
from lintra_protocol.proofs import Absence, Inclusion
from lintra_protocol.signing import verify
from lintra_protocol.task import Task

MAX_CERTIFICATE_BYTES = 8 << 20


@dataclass(frozen=True)
class Counted:
    """What all servers proved about one report.

    Attributes:
        report_id: in base64url.
        batch: of the task: 0, or the number of a window.
        included: whether it is one of the cohort's reports.
        num_clients: reports in the cohort.
        cohort_root: the cohort's Merkle root, in base64url.
        certified: whether a certificate names this very cohort; else the servers alone do, of which one must be honest.
    """

    report_id: str
    batch: int
    included: bool
    num_clients: int
    cohort_root: str
    certified: bool


async def ask_counted(
    task: Task, channels: Sequence[Channel], report_id: str, batch: int, certificate: str | None = None
) -> Counted:
    """Ask every server for a proof, and check all of them.

    Args:
        task: a checked task.
        channels: to its servers.
        report_id: in base64url, as a receipt has it.
        batch: 0, or the number of the report's window.
        certificate: of the release, as `GET /v1/releases/{release_id}` of an analyzer answers it.

    Raises:
        UnsupportedFeatureError: the task verifies its reports.
        BatchOpenError, UnknownResourceError: some server has frozen no cohort yet.
        AbandonedError: nothing of the batch will ever be released.
        InventoryMismatchError: a proof shows nothing.
        CohortConflictError: the servers, or the certificate, name different cohorts.
        InvalidMessageError, UnauthorizedError: the identifier, a proof or the certificate is malformed, or somebody
            else's than the task's analyzer.
    """
    if task.verified is not None:
        raise UnsupportedFeatureError("its reports are verified: a proof of the cohort does not say who was accepted")
    wanted = parse_base64url(report_id, HASH_BYTES)
    path = f"/v1/tasks/{task.task_id}/batches/{batch}/inclusion/{report_id}"
    named = None if certificate is None else certified_cohort(task, batch, certificate)
    bodies = await asyncio.gather(*(channel.fetch(path, "inclusion", "absence") for channel in channels))
    proofs = [_proof(body) for body in bodies]
    for proof in proofs:
        proof.verify(proof, wanted)
    first = proofs[0]
    if any((proof.root, proof.count) != (first.root, first.count) for proof in proofs):
        raise CohortConflictError("the servers prove it of different cohorts: one of them does not say the truth")
    if named not in (None, (first.root, first.count)):
        raise CohortConflictError("the certificate is of another cohort than the one that the servers froze")
    included = isinstance(first, Inclusion)
    return Counted(report_id, batch, included, first.count, first.root, named is not None)


def certified_cohort(task: Task, batch: int, certificate: str) -> tuple[str, int]:
    """Return root and size of the cohort that a certificate is of; only what is used of it is looked at.

    Raises:
        InvalidMessageError: it is no certificate of this task and batch.
        UnauthorizedError: the task's analyzer did not sign it.
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
            return root, count
    raise InvalidMessageError("the certificate is of another task or window")


def _proof(body: bytes) -> Inclusion | Absence:
    match parse_canonical_json(body):
        case {"kind": "absence"}:
            return Absence.from_canonical(body)
    return Inclusion.from_canonical(body)
