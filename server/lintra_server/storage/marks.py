"""Marks: what shows that a row of a batch's reports is the one that was stored, behind the one that was before it.

A batch's segments are numbered 0, 1, ... A row holds one segment, or the joined ones from `first` to `number`. Its mark
is a tag over which batch of which task it belongs to, its place, its identifiers and serials, and the chain value of
the row before it. So no row can be changed, moved, repeated or left out but the last ones; where a batch ends stands in
the key folder (see `disk.notes`). The payloads of a row are bound to its mark.
"""

from collections.abc import Sequence
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from cryptography.exceptions import InvalidTag

from lintra_protocol.crypto.tokens import SERIAL_BYTES
from lintra_protocol.encoding.canonical import HASH_BYTES, framed
from lintra_server.durability.encryption_at_rest import NONCE_BYTES, BatchKey
from lintra_server.durability.journal import BatchId
from lintra_server.durability.notes import CHAIN_BYTES

MARK_BYTES = (CHAIN_BYTES, 2 * CHAIN_BYTES)
"""Lengths of a mark: of a segment that stands as it was stored, and of joined ones."""

NO_CHAIN = bytes(CHAIN_BYTES)

_numbers = Struct(f">9Q{CHAIN_BYTES}sQ").pack


class End(NamedTuple):
    """Where a run of rows ends.

    Attributes:
        number: of the last segment, -1 if there is none.
        total: reports up to there.
        mark: of the last row, empty if there is none.
    """

    number: int
    total: int
    mark: bytes

    @property
    def chain(self) -> bytes:
        """Return the chain value that the next row is bound to, 28 bytes."""
        return self.mark[-CHAIN_BYTES:] or NO_CHAIN


BEGIN = End(-1, 0, b"")
"""Where a batch without reports ends."""


class Row(NamedTuple):
    """A row of `segments` as the database has it, without its payloads."""

    number: int
    total: int
    ids: bytes
    serials: bytes
    mark: bytes

    @property
    def chain(self) -> bytes:
        """Return the chain value that the next row is bound to, 28 bytes."""
        return self.mark[-CHAIN_BYTES:] or NO_CHAIN

    @property
    def end(self) -> End:
        """Return where a run ends whose last row it is."""
        return End(self.number, self.total, self.mark)


class BrokenChainError(Exception):
    """A row of a batch is not the one that follows the row before it."""

    def __init__(self, batch: int) -> None:
        """Name the batch by its place."""
        super().__init__(batch)
        self.batch = batch


class Marks:
    """Makes and checks the marks of one batch."""

    def __init__(self, batch: BatchId, key: BatchKey) -> None:
        """Bind them to a batch and its key."""
        self._key = key
        self._prefix = framed("segment", batch.task_id, batch.number.to_bytes(8, "big"))

    def mark(self, before: End | Row, row: Row, joined: bytes = b"") -> bytes:
        """Return the mark of a row.

        `before` says where the row before it ends; the `mark` of `row` is not looked at. `joined` is the chain value of
        the last segment that was joined into the row; empty if it is one segment.
        """
        return self._key.tag(self._context(before.number, before.total, before.chain, row, joined)) + joined

    def follows(self, before: End | Row, row: Row) -> bool:
        """Return whether a row is the one that was stored behind `before`."""
        return self.fitting(before, (row,)) == 1

    def fitting(self, before: End | Row, rows: Sequence[Row]) -> int:
        """Return how many rows, from the first on, are those that were stored one behind the other after `before`."""
        # A start does this for a million rows, so each takes as few calls as possible.
        require, context = self._key.require_tag, self._context
        last, start, chain = before.number, before.total, before.chain
        done = 0
        with suppress(InvalidTag):
            for row in rows:
                number, total, ids, serials, mark = row
                count = total - start
                if not (
                    number > last
                    and start >= 0
                    and count > 0
                    and len(ids) == count * HASH_BYTES
                    and (not serials or len(serials) == count * SERIAL_BYTES)
                    and len(mark) in MARK_BYTES
                ):
                    break
                joined = mark[CHAIN_BYTES:]
                require(mark[:NONCE_BYTES], mark[NONCE_BYTES:CHAIN_BYTES], context(last, start, chain, row, joined))
                last, start, chain = number, total, joined or mark
                done += 1
        return done

    def _context(self, last: int, start: int, chain: bytes, row: Row, joined: bytes) -> bytes:
        """Return what the mark of a row is a tag of: the row before it ends at `last`, `start` and `chain`."""
        # This is `framed` of these parts, in a third of its time.
        number, total, ids, serials, _ = row
        numbers = _numbers(8, last + 1, 8, number, 8, start, 8, total, CHAIN_BYTES, chain, len(joined))
        return b"".join((self._prefix, numbers, joined, ids, serials))
