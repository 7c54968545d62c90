"""What a server remembers: tasks, batches and the shares of its reports. Every change of state is one transaction.

A change is conditional on the state that it leaves. Of two that race, in this process or another, one wins, and the
other finds what the winner stored.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from lintra_protocol.canonical import HASH_BYTES
from lintra_protocol.errors import BatchClosedError, CohortTooSmallError, LintraError
from lintra_protocol.messages import BatchState
from lintra_protocol.randomness import RandomBytes
from lintra_protocol.ring import IntArray
from lintra_server.database import Database, batches, reports, segments, tasks
from lintra_server.vault import KEY_BYTES, DataKey, Vault

MAX_SEGMENT_BYTES = 1 << 20
"""Payload bytes in a segment, unless one payload alone is larger; bounds the memory of a release."""

_IDS_PER_QUERY = 512
_SEGMENTS_PER_READ = 8

Values = Mapping[str, str | bytes | int | None]

_FINAL: dict[str, BatchState] = {"released": "scrubbed"}

# The statements of an upload, built once: building one costs more than running it.
_OF_TASK = batches.c.task == bindparam("of_task")
_BATCH = select(
    batches.c.state, batches.c.num_reports, batches.c.capacity, batches.c.segments, batches.c.wrapped_key
).where(_OF_TASK)
_GROW = update(batches).where(_OF_TASK).values(num_reports=bindparam("reports"), segments=bindparam("segments"))
_ADD_SEGMENT, _ADD_REPORTS = insert(segments), insert(reports)
_KNOWN = select(reports.c.report_id).where(
    reports.c.task == bindparam("task"), reports.c.report_id.in_(bindparam("ids", expanding=True))
)


@dataclass(frozen=True)
class TaskRow:
    """A registered task: its number here, its canonical definition, and which server of it this one is."""

    task: int
    definition: bytes
    server: int


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
    """

    task: int
    report_ids: Sequence[bytes]
    payloads: Sequence[bytes] = field(repr=False)
    refusal: LintraError | None = None

    @property
    def size(self) -> int:
        """Return its bytes in memory, nearly."""
        return sum(map(len, self.payloads)) + HASH_BYTES * len(self.report_ids)


Outcome = bool | LintraError
"""What became of one report: stored now (True), stored before (False), or refused."""


