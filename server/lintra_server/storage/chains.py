"""The chain of each batch's segments, as this process knows it and as the database shows it.

Where a batch ends is known from memory, after a start from its note. What the database shows is believed as far as its
marks lead there. A batch of which something is missing takes and gives nothing until the operator accepts the loss.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import structlog
from sqlalchemy import Connection, bindparam, select

from lintra_protocol.errors import UnavailableError
from lintra_server.durability.encryption_at_rest import BatchKey
from lintra_server.durability.notes import Notes
from lintra_server.storage.database import SPAN, segments
from lintra_server.storage.history import BatchHistory, History
from lintra_server.storage.marks import BEGIN, BrokenChainError, End, Marks, Row
from lintra_server.storage.raw_statement import Direct
from lintra_server.storage.schema import MOST_IDS_BYTES, MOST_SERIALS_BYTES, MOST_SMALL_BYTES, bounded

log = structlog.get_logger()

_READ_BYTES = 4 << 20
_FEWEST_ROWS, _MOST_ROWS = 4, 512  # more would outlive the youngest of Python's garbage

_IN_SPAN = (segments.c.key >= bindparam("first"), segments.c.key <= bindparam("last"))
# A value that is longer than what is ever stored is read as none, which no mark fits.
_COLUMNS = (
    segments.c.key, segments.c.total, bounded(segments.c.ids, MOST_IDS_BYTES),
    bounded(segments.c.serials, MOST_SERIALS_BYTES), bounded(segments.c.mark, MOST_SMALL_BYTES),
)  # fmt: skip
_ROWS = Direct(select(*_COLUMNS).where(*_IN_SPAN).order_by(segments.c.key).limit(bindparam("most")))
_BACKWARDS = Direct(select(*_COLUMNS).where(*_IN_SPAN).order_by(segments.c.key.desc()).limit(bindparam("most")))
_END = select(segments.c.key, segments.c.total, bounded(segments.c.mark, MOST_SMALL_BYTES)).where(*_IN_SPAN)
_TAIL = Direct(_END.order_by(segments.c.key.desc()).limit(1))


Reading = Callable[[], AbstractContextManager[Connection]]


class Chains:
    """The chains of all batches of one server; thread-safe."""

    def __init__(self, history: History, notes: Notes, key_of: Callable[[int], BatchKey], reading: Reading) -> None:
        """Know no end yet.

        `history` says which batch of which task lies where. `notes` says where each batch ended when it was last
        written to. `key_of` returns the keys of the batch at a place, or raises `UnavailableError`. `reading` begins a
        transaction that sees one state of the database.
        """
        self._history = history
        self._notes = notes
        self._key_of = key_of
        self._reading = reading
        self._marks: dict[int, Marks] = {}
        self._ends: dict[int, End] = {}
        self._attempted: dict[int, list[End]] = {}
        self._damaged: dict[int, UnavailableError] = {}

    def known(self, batch: int) -> End | None:
        """Return where a batch ends if this process knows it for sure; waits for nothing."""
        return None if batch in self._attempted or batch in self._damaged else self._ends.get(batch)

    def require(self, batch: int) -> None:
        """Refuse a batch that is known to be damaged.

        Raises:
            UnavailableError: it is.
        """
        if batch in self._damaged:
            raise self._damaged[batch]

    def marks(self, batch: int) -> Marks:
        """Return what makes and checks the marks of a batch (see `key_of` for errors)."""
        marks = self._marks.get(batch)
        if marks is None:
            marks = self._marks[batch] = Marks(self._history.batches[batch].batch, self._key_of(batch))
        return marks

    def end(self, batch: int) -> End:
        """Return where a batch ends; a transaction that begins afterwards sees every row up to there.

        Raises:
            UnavailableError: reports are gone.
            UnavailableError: its keys were destroyed.
        """
        if (known := self.known(batch)) is not None:
            return known
        with self._history.adding:
            self.require(batch)
            try:
                if batch not in self._ends:
                    self._load(batch)
                elif batch in self._attempted:
                    self._settle(batch)
            except BrokenChainError:
                raise self.damage(batch) from None
            return self._ends[batch]

    def load(self, places: Iterable[int]) -> None:
        """Learn at once of those of some batches that end where their notes say; of the others see `end`."""
        with self._history.adding, self._reading() as connection:
            for batch in places:
                note = self._notes.get(self._history.batches[batch].name)
                tail = _tail(connection, batch)
                if batch not in self._ends and note is not None and (tail.total, tail.chain) == note[:2]:
                    self._ends[batch] = tail

    # --- while reports are added, under the lock of `History.adding` -------------------------------------------

    def confirmed(self, connection: Connection, batch: int) -> End:
        """Return where a batch ends after a look at its last row, which must be the one that memory knows.

        `connection` is a transaction that holds the lock of the batch's row, so that no other commit is on its way.
        `batch` is the batch's place.

        Raises:
            BrokenChainError: it is another one.
        """
        end = self.end(batch)
        if _tail(connection, batch) != end:
            raise BrokenChainError(batch)
        self.failed(batch)
        return end

    def durable(self, batch: int) -> End | None:
        """Return where a batch ended when its last commit was durable, whatever was attempted since."""
        return None if batch in self._damaged else self._ends.get(batch)

    def lacks(self, connection: Connection, batch: int, end: End) -> bool:
        """Return whether a batch ends before a place, or in another way, as a transaction sees it."""
        tail = _tail(connection, batch)
        return tail.total < end.total or (tail.total == end.total and tail.chain != end.chain)

    def attempt(self, batch: int, end: End) -> None:
        """Remember where a batch will end if the commit that now begins succeeds."""
        self._attempted.setdefault(batch, []).append(end)

    def failed(self, batch: int) -> None:
        """Note that what was attempted is not in the database, and never will be."""
        self._attempted.pop(batch, None)

    def reached(self, batch: int, end: End) -> None:
        """Note where a batch ends, in memory and in the key folder, now that the commit is durable."""
        self._notes.put(self._history.batches[batch].name, end.total, end.chain)
        self._ends[batch] = end
        self._attempted.pop(batch, None)

    def forget(self, batch: int) -> None:
        """Let go of a batch whose keys were destroyed."""
        for known in (self._marks, self._ends, self._attempted, self._damaged):
            known.pop(batch, None)

    # --- reading -----------------------------------------------------------------------------------------------

    def rows(self, connection: Connection, batch: int, start: End, end: End) -> Iterator[Row]:
        """Yield the rows of a batch from one end of a run to another, each once its mark was checked.

        Whoever uses one of them reads to the last: a run that does not lead to `end` is not the one that was stored.
        `connection` is a transaction that began after `end` was known; `batch` is the batch's place. `start` says where
        the rows before those that are wanted end; `end` says where the last one ends.

        Raises:
            BrokenChainError: a row is not the one that was stored, or is gone.
        """
        marks = self.marks(batch)
        at: End | Row = start
        for some in _raw_runs(connection, batch, start.number + 1) if at.total < end.total else ():
            wanted = some if some[-1].total <= end.total else [row for row in some if row.total <= end.total]
            count = marks.fitting(at, wanted)
            yield from wanted[:count]
            at = wanted[count - 1] if count else at
            if count < len(some) or at.total == end.total:
                break
        if (at.total, at.chain) != (end.total, end.chain):
            raise BrokenChainError(batch)

    def some(self, connection: Connection, batch: int, numbers: Collection[int]) -> dict[int, Row] | None:
        """Return some rows by number, each after its mark was checked.

        None is returned if there is no row of one of these numbers: it was joined into another.

        Raises:
            BrokenChainError: a row is not the one that was stored.
        """
        marks, found = self.marks(batch), dict[int, Row]()
        for number in sorted(numbers):
            values = {**_span(batch, 0, number), "most": 2}
            rows = _checkable(_BACKWARDS.all(connection, values), batch)
            if not rows or rows[0].number != number:
                return None
            before = rows[1].end if len(rows) > 1 else BEGIN
            if not marks.follows(before, rows[0]):
                raise BrokenChainError(batch)
            found[number] = rows[0]
        return found

    def sure(self, connection: Connection, batch: int, numbers: Collection[int], end: End) -> dict[int, Row] | None:
        """Return what `some` does, after a look at every row up to an end: a row may be no part of the chain."""
        rows = self.rows(connection, batch, BEGIN, end)
        found = {row.number: row for row in rows if row.number in numbers}
        return found if len(found) == len(numbers) else None

    def whole(self, connection: Connection, batch: int) -> End:
        """Return where the longest run of rows ends that are what was stored, from the first one on."""
        marks, at = self.marks(batch), BEGIN
        for row in raw_rows(connection, batch):
            if not marks.follows(at, row):
                break
            at = row.end
        return at

    def damage(self, batch: int) -> UnavailableError:
        """Return what is wrong with a batch of which some rows did not fit; it takes and gives nothing from now on.

        If nothing is wrong after all, because its rows were rewritten while they were read, it goes on.
        """
        history = self._history.batches[batch]
        with self._history.adding, self._reading() as connection:
            at, tail = self.whole(connection, batch), _tail(connection, batch)
            end, note = self._ends.get(batch), self._notes.get(history.name)
            ends = [*self._attempted.get(batch, ()), *([end] if end is not None else ())]
            if at == tail and at in ends:
                return UnavailableError("the stored reports were just being rewritten")
            noted = max([note.total if note else 0, *(each.total for each in ends[-1:])])
            error = self._damaged.get(batch)
            if error is None:
                last = end or note
                more = last is not None and (at.total, at.chain) == (last.total, last.chain)
                error = self._damaged[batch] = UnavailableError(_said(history, at.total, noted, more=more))
                log.critical("a batch is damaged", reason=error.detail)
            return error

    def _load(self, batch: int) -> None:
        """Learn where a batch ends: at its note, or behind it, where a crash came between a commit and its note."""
        history = self._history.batches[batch]
        note = self._notes.get(history.name)
        if note is None:
            raise UnavailableError(f"{history.batch}: its note is gone from the key folder: lintra server doctor")
        marks, later, at = self.marks(batch), list[Row](), BEGIN
        with self._reading() as connection:
            for row in raw_rows_backwards(connection, batch):
                if row.total <= note.total:
                    at = row.end
                    break
                later.append(row)
        # A closed batch takes nothing more.
        if (at.total, at.chain) != (note.total, note.chain) or (later and history.line is not None):
            raise BrokenChainError(batch)
        for row in reversed(later):
            if not marks.follows(at, row):
                raise BrokenChainError(batch)
            at = row.end
        # What an answer rests on is noted before it, also the answer that a report is there already.
        self.reached(batch, at)

    def _settle(self, batch: int) -> None:
        """Find out from the last row whether a commit happened whose answer was lost.

        If it did not, it may be on its way still, in a database that waits for a standby: see `confirmed`.
        """
        with self._reading() as connection:
            tail = _tail(connection, batch)
        if tail in self._attempted[batch]:
            self.reached(batch, tail)
        elif tail != self._ends[batch]:
            raise BrokenChainError(batch)


def gone_in_words(last: int, noted: int, *, more: bool) -> str:
    """Return what is wrong where `last` reports are what was stored and `noted` should be there.

    Args:
        last: reports that are what was stored.
        noted: reports that should be there.
        more: whether all of them are there, and rows behind them that this server did not write.
    """
    if more:
        return f"table segments has rows behind its {noted} reports that this server did not write; nothing is lost"
    return f"reports {last + 1} to {noted} of {noted} are gone" if last < noted else "at least one report is gone"


def _said(history: BatchHistory, last: int, noted: int, *, more: bool) -> str:
    """Return what is wrong with a batch, and the command that mends it (see `gone_in_words`)."""
    wrong = gone_in_words(last, noted, more=more)
    command = "accept-loss" if history.line is None or more else "abandon"
    return f"{history.batch}: {wrong}; it takes and gives nothing: lintra server {command} {history.batch.words}"


def raw_rows(connection: Connection, batch: int, first: int = 0) -> Iterator[Row]:
    """Yield the rows of a batch as the database has them, unchecked."""
    for some in _raw_runs(connection, batch, first):
        yield from some


def _raw_runs(connection: Connection, batch: int, first: int) -> Iterator[list[Row]]:
    """Yield what `raw_rows` does, some megabytes at a time."""
    most = _FEWEST_ROWS
    while rows := _checkable(_ROWS.all(connection, {**_span(batch, first), "most": most}), batch):
        yield rows
        if len(rows) < most:
            return
        first = rows[-1].number + 1
        size = sum(len(row.ids) + len(row.serials) for row in rows) // len(rows)
        most = max(_FEWEST_ROWS, min(_MOST_ROWS, _READ_BYTES // max(1, size), 4 * most))


def raw_rows_backwards(connection: Connection, batch: int) -> Iterator[Row]:
    """Yield the rows of a batch as the database has them, unchecked, the last one first."""
    most, last = 2, SPAN - 1
    while last >= 0:
        values = {**_span(batch, 0, last), "most": most}
        rows = _checkable(_BACKWARDS.all(connection, values), batch)
        yield from rows
        if len(rows) < most:
            return
        last, most = rows[-1].number - 1, min(_MOST_ROWS, 4 * most)


def checkable(raw: Sequence[object], batch: int) -> Row:
    """Return a row as the database has it; values of another kind than theirs are replaced by such as no mark holds."""
    key, total, ids, serials, mark = raw
    number = key - batch * SPAN if isinstance(key, int) else -1
    return Row(number, _whole(total), _bytes(ids), _bytes(serials), _bytes(mark))


def _checkable(rows: Sequence[Sequence[Any]], batch: int) -> list[Row]:
    """Return rows as the database has them (see `checkable`); a million of them are read at a start."""
    make, base = tuple.__new__, batch * SPAN  # in half of the time that a row's own constructor takes
    return [
        make(Row, (raw[0] - base, raw[1], raw[2], b"", raw[4]))
        if raw[3] is None and type(raw[1]) is type(raw[0]) is int and type(raw[2]) is type(raw[4]) is bytes
        else checkable(raw, batch)
        for raw in rows
    ]


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b"" if value is None else b"no bytes"


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _tail(connection: Connection, batch: int) -> End:
    row = _TAIL.run(connection, _span(batch))
    return BEGIN if row is None else End(row[0] - batch * SPAN, _whole(row[1]), _bytes(row[2]))


def _span(batch: int, first: int = 0, last: int = SPAN - 1) -> dict[str, int]:
    return {"first": batch * SPAN + first, "last": batch * SPAN + last}
