"""The JSON messages of the control plane. Whatever one party must be able to hold another to is signed."""

from collections.abc import Sequence
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field, StringConstraints

from lintra_protocol.cohort.differences import ListDifference
from lintra_protocol.cohort.report_ids import ReportIds, difference, encode_positions
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.crypto.sealing import SuiteName
from lintra_protocol.crypto.signing import SigningKey, verify
from lintra_protocol.encoding.canonical import base64url, domain_hash, domain_hash_of_all, parse_base64url
from lintra_protocol.encoding.documents import Count, Frozen, Key, ServerIndex, omitted
from lintra_protocol.messages.receipts import answer_bytes, receipt_bytes, signed_bytes
from lintra_protocol.messages.verification import MATRIX_NONCE, CheckShare, Verdict
from lintra_protocol.task import Task

BATCH = 0
"""The number of a `single` task's only batch; those of a task with windows are numbered from 0 on."""

OptionalKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{0,2048}$")]
"""A `Key`, or nothing."""
Packed = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]*$")]
"""Any bytes in unpadded base64url."""
PieceName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{43}$")]


class SealingKeyEntry(Frozen):
    """One of a server's HPKE keys; times are seconds since the epoch, half-open."""

    key_id: Key
    suite: SuiteName
    public_key: Key
    valid_from: Count
    valid_until: Count


class KeyList(Frozen):
    """A server's HPKE keys by preference, bound to its identity key."""

    kind: Literal["keys"] = "keys"
    identity_key: Key
    keys: tuple[SealingKeyEntry, ...]


class TaskRecord(Frozen):
    """A task and one party's word for it: the author's when it is registered, a server's when it is served."""

    kind: Literal["task"] = "task"
    definition: Task


class Registration(Frozen):
    """What an author brings a server: the signed task and, if it has tokens, the server's key for them, sealed.

    Whose key it is needs no signature: its hash stands in the task. `key_id` is that of the server's sealing key, or
    empty; `token_key` is sealed to that key, or empty.
    """

    kind: Literal["registration"] = "registration"
    record: "Signed[TaskRecord]"
    key_id: OptionalKey
    token_key: OptionalKey


class Receipt(Frozen):
    """A server's word that it stored these reports durably; `reports` hashes their identifiers in order of upload."""

    kind: Literal["receipt"] = "receipt"
    task_id: Key
    server: ServerIndex
    count: Count
    reports: Key

    def canonical(self) -> bytes:
        """Return the canonical encoding: there is one for every upload, and nothing in it has to be escaped."""
        return receipt_bytes(self.task_id, self.server, self.count, self.reports)


class Inventory(Frozen):
    """What one server holds of a batch, signed once when the batch is closed.

    Attributes:
        root: Merkle root over the sorted report identifiers.
        nonce_commitment: to r, the server's part of the late seed, fixed before it sees a cohort.
        matrix_nonce_commitment: in a verified task, to s, which makes the late seed there; r then makes the check seed.
        closed_at: in the task's units.
        start: how often this server had begun; whoever sees it fall knows that the server was set back.
        first: of the windows whose reports it lists together, all up to `batch`; left out if it is that one alone.
        lost: acknowledged reports that are gone, at most; left out if none is. In R9 they are own and missing.
        witnessed: whether this server had a witness when it closed the batch, by its own word; left out if it had none.
    """

    kind: Literal["inventory"] = "inventory"
    task_id: Key
    batch: Count
    first: Count | None = omitted(None)
    server: ServerIndex
    count: Count
    lost: Count = omitted(0)
    root: Key
    nonce_commitment: Key
    matrix_nonce_commitment: Key | None = omitted(None)
    closed_at: Count
    start: Count
    witnessed: bool = omitted(False)


class Census(Frozen):
    """What one server holds of an open batch: changes nothing, and is signed at most once per time unit.

    An inventory of this server without one of these reports is a proven lie, unless it began again in between: then it
    may have been restored from an older copy. One that lost reports may lack as many.

    Attributes:
        root: Merkle root over the sorted report identifiers.
        counted_at: in the task's units.
        start: how often this server had begun.
    """

    kind: Literal["census"] = "census"
    task_id: Key
    batch: Count
    server: ServerIndex
    count: Count
    root: Key
    counted_at: Count
    start: Count


