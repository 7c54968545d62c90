"""What a server remembers: tasks, batches and the shares of its reports. How batches change their state is in `states`.

Shares are stored under their batch's data key, and that under the root key and the batch's secret together.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update
from sqlalchemy.dialects.sqlite import insert as insert_once

from lintra_protocol.canonical import HASH_BYTES
from lintra_protocol.errors import BatchClosedError, LintraError, TokenSpentError, UnavailableError
from lintra_protocol.messages import BatchState
from lintra_protocol.randomness import RandomBytes
from lintra_protocol.report_ids import ReportIds
from lintra_protocol.ring import IntArray
from lintra_server.disk.batch_secrets import Secrets
from lintra_server.disk.vault import KEY_BYTES, DataKey, Vault
from lintra_server.storage.database import Database, batches, reports, segments, tasks
from lintra_server.storage.segments import known, write_segments
from lintra_server.storage.spent import SpentSerials, SpentTables
from lintra_server.storage.steps import SET_BACK, ForkedError

_SEGMENTS_PER_READ = 8
_ROWS_PER_READ = 1 << 14
_SEGMENTS_PER_DELETE = 8

# The statements of an upload, built once: building one costs more than running it.
_OF_TASK = batches.c.task == bindparam("of_task")
_BATCH = select(batches.c.state, batches.c.num_reports, batches.c.capacity, batches.c.segments).where(_OF_TASK)
_GROW = update(batches).where(_OF_TASK).values(num_reports=bindparam("reports"), segments=bindparam("segments"))
_WRAPPED_KEY = select(batches.c.wrapped_key, batches.c.secret).where(_OF_TASK)
_ADD_TASK = insert_once(tasks).on_conflict_do_nothing().returning(tasks.c.task)


@dataclass(frozen=True)
class TaskRow:
    """A registered task: its number here, its canonical definition, and which server of it this one is.

    Attributes:
        token_key: checks the tokens of its reports, if it has any.
    """

    task: int
    definition: bytes
    server: int
    token_key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Batch:
    """The state of a task's batch; documents are the exact bytes that were, or will be, sent."""

    state: BatchState
    num_reports: int
    inventory: bytes | None = field(repr=False)
    cohort: bytes | None = field(repr=False)
    request_hash: bytes | None = field(repr=False)
    aggregate: bytes | None = field(repr=False)


@dataclass(frozen=True)
class Upload:
    """Opened reports of one task that wait to be stored.

    Attributes:
        task: the task's number.
        refusal: why reports that are not stored yet are not taken, if they are not.
        serials: of the reports' tokens, in their order, in a task that has tokens; each is good for one report.
    """

    task: int
    report_ids: Sequence[bytes]
    payloads: Sequence[bytes] = field(repr=False)
    refusal: LintraError | None = None
    serials: Sequence[bytes] = field(default=(), repr=False)

    @property
    def size(self) -> int:
        """Return its bytes in memory, nearly."""
        return sum(map(len, self.payloads)) + HASH_BYTES * len(self.report_ids)


Outcome = bool | LintraError
"""What became of one report: stored now (True), stored before (False), or refused."""


