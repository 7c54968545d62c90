"""What a batch holds, as closing, freezing and releasing read it: identifiers, ranks and shares."""

from collections.abc import Iterator

import numpy as np
from sqlalchemy import Connection, select

from lintra_protocol.cohort.report_ids import ReportIds, decode_positions
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.canonical import HASH_BYTES, parse_base64url
from lintra_protocol.errors import UnavailableError
from lintra_protocol.messages.documents import Inventory, Signed
from lintra_server.storage.chains import raw_rows
from lintra_server.storage.database import batches
from lintra_server.storage.history import Value, edited
from lintra_server.storage.marks import BEGIN, BrokenChainError, Row
from lintra_server.storage.schema import as_read
from lintra_server.storage.segments import Bytes, SegmentTable, StoredSegments, sort_ids
from lintra_server.storage.tasks import StoredTasks


class BatchReader(StoredTasks):
    """The stored reports of all batches; thread-safe."""

    def report_ids(self, *numbers: int) -> ReportIds:
        """Return the identifiers of all stored reports of some batches, sorted (see `ids_by_storing` for errors)."""
        lists = [self.ids_by_storing(number) for number in numbers]
        return sort_ids(np.concatenate(lists) if len(lists) > 1 else lists[0])[0]

    def ids_by_storing(self, batch: int, count: int | None = None) -> Bytes:
        """Return the identifiers of all, or the first `count`, reports in the order of storing, shape `(n, 32)`."""
        return self.held(batch)[0][:count]

    def held(self, batch: int) -> tuple[Bytes, SegmentTable]:
        """Return the identifiers of all reports in the order of storing, shape `(n, 32)`, and the rows they stand in.

        Of a batch whose keys were destroyed the identifiers are as the database has them: the caller compares them with
        a signed root. Raises UnavailableError if some are not there, or were changed.
        """
        if self.history.batches[batch].is_destroyed:
            with self.database.reading() as connection:
                return _gathered(raw_rows(connection, batch), 0)
        end = self.chains.end(batch)
        try:
            with self.database.reading() as connection:
                return _gathered(self.chains.rows(connection, batch, BEGIN, end), end.total)
        except BrokenChainError:
            raise self.chains.damage(batch) from None

    def segments(self, batch: int, table: SegmentTable) -> StoredSegments:
        """Return what a batch holds, row by row; whoever reads keeps it from being rewritten meanwhile."""
        return StoredSegments(self.database, batch, self._key(batch).payload_key, table)

    def num_reports(self, batch: int) -> int:
        """Return how many reports a batch holds, or held before they were deleted."""
        if not self.history.batches[batch].is_destroyed:
            return self.chains.end(batch).total
        query = select(batches.c.num_reports).where(batches.c.batch == batch)
        with self.database.reading() as connection:
            last = [row.total for row in raw_rows(connection, batch)]
            count = connection.execute(query).scalar()  # what an editor wrote is only shown
            return max(last[-1] if last else 0, count if isinstance(count, int) else 0)

    def listed(self, batch: int) -> ReportIds | None:
        """Return the sorted identifiers of a batch whose keys were destroyed, as its signed inventory lists them.

        None is returned if there is none. Raises UnavailableError if the identifiers are not those that were signed.
        """
        line = self.history.batches[batch].line
        place = None if line is None else self.history.place(line.of)
        inventory = None if place is None else self.columns(place, "inventory")["inventory"]
        if place is None or not isinstance(inventory, bytes):
            return None
        report_ids = self.report_ids(*self.history.members(place))
        root = Signed[Inventory].from_canonical(inventory).message.root
        if report_ids.root != parse_base64url(root):
            raise edited(f"{self.history.batches[batch].batch}: its identifiers are not those of its inventory")
        return report_ids

    def inventories(self, batch: int) -> bytes:
        """Return what `freeze` kept of the inventories (see `columns` for errors)."""
        value = self.columns(batch, "inventories")["inventories"]
        return value if isinstance(value, bytes) else b""

    def missing(self, batch: int) -> IntArray:
        """Return where in a batch's sorted list stand reports that the frozen cohort lacks, ascending, shape `(k,)`."""
        return self._positions(batch, "missing")

    def rejected(self, batch: int) -> IntArray:
        """Return where in a frozen cohort stand reports that the verdict rejected, ascending, shape `(k,)`.

        There are none before there is a verdict. They are told apart from `missing`: a cohort stays what was frozen.
        """
        return self._positions(batch, "rejected")

    def columns(self, batch: int, *names: str) -> dict[str, Value]:
        """Return some columns of a batch, which hold what the journal says; all are None if its row is gone.

        Raises UnavailableError if one holds something else, or if a step is on its way to the database.
        """
        with self.database.reading() as connection:
            row = _columns(connection, batch, names)
        history = self.history.batches[batch]
        if history.contradiction(row):
            # A step may have been applied to the database between the look at it and the look at the history.
            with self.history.lock, self.database.reading() as connection:
                row = _columns(connection, batch, names)
                if self.history.waiting == history.batch and history.contradiction(row):
                    raise UnavailableError("a step of the release is waiting for the disk or the witness")
                self.history.require(batch, row)
        return row

    def _positions(self, batch: int, name: str) -> IntArray:
        value = self.columns(batch, name)[name]
        return decode_positions(value if isinstance(value, bytes) else b"")


def _gathered(rows: Iterator[Row], count: int) -> tuple[Bytes, SegmentTable]:
    """Return the identifiers of some rows, which are `count` if that is not 0, and what the rows are."""
    ids = bytearray(count * HASH_BYTES)  # at once: for most of its time it is the largest thing in memory
    at, numbers, totals, marks = 0, list[int](), list[int](), list[bytes]()
    for row in rows:
        ids[at : at + len(row.ids)] = row.ids
        at += len(row.ids)
        numbers.append(row.number)
        totals.append(row.total)
        marks.append(row.mark)
    if len(ids) % HASH_BYTES:
        raise UnavailableError("identifiers were changed: lintra server doctor")
    table = SegmentTable(np.array(numbers, np.int64), np.array(totals, np.int64), marks)
    return np.frombuffer(ids, np.uint8).reshape(-1, HASH_BYTES), table


def _columns(connection: Connection, batch: int, names: tuple[str, ...]) -> dict[str, Value]:
    row = connection.execute(as_read(batches, *names).where(batches.c.batch == batch)).one_or_none()
    return dict.fromkeys(names) if row is None else dict(zip(names, row, strict=True))