class Cohort(Frozen):
    """The frozen cohort as one server computed it, with its nonce revealed.

    Attributes:
        root: Merkle root over the sorted intersection of all inventories.
        inventories: hash of the N inventories.
        nonce: r, 32 bytes.
        start: how often this server had begun.
    """

    kind: Literal["cohort"] = "cohort"
    task_id: Key
    batch: Count
    server: ServerIndex
    count: Count
    root: Key
    inventories: Key
    nonce: Key
    start: Count


class SketchShareRecord(Frozen):
    """What a sealed sketch share is: whose, of which cohort, under which seed, of what shape.

    `seed` is the late seed that the public matrix was drawn from; `sealed` is H("sealed sketch share", ciphertext).
    `remembered` are earlier windows whose remembered noise entered, ascending; left out where windows are no stream.
    """

    kind: Literal["sketch_share"] = "sketch_share"
    task_id: Key
    batch: Count
    server: ServerIndex
    cohort_root: Key
    num_clients: Count
    seed: Key
    rows: Count
    words: Count
    remembered: tuple[Count, ...] | None = omitted(None)
    sealed: Key


M = TypeVar("M", KeyList, TaskRecord, Receipt, Inventory, Census, Cohort, CheckShare, Verdict, SketchShareRecord)


class Signed(Frozen, Generic[M]):
    """A message and an Ed25519 signature over its canonical encoding, under the message's kind as label."""

    message: M
    signature: Key

    def canonical(self) -> bytes:
        """Return the canonical encoding, in which that of the message stands as it was signed."""
        return signed_bytes(self.message.canonical(), self.signature)

    def verified(self, public_key: str) -> M:
        """Return the message."""
        verify(public_key, self.signature, self.message.kind, self.message.canonical())
        return self.message


def sign(key: SigningKey, message: M) -> Signed[M]:
    """Sign a message."""
    signature = key.sign(message.kind, message.canonical())
    signed: Signed[M] = Signed.model_construct(message=message, signature=signature)
    return signed


class Difference(Frozen):
    """How one server's list of reports differs from the receiver's own.

    `missing` says where in the receiver's list stands what this server lacks (see `encode_positions`). `extra` is the
    identifiers that it has beyond, sorted, one after the other.
    """

    server: ServerIndex
    missing: Packed
    extra: Packed

    @classmethod
    def between(cls, server: int, own: ReportIds, other: ReportIds) -> "Difference":
        """Say how the list of `server` differs from the receiver's."""
        return cls.spelled(server, *difference(own, other))

    @classmethod
    def spelled(cls, server: int, missing: IntArray, extra: ReportIds) -> "Difference":
        """Spell a difference: ascending positions, shape `(k,)`, and what `server` has beyond (see `difference`)."""
        return cls(server=server, missing=base64url(encode_positions(missing)), extra=base64url(extra.encode()))

    def parsed(self) -> ListDifference:
        """Return what it says."""
        return ListDifference.parse(self.server, parse_base64url(self.missing), parse_base64url(self.extra))

    def rebuild(self, own: ReportIds) -> ReportIds:
        """Return that server's list, from the receiver's own (see `parsed` and `ListDifference.rebuild` for errors)."""
        return self.parsed().rebuild(own)


class DifferenceInPieces(Frozen):
    """The same of a difference that is too long for one message: it was sent before, in pieces.

    The first `missing_bytes` bytes of all pieces, one after the other, are positions; identifiers follow. `pieces` are
    the hash of each (see `differences.piece_hash`), in order.
    """

    server: ServerIndex
    missing_bytes: Count
    pieces: tuple[PieceName, ...]


class CohortRequest(Frozen):
    """All N signed inventories in server order, and the other servers' lists as differences to the receiver's."""

    inventories: tuple[Signed[Inventory], ...]
    differences: tuple[Difference | DifferenceInPieces, ...]


class AggregateRequest(Frozen):
    """All N signed cohorts in server order."""

    cohorts: tuple[Signed[Cohort], ...]


class Failure(Frozen):
    """One report of an upload that was not taken."""

    report_id: Key
    type: str
    detail: str
    retryable: bool


