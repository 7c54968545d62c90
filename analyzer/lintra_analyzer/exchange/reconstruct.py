"""From the servers' answers to a release: everything is checked again from the stored bytes, then summed and decoded.

What reaches `reconstruct` may come from servers that lie or from a disk that failed; what leaves it is a release that
an auditor can replay, or an `InvalidReleaseError`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lintra_protocol.cohort.report_ids import ComparedLists, ReportIds
from lintra_protocol.crypto.ring import IntArray, RingArray, from_ring, ring_from_bytes
from lintra_protocol.crypto.sealing import SealingKey
from lintra_protocol.crypto.sharing import combine
from lintra_protocol.encoding.canonical import base64url, domain_hash, parse_base64url
from lintra_protocol.errors import InvalidReleaseError, InventoryMismatchError, LintraError
from lintra_protocol.mechanisms.collusion import released_epsilons_if_colluding
from lintra_protocol.messages.documents import Cohort, Inventory, Signed, SketchShareRecord
from lintra_protocol.messages.verification import Verdict
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.report import wire
from lintra_protocol.rules.release import (
    aggregate_context,
    check_cohort,
    check_remembered,
    draw_matrix,
    verify_cohorts,
    verify_list,
)
from lintra_protocol.rules.verification import Judgement, require_frozen
from lintra_protocol.task import Task


@dataclass(frozen=True)
class FrozenCohort:
    """What the servers agreed on: the reports, and the seed of the public matrix."""

    report_ids: ReportIds = field(repr=False)
    seed: bytes  #: 32 bytes
    privacy: PrivacyStatement  #: of the release of exactly these reports
    row_counts: IntArray = field(repr=False)  #: shape `(m,)`, of the public matrix that the seed gives
    #: epsilon of this release for several parts of the cohort that may collude, in per cent
    if_colluding: dict[int, float]
    first: int | None = None  #: of the windows that were merged, if any were
    #: of a verified task: `report_ids` are those that were accepted of what it is of
    judgement: Judgement | None = field(default=None, repr=False)

    @property
    def root(self) -> bytes:
        """Return the cohort's Merkle root."""
        return self.report_ids.root

    @property
    def num_clients(self) -> int:
        """Return n."""
        return len(self.report_ids)


@dataclass(frozen=True)
class Reconstruction:
    """The released integers of shape `(m, w/c)`, and what they rest on."""

    cohort: FrozenCohort
    records: tuple[SketchShareRecord, ...]
    sketch: IntArray = field(repr=False)


def compare_lists(inventories: Sequence[Inventory], read: Callable[[int], ReportIds]) -> ComparedLists:
    """Check every list against the inventory that signed it, and compare them; equal ones are read once.

    `inventories` are in server order; `read` returns a server's list. Raises InventoryMismatchError if a list is not
    the one its server signed.
    """
    compared: ComparedLists | None = None
    first_with: dict[str, int] = {}
    for number, inventory in enumerate(inventories):
        if compared is not None and inventory.root in first_with:
            # A root stands for one list; that it is of this length was checked with the first.
            if inventory.count != inventories[first_with[inventory.root]].count:
                raise InventoryMismatchError(f"the list of server {number} is not the one it signed")
            compared.repeat(first_with[inventory.root])
            continue
        first_with[inventory.root] = number
        report_ids = read(number)
        verify_list(inventory, report_ids)
        if compared is None:
            compared = ComparedLists(report_ids)
        else:
            compared.add(report_ids)
    if compared is None:
        raise InventoryMismatchError("there is no list")
    return compared


def common_reports(task: Task, inventories: Sequence[Inventory], lists: ComparedLists) -> ReportIds:
    """Compute the cohort as every server will, and refuse what they would refuse (R7, R9)."""
    cohort = lists.common()
    for inventory in inventories:
        check_cohort(task, len(cohort), inventory.count)
    return cohort


def verify_frozen(
    task: Task,
    batch: int,
    inventories: Sequence[Signed[Inventory]],
    report_ids: ReportIds,
    cohorts: Sequence[Signed[Cohort]],
) -> FrozenCohort:
    """Check that what the servers froze is what follows from their own inventories, and derive the seed (R7 to R9).

    `report_ids` are what they have in common (see `common_reports`). Raises CohortConflictError if the servers agree
    with each other but not with their inventories; LintraError if the rules refuse it.
    """
    agreed = verify_cohorts(task, batch, cohorts, inventories)
    require_frozen(agreed, report_ids)
    nonces = [parse_base64url(signed.message.nonce) for signed in cohorts]
    return _drawn(task, batch, report_ids, nonces, inventories[0].message.first)


