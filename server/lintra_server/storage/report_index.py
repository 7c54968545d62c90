"""What a batch holds: its reports' identifiers and their tokens' serials, in memory, read from its rows at first use.

A token is good for one report in a window, and for that one again. A report lost at one server is completed with the
same token; another report in its place is refused.

The table in memory leads to rows but never decides: the identifiers and serials in these rows do. Nothing of an open
transaction is ever in a table. What a commit stored is added after it, in the order of the rows' numbers; whatever
happened to a commit that failed, the table is forgotten and read again.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Literal

import numpy as np
from sqlalchemy import Connection

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.tokens import SERIAL_BYTES
from lintra_protocol.encoding.canonical import HASH_BYTES
from lintra_server.storage.chains import Chains
from lintra_server.storage.hash_table import HashTable
from lintra_server.storage.marks import BEGIN, End, Row
from lintra_server.storage.segments import Written

MOST_TABLES = 64
"""Batches whose keys are kept in memory; those of the others are read again when they are asked for."""

MOST_RECENT = 1024
"""Keys of a batch that wait to be entered into its table together."""

_ROWS_AT_ONCE = 512
"""More would outlive the youngest of Python's garbage, and a start would take a quarter longer."""

_FEW = 20
"""So many keys are looked for in the bytes of their rows; for more the rows' keys are taken apart."""

Column = Literal["ids", "serials"]

_SIZES: Mapping[Column, int] = {"ids": HASH_BYTES, "serials": SERIAL_BYTES}


