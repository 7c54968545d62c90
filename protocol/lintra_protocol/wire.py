"""The binary formats of the data plane: reports, lists of identifiers and sketch shares.

Framing is fixed by the task: big-endian lengths, little-endian ring words, no optional fields, no trailing bytes.
Sizes are checked before anything is allocated.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lintra_protocol.canonical import HASH_BYTES, domain_hash, framed
from lintra_protocol.errors import InvalidMessageError
from lintra_protocol.sealing import OVERHEAD_BYTES
from lintra_protocol.sharing import SEED_BYTES
from lintra_protocol.task import Task
from lintra_protocol.tokens import PASS_BYTES

MAX_REPORTS = 256
KEY_ID_BYTES = 8
BLIND_BYTES = 32

_MAGIC = b"LR\x01"
_PREFIX = struct.Struct(">3s32sQB")
_EXTENSIONS = b"\x00\x00"
_COUNT = struct.Struct(">H")
_LENGTH = struct.Struct(">I")

FULL, SEED = b"\x00", b"\x01"
"""The form byte of an input share: all its ring words, or the seed they expand from."""


@dataclass(frozen=True)
class Header:
    """The public part of a report, the same for all servers; its hash is the report identifier.

    Attributes:
        task_id: 32 bytes.
        time: in the task's units.
        commitments: one 32-byte commitment per server.
    """

    task_id: bytes
    time: int
    commitments: tuple[bytes, ...]

    def encode(self) -> bytes:
        """Return the header's bytes."""
        prefix = _PREFIX.pack(_MAGIC, self.task_id, self.time, len(self.commitments))
        return b"".join((prefix, *self.commitments, _EXTENSIONS))


def header_bytes(num_servers: int) -> int:
    """Return the length of every header in a task with N servers."""
    return _PREFIX.size + HASH_BYTES * num_servers + len(_EXTENSIONS)


def decode_header(data: bytes, num_servers: int) -> Header:
    """Parse a header of exactly `header_bytes(num_servers)` bytes.

    Raises:
        InvalidMessageError: another length, format, version, server count, or an unknown extension.
    """
    if len(data) != header_bytes(num_servers):
        raise InvalidMessageError(f"a header of this task takes {header_bytes(num_servers)} bytes, got {len(data)}")
    magic, task_id, time, count = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise InvalidMessageError("not a version 1 report")
    if count != num_servers:
        raise InvalidMessageError(f"the report commits to {count} shares, the task has {num_servers} servers")
    if data[-len(_EXTENSIONS) :] != _EXTENSIONS:
        raise InvalidMessageError("the report has extensions, the task allows none")
    body = data[_PREFIX.size : -len(_EXTENSIONS)]
    commitments = tuple(body[start : start + HASH_BYTES] for start in range(0, len(body), HASH_BYTES))
    return Header(task_id, time, commitments)


def report_id(header: bytes) -> bytes:
    """Return H("report", header): the identifier fixes the time and every share."""
    return domain_hash("report", header)


def commitment(task_id: bytes, server: int, share: bytes) -> bytes:
    """Return the blinded commitment to one server's share plaintext (blind, form, payload)."""
    blind, form, payload = share[:BLIND_BYTES], share[BLIND_BYTES : BLIND_BYTES + 1], share[BLIND_BYTES + 1 :]
    return domain_hash("share", task_id, server.to_bytes(2, "big"), blind, form, payload)


def share_context(task_id: bytes, server: int, header: bytes) -> bytes:
    """Return the HPKE `info` of a client's share for one server (docs/protocol.md#sealing)."""
    return framed("share", b"client", server.to_bytes(2, "big"), domain_hash("share context", task_id, header))


def share_form(task: Task, server: int) -> bytes:
    """Return the form that a server's share takes: in a seeded task, only the last server gets words."""
    return SEED if task.share_form == "seeded" and server < task.num_servers - 1 else FULL


def payload_bytes(task: Task, server: int) -> int:
    """Return the length of one server's payload: a seed, or 8 bytes a word."""
    return SEED_BYTES if share_form(task, server) == SEED else 8 * task.num_words


