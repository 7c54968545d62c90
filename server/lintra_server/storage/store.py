"""What a server remembers: tasks, batches and the shares of its reports. How batches change their state is in `states`.

Shares are stored under their batch's data key, and that under the root key and the batch's secret together.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy import Connection, bindparam, func, select, update
from sqlalchemy.exc import DatabaseError

from lintra_protocol.canonical import HASH_BYTES
from lintra_protocol.errors import BatchClosedError, LintraError, TokenSpentError, UnavailableError
from lintra_protocol.messages import BatchState
from lintra_protocol.randomness import RandomBytes
from lintra_server.disk.batch_secrets import Secrets
from lintra_server.disk.vault import Vault
from lintra_server.storage.database import NUM_REPORTS, AnyDatabase, batches
from lintra_server.storage.direct import Direct
from lintra_server.storage.held import HeldReports
from lintra_server.storage.known import KnownIds
from lintra_server.storage.segments import Tail, Written, drop_some, empty_some, merge_some, tail, write_segments
from lintra_server.storage.shortcut import Arrived, Shortcut
from lintra_server.storage.spent import SpentSerials, SpentTables
from lintra_server.storage.steps import SET_BACK, ForkedError

# The statements of an upload, built once: building one costs more than running it.
_OF_BATCH = batches.c.batch == bindparam("of_batch")
_BATCH = Direct(select(batches.c.state, batches.c.num_reports, batches.c.capacity).where(_OF_BATCH).with_for_update())

NonceLabel = Literal["nonce", "matrix nonce"]
_NONCE_COLUMNS: Mapping[NonceLabel, str] = {"nonce": "wrapped_nonce", "matrix nonce": "wrapped_matrix_nonce"}


@dataclass(frozen=True)
class Batch:
    """The state of a task's batch; documents are the exact bytes that were, or will be, sent."""

    state: BatchState
    num_reports: int
    first: int | None
    inventory: bytes | None = field(repr=False)
    cohort: bytes | None = field(repr=False)
    check_share: bytes | None = field(repr=False)
    verdict: bytes | None = field(repr=False)
    ended_by: str | None
    request_hash: bytes | None = field(repr=False)
    aggregate: bytes | None = field(repr=False)


@dataclass(frozen=True)
class Upload:
    """Opened reports of one batch that wait to be stored.

    Attributes:
        batch: its number here.
        refusal: why reports that are not stored yet are not taken, if they are not.
        serials: of the reports' tokens, in their order, in a task that has tokens; each is good for one report.
    """

    batch: int
    report_ids: Sequence[bytes]
    payloads: Sequence[bytes] = field(repr=False)
    refusal: LintraError | None = None
    serials: Sequence[bytes] = field(default=(), repr=False)

    @property
    def size(self) -> int:
        """Return its bytes in memory, nearly."""
        return sum(map(len, self.payloads)) + HASH_BYTES * len(self.report_ids)


@dataclass(frozen=True)
class _Stored:
    """What one transaction stored of a batch, behind which end, and how many reports it holds now."""

    total: int
    end: Tail
    segments: Sequence[Written]
    spent: SpentSerials


Outcome = bool | LintraError
"""What became of one report: stored now (True), stored before (False), or refused."""


