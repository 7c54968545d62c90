"""The rules of a release that every party computes alike: the cohort, the late seed, and the privacy of the result.

Rule numbers are those of docs/reference/protocol-rules.md#rules. A rule that fails raises; nothing here returns a
boolean.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import floor

import numpy as np

from lintra_protocol.cohort.differences import ListDifference
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.canonical import base64url, domain_hash, framed, parse_base64url
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import (
    CohortConflictError,
    CohortTooSmallError,
    FalseClaimError,
    InvalidMessageError,
    InvalidTaskError,
    InventoryMismatchError,
    LintraError,
    NonceMismatchError,
    RowUnderfilledError,
    TooManyMissingError,
)
from lintra_protocol.mechanisms.base import LOG_MAX_WRAP
from lintra_protocol.mechanisms.osnap import SEED_ATTEMPTS
from lintra_protocol.messages.documents import (
    Census,
    Cohort,
    CohortRequest,
    Difference,
    DifferenceInPieces,
    Inventory,
    Signed,
    batch_parts,
    inventories_hash,
    nonce_commitment,
)
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix


def verify_inventories(task: Task, batch: int, inventories: Sequence[Signed[Inventory]]) -> list[Inventory]:
    """Check one signed inventory of every server, in server order (R6).

    Raises:
        InvalidMessageError: not one for each server, or they merge windows that the task does not merge.
        InventoryMismatchError: of another task, batch or server, or not of the same windows.
        UnauthorizedError: a signature is not by that server.
    """
    if len(inventories) != task.num_servers:
        raise InvalidMessageError(f"expected {task.num_servers} inventories, got {len(inventories)}")
    messages = [signed.verified(entry.identity_key) for signed, entry in zip(inventories, task.servers, strict=True)]
    for index, message in enumerate(messages):
        if (message.task_id, message.batch, message.server) != (task.task_id, batch, index):
            raise InventoryMismatchError(f"inventory {index} is of another task, batch or server")
        if (message.matrix_nonce_commitment is None) != (task.verified is None):
            raise InventoryMismatchError(f"inventory {index} does not commit to the nonces that this task needs")
        if message.first != messages[0].first:
            raise InventoryMismatchError(f"server {index} did not merge the windows that server 0 merged")
    task.group(batch, messages[0].first)
    return messages


def verify_list(inventory: Inventory, report_ids: ReportIds) -> None:
    """Check that a list of identifiers is the one an inventory describes (R7).

    Raises InventoryMismatchError if it has another count or root.
    """
    if inventory.count != len(report_ids) or inventory.root != base64url(report_ids.root):
        raise InventoryMismatchError(f"the list of server {inventory.server} is not the one it signed")


ReadPieces = Callable[[DifferenceInPieces], ListDifference]
"""Returns a difference whose pieces came before."""


def no_pieces(difference: DifferenceInPieces) -> ListDifference:
    """Refuse a difference in pieces: none came before.

    Raises:
        InvalidMessageError: always.
    """
    raise InvalidMessageError(f"no pieces of the list of server {difference.server} were sent")


def missing_elsewhere(
    task: Task,
    server: int,
    request: CohortRequest,
    inventories: Sequence[Inventory],
    own: ReportIds,
    read: ReadPieces = no_pieces,
) -> IntArray:
    """Check every list against the inventory that signed it; return where in one's own stands what others lack (R7).

    The lists of the others are rebuilt from one's own, one after the other: of each are kept the positions only.

    Args:
        task: the task.
        server: this server's index.
        request: with the differences to this server's list.
        inventories: of `verify_inventories`.
        own: this server's list.
        read: gives the differences that came in pieces.

    Returns:
        Ascending positions in `own`, shape `(k,)`; the cohort is all others.

    Raises:
        InvalidMessageError: not one difference for each other server, or it is not spelled as it must be.
        InventoryMismatchError: a list is not the one its server signed.
    """
    others = [other for other in range(task.num_servers) if other != server]
    if [difference.server for difference in request.differences] != others:
        raise InvalidMessageError(f"expected one difference for each of the servers {others}, in this order")
    verify_list(inventories[server], own)
    missing = np.zeros(0, np.int64)
    for sent in request.differences:
        difference = sent.parsed() if isinstance(sent, Difference) else read(sent)
        verify_list(inventories[sent.server], difference.rebuild(own))
        missing = np.union1d(missing, difference.missing)
    return missing


def verify_census(
    task: Task, census: Signed[Census], counted_ids: ReportIds, inventory: Signed[Inventory], held_ids: ReportIds
) -> int:
    """Check that a server's inventory holds all reports of a census that it signed while the batch was open.

    A server that began again in between may have been restored from a copy that lacked them, so its census binds it no
    longer: whoever asks is told how many reports are gone, and says so. So it is with one whose inventory says that
    reports were lost, for as many as it says.

    Args:
        task: the task.
        census: signed by the same server as `inventory`.
        counted_ids: the list that the census describes.
        inventory: of that server.
        held_ids: the list that the inventory describes.

    Returns:
        How many reports are gone since the census, which was taken under another start number, or that the inventory
        calls lost; 0 without either.

    Raises:
        InventoryMismatchError: a list is not the one that was signed; or more reports are gone under the same start
            number than were lost, which the two signatures prove to anybody: a server that runs on never forgets a
            report of an open batch.
    """
    key = task.servers[inventory.message.server].identity_key
    counted, held = census.verified(key), inventory.verified(key)
    if (counted.task_id, counted.batch, counted.server) != (held.task_id, held.batch, held.server):
        raise InventoryMismatchError(f"the census is not one of server {held.server} for this batch")
    if counted.count != len(counted_ids) or counted.root != base64url(counted_ids.root):
        raise InventoryMismatchError(f"the census of server {held.server} is not of this list")
    verify_list(held, held_ids)
    gone = int((~counted_ids.among(held_ids)).sum())
    if gone > held.lost and counted.start == held.start:
        raise InventoryMismatchError(
            f"server {held.server} signed for {gone} reports in its census that are not in its inventory"
        )
    return gone


def check_cohort(task: Task, num_clients: int, num_own: int) -> PrivacyStatement:
    """Decide from public numbers alone whether a cohort may be frozen, and state the privacy to expect (R9).

    Args:
        task: a checked task.
        num_clients: size of the intersection of all inventories.
        num_own: how many reports this server holds.

    Raises:
        CohortTooSmallError: fewer reports than the claim's minimum; the detail says how many are missing.
        InvalidTaskError: more reports than the task has ring headroom for.
        TooManyMissingError: the task has tokens, and more than `max_missing` of this server's own reports are missing
            elsewhere.
        RowUnderfilledError: a row of the sketch has too few honest clients.
        FalseClaimError: the actual cohort does not give the promised privacy.
    """
    # A cohort may be released only if
    #   (1) it has at least the minimum the claim was calibrated for, of a verified task after all that may be rejected;
    least = task.least_accepted(num_clients)
    if least < task.claim.min_clients:
        beyond = "" if least == num_clients else f", {num_clients - least} of which may be rejected"
        raise CohortTooSmallError(
            f"{num_clients} of at least {fewest_reports(task)} reports are at every server{beyond}; "
            f"{fewest_reports(task) - num_clients} more are needed"
        )
    #   (2) its sums cannot leave the ring;
    log_wrap = task.measurement.log_wrap_probability(num_clients)
    if num_clients > task.max_clients or log_wrap > LOG_MAX_WRAP:
        raise InvalidTaskError(f"{num_clients} reports exceed the task's maximum of {task.max_clients}")
    #   (3) no other server lost, or pretends to have lost, too many of the reports held here. Without tokens anybody
    #       could send reports to one server only until this refuses for good, so there they are only left out;
    allowed = floor(fraction(task.max_missing) * num_own) if task.uses_tokens else num_own
    if num_own - num_clients > allowed:
        raise TooManyMissingError(
            f"{num_own - num_clients} of {num_own} reports held here are missing elsewhere; at most {allowed} may be"
        )
    #   (4) its privacy is at least what the task promises: exact, or as planned where rows overlap (`draw_matrix`).
    statement = task.privacy(least)
    statement.require(task.claim)
    return statement


def fewest_reports(task: Task) -> int:
    """Return how many reports a batch needs to be closed, and a cohort to be frozen (R5, R9).

    It is the task's minimum; of a verified task so many that the minimum is left if as many as may be are rejected.
    """
    fewest = task.claim.min_clients
    while (short := task.claim.min_clients - task.least_accepted(fewest)) > 0:
        fewest += short
    return fewest


@dataclass(frozen=True)
class ReleaseMatrix:
    """The public matrix of a release, the seed it comes from, and the privacy that this very matrix gives."""

    seed: bytes
    matrix: PublicMatrix = field(repr=False)
    privacy: PrivacyStatement


def draw_matrix(
    task: Task,
    batch: int,
    cohort_root: bytes,
    nonces: Sequence[bytes],
    num_clients: int,
    first: int | None = None,
    *,
    shows_coalitions: bool = False,
) -> ReleaseMatrix:
    """Draw public matrices until one of them keeps the promise, and state its exact privacy (R8, R9).

    Every party finds the same matrix. Where rows do not overlap all matrices are equally good, and the first is used.

    Args:
        task: a checked task.
        batch: which of its batches is released.
        cohort_root: Merkle root of the frozen cohort.
        nonces: one from each server, in server order.
        num_clients: size of the cohort.
        first: of the windows that were merged into the batch, if they were.
        shows_coalitions: whether the matrix will be asked about coalitions that the claim does not speak of.

    Raises:
        RowUnderfilledError: none of `SEED_ATTEMPTS` matrices keeps the promise; the detail says why the last did not.
    """
    failed: LintraError | None = None
    for attempt in range(SEED_ATTEMPTS):
        seed = late_seed(task, batch, cohort_root, nonces, attempt, first)
        matrix = task.mechanism.public_matrix(num_clients, seed)
        matrix.shows_coalitions = shows_coalitions
        try:
            privacy = task.release_privacy(matrix)
            privacy.require(task.claim)
        except (RowUnderfilledError, FalseClaimError) as error:
            failed = error
            continue
        return ReleaseMatrix(seed, matrix, privacy)
    raise RowUnderfilledError(f"none of {SEED_ATTEMPTS} matrices keeps the promise; of the last: {failed}")


def verify_cohorts(
    task: Task, batch: int, cohorts: Sequence[Signed[Cohort]], inventories: Sequence[Signed[Inventory]]
) -> Cohort:
    """Check that all N servers froze the same cohort from the same inventories and revealed their nonces (R8, R10).

    Returns:
        Server 0's cohort; the others differ from it in server and nonce only.

    Raises:
        InvalidMessageError: not one for each server.
        UnauthorizedError: a signature is not by that server.
        CohortConflictError: they do not agree.
        NonceMismatchError: a nonce is not the one its inventory committed to.
    """
    if len(cohorts) != task.num_servers:
        raise InvalidMessageError(f"expected {task.num_servers} cohorts, got {len(cohorts)}")
    messages = [signed.verified(entry.identity_key) for signed, entry in zip(cohorts, task.servers, strict=True)]
    agreed = (task.task_id, batch, inventories_hash(tuple(inventories)), messages[0].root, messages[0].count)
    for index, (cohort, inventory) in enumerate(zip(messages, inventories, strict=True)):
        if cohort.server != index or agreed != (
            cohort.task_id,
            cohort.batch,
            cohort.inventories,
            cohort.root,
            cohort.count,
        ):
            raise CohortConflictError(f"server {index} froze another cohort than server 0")
        if (
            base64url(nonce_commitment(task, batch, parse_base64url(cohort.nonce), inventory.message.first))
            != inventory.message.nonce_commitment
        ):
            raise NonceMismatchError(f"server {index}")
    return messages[0]


def late_seed(
    task: Task, batch: int, cohort_root: bytes, nonces: Sequence[bytes], attempt: int = 0, first: int | None = None
) -> bytes:
    """Return a 32-byte seed of the public matrix, which nobody could know before the cohort was frozen (R8).

    Args:
        task: the task.
        batch: which of its batches is released.
        cohort_root: Merkle root of the frozen cohort.
        nonces: one from each server, in server order; a single honest one makes the seed unpredictable.
        attempt: how many matrices were drawn before and did not keep the promise.
        first: of the windows that were merged into the batch, if they were.
    """
    numbers, tried = batch_parts(batch, first), attempt.to_bytes(1, "big")
    return domain_hash("seed", task.id_bytes, *numbers, cohort_root, *nonces, tried)


def check_seed(task: Task, batch: int, cohort_root: bytes, nonces: Sequence[bytes], first: int | None = None) -> bytes:
    """Return the 32-byte seed of the check points, which nobody could know before the cohort was frozen (R14).

    Args:
        task: the task.
        batch: which of its batches is checked.
        cohort_root: Merkle root of the frozen cohort.
        nonces: one from each server, in server order; a single honest one makes the seed unpredictable.
        first: of the windows that were merged into the batch, if they were.
    """
    return domain_hash("check seed", task.id_bytes, *batch_parts(batch, first), cohort_root, *nonces)


def aggregate_context(
    task: Task, batch: int, server: int, cohort_root: bytes, seed: bytes, first: int | None = None
) -> bytes:
    """Return the parts that a sealed sketch share is bound to, framed (R11); with windows the batch is one of them."""
    numbers = () if task.windows is None else batch_parts(batch, first)
    return framed("aggregate", task.id_bytes, server.to_bytes(2, "big"), cohort_root, seed, *numbers)


def check_remembered(task: Task, batch: int, remembered: Sequence[int] | None) -> None:
    """Check which windows' memory a server says that it used: earlier ones, each once, in a stream only (R-S5).

    Raises:
        InvalidMessageError: none of a stream, some of another task, or windows that cannot have entered.
    """
    if (task.stream is None) != (remembered is None):
        raise InvalidMessageError("the windows whose remembered noise entered are named in a stream, and nowhere else")
    if task.stream is None or remembered is None:
        return
    possible = set(task.stream.remembered_by(batch))
    if list(remembered) != sorted(set(remembered)) or not possible.issuperset(remembered):
        raise InvalidMessageError(f"windows {list(remembered)} cannot have entered window {batch}, in this order")
