"""A report: one client's row, encoded, shared and committed to; and how a server opens its part.

Commitments are blinded: without the blind, N-1 colluding servers could test guesses of a row against the last
server's commitment.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from lintra_protocol.errors import CommitmentMismatchError, InvalidMessageError
from lintra_protocol.randomness import RandomBytes
from lintra_protocol.ring import IntArray, RingArray, ring_bytes, ring_from_bytes, to_ring
from lintra_protocol.sealing import SealingKey, SuiteName, seal
from lintra_protocol.sharing import expand_share, split, split_seeded
from lintra_protocol.task import Task
from lintra_protocol.wire import (
    BLIND_BYTES,
    SEED,
    Header,
    SealedReport,
    commitment,
    decode_header,
    payload_bytes,
    report_id,
    share_context,
    share_form,
)


@dataclass(frozen=True)
class Report:
    """One client's report before it is sealed; `repr` shows the identifier only.

    Attributes:
        report_id: 32 bytes.
        header: the encoded public header.
        shares: for each server the plaintext blind, form, payload.
    """

    report_id: bytes
    header: bytes = field(repr=False)
    shares: tuple[bytes, ...] = field(repr=False)

    def sealed_to(
        self, server: int, suite: SuiteName, key_id: bytes, public_key: bytes, task_id: bytes
    ) -> SealedReport:
        """Seal one server's share to that server's key."""
        info = share_context(task_id, server, self.header)
        return SealedReport(self.header, key_id, seal(self.shares[server], suite, public_key, info))


def make_report(task: Task, noised: IntArray, time: int, random_bytes: RandomBytes) -> Report:
    """Share an encoded row and commit to every share.

    Args:
        task: a checked task.
        noised: one row of `task.encode`, shape `(w,)`.
        time: in the task's units.
        random_bytes: a cryptographic source, for shares and blinds.
    """
    payloads = _payloads(task, to_ring(noised), random_bytes)
    shares = tuple(
        random_bytes(BLIND_BYTES) + share_form(task, server) + payload for server, payload in enumerate(payloads)
    )
    commitments = tuple(commitment(task.id_bytes, server, share) for server, share in enumerate(shares))
    header = Header(task.id_bytes, time, commitments).encode()
    return Report(report_id(header), header, shares)


def open_share(
    task: Task, server: int, sealed: SealedReport, find_key: Callable[[bytes], SealingKey]
) -> tuple[bytes, int, bytes]:
    """Open and check one sealed report at one server: context, commitment, length and form.

    Args:
        task: the task it was sent to.
        server: this server's index.
        sealed: what arrived.
        find_key: returns the private key with an identifier, or raises `OutdatedKeyError`.

    Returns:
        The report identifier, the report's time and the share's payload, to be given to `share_words`.

    Raises:
        InvalidMessageError: a header of another task or format, a share of another form or length.
        DecryptFailedError: sealed to another key or context.
        CommitmentMismatchError: the share is not the one that the header commits to.
    """
    header = decode_header(sealed.header, task.num_servers)
    if header.task_id != task.id_bytes:
        raise InvalidMessageError("the report belongs to another task")
    share = find_key(sealed.key_id).open(sealed.sealed, share_context(task.id_bytes, server, sealed.header))
    if commitment(task.id_bytes, server, share) != header.commitments[server]:
        raise CommitmentMismatchError
    form, payload = share[BLIND_BYTES : BLIND_BYTES + 1], share[BLIND_BYTES + 1 :]
    if form != share_form(task, server) or len(payload) != payload_bytes(task, server):
        raise InvalidMessageError(f"the task's shares are {task.share_form}")
    return report_id(sealed.header), header.time, payload


def share_words(task: Task, server: int, payload: bytes | memoryview) -> RingArray:
    """Return the ring words, shape `(w,)`, of one stored payload."""
    if share_form(task, server) == SEED:
        return expand_share(bytes(payload), task.num_words)
    return ring_from_bytes(payload)


def _payloads(task: Task, secret: RingArray, random_bytes: RandomBytes) -> list[bytes]:
    if task.share_form == "seeded":
        seeds, last = split_seeded(secret, task.num_servers, random_bytes)
        return [*seeds, ring_bytes(last)]
    return [ring_bytes(share) for share in split(secret, task.num_servers, random_bytes)]
