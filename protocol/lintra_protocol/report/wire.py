"""The binary formats of the data plane: headers, commitments and shares of reports, and sketch shares.

Framing is fixed by the task: big-endian lengths, little-endian ring words, no optional fields, no trailing bytes.
Sizes are checked before anything is allocated.
"""

import struct
from collections.abc import Iterable, Sequence
from hashlib import sha256

from lintra_protocol.crypto.sharing import SEED_BYTES, part_of
from lintra_protocol.encoding.canonical import HASH_BYTES, ByteRows, domain_hash, domain_hashes, framed
from lintra_protocol.errors import InvalidMessageError
from lintra_protocol.task import Task

KEY_ID_BYTES = 8
BLIND_BYTES = 32
TIME_BYTES = 8

START_BYTES = 3 + HASH_BYTES
"""What all headers of a task begin with: the format, its version and the task's identifier."""

_MAGIC = b"LR\x01"
_LENGTH = struct.Struct(">I")
EXTENSIONS = b"\x00\x00"

FULL, SEED = b"\x00", b"\x01"
"""The form byte of an input share: all its ring words, or the seed they expand from."""

SPREAD = b"\x04"
"""The form byte of a share that is a seed and the ring words of one part (`sharing.part_of`)."""

PROVEN, PROVEN_SEED = b"\x02", b"\x03"
"""The form byte of a share of a verified report: words of 80 bits and the share of a proof, or the seed of both."""


def header_start(task_id: bytes) -> bytes:
    """Return the `START_BYTES` that all headers of a task begin with."""
    return _MAGIC + task_id


def header_bytes(num_servers: int) -> int:
    """Return the length of every header in a task with N servers."""
    return START_BYTES + TIME_BYTES + 1 + HASH_BYTES * num_servers + len(EXTENSIONS)


def encode_header(task_id: bytes, time: int, commitments: Sequence[bytes]) -> bytes:
    """Return the public part of a report, the same for all servers; its hash is the report's identifier.

    `task_id` is 32 bytes; `time` is in the task's units. `commitments` are one 32-byte commitment for each server.
    """
    (header,) = encode_headers(task_id, time, [commitments])
    return header


def encode_headers(task_id: bytes, time: int, commitments: Iterable[Sequence[bytes]]) -> list[bytes]:
    """Return what `encode_header` returns of each report of one time."""
    start = header_start(task_id) + time.to_bytes(TIME_BYTES, "big")
    return [b"".join((start, bytes((len(each),)), *each, EXTENSIONS)) for each in commitments]


def report_id(header: bytes) -> bytes:
    """Return H("report", header): the identifier fixes the time and every share."""
    return domain_hash("report", header)


def report_ids_of(headers: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return the identifiers of reports to the same servers, whose headers have one length."""
    before = framed("report", headers[0])[: -len(headers[0])]
    return tuple([sha256(before + header).digest() for header in headers])


def commitment_to(task_id: bytes, server: int, share: bytes) -> bytes:
    """Return the blinded commitment to one server's share (blind, form, payload)."""
    blind, form, payload = share[:BLIND_BYTES], share[BLIND_BYTES : BLIND_BYTES + 1], share[BLIND_BYTES + 1 :]
    return domain_hash("share", task_id, server.to_bytes(2, "big"), blind, form, payload)


def commitments_to(task_id: bytes, server: int, shares: ByteRows) -> list[bytes]:
    """Return what `commitment_to` returns of each of one server's shares, shape `(k, n)`."""
    if len(shares) == 1:  # arrays pay from several on
        return [commitment_to(task_id, server, shares.tobytes())]
    blinds, rest = shares[:, :BLIND_BYTES], shares[:, BLIND_BYTES:]
    return domain_hashes("share", task_id, server.to_bytes(2, "big"), blinds, rest[:, :1], rest[:, 1:])


def block_context(task_id: bytes, server: int, key_id: bytes, headers: Sequence[bytes]) -> bytes:
    """Return the HPKE `info` of a block of shares for one server (docs/reference/protocol-encoding.md#sealing)."""
    count = len(headers).to_bytes(2, "big")
    together = domain_hash("share block context", task_id, key_id, count, b"".join(headers))
    return framed("share block", b"client", server.to_bytes(2, "big"), together)


def share_form(task: Task, server: int) -> bytes:
    """Return the form that a server's share takes: in a seeded task, only the last server gets words."""
    if task.share_form == "spread":
        return SPREAD
    seeded = task.share_form == "seeded" and server < task.num_servers - 1
    if task.verified is None:
        return SEED if seeded else FULL
    return PROVEN_SEED if seeded else PROVEN


def payload_bytes(task: Task, server: int) -> int:
    """Return the length of one server's payload: a seed, or 8 bytes a word, or both, or words and a proof."""
    form = share_form(task, server)
    if form in (SEED, PROVEN_SEED):
        return SEED_BYTES
    if form == SPREAD:
        return SEED_BYTES + 8 * len(range(task.num_words)[part_of(server, task.num_servers, task.num_words)])
    return expanded_bytes(task)


def expanded_bytes(task: Task) -> int:
    """Return the length of a share that is no seed, or that a seed stands for, without blind and form."""
    return 8 * task.num_words if task.verified is None else task.verified.payload_bytes


def share_bytes(task: Task, server: int) -> int:
    """Return the length of one server's share: blind, form and payload."""
    return BLIND_BYTES + 1 + payload_bytes(task, server)


def encode_sealed_document(document: bytes, sealed: bytes) -> bytes:
    """Join a signed document and the sealed bytes that it describes."""
    return _LENGTH.pack(len(document)) + document + sealed


def decode_sealed_document(data: bytes) -> tuple[bytes, bytes]:
    """Split what `encode_sealed_document` joined; raise InvalidMessageError if it is truncated."""
    if len(data) < _LENGTH.size:
        raise InvalidMessageError("a sealed document begins with the length of its description")
    (length,) = _LENGTH.unpack_from(data)
    if len(data) < _LENGTH.size + length:
        raise InvalidMessageError("the sealed document is truncated")
    return data[_LENGTH.size : _LENGTH.size + length], data[_LENGTH.size + length :]
