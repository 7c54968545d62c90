"""What the analyst hears of an open batch: one look at it per time unit of its task, census and counters alike.

The analyst sees who lacks how many reports, and waits or goes on. Told oftener, it would say when each report came.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from lintra_protocol.errors import BatchClosedError, UnknownResourceError
from lintra_protocol.messages import BatchState, BatchStatus, Counters, census_of, sign
from lintra_protocol.report_ids import ReportIds
from lintra_protocol.rules import fewest_reports
from lintra_protocol.signing import SigningKey
from lintra_server.batches.registry import HeldBatch
from lintra_server.storage.database import NUM_REPORTS, batches, looks
from lintra_server.storage.segments import all_ids, sort_ids
from lintra_server.storage.steps import SET_BACK, ForkedError
from lintra_server.storage.store import Store
from lintra_service.lists import ListFolder

Tell = Callable[[HeldBatch, int, Counters | None], Counters]
"""Returns what became of the reports of a task: of so many that are stored, and of those counted before it began."""

Guarded = Callable[[], AbstractContextManager[None]]
"""Ends the process, and says that it is unavailable, if what is done within finds that the database was set back."""


@dataclass(frozen=True)
class _Look:
    """The last look at a batch; `counted_at` and `census` are None if none was taken while it was open."""

    told_at: int
    counters: bytes
    counted_at: int | None
    reports: int
    census: bytes | None


@dataclass(frozen=True)
class _Count:
    """What a batch holds now."""

    state: BatchState
    reports: int


_COUNT = select(batches.c.state, NUM_REPORTS)
_LOOK = select(looks.c.told_at, looks.c.counters, looks.c.counted_at, looks.c.reports, looks.c.census)


class CensusTaker:
    """Looks at the batches of one server."""

    def __init__(
        self,
        store: Store,
        guarded: Guarded,
        identity: SigningKey,
        now: Callable[[], float],
        start: int,
        tell: Tell,
        lists: ListFolder,
    ) -> None:
        """Count in one store.

        Args:
            store: with the batches.
            guarded: ends the process if a look finds fewer reports than were stored.
            identity: signs censuses.
            now: the clock, in seconds since the epoch.
            start: how often this server began.
            tell: knows what became of the reports that were not stored, since this process began.
            lists: where the last list that was sorted stands, without a name.
        """
        self._store = store
        self._guarded = guarded
        self._identity = identity
        self._now = now
        self._start = start
        self._tell = tell
        self._told_before: dict[int, Counters | None] = {}
        self._lists = lists
        self._sorted: tuple[tuple[int, int], ReportIds] | None = None

    def counters(self, held: HeldBatch) -> bytes:
        """Return this time unit's counters.

        Raises:
            UnavailableError: the database was set back beneath this process, which ends.
        """
        with self._guarded(), self._store.database.writing() as connection:
            return self._look(connection, held, self._count(connection, held)).counters

    def status(self, held: HeldBatch) -> BatchStatus:
        """Return the state of the batch, and its reports as counted in this time unit (see `counters` for errors)."""
        with self._guarded(), self._store.database.writing() as connection:
            now = self._count(connection, held)
            look = self._look(connection, held, now)
        count = look.reports if now.state in ("open", "closing") else now.reports
        # Enough by that very count: else whoever asks again and again sees when the report came that made it enough.
        return BatchStatus(batch=held.batch, state=now.state, count=count, enough=count >= fewest_reports(held.task))

    def take(self, held: HeldBatch) -> bytes:
        """Return this time unit's signed census; after closing, the last one before it.

        Raises:
            BatchClosedError: the batch is closed, and nobody looked before.
            UnavailableError: the database was set back beneath this process, which ends.
        """
        with self._guarded(), self._store.database.writing() as connection:
            look = self._look(connection, held, self._count(connection, held))
            if look.census is not None:
                return look.census
            if look.counted_at is None:
                raise BatchClosedError("its inventory says what it holds; no census was taken before")
            # The order of storing never changes, so the number of reports keeps the list that is signed here.
            report_ids = self._ids(connection, held.number, look.reports)
            census = census_of(held.task, held.batch, held.server, report_ids, look.counted_at, self._start)
            document = sign(self._identity, census).canonical()
            connection.execute(update(looks).where(looks.c.batch == held.number).values(census=document))
            return document

    def ids(self, held: HeldBatch) -> ReportIds:
        """Return the sorted identifiers that the last census describes.

        Raises:
            UnknownResourceError: none was taken.
        """
        with self._store.database.reading() as connection:
            last = _last(connection, held.number)
            if last is None or last.census is None:
                raise UnknownResourceError("no census was taken of this batch")
            return self._ids(connection, held.number, last.reports)

    def _ids(self, connection: Connection, batch: int, count: int) -> ReportIds:
        """Return the first reports of a batch, sorted; of those asked for last they are not sorted again."""
        last = self._sorted
        if last is not None and last[0] == (batch, count):
            return last[1]
        report_ids = sort_ids(all_ids(connection, batch, count))[0]
        with suppress(OSError):  # a full disk must not keep anybody from being told
            report_ids = self._lists.unnamed(report_ids)
        self._sorted = (batch, count), report_ids
        return report_ids

    def _count(self, connection: Connection, held: HeldBatch) -> _Count:
        row = connection.execute(_COUNT.where(batches.c.batch == held.number)).one_or_none()
        if row is None or row.num_reports < self._store.num_durable(held.number):
            raise ForkedError(SET_BACK)
        return _Count(*row)

    def _look(self, connection: Connection, held: HeldBatch, now: _Count) -> _Look:
        """Return this time unit's look, which is taken now if none was."""
        last = _last(connection, held.number)
        unit = int(self._now()) // held.task.time_precision
        if held.number not in self._told_before:
            self._told_before[held.number] = None if last is None else Counters.from_canonical(last.counters)
        if last is not None and last.told_at >= unit:
            return last
        counters = self._tell(held, now.reports, self._told_before[held.number]).canonical()
        if now.state == "open":
            look = _Look(unit, counters, unit, now.reports, None)
        elif last is None:
            look = _Look(unit, counters, None, now.reports, None)
        else:
            look = _Look(unit, counters, last.counted_at, last.reports, last.census)
        connection.execute(looks.delete().where(looks.c.batch == held.number))
        connection.execute(insert(looks), {"batch": held.number, **vars(look)})
        return look


def _last(connection: Connection, batch: int) -> _Look | None:
    row = connection.execute(_LOOK.where(looks.c.batch == batch)).one_or_none()
    return None if row is None else _Look(*row)