def verify_judged(judgement: Judgement, verdicts: Sequence[Signed[Verdict]]) -> FrozenCohort:
    """Check that every server came to the verdict that was found here, and derive the seed (R8 to R10, R15).

    `judgement` is what follows from all check shares. Raises ChecksMismatchError if a server came to another one, or
    revealed another nonce; LintraError if the rules or the verdict refuse it.
    """
    frozen, nonces = judgement.frozen, judgement.verified(verdicts)
    first = frozen.inventories[0].message.first
    return replace(_drawn(frozen.task, frozen.batch, judgement.accepted, nonces, first), judgement=judgement)


def _drawn(task: Task, batch: int, report_ids: ReportIds, nonces: Sequence[bytes], first: int | None) -> FrozenCohort:
    drawn = draw_matrix(task, batch, report_ids.root, nonces, len(report_ids), first, shows_coalitions=True)
    colluding = released_epsilons_if_colluding(task.measurement, task.claim, drawn.matrix, task.shares_seen)
    return FrozenCohort(report_ids, drawn.seed, drawn.privacy, drawn.matrix.row_counts(), colluding, first)


def open_sketch_share(
    task: Task, batch: int, server: int, answer: bytes, cohort: FrozenCohort, sealing_key: SealingKey
) -> tuple[SketchShareRecord, RingArray]:
    """Check one server's answer against the cohort, and open it (R11).

    Returns:
        The server's record, and its share of shape `(m, w/c)`.

    Raises:
        InvalidReleaseError: of another task, cohort, seed or shape, or not the bytes that the server signed for.
    """
    try:
        document, sealed = wire.decode_sealed_document(answer)
        signed = Signed[SketchShareRecord].from_canonical(document)
        record = signed.verified(task.servers[server].identity_key)
        _require_record(task, batch, server, record, cohort, sealed)
        context = aggregate_context(task, batch, server, cohort.root, cohort.seed, cohort.first)
        plaintext = sealing_key.open(sealed, context)
    except InvalidReleaseError:
        raise
    except LintraError as error:
        raise InvalidReleaseError(f"the sketch share of server {server}: {error}") from None
    if len(plaintext) != 8 * record.rows * record.words:
        raise InvalidReleaseError(f"the sketch share of server {server} has {len(plaintext)} bytes")
    return record, ring_from_bytes(plaintext).reshape(record.rows, record.words)


def _require_record(
    task: Task, batch: int, server: int, record: SketchShareRecord, cohort: FrozenCohort, sealed: bytes
) -> None:
    expected = SketchShareRecord(
        task_id=task.task_id,
        batch=batch,
        server=server,
        cohort_root=base64url(cohort.root),
        num_clients=cohort.num_clients,
        seed=base64url(cohort.seed),
        rows=task.mechanism.num_rows,
        words=task.sketch_words,
        remembered=record.remembered,
        sealed=base64url(domain_hash("sealed sketch share", sealed)),
    )
    if record == expected:
        check_remembered(task, batch, record.remembered)
        return
    differing = [name for name, value in expected if getattr(record, name) != value]
    raise InvalidReleaseError(f"the sketch share of server {server} differs in {', '.join(differing)}")


def reconstruct(
    task: Task, batch: int, answers: Sequence[bytes], cohort: FrozenCohort, sealing_key: SealingKey
) -> Reconstruction:
    """Open all N sketch shares and add them up.

    `answers` are one of each server, in server order; `cohort` is that of `verify_frozen`. `sealing_key` is the
    analyzer's, of the task's suite. Raises InvalidReleaseError if a share is missing or not what it must be.
    """
    if len(answers) != task.num_servers:
        raise InvalidReleaseError(f"{len(answers)} of {task.num_servers} sketch shares")
    opened = [
        open_sketch_share(task, batch, index, answer, cohort, sealing_key) for index, answer in enumerate(answers)
    ]
    sketch = from_ring(combine(np.stack([share for _, share in opened])))
    return Reconstruction(cohort, tuple(record for record, _ in opened), sketch)