@dataclass(frozen=True)
class SealedReport:
    """One report as one server receives it; `admission` is what it receives of a token, where the task has them."""

    header: bytes
    key_id: bytes
    sealed: bytes = field(repr=False)
    admission: bytes = field(default=b"", repr=False)


def message_bytes(task: Task, server: int) -> int:
    """Return the length of every report message to one server."""
    plaintext = BLIND_BYTES + 1 + payload_bytes(task, server)
    return header_bytes(task.num_servers) + KEY_ID_BYTES + plaintext + OVERHEAD_BYTES[task.suite]


def head_bytes(task: Task, count: int) -> int:
    """Return the length of what comes before the reports of an upload: their number and, in their order, passes."""
    return _COUNT.size + (PASS_BYTES * count if task.uses_tokens else 0)


def upload_bytes(task: Task, server: int, count: int) -> int:
    """Return the length of an upload of `count` reports to one server."""
    return head_bytes(task, count) + count * message_bytes(task, server)


def decode_count(data: bytes) -> int:
    """Return the number of reports that an upload begins with.

    Raises:
        InvalidMessageError: it has none, or not from 1 to `MAX_REPORTS`.
    """
    if len(data) < _COUNT.size:
        raise InvalidMessageError("an upload begins with the number of its reports")
    (count,) = _COUNT.unpack_from(data)
    if not 1 <= count <= MAX_REPORTS:
        raise InvalidMessageError(f"an upload has 1 to {MAX_REPORTS} reports, not {count}")
    return int(count)


def decode_passes(head: bytes) -> list[bytes]:
    """Return what an upload of a task with tokens holds of them; `head` is its first `head_bytes`."""
    return [head[start : start + PASS_BYTES] for start in range(_COUNT.size, len(head), PASS_BYTES)]


def encode_reports(reports: Sequence[SealedReport]) -> bytes:
    """Encode 1 to `MAX_REPORTS` reports as one upload."""
    if not 1 <= len(reports) <= MAX_REPORTS:
        raise ValueError(f"an upload has 1 to {MAX_REPORTS} reports, got {len(reports)}")
    parts = [_COUNT.pack(len(reports)), *(report.admission for report in reports)]
    for report in reports:
        parts += (report.header, report.key_id, report.sealed)
    return b"".join(parts)


def decode_reports(data: bytes, task: Task, server: int) -> Iterator[SealedReport]:
    """Cut an upload into its reports.

    Raises:
        InvalidMessageError: the length is not that of the stated number of reports of this task.
    """
    count = decode_count(data)
    size, expected = message_bytes(task, server), upload_bytes(task, server, count)
    if len(data) != expected:
        raise InvalidMessageError(f"{count} reports of this task take {expected} bytes, got {len(data)}")
    head = head_bytes(task, count)
    passes = decode_passes(data[:head]) if task.uses_tokens else [b""] * count
    return _cut(data, head, passes, size, header_bytes(task.num_servers))


def _cut(data: bytes, first: int, passes: Sequence[bytes], size: int, header_size: int) -> Iterator[SealedReport]:
    for place, admission in enumerate(passes):
        start = first + place * size
        key_at = start + header_size
        sealed_at = key_at + KEY_ID_BYTES
        yield SealedReport(data[start:key_at], data[key_at:sealed_at], data[sealed_at : start + size], admission)


def encode_sealed_document(document: bytes, sealed: bytes) -> bytes:
    """Join a signed document and the sealed bytes that it describes."""
    return _LENGTH.pack(len(document)) + document + sealed


def decode_sealed_document(data: bytes) -> tuple[bytes, bytes]:
    """Split what `encode_sealed_document` joined.

    Raises:
        InvalidMessageError: truncated.
    """
    if len(data) < _LENGTH.size:
        raise InvalidMessageError("a sealed document begins with the length of its description")
    (length,) = _LENGTH.unpack_from(data)
    if len(data) < _LENGTH.size + length:
        raise InvalidMessageError("the sealed document is truncated")
    return data[_LENGTH.size : _LENGTH.size + length], data[_LENGTH.size + length :]
