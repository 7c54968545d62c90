"""The evidence of a verdict, from what the analyzer keeps: for a third party, who believes nobody."""

from collections.abc import Iterator
from functools import partial

from lintra_analysis.certificate.certificate import SignedRecord
from lintra_analysis.certificate.evidence import RECORD, REPORT_IDS, SIGNED, TASK, Member
from lintra_analyzer.storage.rows import DocumentKind
from lintra_analyzer.storage.store import Store
from lintra_protocol.encoding.canonical import HASH_BYTES, parse_base64url
from lintra_protocol.errors import InvalidReleaseError, UnknownResourceError
from lintra_protocol.messages.documents import Signed
from lintra_protocol.messages.verification import CheckShare
from lintra_protocol.rules.verification import parameters_of
from lintra_protocol.task import Task


def evidence_of(task: Task, signed: SignedRecord, store: Store) -> list[Member]:
    """Return the members of the file; bodies and list are read when they are written. `task` is the release's.

    Raises UnknownResourceError if the reports of the task are not verified; InvalidReleaseError if something is gone.
    """
    record = signed.record
    if record.verification is None:
        raise UnknownResourceError("reports of this task are not verified: there is no verdict, and no evidence of one")
    members = [Member.of(TASK, task.canonical()), Member.of(RECORD, signed.canonical())]
    members += [member for kind in SIGNED for member in _documents(task, record.batch, kind, store)]
    report_ids = store.lists.get(record.task_id, record.batch, "cohort_ids")
    if report_ids is None:
        raise InvalidReleaseError("the identifiers of the frozen cohort are missing")
    members.append(Member(REPORT_IDS, HASH_BYTES * len(report_ids), report_ids.pieces))
    return [*members, *_bodies(task, record.batch, record.verification.frozen, store)]


def _documents(task: Task, batch: int, kind: DocumentKind, store: Store) -> Iterator[Member]:
    for server in range(task.num_servers):
        document = store.document(task.task_id, batch, kind, server)
        if document is None:
            raise InvalidReleaseError(f"the {kind} of server {server} is missing")
        yield Member.of(f"{kind}-{server}", document)


def _bodies(task: Task, batch: int, count: int, store: Store) -> Iterator[Member]:
    size = count * parameters_of(task).check_bytes
    for server in range(task.num_servers):
        document = store.document(task.task_id, batch, "check_share", server) or b""
        digest = parse_base64url(Signed[CheckShare].from_canonical(document).message.body)
        if not store.bodies.has(digest, size):
            raise InvalidReleaseError(f"the body of the check share of server {server} is missing")
        yield Member(f"body-{server}", size, partial(store.bodies.pieces, digest))
