"""Blocks of reports, and the uploads that bring them to a server.

The shares of a block are one sealed message, in the order of its headers; every report keeps its own identifier, blind
and commitment. What a block holds is bound in the seal, so nobody can take a report out, add one or move one.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lintra_protocol.crypto.sealing import OVERHEAD_BYTES, SuiteName
from lintra_protocol.crypto.tokens import PASS_BYTES
from lintra_protocol.encoding.canonical import HASH_BYTES, separate
from lintra_protocol.errors import InvalidMessageError
from lintra_protocol.report.wire import (
    BLIND_BYTES,
    EXTENSIONS,
    KEY_ID_BYTES,
    START_BYTES,
    TIME_BYTES,
    header_bytes,
    payload_bytes,
    report_ids_of,
    share_bytes,
)
from lintra_protocol.task import Task

MAX_REPORTS = 256
"""In a block, and in an upload."""

MAX_BLOCK_BYTES = 1 << 20
"""Of shares in one sealed message, unless one share alone is longer."""

_FEW = 8
"""So many headers are put together faster one by one than as an array."""

_COUNT = struct.Struct(">H")
_TIME_AT = START_BYTES
_COMMITMENTS_AT = START_BYTES + TIME_BYTES + 1


@dataclass(frozen=True)
class SealedBlock:
    """Reports as one server receives them: their headers in the open, all their shares in one sealed message."""

    headers: tuple[bytes, ...]  #: of 1 to `block_capacity` reports, whole; they begin alike
    key_id: bytes  #: which of the server's keys it is sealed to
    sealed: bytes = field(repr=False)
    #: what the server receives of each report's token, in a task that has tokens
    passes: tuple[bytes, ...] = field(default=(), repr=False)
    #: the identifiers, for whoever made the reports; a server hashes the headers that it received
    known_ids: tuple[bytes, ...] = field(default=(), repr=False, compare=False)

    @cached_property
    def report_ids(self) -> tuple[bytes, ...]:
        """The identifiers of the reports, in their order."""
        return self.known_ids or report_ids_of(self.headers)

    @cached_property
    def times(self) -> list[int]:
        """The times of the reports, in the task's units."""
        spelled = [header[_TIME_AT : _TIME_AT + TIME_BYTES] for header in self.headers]
        if spelled.count(spelled[0]) == len(spelled):  # as mostly: a unit of time is long
            return [int.from_bytes(spelled[0], "big")] * len(spelled)
        return [int.from_bytes(each, "big") for each in spelled]

    def commitments(self, server: int) -> list[bytes]:
        """Return what the headers commit to for one server."""
        start = _COMMITMENTS_AT + HASH_BYTES * server
        return [header[start : start + HASH_BYTES] for header in self.headers]


