"""A report: one client's row, encoded, shared and committed to; and how a server opens its part.

Commitments are blinded: without the blind, N-1 colluding servers could test guesses of a row against the last
server's commitment.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import IntArray, RingArray, ring_bytes, ring_from_bytes, to_ring
from lintra_protocol.crypto.sealing import SealingKey, seal
from lintra_protocol.crypto.sharing import expand_share, expand_spread, split, split_bytes, split_seeded, split_spread
from lintra_protocol.encoding.canonical import ByteRows, separate
from lintra_protocol.errors import CommitmentMismatchError, InvalidMessageError, LintraError
from lintra_protocol.report.upload import SealedBlock
from lintra_protocol.report.wire import (
    BLIND_BYTES,
    FULL,
    PROVEN_SEED,
    SPREAD,
    START_BYTES,
    block_context,
    commitment_to,
    commitments_to,
    encode_headers,
    header_start,
    payload_bytes,
    report_id,
    report_ids_of,
    share_bytes,
    share_form,
)
from lintra_protocol.task import Task
from lintra_protocol.verification.checks import check_shares, check_shares_of_seeds
from lintra_protocol.verification.points import Points
from lintra_protocol.verification.proof import prove
from lintra_protocol.verification.shares import (
    malformed,
    ring_words,
    ring_words_of_seeds,
    split_proven,
    split_proven_seeded,
)


@dataclass(frozen=True)
class Report:
    """One client's report before it is sealed; `repr` shows the identifier only."""

    report_id: bytes  #: 32 bytes
    header: bytes = field(repr=False)  #: the encoded public header
    shares: tuple[bytes, ...] = field(repr=False)  #: for each server the plaintext blind, form, payload


def make_report(task: Task, noised: IntArray, time: int, random_bytes: RandomBytes) -> Report:
    """Share an encoded row and commit to every share.

    `noised` is one row of `task.encode`, shape `(w,)`; `time` is in the task's units.
    """
    return make_reports(task, noised[np.newaxis], time, random_bytes)[0]


def make_reports(task: Task, noised: IntArray, time: int, random_bytes: RandomBytes) -> list[Report]:
    """Share encoded rows, shape `(k, w)`, and commit to every share.

    Randomness is read for proofs if there are any, then for all shares, then for the commitments' blinds.
    """
    if len(noised) == 1 and task.verified is None and task.share_form == "uniform":
        return [_one_report(task, split_bytes(to_ring(noised[0]), task.num_servers, random_bytes), time, random_bytes)]
    return reports_of(task, _payloads(task, noised, random_bytes), time, random_bytes)


def _one_report(task: Task, payloads: Sequence[bytes], time: int, random_bytes: RandomBytes) -> Report:
    """Return what `reports_of` returns of one report, whose arrays would cost more than their work."""
    servers = range(task.num_servers)
    blinds = random_bytes(BLIND_BYTES * task.num_servers)
    shares = [
        blinds[BLIND_BYTES * j : BLIND_BYTES * (j + 1)] + share_form(task, j) + payload
        for j, payload in zip(servers, payloads, strict=True)
    ]
    commitments = [commitment_to(task.id_bytes, j, share) for j, share in zip(servers, shares, strict=True)]
    (header,) = encode_headers(task.id_bytes, time, [commitments])
    return Report(report_id(header), header, tuple(shares))


def reports_of(task: Task, payloads: Sequence[ByteRows], time: int, random_bytes: RandomBytes) -> list[Report]:
    """Commit to payloads as they are, whatever row they share.

    `payloads` are those of each server, each of shape `(k, payload_bytes)`; `time` is in the task's units.
    """
    count, servers = len(payloads[0]), range(task.num_servers)
    blinds = np.frombuffer(random_bytes(BLIND_BYTES * count * task.num_servers), np.uint8)
    of_server = blinds.reshape(task.num_servers, count, BLIND_BYTES)
    forms = [np.full((count, 1), share_form(task, server)[0], np.uint8) for server in servers]
    shares = [np.concatenate((of_server[j], forms[j], payloads[j]), axis=1) for j in servers]
    commitments = zip(*(commitments_to(task.id_bytes, j, shares[j]) for j in servers), strict=True)
    headers = encode_headers(task.id_bytes, time, commitments)
    texts = zip(*([row.tobytes() for row in share] for share in shares), strict=True)
    return [Report(*each) for each in zip(report_ids_of(headers), headers, texts, strict=True)]


def seal_block(
    task: Task, server: int, key_id: bytes, public_key: bytes, reports: Sequence[Report], passes: Sequence[bytes] = ()
) -> SealedBlock:
    """Seal one server's shares of some reports to that server's key, in one message.

    `task` is that of the reports, at most `block_capacity` of them; `reports` are those of one task. `passes` are what
    the server receives of each report's token, in a task that has tokens.
    """
    headers = tuple([report.header for report in reports])
    info = block_context(task.id_bytes, server, key_id, headers)
    sealed = seal(b"".join([report.shares[server] for report in reports]), task.suite, public_key, info)
    return SealedBlock(headers, key_id, sealed, tuple(passes), tuple([report.report_id for report in reports]))


