"""The difference of one list of reports from another, and the pieces in which a long difference is sent.

A message has a largest size, and its reader holds all of it. So a long difference is sent before the message that it
belongs to, in pieces of a fixed size, each named by its hash. The message names them in order.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lintra_protocol.cohort.report_ids import ReportIds, apply_difference, decode_positions, encode_positions
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.canonical import HASH_BYTES, base64url

PIECE_BYTES = 4 << 20
"""Of each piece but the last, which may be shorter, and is not empty."""

POSITION_BYTES = 5
"""The most that a position takes."""


@dataclass(frozen=True)
class ListDifference:
    """How the list of `server` differs from the receiver's own.

    `missing` holds ascending positions in the receiver's list of what that server lacks; `extra` is what it has beyond.
    """

    server: int
    missing: IntArray
    extra: ReportIds

    @classmethod
    def parse(cls, server: int, missing: bytes, extra: bytes) -> "ListDifference":
        """Read positions (see `encode_positions`) and identifiers that stand one after the other."""
        return cls(server, decode_positions(missing), ReportIds.parse(extra, len(extra)))

    def rebuild(self, own: ReportIds) -> ReportIds:
        """Return that server's list, from the receiver's own."""
        return apply_difference(own, self.missing, self.extra)


def piece_hash(piece: bytes) -> str:
    """Return what a piece is called: its SHA-256 in base64url."""
    return base64url(hashlib.sha256(piece).digest())


def pieces_of(difference: ListDifference) -> tuple[int, Iterator[bytes]]:
    """Return how many bytes of positions a difference has, and all its bytes, a piece at a time."""
    missing = encode_positions(difference.missing)
    return len(missing), _cut(_after(missing, difference.extra.pieces()))


def most_bytes(num_servers: int, most_reports: int) -> int:
    """Return how many bytes the differences of all other lists to one's own can have, each of so many reports."""
    return (num_servers - 1) * most_reports * (POSITION_BYTES + HASH_BYTES)


def _after(first: bytes, others: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from others


def _cut(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces of `PIECE_BYTES`."""
    rest = b""
    for part in parts:
        rest += part
        whole = len(rest) // PIECE_BYTES * PIECE_BYTES
        yield from (rest[start : start + PIECE_BYTES] for start in range(0, whole, PIECE_BYTES))
        rest = rest[whole:]
    if rest:
        yield rest
