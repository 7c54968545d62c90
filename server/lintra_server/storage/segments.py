"""Segments: what one commit stores of a batch, in one row; how they are read, rewritten into larger ones and emptied.

A batch numbers its segments in the order in which they were stored, and the order of the reports in them is never
changed afterwards. So "the first k reports" and "report k" mean the same for ever, also after rewriting: a run of small
segments becomes one that has the number of the last of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal_column,
    select,
    update,
)

from lintra_protocol.canonical import HASH_BYTES
from lintra_protocol.errors import InvalidMessageError, UnavailableError
from lintra_protocol.report_ids import ReportIds
from lintra_protocol.ring import IntArray
from lintra_server.disk.vault import DataKey
from lintra_server.storage.database import SPAN, batches, segments
from lintra_server.storage.direct import Direct, Value
from lintra_server.storage.kept import Conditional
from lintra_server.storage.reading import Reader

MAX_SEGMENT_BYTES = 1 << 20
"""Payload bytes in a segment, unless one payload alone is larger; bounds the memory of a release."""

EXCLUDED = 2**32 - 1
"""In the place of a rank: the report is not in the frozen cohort."""

MAX_REWRITTEN = 256
"""Segments that are rewritten or emptied in one transaction; with `MAX_STEP_BYTES`, how long a writer waits for it."""

MAX_STEP_BYTES = 1 << 19

_READ_BYTES = 4 << 20
_FEWEST_ROWS, _MOST_ROWS = 4, 4096
_KEYS_PER_QUERY = 512

# Built once: building a statement costs more than running it.
_RANGE = (segments.c.key >= bindparam("first"), segments.c.key <= bindparam("last"))
_ADD = Direct(insert(segments))
_TAIL = Direct(select(segments.c.key, segments.c.total).where(*_RANGE).order_by(segments.c.key.desc()).limit(1))
_TOTALS = select(segments.c.key, segments.c.total).where(*_RANGE).order_by(segments.c.key)
_IDS_OF = select(segments.c.key, segments.c.ids).where(segments.c.key.in_(bindparam("keys", expanding=True)))
_IDS_AT = Direct(select(segments.c.ids).where(segments.c.key == bindparam("of_key")))
_SIZE = func.length(segments.c.ids) + func.coalesce(func.length(segments.c.payloads), 0)
_SIZES = select(segments.c.key, _SIZE).where(*_RANGE).order_by(segments.c.key).limit(bindparam("most"))
_WHOLE = select(segments).where(*_RANGE).order_by(segments.c.key)
_EMPTY = update(segments).where(*_RANGE).values(payloads=None, serials=None)
_DROP = delete(segments).where(*_RANGE)
_PUT = update(segments).where(segments.c.key == bindparam("of_key"))

# Two looks by a whole key, not one at a range: PostgreSQL plans such a statement once, however many segments there are.
_IS_END = exists().where(segments.c.key == bindparam("end"), segments.c.total == bindparam("before"))
_IS_NEXT = exists().where(segments.c.key == bindparam("key"))
_IF_OPEN: Select[*tuple[Any, ...]] = select(*(bindparam(column.name) for column in segments.c)).where(
    batches.c.batch == bindparam("of_batch"),
    batches.c.state == literal_column("'open'"),
    batches.c.capacity >= bindparam("total"),
    batches.c.num_reports <= bindparam("before"),
    _IS_END,
    ~_IS_NEXT,
)
# Who closes the batch waits for this, or this for it, and then looks at the state again.
FOLLOW = Conditional(insert(segments).from_select(list(segments.c.keys()), _IF_OPEN.with_for_update()))
"""Writes a row of `new_segments` if its batch is open, has room and ends where the row says."""

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

    def ids(self, first: int = 0, last: int = SPAN - 1) -> Iterator[tuple[int, bytes]]:
        """Yield number and joined identifiers of the segments from one number to another, both included."""

    def payloads(self, first: int = 0, last: int = SPAN - 1) -> Iterator[tuple[int, bytes]]:
        """Yield number and joined, decrypted payloads of the same segments; nothing of those that were scrubbed."""

    def elsewhere(self) -> tuple[str, bytes]:
        """Return the database's address and the data key, with which another process reads the same."""


class Tail(NamedTuple):
    """Where a batch ends: the number of its last segment, -1 if there is none, and its reports."""

    number: int
    total: int