def open_block(
    task: Task, server: int, block: SealedBlock, find_key: Callable[[bytes], SealingKey]
) -> list[bytes | LintraError]:
    """Open a block at one server, and check each of its reports: commitment and form.

    `task` is the task it was sent to; `server` is this server's index. `find_key` returns the private key with an
    identifier, or raises `OutdatedKeyError`.

    Returns:
        For each report its payload, to be given to `share_words`, or why it is refused: `CommitmentMismatchError` if
        the share is not the one that the header commits to, `InvalidMessageError` if it has another form, or numbers
        that no share of a verified report has.

    Raises:
        InvalidMessageError: a block of another task or format, or of another length.
        OutdatedKeyError: see `find_key`.
        DecryptFailedError: sealed to another key or context.
    """
    if block.headers[0][:START_BYTES] != header_start(task.id_bytes):
        raise InvalidMessageError("the block belongs to another task, or to another version of the format")
    info = block_context(task.id_bytes, server, block.key_id, block.headers)
    plaintext = find_key(block.key_id).open(block.sealed, info)
    size = share_bytes(task, server)
    if len(plaintext) != size * len(block.headers):
        raise InvalidMessageError(f"{len(block.headers)} shares of this task take {size} bytes each")
    form, forms = share_form(task, server), plaintext[BLIND_BYTES::size]
    out_of_range = _malformed(task, server, plaintext, size)
    computed, payloads = _commitments_and_payloads(task, server, plaintext, size)
    committed = block.commitments(server)
    opened: list[bytes | LintraError] = [*payloads]
    if computed == committed and forms == form * len(forms) and True not in out_of_range:
        return opened
    wrong, other = CommitmentMismatchError(), InvalidMessageError(f"the task's shares are {task.share_form}")
    for place, each in enumerate(committed):
        if computed[place] != each:
            opened[place] = wrong
        elif forms[place] != form[0]:
            opened[place] = other
        elif out_of_range[place]:
            opened[place] = InvalidMessageError("a number in the share is out of range")
    return opened


def _commitments_and_payloads(task: Task, server: int, shares: bytes, size: int) -> tuple[list[bytes], list[bytes]]:
    """Return the commitments to shares of one size, joined, and what they hold behind blind and form."""
    if len(shares) == size:
        return [commitment_to(task.id_bytes, server, shares)], [shares[BLIND_BYTES + 1 :]]
    rows: ByteRows = np.frombuffer(shares, np.uint8).reshape(-1, size)
    return commitments_to(task.id_bytes, server, rows), separate(rows[:, BLIND_BYTES + 1 :])


def share_words(task: Task, server: int, payload: bytes | memoryview) -> RingArray:
    """Return the ring words, shape `(w,)`, of one stored payload."""
    words: RingArray = shares_words(task, server, payload)[0]
    return words


def shares_words(task: Task, server: int, payloads: bytes | memoryview) -> RingArray:
    """Return the ring words, shape `(k, w)`, of stored payloads that stand one after the other."""
    if task.verified is not None:
        stored = np.frombuffer(payloads, np.uint8).reshape(-1, payload_bytes(task, server))
        seeded = share_form(task, server) == PROVEN_SEED
        return ring_words_of_seeds(task.verified, stored) if seeded else ring_words(task.verified, stored)
    if share_form(task, server) == FULL:
        return ring_from_bytes(payloads).reshape(-1, task.num_words)
    size, words = payload_bytes(task, server), task.num_words
    each = [bytes(payloads[at : at + size]) for at in range(0, len(payloads), size)]
    if share_form(task, server) == SPREAD:
        expanded = [expand_spread(payload, server, task.num_servers, words) for payload in each]
    else:
        expanded = [expand_share(seed, words) for seed in each]
    return np.stack(expanded) if expanded else np.zeros((0, task.num_words), np.uint64)


def checks_of(task: Task, server: int, payloads: bytes | memoryview, points: Points) -> ByteRows:
    """Return one server's check shares of stored payloads that stand one after the other, shape `(k, check_bytes)`.

    Each is a function of its own payload and the points, so that any cut into blocks gives the same bytes. Raises
    ValueError if the task's reports are not verified, or a point does not hide the rows (see `check_shares`).
    """
    if task.verified is None:
        raise ValueError("reports of this task carry no proofs")
    stored = np.frombuffer(payloads, np.uint8).reshape(-1, payload_bytes(task, server))
    compute = check_shares_of_seeds if share_form(task, server) == PROVEN_SEED else check_shares
    return compute(task.verified, server, stored, points)


def _malformed(task: Task, server: int, shares: bytes, size: int) -> list[bool]:
    """Say of each share that arrived whether a number in it is out of range; without proofs there is no range."""
    if task.verified is None or share_form(task, server) == PROVEN_SEED:
        return [False] * (len(shares) // size)
    payloads = np.frombuffer(shares, np.uint8).reshape(-1, size)[:, BLIND_BYTES + 1 :]
    wrong: list[bool] = malformed(task.verified, server, payloads).tolist()
    return wrong


def _payloads(task: Task, noised: IntArray, random_bytes: RandomBytes) -> list[ByteRows]:
    """Return each server's payloads of some rows, shape `(k, payload_bytes)`."""
    if task.verified is not None:
        proven = prove(task.verified, noised, random_bytes)
        if task.share_form == "seeded":
            seeds, last = split_proven_seeded(task.verified, proven, random_bytes)
            return [*seeds, last]
        return split_proven(task.verified, proven, random_bytes)
    secrets, count = to_ring(noised), len(noised)
    if task.share_form == "seeded":
        apart = [split_seeded(secret, task.num_servers, random_bytes) for secret in secrets]
        data = [b"".join(seeds[server] for seeds, _ in apart) for server in range(task.num_servers - 1)]
        data.append(b"".join(ring_bytes(last) for _, last in apart))
    elif task.share_form == "spread":
        spread = [split_spread(secret, task.num_servers, random_bytes) for secret in secrets]
        data = [
            b"".join(seeds[server] + ring_bytes(parts[server]) for seeds, parts in spread)
            for server in range(task.num_servers)
        ]
    else:
        data = [ring_bytes(share) for share in split(secrets, task.num_servers, random_bytes)]
    return [
        np.frombuffer(each, np.uint8).reshape(count, payload_bytes(task, server)) for server, each in enumerate(data)
    ]
