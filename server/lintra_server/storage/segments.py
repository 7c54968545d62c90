"""Segments: what one commit stores of a batch, in one row; how they are read, rewritten into larger ones and emptied.

A batch numbers its segments in the order in which they were stored, and the order of the reports in them is never
changed afterwards. So "the first k reports" and "report k" mean the same for ever, also after rewriting: a run of small
segments becomes one that has the number of the last of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from cryptography.exceptions import InvalidTag
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.errors import InvalidMessageError, UnavailableError
from lintra_server.durability.encryption_at_rest import BatchKey, PayloadKey
from lintra_server.storage.chains import checkable, raw_rows
from lintra_server.storage.database import SPAN, segments
from lintra_server.storage.history import edited
from lintra_server.storage.marks import BrokenChainError, End, Marks, Row
from lintra_server.storage.raw_statement import Direct, Value
from lintra_server.storage.read_only import Reader
from lintra_server.storage.schema import (
    MOST_IDS_BYTES,
    MOST_PAYLOADS_BYTES,
    MOST_SERIALS_BYTES,
    MOST_SMALL_BYTES,
    bounded,
)

MAX_SEGMENT_BYTES = 1 << 20
"""Payload bytes in a segment, unless one payload alone is larger; bounds the memory of a release."""

EXCLUDED = 2**32 - 1
"""In the place of a rank: the report is not in the frozen cohort."""

MAX_REWRITTEN = 256
"""Segments that are rewritten or emptied in one transaction; with `MAX_STEP_BYTES`, how long a writer waits for it."""

MAX_STEP_BYTES = 1 << 19

_READ_BYTES = 4 << 20
_FEWEST_ROWS, _MOST_ROWS = 4, 4096

# Built once: building a statement costs more than running it.
_RANGE = (segments.c.key >= bindparam("first"), segments.c.key <= bindparam("last"))
_ADD = Direct(insert(segments))
_READ_PAYLOADS = bounded(segments.c.payloads, MOST_PAYLOADS_BYTES)
_PAYLOADS = select(segments.c.key, _READ_PAYLOADS).where(*_RANGE).order_by(segments.c.key).limit(bindparam("most"))
_SIZE = func.length(segments.c.ids) + func.coalesce(func.length(segments.c.payloads), 0)
_SIZES = select(segments.c.key, _SIZE).where(*_RANGE).order_by(segments.c.key).limit(bindparam("most"))
_WHOLE = (
    select(
        segments.c.key, segments.c.total, bounded(segments.c.ids, MOST_IDS_BYTES),
        bounded(segments.c.serials, MOST_SERIALS_BYTES), bounded(segments.c.mark, MOST_SMALL_BYTES), _READ_PAYLOADS,
    )
    .where(*_RANGE)
    .order_by(segments.c.key)
)  # fmt: skip
_EMPTY = update(segments).where(*_RANGE).values(payloads=None, serials=None)
_DROP = delete(segments).where(*_RANGE)
_PUT = update(segments).where(segments.c.key == bindparam("of_key"))

Bytes = NDArray[np.uint8]


class BatchSegments(Protocol):
    """The stored reports of one batch, as a release reads them; segments do not change while it goes on."""

    @property
    def numbers(self) -> IntArray:
        """Numbers of the segments, ascending, shape `(k,)`."""

    @property
    def totals(self) -> IntArray:
        """Reports in each segment and all before it, shape `(k,)`.

        Segment i holds the reports from `totals[i - 1]` to `totals[i]`, counted in the order in which they were stored.
        """

    def payloads(self, first: int = 0, last: int = SPAN - 1) -> Iterator[tuple[int, bytes]]:
        """Yield number and joined, decrypted payloads of the same segments; nothing of those that were scrubbed."""

    def elsewhere(self) -> tuple[str, bytes]:
        """Return the database's address and the key of the payloads, with which another process reads the same."""

    def table(self, first: int, last: int) -> "SegmentTable":
        """Return the rows from one number to another, both included."""


class Written(NamedTuple):
    """A segment that is just being written.

    Attributes:
        number: in its batch.
        ids: of its reports, in their order.
        serials: of their tokens, in the same order; empty in an open task.
        end: where the batch ends once it is written.
    """

    number: int
    ids: Sequence[bytes]
    serials: Sequence[bytes]
    row: Mapping[str, Value]
    end: End


class SegmentTable(NamedTuple):
    """The rows of a batch, whose marks were checked, as a release goes through them.

    `numbers` are those of the last segment in each row, ascending, shape `(k,)`. `totals` are reports in each row and
    all before it, shape `(k,)`.
    """

    numbers: IntArray
    totals: IntArray
    marks: Sequence[bytes]

    def between(self, first: int, last: int) -> "SegmentTable":
        """Return the rows from one number to another, both included."""
        begins, ends = np.searchsorted(self.numbers, [first, last + 1])
        return SegmentTable(self.numbers[begins:ends], self.totals[begins:ends], self.marks[begins:ends])