class BatchKeys:
    """The keys of one batch and their rows: the last ones in a set, all before them in a table.

    Arrays are filled fast only if many come at once, and commits are small, so what they store waits until it is worth
    the call. A set takes some 150 bytes a key, which these few may.
    """

    def __init__(self, random_bytes: RandomBytes, expected: int, column: Column) -> None:
        """Hold nothing yet, with room for some keys."""
        self._size = _SIZES[column]
        self._column: Column = column
        self._table = HashTable(random_bytes, expected, self._size)
        self._recent: dict[bytes, int] = {}
        self.end = BEGIN
        """Where the last row ends whose keys are here."""

    def add(self, rows: Sequence[Row]) -> None:
        """Add the keys of rows that follow the last one."""
        self._enter()
        values = [getattr(row, self._column) for row in rows]
        numbers = np.array([row.number for row in rows], np.uint32)
        self._table.add(np.repeat(numbers, [len(value) // self._size for value in values]), b"".join(values))
        self.end = rows[-1].end

    def note(self, segment: Written) -> None:
        """Add the keys of the segment that follows the last one."""
        self._recent.update(dict.fromkeys(getattr(segment, self._column), segment.number))
        self.end = segment.end
        if len(self._recent) >= MOST_RECENT:
            self._enter()

    def candidates(self, keys: Sequence[bytes]) -> list[tuple[int, int]]:
        """Return which segments may hold which of some keys: places among these, and segment numbers."""
        pairs, recent = self._table.candidates(keys), self._recent
        if not recent.keys().isdisjoint(keys):
            pairs += [(place, recent[one]) for place, one in enumerate(keys) if one in recent]
        return pairs

    def _enter(self) -> None:
        if self._recent:
            self._table.add(np.array(list(self._recent.values()), np.uint32), b"".join(self._recent))
            self._recent.clear()


class KeyIndex:
    """The tables of the batches that uploads came for lately; thread-safe."""

    def __init__(self, chains: Chains, random_bytes: RandomBytes, column: Column) -> None:
        """Know nothing yet.

        `chains` read the rows; `random_bytes` draws secret factors; `column` is that of the keys in the rows.
        """
        self._chains = chains
        self._random_bytes = random_bytes
        self._column: Column = column
        self._size = _SIZES[column]
        self._tables: dict[int, BatchKeys] = {}
        self._lock = threading.Lock()

    def among(self, connection: Connection, batch: int, keys: Sequence[bytes], end: End) -> set[bytes]:
        """Return those of some keys that a batch holds, as its rows stand in this transaction.

        `end` is where the batch ends in this transaction.
        """
        if not keys:
            return set()
        is_new = False
        while True:
            with self._lock:
                pairs = self._table(connection, batch, end).candidates(keys)
            wanted = {number for _, number in pairs}
            rows = self._chains.some(connection, batch, wanted)
            if rows is not None and not _are_there(found := self._held(keys, pairs, rows), keys, pairs):
                # The rows may be those from before they were joined, which fit as well: a table of joined ones leads
                # past them, and is made anew.
                rows = self._chains.sure(connection, batch, wanted, end) if is_new else None
                found = set() if rows is None else self._held(keys, pairs, rows)
            if rows is not None:
                return found
            is_new = True
            self.forget(batch)  # segments were rewritten into others meanwhile, or this transaction is an older one

    def remembered(
        self, reading: Callable[[], AbstractContextManager[Connection]], batch: int, keys: Sequence[bytes]
    ) -> set[bytes] | None:
        """Return those of some keys that a batch holds, as far as memory leads; None if it leads nowhere.

        What is returned is stored. Another one may be, too, if another process stored it: only a commit decides.

        `reading` begins a transaction, which new keys do not need.
        """
        with self._lock:
            table = self._tables.get(batch)
            if table is None:
                return None
            pairs = table.candidates(keys)
        if not pairs:
            return set()
        with reading() as connection:
            rows = self._chains.some(connection, batch, {number for _, number in pairs})
        found = set() if rows is None else self._held(keys, pairs, rows)
        return found if _are_there(found, keys, pairs) else None

    def are_new(self, batch: int, keys: Sequence[bytes]) -> bool:
        """Return whether memory alone shows that a batch holds none of some keys; waits for nothing.

        False says nothing. True is no promise either, if another process stores reports, too: only a commit decides.
        """
        if not self._lock.acquire(blocking=False):
            return False  # somebody may be reading a whole batch
        try:
            table = self._tables.get(batch)
            return table is not None and not table.candidates(keys)
        finally:
            self._lock.release()

    def add(self, batch: int, written: Sequence[Written]) -> None:
        """Remember what a commit stored, now that it is durable."""
        with self._lock:
            table = self._tables.get(batch)
            if table is None:
                return
            # What another thread read meanwhile is there already.
            new = [segment for segment in written if segment.number > table.end.number]
            if new and new[0].number != table.end.number + 1:
                del self._tables[batch]  # another thread made it anew, of an older state: it lacks segments between
            else:
                for segment in new:
                    table.note(segment)

    def forget(self, batch: int) -> None:
        """Read a batch's keys from the disk again when they are asked for."""
        with self._lock:
            self._tables.pop(batch, None)

    def _table(self, connection: Connection, batch: int, end: End) -> BatchKeys:
        """Return the table of a batch, with every row up to its end."""
        table = self._tables.pop(batch, None)
        if table is None or table.end.total > end.total:
            table = BatchKeys(self._random_bytes, end.total, self._column)
        if table.end != end:
            # It is not used if one of the rows is not right.
            rows = self._chains.rows(connection, batch, table.end, end)
            while some := list(islice(rows, _ROWS_AT_ONCE)):
                table.add(some)
        while len(self._tables) >= MOST_TABLES:
            del self._tables[next(iter(self._tables))]  # the one that was not asked for the longest
        self._tables[batch] = table
        return table

    def _held(self, keys: Sequence[bytes], pairs: Sequence[tuple[int, int]], rows: Mapping[int, Row]) -> set[bytes]:
        """Return those keys that are in the rows which the table named for them.

        `pairs` are places among `keys` and numbers of rows.
        """
        size, values = self._size, {number: getattr(row, self._column) for number, row in rows.items()}
        if len(pairs) <= _FEW:
            return {keys[place] for place, number in pairs if _holds(values[number], keys[place], size)}
        apart = {
            number: {value[start : start + size] for start in range(0, len(value), size)}
            for number, value in values.items()
        }
        return {keys[place] for place, number in pairs if keys[place] in apart[number]}


def _are_there(found: set[bytes], keys: Sequence[bytes], pairs: Sequence[tuple[int, int]]) -> bool:
    """Return whether every key was found that a table leads to.

    Else two words met, or another row stands there now: that of a commit that failed follows the row before it, too.
    """
    return found.issuperset([keys[place] for place, _ in pairs])


def _holds(value: bytes, key: bytes, size: int) -> bool:
    place = value.find(key)
    while place % size and place >= 0:
        place = value.find(key, place + 1)
    return place >= 0
