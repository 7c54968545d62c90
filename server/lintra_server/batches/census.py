"""Answers the analyst about an open batch: one look for each time unit of its task, for census and counters alike.

The analyst sees how many reports each server lacks, and waits or goes on. More frequent looks would show when each
report came.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from threading import Lock

from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import BatchClosedError, UnavailableError, UnknownResourceError
from lintra_protocol.messages.documents import BatchState, BatchStatus, Census, Counters, Signed, census_of, sign
from lintra_protocol.rules.release import fewest_reports
from lintra_server.batches.registry import RegisteredBatch
from lintra_server.storage.history import edited
from lintra_server.storage.looks import Look, Mac, look_at
from lintra_server.storage.segments import sort_ids
from lintra_server.storage.store import Store
from lintra_service.mapped_lists import copy_of
from lintra_service.scratch import Scratch

Tell = Callable[[RegisteredBatch, int, Counters | None], Counters]
"""Returns what became of the reports of a task: of so many that are stored, and of those counted before it began."""

Guarded = Callable[[], AbstractContextManager[None]]
"""Ends the process, and says that it is unavailable, if what is done within finds that the database was set back."""


@dataclass(frozen=True)
class _Count:
    """What a batch holds now."""

    state: BatchState
    reports: int


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
        scratch: Scratch,
        mac: Mac,
    ) -> None:
        """Count in one store.

        `guarded` ends the process if a look finds fewer reports than were stored. `now` is the clock, in seconds since
        the epoch; `start` says how often this server began. `tell` knows what became of the reports that were not
        stored, since this process began. `scratch` says where the last list that was sorted stands; `mac` authenticates
        looks, which lie in the database.
        """
        self._mac = mac
        self._store = store
        self._guarded = guarded
        self._identity = identity
        self._now = now
        self._start = start
        self._tell = tell
        self._told_before: dict[int, Counters | None] = {}
        self._scratch = scratch
        self._looking = Lock()
        self._sorted: tuple[tuple[int, int], ReportIds] | None = None

    def counters(self, held: RegisteredBatch) -> bytes:
        """Return this time unit's counters."""
        with self._guarded():
            return self._look(held, self._count(held)).counters

    def status(self, held: RegisteredBatch) -> BatchStatus:
        """Return the state of the batch, and its reports as counted in this time unit (see `counters` for errors)."""
        with self._guarded():
            now = self._count(held)
            look = self._look(held, now)
        count = look.reports if now.state in ("open", "closing") else now.reports
        # Enough by that very count: else whoever asks again and again sees when the report came that made it enough.
        return BatchStatus(batch=held.batch, state=now.state, count=count, enough=count >= fewest_reports(held.task))

    def take(self, held: RegisteredBatch) -> bytes:
        """Return this time unit's signed census; after closing, the last one before it.

        Raises BatchClosedError if the batch is closed, and nobody looked before; or its keys are destroyed.
        """
        with self._guarded():
            look = self._look(held, self._count(held))
            if look.census is not None:
                return look.census
            if look.counted_at is None:
                raise BatchClosedError("its inventory says what it holds; no census was taken before")
            # The order of storing never changes, so the number of reports keeps the list that is signed here.
            report_ids = self._ids(held.number, look.reports)
            if self._is_destroyed(held):  # nothing vouches for the order any more in which its reports were stored
                raise BatchClosedError("its inventory says what it held; no census was taken before it was released")
            census = census_of(held.task, held.batch, held.server, report_ids, look.counted_at, self._start)
            document = sign(self._identity, census).canonical()
            self._keep(held, replace(look, census=document))
            return document

    def ids(self, held: RegisteredBatch) -> ReportIds:
        """Return the sorted identifiers that the last census describes.

        Raises UnknownResourceError if none was taken; UnavailableError if the database has other identifiers.
        """
        last = self._last(held)
        if last is None or last.census is None:
            raise UnknownResourceError("no census was taken of this batch")
        report_ids = self._ids(held.number, last.reports)
        if self._is_destroyed(held) and base64url(report_ids.root) != self._root(last.census):
            self._sorted = None
            raise edited(f"task {held.task.task_id}, batch {held.batch}: identifiers in table segments were changed")
        return report_ids

    def _is_destroyed(self, held: RegisteredBatch) -> bool:
        return self._store.history.batches[held.number].is_destroyed

    @staticmethod
    def _root(census: bytes) -> str:
        return Signed[Census].from_canonical(census).message.root

    def _ids(self, batch: int, count: int) -> ReportIds:
        """Return the first reports of a batch, sorted; of those asked for last they are not sorted again."""
        last = self._sorted
        if last is not None and last[0] == (batch, count):
            return last[1]
        report_ids = sort_ids(self._store.ids_by_storing(batch, count))[0]
        with suppress(UnavailableError):  # a full disk must not keep anybody from being told
            report_ids = copy_of(report_ids, self._scratch)
        self._sorted = (batch, count), report_ids
        return report_ids

    def _count(self, held: RegisteredBatch) -> _Count:
        return _Count(self._store.batch(held.number).state, self._store.num_reports(held.number))

    def _look(self, held: RegisteredBatch, now: _Count) -> Look:
        """Return this time unit's look, which is taken now if none was."""
        with self._looking:
            last = self._last(held)
            unit = int(self._now()) // held.task.time_precision
            if held.number not in self._told_before:
                self._told_before[held.number] = None if last is None else Counters.from_canonical(last.counters)
            if last is not None and last.told_at >= unit:
                return last
            note = self._store.notes.get(self._name(held))
            if note is not None and note.told_at >= unit:
                raise UnavailableError(
                    f"table looks, row {held.number}: this time unit's look is gone; the next one is told in the next"
                )
            counters = self._tell(held, now.reports, self._told_before[held.number]).canonical()
            if now.state == "open":
                look = Look(unit, counters, unit, now.reports, None)
            elif last is None:
                look = Look(unit, counters, None, now.reports, None)
            else:
                look = Look(unit, counters, last.counted_at, last.reports, last.census)
            self._keep(held, look)
            if note is not None:
                self._store.notes.tell(self._name(held), unit)
            return look

    def _keep(self, held: RegisteredBatch, look: Look) -> None:
        with self._store.database.writing() as connection:
            look.keep(connection, held.number, self._mac, self._name(held))

    def _last(self, held: RegisteredBatch) -> Look | None:
        """Return the last look at a batch; None if there was none, or if its row is not what this server wrote."""
        with self._store.database.reading() as connection:
            return look_at(connection, held.number, self._mac, self._name(held))

    def _name(self, held: RegisteredBatch) -> bytes:
        return self._store.history.batches[held.number].name