class Store(HeldReports):
    """The server's memory; thread-safe."""

    def __init__(self, database: AnyDatabase, vault: Vault, secrets: Secrets, random_bytes: RandomBytes) -> None:
        """Keep everything in one database, encrypted through one vault and a secret for each batch."""
        super().__init__(database, vault, secrets, random_bytes)
        self._spent = SpentTables(random_bytes)
        self._known = KnownIds(random_bytes)
        self._shortcut = Shortcut(database, self._known, self._spent)
        self._adding = threading.Lock()
        self._closed = set[int]()
        database.expect(self._require_counts)

    def commits(self) -> int:
        """Return how many reports and batches this process knows to be durable; it never falls."""
        held = dict(self._held)
        return sum(held.values()) + len(held)

    def note_closed(self, batch: int) -> None:
        """Remember that an inventory was given out: if the batch is open again, the database was set back."""
        self._closed.add(batch)

    def num_durable(self, batch: int) -> int:
        """Return how many reports of a batch this process knows to be durable; it never falls."""
        return self._held.get(batch, 0)

    def recount(self) -> int:
        """Count anew what the database holds, after a restore changed it; return what `commits` returns from now on."""
        self._shortcut.forget_all()
        self._held = self.database.num_reports()
        return self.commits()

    def _require_counts(self, connection: Connection) -> None:
        """Refuse a database that lacks reports which this process stored."""
        counts = {row[0]: row[1] for row in connection.execute(select(batches.c.batch, NUM_REPORTS))}
        if any(counts.get(batch, -1) < held for batch, held in dict(self._held).items()):
            raise ForkedError(SET_BACK)

    # --- reports -----------------------------------------------------------------------------------------------

    def add_reports(self, uploads: Sequence[Upload]) -> list[list[Outcome]]:
        """Store the new reports of some uploads in one transaction; return what became of each report."""
        by_batch: defaultdict[int, list[Upload]] = defaultdict(list)
        for upload in uploads:
            by_batch[upload.batch].append(upload)
        with self._adding:
            try:
                if self._add_at_once(by_batch):
                    return [[True] * len(upload.report_ids) for upload in uploads]
                outcomes = self._add_looking(by_batch)
            except BaseException:
                # Whatever became of the commit, the disk knows; a table that lacks a report or a used token would let
                # it in again.
                for number in by_batch:
                    self._spent.forget(number)
                    self._known.forget(number)
                    self._shortcut.forget(number)
                raise
        return [outcomes[id(upload)] for upload in uploads]

    def _add_at_once(self, by_batch: Mapping[int, Sequence[Upload]]) -> bool:
        """Store reports by one statement, if all of them are new to memory; return whether they were stored."""
        arrived: dict[int, Arrived] = {}
        for number, group in sorted(by_batch.items()):
            key = self._data_keys.get(number)
            if key is None or number in self._closed or not self._shortcut.leads_to(number):
                return False
            report_ids, payloads, serials = group[0].report_ids, group[0].payloads, group[0].serials
            if len(group) > 1:
                report_ids = [report_id for upload in group for report_id in upload.report_ids]
                payloads = [payload for upload in group for payload in upload.payloads]
                serials = [serial for upload in group for serial in upload.serials]
            if any(upload.refusal for upload in group):
                return False
            arrived[number] = Arrived(report_ids, payloads, serials, key)
        totals = self._shortcut.store(arrived)
        self._held |= totals or {}
        return totals is not None

    def _add_looking(self, by_batch: Mapping[int, Sequence[Upload]]) -> dict[int, list[Outcome]]:
        """Store new reports in a transaction that looks first; return what became of each upload's, by its `id`."""
        outcomes: dict[int, list[Outcome]] = {}
        stored: dict[int, _Stored] = {}
        with self.database.appending() as connection:
            for number, group in sorted(by_batch.items()):  # in one order, so that nobody waits for another in turn
                taken, stored[number] = self._add_to_batch(connection, number, group)
                outcomes |= taken
        self._held |= {number: each.total for number, each in stored.items()}
        for number, each in stored.items():
            each.spent.settle()
            self._known.add(number, each.segments)
            last = each.segments[-1].number if each.segments else each.end.number
            self._shortcut.found(number, each.end, Tail(last, each.total))
        return outcomes

    def _add_to_batch(
        self, connection: Connection, number: int, group: Sequence[Upload]
    ) -> tuple[dict[int, list[Outcome]], "_Stored"]:
        batch = _BATCH.run(connection, {"of_batch": number})
        end = tail(connection, number)
        state, num_reports, capacity = batch or ("", -1, 0)
        reopened = state == "open" and number in self._closed
        if batch is None or reopened or max(end.total, num_reports) < self.num_durable(number):
            raise ForkedError(SET_BACK)
        stored = self._known.among(connection, number, [i for upload in group for i in upload.report_ids], end)
        closed = _closed(state)
        serials = [serial for upload in group for serial in upload.serials]
        spent = SpentSerials(self._spent, connection, number, () if closed else serials)
        full = BatchClosedError(f"it holds the task's maximum of {capacity} reports")
        space = capacity - end.total
        new: dict[bytes, bytes] = {}
        outcomes: dict[int, list[Outcome]] = {}
        for upload in group:
            refusal = upload.refusal or closed
            taken: list[Outcome] = []
            outcomes[id(upload)] = taken
            own: Sequence[bytes | None] = upload.serials or [None] * len(upload.report_ids)
            for report_id, payload, serial in zip(upload.report_ids, upload.payloads, own, strict=True):
                if report_id in stored or report_id in new:
                    taken.append(False)
                elif refusal or len(new) >= space:
                    taken.append(refusal or full)
                elif serial in spent.used:
                    taken.append(TokenSpentError())
                else:
                    if serial is not None:
                        spent.use(serial)
                    new[report_id] = payload
                    taken.append(True)
        written: list[Written] = []
        if new:
            key = self._data_key(connection, number)
            written = write_segments(connection, number, end, new, spent.new, key)
        return outcomes, _Stored(max(end.total, num_reports) + len(new), end, written, spent)

    def are_new(self, batch: int, report_ids: Sequence[bytes]) -> bool:
        """Return whether memory alone shows that none of some reports is stored; waits for nothing (see `KnownIds`)."""
        return self._known.are_new(batch, report_ids)

    def stored(self, batch: int, report_ids: Sequence[bytes]) -> set[bytes]:
        """Return which of some reports of a batch are stored, or raise `UnavailableError` if nobody can tell."""
        try:
            known = self._known.remembered(self.database.reading, batch, report_ids)
            if known is not None:
                return known
            with self.database.reading() as connection:
                return self._known.among(connection, batch, report_ids, tail(connection, batch))
        except DatabaseError as error:
            raise UnavailableError(f"the database cannot be read: {type(error).__name__}") from None

    def merge_segments(self, batch: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> bool:
        """Rewrite small segments into larger ones; return whether all is done that can be in so many seconds.

        No report may be added meanwhile, and nobody read by segments: the caller sees to it.
        """
        until, first, merged = clock() + seconds, 0, False
        while clock() < until:
            with self.database.writing() as connection:
                done = merge_some(connection, batch, first, self._data_key(connection, batch))
            if done is None and not merged:
                return True
            first, merged = (0, False) if done is None else (done[0], merged or done[1])
            if done is not None and done[1]:
                self._known.forget(batch)
        return False

    # --- what a batch keeps ------------------------------------------------------------------------------------

    def batch(self, batch: int) -> Batch:
        """Return the state of a batch.

        Raises:
            ForkedError: it holds fewer reports than this process stored, or is not there: the database was set back.
        """
        columns = (NUM_REPORTS if name == "num_reports" else batches.c[name] for name in Batch.__dataclass_fields__)
        held = self.num_durable(batch)  # before the look: what is stored meanwhile is no loss
        with self.database.reading() as connection:
            row = connection.execute(select(*columns).where(batches.c.batch == batch)).one_or_none()
        if row is None or row.num_reports < held:
            raise ForkedError(SET_BACK)
        return Batch(*row)

    def members(self, batch: int) -> list[int]:
        """Return the batches whose reports are released as those of a batch: itself, and before it what it merged."""
        own, other = batches.alias(), batches.alias()
        ours = (other.c.task == own.c.task) & (other.c.number <= own.c.number)
        merged = ours & (other.c.number >= func.coalesce(own.c.first, own.c.number))
        query = select(other.c.batch).join_from(own, other, merged).where(own.c.batch == batch)
        with self.database.reading() as connection:
            return list(connection.execute(query.order_by(other.c.number)).scalars())

    def wrapped_nonce(self, batch: int, nonce: bytes, label: NonceLabel = "nonce") -> bytes:
        """Return a batch's nonce encrypted, as it is stored until it is revealed."""
        return self._under(self._secret_name(batch)).wrap(nonce, label, batch.to_bytes(8, "big"))

    def nonce(self, batch: int, label: NonceLabel = "nonce") -> bytes:
        """Return a nonce that was fixed when the batch was closed.

        Raises:
            UnavailableError: the batch's secret was destroyed.
        """
        column = batches.c[_NONCE_COLUMNS[label]]
        with self.database.reading() as connection:
            wrapped = connection.execute(select(column).where(batches.c.batch == batch)).scalar_one()
        return self._under(self._secret_name(batch)).unwrap(wrapped, label, batch.to_bytes(8, "big"))

    def inventories(self, batch: int) -> bytes:
        """Return what `freeze` kept of the inventories."""
        with self.database.reading() as connection:
            return connection.execute(select(batches.c.inventories).where(batches.c.batch == batch)).scalar_one() or b""

    # --- destruction -------------------------------------------------------------------------------------------

    def forget_key(self, batch: int) -> None:
        """Destroy a batch's secret: nothing that was stored under its data key opens again, in no copy either."""
        name = self._secret_name(batch)
        self._data_keys.pop(batch, None)
        if name is not None:
            self._secrets.destroy(name)

    def delete_shares(self, batch: int) -> None:
        """Delete the stored shares of a batch, a few at a time so that uploads to others go on between."""
        self._spent.forget(batch)
        first: int | None = 0
        while first is not None:
            with self.database.writing() as connection:
                first = empty_some(connection, batch, first)

    def delete_ids(self, batch: int) -> None:
        """Delete what is left of a batch's reports, a few at a time; only their number stays."""
        self._known.forget(batch)
        count = select(NUM_REPORTS).where(batches.c.batch == batch).scalar_subquery()
        with self.database.writing() as connection:
            connection.execute(update(batches).where(batches.c.batch == batch).values(num_reports=count))
        left = True
        while left:
            with self.database.writing() as connection:
                left = drop_some(connection, batch)

    def _secret_name(self, batch: int) -> bytes | None:
        with self.database.reading() as connection:
            name: bytes | None = connection.execute(
                select(batches.c.secret).where(batches.c.batch == batch)
            ).scalar_one()
        return name


def _closed(state: BatchState) -> LintraError | None:
    """Return why a batch in a state takes no new reports, or None."""
    if state == "closing":  # it may become open again
        return UnavailableError("its batch is just being closed")
    return None if state == "open" else BatchClosedError(f"it is {state}")