def block_capacity(task: Task, server: int) -> int:
    """Return how many reports a block for one server holds at most."""
    return max(1, min(MAX_REPORTS, MAX_BLOCK_BYTES // share_bytes(task, server)))


def block_bytes(task: Task, server: int, count: int) -> int:
    """Return the length of every block of `count` reports to one server."""
    return frame_bytes(task.num_servers, task.suite, count) + count * payload_bytes(task, server)


def frame_bytes(num_servers: int, suite: SuiteName, count: int) -> int:
    """Return the length of a block of `count` reports without their payloads."""
    each = TIME_BYTES + HASH_BYTES * num_servers + BLIND_BYTES + 1
    return _COUNT.size + KEY_ID_BYTES + START_BYTES + OVERHEAD_BYTES[suite] + count * each


def passes_bytes(count: int) -> int:
    """Return the length of what an upload of a task with tokens begins with: the number of reports, and passes."""
    return _COUNT.size + PASS_BYTES * count


def upload_bytes(task: Task, server: int, blocks: int, count: int) -> int:
    """Return the length of an upload of so many blocks of `count` reports each."""
    before = passes_bytes(blocks * count) if task.uses_tokens else 0
    return before + _COUNT.size + blocks * block_bytes(task, server, count)


def encode_upload(blocks: Sequence[SealedBlock]) -> bytes:
    """Encode blocks of together 1 to `MAX_REPORTS` reports as one upload.

    Raises ValueError if there are none, or more.
    """
    count = sum(len(block.headers) for block in blocks)
    if not 1 <= count <= MAX_REPORTS:
        raise ValueError(f"an upload has 1 to {MAX_REPORTS} reports, got {count}")
    passes = [each for block in blocks for each in block.passes]
    parts = [_COUNT.pack(count), *passes] if passes else []
    parts.append(_COUNT.pack(len(blocks)))
    for block in blocks:
        parts += (_COUNT.pack(len(block.headers)), block.key_id, block.headers[0][:START_BYTES])
        for header in block.headers:
            parts += (header[_TIME_AT : _TIME_AT + TIME_BYTES], header[_COMMITMENTS_AT : -len(EXTENSIONS)])
        parts.append(block.sealed)
    return b"".join(parts)


def decode_count(data: bytes) -> int:
    """Return the number that an upload begins with: of its blocks, or with tokens of its reports.

    Raises InvalidMessageError if it begins with none, or with one outside 1 to `MAX_REPORTS`.
    """
    if len(data) < _COUNT.size:
        raise InvalidMessageError("an upload begins with the number of its reports or blocks")
    return _count_at(data, 0, "an upload", MAX_REPORTS)


def decode_passes(head: bytes) -> list[bytes]:
    """Return what an upload of a task with tokens holds of them; `head` is its first `passes_bytes`."""
    return [head[start : start + PASS_BYTES] for start in range(_COUNT.size, len(head), PASS_BYTES)]


def decode_upload(data: bytes, task: Task, server: int) -> list[SealedBlock]:
    """Cut an upload into its blocks.

    Raises InvalidMessageError if a number or a length is not one that an upload of this task may have.
    """
    count = decode_count(data)
    passes: list[bytes] = []
    at = 0
    if task.uses_tokens:
        at = passes_bytes(count)
        passes = decode_passes(data[:at])
        count = _count_at(data, at, "an upload", MAX_REPORTS)
    places = _places(data, at + _COUNT.size, count, task, server)
    total = sum(held for _, held in places)
    if task.uses_tokens and total != len(passes):
        raise InvalidMessageError(f"the upload has {len(passes)} tokens for {total} reports")
    blocks: list[SealedBlock] = []
    given = iter(passes)
    for block, held in places:
        of_block = tuple(next(given) for _ in range(held)) if task.uses_tokens else ()
        blocks.append(_cut(data[block], held, task.num_servers, of_block))
    return blocks


def _places(data: bytes, at: int, count: int, task: Task, server: int) -> list[tuple[slice, int]]:
    """Return where each block stands, and how many reports it holds; every length is checked before the first cut."""
    places: list[tuple[slice, int]] = []
    total, capacity, payload = 0, block_capacity(task, server), payload_bytes(task, server)
    for _ in range(count):
        begin, held = at, _count_at(data, at, "a block of this task", capacity)
        total += held
        at += frame_bytes(task.num_servers, task.suite, held) + held * payload
        places.append((slice(begin, at), held))
        if total > MAX_REPORTS:
            raise InvalidMessageError(f"an upload has at most {MAX_REPORTS} reports")
        if at > len(data):
            raise InvalidMessageError(f"the upload is truncated: its blocks take {at} bytes or more, got {len(data)}")
    if at != len(data):
        raise InvalidMessageError(f"{count} blocks of this task take {at} bytes, got {len(data)}")
    return places


def _count_at(data: bytes, at: int, what: str, most: int) -> int:
    if len(data) < at + _COUNT.size:
        raise InvalidMessageError("the upload is truncated")
    (count,) = _COUNT.unpack_from(data, at)
    if not 1 <= count <= most:
        raise InvalidMessageError(f"{what} holds 1 to {most}, not {count}")
    return int(count)


def _cut(block: bytes, count: int, num_servers: int, passes: tuple[bytes, ...]) -> SealedBlock:
    start_at = _COUNT.size + KEY_ID_BYTES
    heads_at, size = start_at + START_BYTES, TIME_BYTES + HASH_BYTES * num_servers
    sealed_at = heads_at + count * size
    start, heads = block[start_at:heads_at], block[heads_at:sealed_at]
    headers = (_few_headers if count <= _FEW else _many_headers)(start, heads, num_servers)
    return SealedBlock(tuple(headers), block[_COUNT.size : start_at], block[sealed_at:], passes)


def _few_headers(start: bytes, heads: bytes, num_servers: int) -> list[bytes]:
    size, servers = TIME_BYTES + HASH_BYTES * num_servers, bytes([num_servers])
    return [
        b"".join((start, heads[at : at + TIME_BYTES], servers, heads[at + TIME_BYTES : at + size], EXTENSIONS))
        for at in range(0, len(heads), size)
    ]


def _many_headers(start: bytes, heads: bytes, num_servers: int) -> list[bytes]:
    """Return the same, put together as one array."""
    given = np.frombuffer(heads, np.uint8).reshape(-1, TIME_BYTES + HASH_BYTES * num_servers)
    headers = np.empty((len(given), header_bytes(num_servers)), np.uint8)
    headers[:, :_TIME_AT] = np.frombuffer(start, np.uint8)
    headers[:, _TIME_AT : _TIME_AT + TIME_BYTES] = given[:, :TIME_BYTES]
    headers[:, _COMMITMENTS_AT - 1] = num_servers
    headers[:, _COMMITMENTS_AT : -len(EXTENSIONS)] = given[:, TIME_BYTES:]
    headers[:, -len(EXTENSIONS) :] = np.frombuffer(EXTENSIONS, np.uint8)
    return separate(headers)