class Store:
    """The server's memory; thread-safe."""

    def __init__(self, database: Database, vault: Vault, random_bytes: RandomBytes) -> None:
        """Keep everything in one database, encrypted through one vault."""
        self.database = database
        self._vault = vault
        self._random_bytes = random_bytes

    # --- tasks -------------------------------------------------------------------------------------------------

    def add_task(
        self, task_id: bytes, definition: bytes, *, server: int, capacity: int, ends: int, retention: int
    ) -> bool:
        """Remember a task and open its batch; return whether it is new here.

        Args:
            task_id: 32 bytes.
            definition: canonical.
            server: this server's index in it.
            capacity: most reports the batch may take.
            ends: seconds since the epoch when it stops taking them.
            retention: seconds that shares are kept after a release.
        """
        with self.database.writing() as connection:
            if connection.execute(select(tasks.c.task).where(tasks.c.task_id == task_id)).scalar() is not None:
                return False
            values = {
                "task_id": task_id, "definition": definition, "server": server, "ends": ends, "retention": retention,
            }  # fmt: skip
            task = connection.execute(insert(tasks).returning(tasks.c.task), values).scalar_one()
            wrapped = self._vault.wrap(self._random_bytes(KEY_BYTES), "batch key", task.to_bytes(8, "big"))
            empty = {"task": task, "state": "open", "num_reports": 0, "segments": 0}
            connection.execute(insert(batches), {**empty, "capacity": capacity, "wrapped_key": wrapped})
        return True

    def task(self, task_id: bytes) -> TaskRow | None:
        """Return a registered task, or None."""
        columns = select(tasks.c.task, tasks.c.definition, tasks.c.server)
        with self.database.reading() as connection:
            row = connection.execute(columns.where(tasks.c.task_id == task_id)).one_or_none()
        return None if row is None else TaskRow(*row)

    # --- reports -----------------------------------------------------------------------------------------------

    def add_reports(self, uploads: Sequence[Upload]) -> list[list[Outcome]]:
        """Store the new reports of some uploads in one transaction; return what became of each report."""
        by_task: defaultdict[int, list[Upload]] = defaultdict(list)
        for upload in uploads:
            by_task[upload.task].append(upload)
        outcomes: dict[int, list[Outcome]] = {}
        with self.database.writing() as connection:
            for task, group in by_task.items():
                outcomes |= self._add_to_batch(connection, task, group)
        return [outcomes[id(upload)] for upload in uploads]

    def _add_to_batch(self, connection: Connection, task: int, group: Sequence[Upload]) -> dict[int, list[Outcome]]:
        batch = connection.execute(_BATCH, {"of_task": task}).one()
        known = _known(connection, task, [report_id for upload in group for report_id in upload.report_ids])
        closed = None if batch.state == "open" else BatchClosedError(f"it is {batch.state}")
        full = BatchClosedError(f"it holds the task's maximum of {batch.capacity} reports")
        space = batch.capacity - batch.num_reports
        new: dict[bytes, bytes] = {}
        outcomes: dict[int, list[Outcome]] = {}
        for upload in group:
            refusal = upload.refusal or closed
            taken: list[Outcome] = []
            outcomes[id(upload)] = taken
            for report_id, payload in zip(upload.report_ids, upload.payloads, strict=True):
                if report_id in known or report_id in new:
                    taken.append(False)
                elif refusal or len(new) >= space:
                    taken.append(refusal or full)
                else:
                    new[report_id] = payload
                    taken.append(True)
        if new:
            key = self._data_key(task, batch.wrapped_key)
            written = _write_segments(connection, task, batch.segments, new, key)
            grown = {"reports": batch.num_reports + len(new), "segments": batch.segments + written}
            connection.execute(_GROW, {"of_task": task, **grown})
        return outcomes

    def report_ids(self, task: int) -> list[bytes]:
        """Return the identifiers of all stored reports, sorted."""
        query = select(reports.c.report_id).where(reports.c.task == task).order_by(reports.c.report_id)
        with self.database.reading() as connection:
            return list(connection.execute(query).scalars())

    def excluded_ids(self, task: int) -> list[bytes]:
        """Return the identifiers of stored reports that are not in the frozen cohort, sorted."""
        with self.database.reading() as connection:
            excluded = connection.execute(select(batches.c.excluded).where(batches.c.task == task)).scalar() or b""
        return [excluded[start : start + HASH_BYTES] for start in range(0, len(excluded), HASH_BYTES)]

    def places(self, task: int) -> tuple[IntArray, IntArray]:
        """Return where the frozen cohort's payloads lie: segment number and position by rank, each of shape `(n,)`."""
        excluded = set(self.excluded_ids(task))
        query = select(reports.c.report_id, reports.c.segment, reports.c.position).where(reports.c.task == task)
        with self.database.reading() as connection:
            rows = connection.execution_options(yield_per=4096).execute(query.order_by(reports.c.report_id))
            flat = np.fromiter((n for row in rows if row[0] not in excluded for n in row[1:]), np.int64)
        return flat[0::2], flat[1::2]

    def payloads(self, task: int) -> Iterator[tuple[int, bytes]]:
        """Yield (segment number, decrypted payloads), a few at a time."""
        query = (
            select(segments.c.number, segments.c.payloads).where(segments.c.task == task).order_by(segments.c.number)
        )
        with self.database.reading() as connection:
            wrapped = connection.execute(select(batches.c.wrapped_key).where(batches.c.task == task)).scalar_one()
            key = self._data_key(task, wrapped)
            for number, encrypted in connection.execution_options(yield_per=_SEGMENTS_PER_READ).execute(query):
                yield number, key.decrypt(encrypted, number)

    def _data_key(self, task: int, wrapped: bytes) -> DataKey:
        return DataKey(self._vault.unwrap(wrapped, "batch key", task.to_bytes(8, "big")), self._random_bytes)

    # --- the life of a batch -----------------------------------------------------------------------------------

    def batch(self, task: int) -> Batch:
        """Return the state of a task's batch."""
        columns = (batches.c[name] for name in Batch.__dataclass_fields__)
        with self.database.reading() as connection:
            return Batch(*connection.execute(select(*columns).where(batches.c.task == task)).one())

    def close_batch(self, task: int, min_clients: int, nonce: bytes, closed_at: int) -> None:
        """Take no more reports and fix this server's nonce, if the batch is open.

        Args:
            task: the task's number.
            min_clients: below this many reports the batch stays open.
            nonce: 32 bytes, kept secret until the cohort is frozen.
            closed_at: in the task's units.

        Raises:
            CohortTooSmallError: there are fewer reports than `min_clients`; nothing changed.
        """
        wrapped = self._vault.wrap(nonce, "nonce", task.to_bytes(8, "big"))
        with self.database.writing() as connection:
            state, count = connection.execute(
                select(batches.c.state, batches.c.num_reports).where(batches.c.task == task)
            ).one()
            if state == "open" and count < min_clients:
                raise CohortTooSmallError(f"{count} of at least {min_clients} reports are here; nothing was closed")
            if state == "open":
                _change(connection, task, {"state": "closed", "wrapped_nonce": wrapped, "closed_at": closed_at})

    def closing(self, task: int) -> tuple[bytes, int]:
        """Return the nonce and the time that were fixed when the batch was closed."""
        query = select(batches.c.wrapped_nonce, batches.c.closed_at).where(batches.c.task == task)
        with self.database.reading() as connection:
            wrapped, closed_at = connection.execute(query).one()
        return self._vault.unwrap(wrapped, "nonce", task.to_bytes(8, "big")), closed_at

    def keep_inventory(self, task: int, inventory: bytes) -> None:
        """Keep the signed inventory of a closed batch, unless there is one."""
        with self.database.writing() as connection:
            if connection.execute(select(batches.c.inventory).where(batches.c.task == task)).scalar() is None:
                _change(connection, task, {"inventory": inventory})

    def inventories(self, task: int) -> bytes:
        """Return what `freeze` kept of the inventories."""
        with self.database.reading() as connection:
            return connection.execute(select(batches.c.inventories).where(batches.c.task == task)).scalar_one() or b""

    def freeze(self, task: int, cohort: bytes, inventories: bytes, excluded: Sequence[bytes]) -> bool:
        """Keep the signed cohort, all inventories, and which own reports it leaves out.

        Returns:
            False, and nothing is kept, if the batch was not closed.
        """
        values: Values = {
            "state": "frozen",
            "cohort": cohort,
            "inventories": inventories,
            "excluded": b"".join(excluded),
        }
        return self._move(task, "closed", values)

    def release(self, task: int, request_hash: bytes, aggregate: bytes, now: int) -> bool:
        """Consume the frozen cohort and keep what leaves of it; return False if the batch was not frozen."""
        values: Values = {"request_hash": request_hash, "aggregate": aggregate, "released_at": now}
        return self._move(task, "frozen", {"state": "released", **values})

    def _move(self, task: int, state: BatchState, values: Values) -> bool:
        with self.database.writing() as connection:
            if connection.execute(select(batches.c.state).where(batches.c.task == task)).scalar_one() != state:
                return False
            _change(connection, task, values)
            return True

    # --- destruction -------------------------------------------------------------------------------------------

    def scrub_due(self, now: int, abandon_after: int) -> int:
        """Destroy the shares of batches whose time is up; return how many batches that were (R13).

        The batch's data key goes, so that no copy of its segments opens again, and the segments with it: those of the
        cohort and those outside it. Documents that were given out stay.

        Args:
            now: seconds since the epoch.
            abandon_after: seconds after a task's end when an unreleased batch is given up.
        """
        released = (batches.c.state == "released") & (batches.c.released_at + tasks.c.retention <= now)
        waiting = batches.c.state.in_(("open", "closed", "frozen")) & (tasks.c.ends + abandon_after <= now)
        query = select(batches.c.task, batches.c.state).join(tasks).where(released | waiting)
        with self.database.writing() as connection:
            due = connection.execute(query).all()
            for task, state in due:
                _change(connection, task, {"state": _FINAL.get(state, "abandoned"), "wrapped_key": None})
                connection.execute(delete(segments).where(segments.c.task == task))
        if due:
            self.database.forget_log()
        return len(due)


