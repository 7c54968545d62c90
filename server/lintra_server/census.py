"""What an open batch holds, signed at most once per time unit of its task, before anybody decides to close it.

The analyst sees who lacks how many reports, and waits or goes on. Counted oftener, it would tell when each report came.
"""

from collections.abc import Callable

from sqlalchemy import Connection, delete, insert, select

from lintra_protocol.errors import BatchClosedError, UnknownResourceError
from lintra_protocol.messages import Census, Signed, census_of, sign
from lintra_protocol.report_ids import ReportIds
from lintra_protocol.signing import SigningKey
from lintra_server.database import batches, censuses, reports
from lintra_server.registry import Held
from lintra_server.store import Store, listed


class CensusTaker:
    """Takes the censuses of one server."""

    def __init__(self, store: Store, identity: SigningKey, now: Callable[[], float], start: int) -> None:
        """Count in one store; `now` is the clock, in seconds since the epoch, `start` how often this server began."""
        self._start = start
        self._store = store
        self._identity = identity
        self._now = now

    def take(self, held: Held) -> bytes:
        """Return this time unit's signed census; after closing, the last one that was taken before.

        Raises:
            BatchClosedError: the batch is closed, and no census was taken before.
        """
        unit = int(self._now()) // held.task.time_precision
        with self._store.database.writing() as connection:
            last = _last(connection, held.number)
            if last is not None and Signed[Census].from_canonical(last[0]).message.counted_at >= unit:
                return last[0]
            state, num_segments = connection.execute(
                select(batches.c.state, batches.c.segments).where(batches.c.task == held.number)
            ).one()
            if state != "open":
                if last is None:
                    raise BatchClosedError("its inventory says what it holds; no census was taken before")
                return last[0]
            # Segments are only ever added, so their number keeps the list that is signed here.
            report_ids = _ids(connection, held.number, num_segments)
            census = census_of(held.task, held.server, report_ids, unit, self._start)
            document = sign(self._identity, census).canonical()
            connection.execute(delete(censuses).where(censuses.c.task == held.number))
            connection.execute(insert(censuses), {"task": held.number, "document": document, "segments": num_segments})
            return document

    def ids(self, held: Held) -> ReportIds:
        """Return the sorted identifiers that the last census describes.

        Raises:
            UnknownResourceError: none was taken.
        """
        with self._store.database.reading() as connection:
            last = _last(connection, held.number)
            if last is None:
                raise UnknownResourceError("no census was taken of this batch")
            return _ids(connection, held.number, last[1])


def _last(connection: Connection, task: int) -> tuple[bytes, int] | None:
    row = connection.execute(select(censuses.c.document, censuses.c.segments).where(censuses.c.task == task)).first()
    return None if row is None else (row.document, row.segments)


def _ids(connection: Connection, task: int, num_segments: int) -> ReportIds:
    query = select(reports.c.report_id).where(reports.c.task == task, reports.c.segment < num_segments)
    return listed(connection.execute(query.order_by(reports.c.report_id)).scalars())