class StoredSegments:
    """The segments of one batch in a database; see `BatchSegments`. Usable wherever database, key and marks are."""

    def __init__(self, database: Reader, batch: int, key: bytes, table: SegmentTable) -> None:
        """Read the rows of a table, of the batch at a place, with the key of its payloads."""
        self._database = database
        self._batch = batch
        self._key = key
        self._table = table
        self.numbers, self.totals = table.numbers, table.totals

    def elsewhere(self) -> tuple[str, bytes]:
        """Return the database's address and the key of the payloads, with which another process reads the same."""
        return self._database.url, self._key

    def table(self, first: int, last: int) -> SegmentTable:
        """Return the rows from one number to another, both included."""
        return self._table.between(first, last)

    def payloads(self, first: int = 0, last: int = SPAN - 1) -> Iterator[tuple[int, bytes]]:
        """Yield number and joined, decrypted payloads of the same rows."""
        with self._database.reading() as connection:
            yield from opened_payloads(connection, self._batch, self._key, self.table(first, last))


def opened_payloads(connection: Connection, batch: int, key: bytes, table: SegmentTable) -> Iterator[tuple[int, bytes]]:
    """Yield number and decrypted payloads of the rows of a table, in their order.

    Raises:
        UnavailableError: a row is not what was stored under its mark, is not there, or was not stored.
    """
    opener, wanted = PayloadKey(key, bytes), table.numbers.tolist()
    if not wanted:
        return
    done = 0
    for number, encrypted in _values(connection, batch, wanted[0], wanted[-1]):
        if done == len(wanted) or number != wanted[done] or encrypted is None:
            break
        try:
            opened = opener.decrypt(encrypted, table.marks[done])
        except (InvalidTag, TypeError, ValueError):  # bytes of another row, or no bytes at all
            raise UnavailableError(
                f"table segments, row {batch * SPAN + number}, column payloads was changed: lintra server doctor"
            ) from None
        yield number, opened
        done += 1
    if done != len(wanted):
        raise UnavailableError("a row of stored reports is not there: lintra server doctor")


def write_segments(connection: Connection, written: Sequence[Written]) -> None:
    """Write segments that `new_segments` made, whatever is there."""
    for each in written:
        _ADD.run(connection, each.row)