class Store:
    """The server's memory; thread-safe."""

    def __init__(self, database: Database, vault: Vault, secrets: Secrets, random_bytes: RandomBytes) -> None:
        """Keep everything in one database, encrypted through one vault and a secret for each batch."""
        self.database = database
        self._vault = vault
        self._secrets = secrets
        self._random_bytes = random_bytes
        self._data_keys: dict[int, DataKey] = {}
        self._held = database.num_reports()
        self._spent = SpentTables(random_bytes)

    def commits(self) -> int:
        """Return how many reports and tasks this process knows to be durable; it never falls."""
        held = dict(self._held)
        return sum(held.values()) + len(held)

    def num_durable(self, task: int) -> int:
        """Return how many reports of a task this process knows to be durable; it never falls."""
        return self._held.get(task, 0)

    def recount(self) -> int:
        """Count anew what the database holds, after a restore changed it; return what `commits` returns from now on."""
        self._held = self.database.num_reports()
        return self.commits()

    # --- tasks -------------------------------------------------------------------------------------------------

    def add_task(
        self,
        task_id: bytes,
        definition: bytes,
        *,
        author: str = "",
        server: int,
        capacity: int,
        ends: int,
        retention: int,
        token_key: bytes | None = None,
    ) -> bool:
        """Remember a task and open its batch; return whether it is new here.

        Args:
            task_id: 32 bytes.
            definition: canonical.
            author: the public key of who signed it.
            server: this server's index in it.
            capacity: most reports the batch may take.
            ends: seconds since the epoch when it stops taking them.
            retention: seconds that shares are kept after a release.
            token_key: checks the tokens of its reports, if it has any.
        """
        values = {
            "task_id": task_id, "definition": definition, "author": author, "server": server, "ends": ends,
            "retention": retention,
            "wrapped_token_key": None if token_key is None else self._vault.wrap(token_key, "token key", task_id),
        }  # fmt: skip
        if self._known_task(task_id, values):
            return False
        name, secret = self._secrets.new()
        with self.database.writing() as connection:
            task = connection.execute(_ADD_TASK, values).scalar()
            if task is not None:
                key = self._random_bytes(KEY_BYTES)
                wrapped = self._vault.under(secret).wrap(key, "batch key", task.to_bytes(8, "big"))
                empty = {"task": task, "state": "open", "num_reports": 0, "segments": 0, "secret": name}
                connection.execute(insert(batches), {**empty, "capacity": capacity, "wrapped_key": wrapped})
        if task is None:  # somebody else was faster
            self._secrets.destroy(name)
            return False
        self._held.setdefault(task, 0)  # not set to 0: reports may have come since the commit
        return True

    def _known_task(self, task_id: bytes, values: Mapping[str, object]) -> bool:
        """Return whether a task is known; one that only a restored journal knew gets its definition."""
        with self.database.reading() as connection:
            known = connection.execute(select(tasks.c.definition).where(tasks.c.task_id == task_id)).scalar()
        if known == b"":
            with self.database.writing() as connection:
                connection.execute(update(tasks).where(tasks.c.task_id == task_id).values(**values))
        return known is not None

    def task(self, task_id: bytes) -> TaskRow | None:
        """Return a registered task, or None."""
        columns = select(tasks.c.task, tasks.c.definition, tasks.c.server, tasks.c.wrapped_token_key)
        with self.database.reading() as connection:
            row = connection.execute(columns.where(tasks.c.task_id == task_id)).one_or_none()
        if row is None or not row.definition:
            return None
        wrapped = row.wrapped_token_key
        key = None if wrapped is None else self._vault.unwrap(wrapped, "token key", task_id)
        return TaskRow(row.task, row.definition, row.server, key)

    def unended_tasks(self, author_key: str, now: int) -> int:
        """Return how many tasks of an author end after `now`, in seconds since the epoch."""
        query = select(func.count()).select_from(tasks).where(tasks.c.ends > now, tasks.c.author == author_key)
        with self.database.reading() as connection:
            return int(connection.execute(query).scalar_one())

    def definition_bytes(self) -> int:
        """Return how many bytes the definitions of all tasks have that are still kept."""
        with self.database.reading() as connection:
            return int(connection.execute(select(func.sum(func.length(tasks.c.definition)))).scalar() or 0)

    def ending(self, task_id: bytes) -> str | None:
        """Return the state of a task's batch, also of one without a definition, or None."""
        query = select(batches.c.state).join(tasks).where(tasks.c.task_id == task_id)
        with self.database.reading() as connection:
            return connection.execute(query).scalar()

    def number(self, task_id: bytes) -> int | None:
        """Return the number of a task, also of one without a definition, or None."""
        with self.database.reading() as connection:
            return connection.execute(select(tasks.c.task).where(tasks.c.task_id == task_id)).scalar()

    # --- reports -----------------------------------------------------------------------------------------------

    def add_reports(self, uploads: Sequence[Upload]) -> list[list[Outcome]]:
        """Store the new reports of some uploads in one transaction; return what became of each report."""
        by_task: defaultdict[int, list[Upload]] = defaultdict(list)
        for upload in uploads:
            by_task[upload.task].append(upload)
        outcomes: dict[int, list[Outcome]] = {}
        held: dict[int, int] = {}
        used: list[SpentSerials] = []
        try:
            with self.database.writing() as connection:
                for task, group in by_task.items():
                    taken, held[task], spent = self._add_to_batch(connection, task, group)
                    outcomes |= taken
                    used.append(spent)
            self._held |= held
            for spent in used:
                spent.settle()
        except BaseException:
            # Whatever became of the commit, the disk knows; a table that lacks a used token would let it in again.
            for task in by_task:
                self._spent.forget(task)
            raise
        return [outcomes[id(upload)] for upload in uploads]

    def _add_to_batch(
        self, connection: Connection, task: int, group: Sequence[Upload]
    ) -> tuple[dict[int, list[Outcome]], int, SpentSerials]:
        batch = connection.execute(_BATCH, {"of_task": task}).one_or_none()
        if batch is None or batch.num_reports < self.num_durable(task):
            raise ForkedError(SET_BACK)
        stored = known(connection, task, [report_id for upload in group for report_id in upload.report_ids])
        closed = _closed(batch.state)
        serials = [serial for upload in group for serial in upload.serials]
        spent = SpentSerials(self._spent, connection, task, () if closed else serials)
        full = BatchClosedError(f"it holds the task's maximum of {batch.capacity} reports")
        space = batch.capacity - batch.num_reports
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
        if new:
            key = self._data_key(connection, task)
            written = write_segments(connection, task, batch.segments, new, spent.new, key)
            grown = {"reports": batch.num_reports + len(new), "segments": batch.segments + written}
            connection.execute(_GROW, {"of_task": task, **grown})
        return outcomes, batch.num_reports + len(new), spent

    def stored(self, task: int, report_ids: Sequence[bytes]) -> set[bytes]:
        """Return which of some reports of a task are stored, that is, durable."""
        with self.database.reading() as connection:
            return known(connection, task, report_ids)

    def report_ids(self, task: int) -> ReportIds:
        """Return the identifiers of all stored reports, sorted."""
        query = select(reports.c.report_id).where(reports.c.task == task).order_by(reports.c.report_id)
        with self.database.reading() as connection:
            return listed(connection.execute(query).scalars())

    def excluded_ids(self, task: int) -> ReportIds:
        """Return the identifiers of stored reports that are not in the frozen cohort, sorted."""
        with self.database.reading() as connection:
            excluded = connection.execute(select(batches.c.excluded).where(batches.c.task == task)).scalar() or b""
        return ReportIds.parse(excluded, len(excluded))

    def places(self, task: int) -> tuple[IntArray, IntArray]:
        """Return where the frozen cohort's payloads lie: segment number and position by rank, each of shape `(n,)`."""
        query = select(reports.c.report_id, reports.c.segment, reports.c.position).where(reports.c.task == task)
        ids: list[bytes] = []
        segment_of: list[IntArray] = []
        position_of: list[IntArray] = []
        with self.database.reading() as connection:
            rows = connection.execution_options(yield_per=_ROWS_PER_READ).execute(query.order_by(reports.c.report_id))
            for part in rows.partitions():
                of_part, numbers, positions = zip(*part, strict=True)
                ids.append(b"".join(of_part))
                segment_of.append(np.array(numbers, np.int64))
                position_of.append(np.array(positions, np.int64))
        stored = listed(ids)
        kept = ~stored.among(self.excluded_ids(task))
        nothing = np.zeros(0, np.int64)
        return np.concatenate([nothing, *segment_of])[kept], np.concatenate([nothing, *position_of])[kept]

    def payloads(self, task: int) -> Iterator[tuple[int, bytes]]:
        """Yield (segment number, decrypted payloads), a few at a time."""
        query = (
            select(segments.c.number, segments.c.payloads).where(segments.c.task == task).order_by(segments.c.number)
        )
        with self.database.reading() as connection:
            key = self._data_key(connection, task)
            for number, encrypted in connection.execution_options(yield_per=_SEGMENTS_PER_READ).execute(query):
                yield number, key.decrypt(encrypted, number)

    def _data_key(self, connection: Connection, task: int) -> DataKey:
        if task not in self._data_keys:
            wrapped, name = connection.execute(_WRAPPED_KEY, {"of_task": task}).one()
            key = self._under(name).unwrap(wrapped or b"", "batch key", task.to_bytes(8, "big"))
            self._data_keys[task] = DataKey(key, self._random_bytes)
        return self._data_keys[task]

    def _under(self, name: bytes | None) -> Vault:
        secret = self._secrets.get(name) if name else None
        if secret is None:
            raise UnavailableError("the secret of this batch was destroyed, or is missing from key_dir")
        return self._vault.under(secret)

    # --- what a batch keeps ------------------------------------------------------------------------------------

    def batch(self, task: int) -> Batch:
        """Return the state of a task's batch.

        Raises:
            ForkedError: it holds fewer reports than this process stored, or is not there: the database was set back.
        """
        columns = (batches.c[name] for name in Batch.__dataclass_fields__)
        held = self.num_durable(task)  # before the look: what is stored meanwhile is no loss
        with self.database.reading() as connection:
            row = connection.execute(select(*columns).where(batches.c.task == task)).one_or_none()
        if row is None or row.num_reports < held:
            raise ForkedError(SET_BACK)
        return Batch(*row)

    def wrapped_nonce(self, task: int, nonce: bytes) -> bytes:
        """Return a batch's nonce encrypted, as it is stored until the cohort is frozen."""
        return self._under(self._secret_name(task)).wrap(nonce, "nonce", task.to_bytes(8, "big"))

    def nonce(self, task: int) -> bytes:
        """Return the nonce that was fixed when the batch was closed.

        Raises:
            UnavailableError: the batch's secret was destroyed.
        """
        with self.database.reading() as connection:
            wrapped = connection.execute(select(batches.c.wrapped_nonce).where(batches.c.task == task)).scalar_one()
        return self._under(self._secret_name(task)).unwrap(wrapped, "nonce", task.to_bytes(8, "big"))

    def inventories(self, task: int) -> bytes:
        """Return what `freeze` kept of the inventories."""
        with self.database.reading() as connection:
            return connection.execute(select(batches.c.inventories).where(batches.c.task == task)).scalar_one() or b""

    # --- destruction -------------------------------------------------------------------------------------------

    def forget_key(self, task: int) -> None:
        """Destroy a batch's secret: nothing that was stored under its data key opens again, in no copy either."""
        name = self._secret_name(task)
        self._data_keys.pop(task, None)
        if name is not None:
            self._secrets.destroy(name)

    def delete_shares(self, task: int) -> None:
        """Delete the stored shares of a batch, a few at a time so that uploads to others go on between."""
        self._spent.forget(task)
        some = select(segments.c.segment).where(segments.c.task == task).limit(_SEGMENTS_PER_DELETE)
        while True:
            with self.database.writing() as connection:
                if not connection.execute(delete(segments).where(segments.c.segment.in_(some))).rowcount:
                    return

    def _secret_name(self, task: int) -> bytes | None:
        with self.database.reading() as connection:
            name: bytes | None = connection.execute(select(batches.c.secret).where(batches.c.task == task)).scalar_one()
        return name


def _closed(state: BatchState) -> LintraError | None:
    """Return why a batch in a state takes no new reports, or None."""
    if state == "open":
        return None
    if state == "closing":  # it may become open again
        return UnavailableError("its batch is just being closed")
    return BatchClosedError(f"it is {state}")


def listed(report_ids: Iterable[bytes]) -> ReportIds:
    """Return identifiers that the database gave in order."""
    data = b"".join(report_ids)
    return ReportIds.parse(data, len(data))