class Written(NamedTuple):
    """A segment that is just being written.

    Attributes:
        number: in its batch.
        report_ids: in their order.
        row: what is written, and behind what, as `FOLLOW` takes it.
    """

    number: int
    report_ids: Sequence[bytes]
    row: Mapping[str, Value]


class StoredSegments:
    """The segments of one batch in a database; see `BatchSegments`. Usable wherever database and data key are."""

    def __init__(self, database: Reader, batch: int, key: DataKey) -> None:
        """Look at which segments there are."""
        self._database = database
        self._batch = batch
        self._key = key
        with database.reading() as connection:
            rows = connection.execute(_TOTALS, _span(batch)).all()
        found = np.array([tuple(row) for row in rows], np.int64).reshape(-1, 2)
        self.numbers: IntArray = found[:, 0] - batch * SPAN
        self.totals: IntArray = found[:, 1]

    def ids(self, first: int = 0, last: int = SPAN - 1) -> Iterator[tuple[int, bytes]]:
        """Yield number and joined identifiers of the segments from one number to another, both included."""
        with self._database.reading() as connection:
            yield from _values(connection, segments.c.ids, self._batch, first, last)

    def elsewhere(self) -> tuple[str, bytes]:
        """Return the database's address and the data key, with which another process reads the same."""
        return self._database.url, self._key.bare

    def payloads(self, first: int = 0, last: int = SPAN - 1) -> Iterator[tuple[int, bytes]]:
        """Yield number and joined, decrypted payloads of the same segments; nothing of those that were scrubbed.

        Raises:
            InvalidTag: a segment is not what was stored under its number.
        """
        with self._database.reading() as connection:
            for number, encrypted in _values(connection, segments.c.payloads, self._batch, first, last):
                if encrypted is not None:
                    yield number, self._key.decrypt(encrypted, number)


def tail(connection: Connection, batch: int) -> Tail:
    """Return where a batch ends, as this transaction sees it."""
    row = _TAIL.run(connection, _span(batch))
    return Tail(-1, 0) if row is None else Tail(row[0] - batch * SPAN, row[1])


def write_segments(
    connection: Connection, batch: int, end: Tail, new: Mapping[bytes, bytes], serials: Sequence[bytes], key: DataKey
) -> list[Written]:
    """Write payloads, identifiers and the serials of tokens behind the end of a batch; return what was written."""
    written = new_segments(batch, end, new, serials, key)
    for each in written:
        _ADD.run(connection, {column.name: each.row[column.name] for column in segments.c})
    return written