def _change(connection: Connection, task: int, values: Values) -> None:
    connection.execute(update(batches).where(batches.c.task == task).values(**values))


def _known(connection: Connection, task: int, report_ids: Sequence[bytes]) -> set[bytes]:
    known: set[bytes] = set()
    for start in range(0, len(report_ids), _IDS_PER_QUERY):
        ids = report_ids[start : start + _IDS_PER_QUERY]
        known.update(connection.execute(_KNOWN, {"task": task, "ids": ids}).scalars())
    return known


def _write_segments(connection: Connection, task: int, first: int, new: Mapping[bytes, bytes], key: DataKey) -> int:
    """Write payloads and their places; return how many segments that took."""
    report_ids = list(new)
    # All payloads of a task have one length.
    per_segment = max(1, MAX_SEGMENT_BYTES // len(new[report_ids[0]]))
    number = first
    for start in range(0, len(report_ids), per_segment):
        ids = report_ids[start : start + per_segment]
        encrypted = key.encrypt(b"".join([new[report_id] for report_id in ids]), number)
        connection.execute(_ADD_SEGMENT, {"task": task, "number": number, "payloads": encrypted})
        connection.execute(
            _ADD_REPORTS,
            [
                {"task": task, "report_id": report_id, "segment": number, "position": position}
                for position, report_id in enumerate(ids)
            ],
        )
        number += 1
    return number - first
