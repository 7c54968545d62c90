"""The gate's refusals of requests that a batch cannot answer, or answers for others only."""

from collections.abc import Sequence
from typing import NoReturn

from lintra_protocol.errors import (
    AlreadyReleasedError,
    BatchClosedError,
    BatchOpenError,
    CohortConflictError,
    InvalidMessageError,
    LintraError,
    UnknownResourceError,
)
from lintra_protocol.messages.documents import Cohort, Signed
from lintra_server.batches.registry import RegisteredBatch
from lintra_server.storage.store import Batch


def not_open(batch: Batch) -> LintraError:
    """Return why a batch cannot be closed, though its inventory was never given out."""
    if batch.state in ("open", "closing"):
        return BatchClosedError("a window that is to be merged is not open any more; nothing was closed")
    return lost(batch, "inventory")


def lost(batch: Batch, what: str) -> LintraError:
    """Return why a document of a batch that is past it cannot be given out, and is never made again."""
    return UnknownResourceError(f"the batch is {batch.state}, and a restore lost its {what}")


def same_request(batch: Batch, request_hash: bytes) -> bytes:
    """Return what was released, if it was for this request; raise AlreadyReleasedError if it was for another one."""
    if batch.request_hash != request_hash or batch.aggregate is None:
        raise AlreadyReleasedError("it was released for another request")
    return batch.aggregate


def not_yet(batch: Batch, what: str) -> NoReturn:
    """Refuse to give out a document of a batch that does not have it.

    Raises BatchOpenError if it may have it later; UnknownResourceError if it never will.
    """
    if batch.state in ("open", "closing"):
        raise BatchOpenError(f"its {what} does not exist yet")
    if batch.state in ("released", "scrubbed"):
        raise lost(batch, what)
    raise UnknownResourceError(f"the batch is {batch.state}, its {what} does not exist yet")


def require_own(held: RegisteredBatch, cohorts: Sequence[Signed[Cohort]], frozen: bytes) -> None:
    """Check that one cohort of each server is shown, and this server's own is the one that it gave out.

    Raises InvalidMessageError if there is not one for each server; CohortConflictError if it is another.
    """
    if len(cohorts) != held.task.num_servers:
        raise InvalidMessageError(f"expected {held.task.num_servers} cohorts, got {len(cohorts)}")
    if cohorts[held.server].canonical() != frozen:
        raise CohortConflictError("this server froze another cohort")


def same_windows(batch: Batch, first: int | None) -> bytes:
    """Return the inventory of a batch that was closed, if it was closed with the windows that somebody asks for.

    Raises CohortConflictError if it was closed with others.
    """
    if batch.first != first or batch.inventory is None:
        raise CohortConflictError("the batch was closed with other windows")
    return batch.inventory