def new_segments(
    batch: int, end: Tail, new: Mapping[bytes, bytes], serials: Sequence[bytes], key: DataKey
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
    total = end.total
    for number, start in enumerate(range(0, len(report_ids), per_segment), end.number + 1):
        ids = report_ids[start : start + per_segment]
        before, total = total, total + len(ids)
        payloads = b"".join([new[report_id] for report_id in ids])
        row: dict[str, Value] = {
            "key": batch * SPAN + number,
            "total": total,
            "ids": b"".join(ids),
            "serials": b"".join(serials[start : start + per_segment]) or None,
            "payloads": key.encrypt(payloads, number),
            "of_batch": batch,
            "end": batch * SPAN + number - 1,
            "before": before,
        }
        written.append(Written(number, ids, row))
    return written


def all_ids(connection: Connection, batch: int, count: int) -> Bytes:
    """Return the identifiers of the first `count` reports of a batch in the order of storing, shape `(count, 32)`.

    Raises:
        UnavailableError: they are not there.
    """
    rows, done = np.empty((count, HASH_BYTES), np.uint8), 0
    flat = rows.reshape(-1)
    if count:
        for _, ids in _values(connection, segments.c.ids, batch):
            taken = np.frombuffer(ids, np.uint8)[: flat.size - done]
            flat[done : done + len(taken)] = taken
            done += len(taken)
            if done == flat.size:
                break
    if done != flat.size:
        missing = count - done // HASH_BYTES
        raise UnavailableError(f"the identifiers of {missing} reports are not there: lintra server doctor")
    return rows


def sort_ids(report_ids: Bytes) -> tuple[ReportIds, IntArray]:
    """Sort identifiers, shape `(n, 32)`, in place; return them, and where each stood before, shape `(n,)`.

    Raises:
        UnavailableError: the database is damaged: a report is stored twice.
    """
    try:
        return ReportIds.sort(report_ids)
    except InvalidMessageError:
        raise UnavailableError("the database holds a report twice: lintra server doctor") from None


def read_ids(connection: Connection, batch: int, first: int) -> Iterator[tuple[NDArray[np.uint32], bytes]]:
    """Yield the identifiers from a segment on, some segments at a time.

    Each time: the number of each one's segment, shape `(k,)`, and all k joined.
    """
    numbers: list[int] = []
    parts: list[bytes] = []
    size = 0
    for number, ids in _values(connection, segments.c.ids, batch, first):
        numbers.append(number)
        parts.append(ids)
        size += len(ids)
        if size >= _READ_BYTES:
            yield _repeated(numbers, parts), b"".join(parts)
            numbers, parts, size = [], [], 0
    if parts:
        yield _repeated(numbers, parts), b"".join(parts)


def read_serials(connection: Connection, batch: int) -> Iterator[bytes]:
    """Yield the serials of the tokens of a batch's reports, a segment's at a time."""
    for _, serials in _values(connection, segments.c.serials, batch):
        if serials is not None:
            yield serials


def ids_of(connection: Connection, batch: int, numbers: Sequence[int]) -> dict[int, bytes]:
    """Return the identifiers of some segments, joined, by number; those that are not there are missing from it."""
    found: dict[int, bytes] = {}
    if len(numbers) == 1:
        # A report that is sent again: the list of keys in the other statement is spelled out anew each time.
        row = _IDS_AT.run(connection, {"of_key": batch * SPAN + numbers[0]})
        return found if row is None else {numbers[0]: row[0]}
    for start in range(0, len(numbers), _KEYS_PER_QUERY):
        keys = [batch * SPAN + number for number in numbers[start : start + _KEYS_PER_QUERY]]
        found.update((key - batch * SPAN, ids) for key, ids in connection.execute(_IDS_OF, {"keys": keys}))
    return found


# --- changes to what is stored, a step at a time, each in a transaction of its own: a writer waits for one at most ----


def merge_some(connection: Connection, batch: int, first: int, key: DataKey) -> tuple[int, bool] | None:
    """Rewrite the next run of small segments into one; return where to go on, and whether there was more than one.

    The run has at most `MAX_STEP_BYTES`. None is returned when there are no segments from `first` on.
    """
    run = _run(connection, batch, first, MAX_STEP_BYTES)
    if not run:
        return None
    last = run[-1] - batch * SPAN
    if len(run) == 1:
        return last + 1, False
    rows = connection.execute(_WHOLE, {"first": run[0], "last": run[-1]}).all()
    opened = [key.decrypt(row.payloads, row.key - batch * SPAN) for row in rows if row.payloads is not None]
    values = {
        "ids": b"".join([row.ids for row in rows]),
        "serials": b"".join([row.serials or b"" for row in rows]) or None,
        "payloads": key.encrypt(b"".join(opened), last) if opened else None,
    }
    connection.execute(_DROP, {"first": run[0], "last": run[-1] - 1})
    connection.execute(_PUT.values(**values), {"of_key": run[-1]})
    return last + 1, True


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


def _repeated(numbers: Sequence[int], parts: Sequence[bytes]) -> NDArray[np.uint32]:
    return np.repeat(np.array(numbers, np.uint32), [len(part) // HASH_BYTES for part in parts])


def _values(
    connection: Connection, column: ColumnElement[bytes], batch: int, first: int = 0, last: int = SPAN - 1
) -> Iterator[tuple[int, bytes]]:
    """Yield number and one column of the segments, some megabytes at a time, whatever the segments' size."""
    query = select(segments.c.key, column).where(*_RANGE).order_by(segments.c.key).limit(bindparam("most"))
    most = _FEWEST_ROWS
    while True:
        rows = connection.execute(query, _span(batch, first, last) | {"most": most}).all()
        for key, value in rows:
            yield key - batch * SPAN, value
        if len(rows) < most:
            return
        first = rows[-1][0] - batch * SPAN + 1
        size = sum(len(value or b"") for _, value in rows) // len(rows)
        most = max(_FEWEST_ROWS, min(_MOST_ROWS, _READ_BYTES // max(1, size), 4 * most))