def new_segments(
    batch: int, end: End, new: Mapping[bytes, bytes], serials: Sequence[bytes], key: BatchKey, marks: Marks
) -> list[Written]:
    """Make segments of payloads, identifiers and the serials of tokens that stand behind the end of a batch.

    Reports stand in the order of their identifiers, so that nothing is kept of which came together in one upload.
    """
    report_ids = sorted(new)
    if serials:
        own = dict(zip(new, serials, strict=True))
        serials = [own[report_id] for report_id in report_ids]
    # All payloads of a batch have one length.
    per_segment = max(1, MAX_SEGMENT_BYTES // max(1, len(new[report_ids[0]])))
    written: list[Written] = []
    for start in range(0, len(report_ids), per_segment):
        ids = report_ids[start : start + per_segment]
        own_serials = serials[start : start + per_segment]
        row = Row(end.number + 1, end.total + len(ids), b"".join(ids), b"".join(own_serials), b"")
        mark = marks.mark(end, row)
        values: dict[str, Value] = {
            "key": batch * SPAN + row.number,
            "total": row.total,
            "ids": row.ids,
            "serials": row.serials or None,
            "mark": mark,
            "payloads": key.encrypt(b"".join(map(new.__getitem__, ids)), mark),
        }
        end = End(row.number, row.total, mark)
        written.append(Written(row.number, ids, own_serials, values, end))
    return written


def sort_ids(report_ids: Bytes) -> tuple[ReportIds, IntArray]:
    """Sort identifiers, shape `(n, 32)`, in place; return them, and where each stood before, shape `(n,)`.

    Raises:
        UnavailableError: the database is damaged: a report is stored twice.
    """
    try:
        return ReportIds.sort(report_ids)
    except InvalidMessageError:
        raise UnavailableError("the database holds a report twice: lintra server doctor") from None


# --- changes to what is stored, a step at a time, each in a transaction of its own: a writer waits for one at most ----


def merge_some(connection: Connection, batch: int, before: End, key: BatchKey, marks: Marks) -> tuple[End, bool] | None:
    """Rewrite the next run of small rows into one; return where it ends, and whether there was such a run.

    Rows before it that are large enough are only checked. The run has at most `MAX_STEP_BYTES`. The row keeps the chain
    value of the last one that is joined into it, so that what follows still fits. `batch` is the batch's place;
    `before` says where the row before the run ends.

    Returns:
        None when there are no rows behind `before`.

    Raises:
        BrokenChainError: a row is not the one that was stored; nothing was rewritten.
    """
    alone, run = _next_run(connection, batch, before.number + 1)
    if not alone and not run:
        return None
    for row, _ in zip(raw_rows(connection, batch, before.number + 1) if alone else (), alone, strict=False):
        if not marks.follows(before, row):
            raise BrokenChainError(batch)
        before = row.end
    if not run:
        return before, False
    rows, opened, at = list[Row](), list[bytes](), before
    for raw in connection.execute(_WHOLE, {"first": run[0], "last": run[-1]}):
        row = checkable((raw.key, raw.total, raw.ids, raw.serials, raw.mark), batch)
        if not marks.follows(at, row):
            raise BrokenChainError(batch)
        at = row.end
        rows.append(row)
        opened.append(_decrypted(key, raw.payloads, row.mark, raw.key))
    whole = Row(at.number, at.total, b"".join([row.ids for row in rows]), b"".join([row.serials for row in rows]), b"")
    mark = marks.mark(before, whole, at.chain)
    values = {
        "ids": whole.ids, "serials": whole.serials or None, "mark": mark,
        "payloads": key.encrypt(b"".join(opened), mark),
    }  # fmt: skip
    connection.execute(_DROP, {"first": run[0], "last": run[-1] - 1})
    connection.execute(_PUT.values(**values), {"of_key": run[-1]})
    return End(at.number, at.total, mark), True


def _decrypted(key: BatchKey, payloads: object, mark: bytes, place: int) -> bytes:
    try:
        if isinstance(payloads, bytes):
            return key.decrypt(payloads, mark)
    except (InvalidTag, ValueError):
        pass
    raise edited(f"table segments, row {place}, column payloads was changed")


def empty_some(connection: Connection, batch: int, first: int) -> int | None:
    """Forget payloads and serials of the next segments; return where to go on, None if there are none."""
    run = _run(connection, batch, first, MAX_STEP_BYTES)
    if not run:
        return None
    connection.execute(_EMPTY, {"first": run[0], "last": run[-1]})
    return run[-1] - batch * SPAN + 1


def drop_some(connection: Connection, batch: int) -> bool:
    """Forget the first segments of a batch whole; return whether there were any."""
    run = _run(connection, batch, 0, MAX_STEP_BYTES)
    if run:
        connection.execute(_DROP, {"first": run[0], "last": run[-1]})
    return bool(run)


def _next_run(connection: Connection, batch: int, first: int) -> tuple[list[int], list[int]]:
    """Return keys of rows that are large enough, and of those behind them that become one row."""
    alone, run, total = list[int](), list[int](), 0
    sizes = connection.execute(_SIZES, _span(batch, first) | {"most": MAX_REWRITTEN}).all()
    for key, size in sizes:
        if run and total + size > MAX_STEP_BYTES:
            if len(run) > 1:
                break
            alone.append(run.pop())
            total = 0
        run.append(key)
        total += size
    if len(run) == 1 and (not alone or len(sizes) < MAX_REWRITTEN):  # else it may become one with the rows behind it
        alone.append(run.pop())
    return alone, run if len(run) > 1 else []


def _run(connection: Connection, batch: int, first: int, most: int) -> list[int]:
    """Return the next keys whose segments have at most so many bytes together; one at least, if there is one."""
    run: list[int] = []
    total = 0
    for key, size in connection.execute(_SIZES, _span(batch, first) | {"most": MAX_REWRITTEN}).all():
        total += size
        if run and total > most:
            break
        run.append(key)
    return run


def _span(batch: int, first: int = 0, last: int = SPAN - 1) -> dict[str, int]:
    return {"first": batch * SPAN + first, "last": batch * SPAN + last}


def _values(connection: Connection, batch: int, first: int, last: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield number and payloads of rows, some megabytes at a time, whatever their size."""
    most = _FEWEST_ROWS
    while True:
        rows = connection.execute(_PAYLOADS, _span(batch, first, last) | {"most": most}).all()
        for key, value in rows:
            yield key - batch * SPAN, value
        if len(rows) < most:
            return
        first = rows[-1][0] - batch * SPAN + 1
        size = sum(len(value or b"") for _, value in rows) // len(rows)
        most = max(_FEWEST_ROWS, min(_MOST_ROWS, _READ_BYTES // max(1, size), 4 * most))