class UploadAnswer(Frozen):
    """The failed reports of an upload in order, and a signed receipt for all others."""

    failures: tuple[Failure, ...]
    receipt: Signed[Receipt]

    def canonical(self) -> bytes:
        """Return the canonical encoding, in which that of the receipt stands as it is."""
        return answer_bytes([failure.canonical() for failure in self.failures], self.receipt.canonical())


class Counters(Frozen):
    """What became of every report that reached a server: received = accepted + repeated + refused.

    A server tells it at most once per time unit of the task: told oftener it would say when each report came.
    """

    received: Count
    accepted: Count
    repeated: Count
    refused: dict[str, int]


BatchState = Literal[
    "open", "closing", "merged", "closed", "frozen", "checked", "judged", "released", "abandoned", "scrubbed"
]


class BatchStatus(Frozen):
    """Where a batch stands at one server.

    `count` is the number of reports; while the batch is open, as counted once per time unit of the task. `enough` says
    whether so many reports reach the task's `min_clients`, so that it could be closed.
    """

    batch: Count
    state: BatchState
    count: Count
    enough: bool


StepName = Literal["inventory", "cohort", "checks", "verdict", "aggregate"]
"""A step of a release, called as the document that it makes."""


class Progress(Frozen):
    """How far a server is with a step that takes longer than a request; it decides nothing, and nobody signs it.

    `seconds` have passed since it was begun. `thousandths` says how many thousandths of it are done, as far as the
    server can tell.
    """

    step: StepName
    seconds: Count
    thousandths: Annotated[int, Field(ge=0, le=1000)]


def receipt_hash(report_ids: Sequence[bytes]) -> str:
    """Return the hash that a receipt has of the identifiers it covers, in order of upload."""
    return base64url(domain_hash_of_all("receipt reports", report_ids))


def inventory_of(
    task: Task,
    batch: int,
    server: int,
    report_ids: ReportIds,
    nonce: bytes,
    closed_at: int,
    start: int,
    first: int | None = None,
    matrix_nonce: bytes | None = None,
    lost: int = 0,
    *,
    witnessed: bool = False,
) -> Inventory:
    """Describe a server's sorted report identifiers; `first` of the windows that were merged, if they were."""
    second = None if matrix_nonce is None else nonce_commitment(task, batch, matrix_nonce, first, MATRIX_NONCE)
    return Inventory(
        task_id=task.task_id, batch=batch, first=first, server=server, count=len(report_ids), lost=lost,
        root=base64url(report_ids.root), nonce_commitment=base64url(nonce_commitment(task, batch, nonce, first)),
        matrix_nonce_commitment=None if second is None else base64url(second), closed_at=closed_at, start=start,
        witnessed=witnessed,
    )  # fmt: skip


def census_of(task: Task, batch: int, server: int, report_ids: ReportIds, counted_at: int, start: int) -> Census:
    """Describe a server's sorted report identifiers while its batch is open."""
    return Census(
        task_id=task.task_id, batch=batch, server=server, count=len(report_ids), root=base64url(report_ids.root),
        counted_at=counted_at, start=start,
    )  # fmt: skip


def nonce_commitment(task: Task, batch: int, nonce: bytes, first: int | None = None, label: str = "nonce") -> bytes:
    """Return H("nonce", r), in a task with windows H("nonce", task id, batch, r): a nonce is of one window only.

    Of windows that were merged the number of the first stands beside that of the last. The other nonce of a verified
    task has the label "matrix nonce".
    """
    if task.windows is None:
        return domain_hash(label, nonce)
    return domain_hash(label, task.id_bytes, *batch_parts(batch, first), nonce)


def batch_parts(batch: int, first: int | None) -> tuple[bytes, ...]:
    """Return how a batch is named where something is bound to it: its number, and that of the first window in it."""
    return tuple(number.to_bytes(8, "big") for number in ((batch,) if first is None else (batch, first)))


def inventories_hash(inventories: tuple[Signed[Inventory], ...]) -> str:
    """Return the hash of the N inventories in server order."""
    return base64url(domain_hash("inventories", *(signed.message.canonical() for signed in inventories)))


def key_bytes(key: str) -> bytes:
    """Decode any key, hash or nonce of a message."""
    return parse_base64url(key)
