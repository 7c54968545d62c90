"""Verifies every value of a server's database against its key folder, and says what to do about one that is wrong.

What is used of the database is checked when it is used; this looks at all of it at once, and changes nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from cryptography.exceptions import InvalidTag
from sqlalchemy import Connection, Row, select

from lintra_protocol.crypto.tokens import key_commitment
from lintra_protocol.encoding.canonical import HASH_BYTES, base64url, parse_base64url
from lintra_protocol.errors import LintraError, UnavailableError
from lintra_protocol.messages.documents import Inventory, Signed
from lintra_protocol.task import Task
from lintra_server.durability.encryption_at_rest import BatchKey
from lintra_server.durability.journal import JournalEntry
from lintra_server.operations.addresses import edited_addresses
from lintra_server.operations.inspection import ChainLook, KeySide, look_at_chain
from lintra_server.operations.start import unknown_notes
from lintra_server.settings import Settings
from lintra_server.storage.batch_states import StoredBatchState, standing_in
from lintra_server.storage.chains import gone_in_words, raw_rows
from lintra_server.storage.database import REVISION, alembic_version, batches, looks, tasks
from lintra_server.storage.history import COLUMNS, BatchHistory, History, Registered
from lintra_server.storage.key_folder import stream_memory
from lintra_server.storage.looks import look_of
from lintra_server.storage.read_only import ReadOnlyDatabase
from lintra_server.storage.schema import as_read, foreign
from lintra_server.storage.segments import SegmentTable, opened_payloads, sort_ids
from lintra_server.storage.tasks import TOKEN_KEY
from lintra_server.storage.transition_log import StepFiles
from lintra_service.findings import HealthFinding
from lintra_service.settings import InvalidSettingsError

_VOUCHED = tuple(name for names in COLUMNS.values() for name in names)
_UNRELEASED = "every batch that is not released is given up, but with --key-folder-never-copied only those it lacks"
_SINCE = "reports that were stored since the backup are lost; each batch says how many"
_GIVEN_UP = "the batch is given up for good, at every server"


class _Wrong(NamedTuple):
    """What is wrong with a batch: a sentence, whether going on without its end mends it, and costs nothing."""

    what: str
    is_end: bool = False
    is_free: bool = False


class Verifier:
    """Verifies one database."""

    def __init__(
        self, settings: Settings, database: ReadOnlyDatabase, keys: KeySide, command: Callable[[str], str]
    ) -> None:
        """Compare a database with what the key folder said before.

        `database` is only read; `keys` are read before, so that the database has at least what they say. `command`
        returns a command of this server as it is typed.
        """
        self._settings = settings
        self._database = database
        self._keys = keys
        self._command = command
        self._history = History(keys.journal)
        self._public_key = settings.signing_key(bytes).public_key

    def findings(self) -> Iterator[HealthFinding]:
        """Yield what is wrong."""
        with self._database.reading() as connection:
            yield from self._pages(connection)
            beside = list(self._beside(connection))
            yield from beside
            if beside:
                return  # a view in the place of a table may never end
            yield from self._revision(connection)
            standing = standing_in(connection)
            yield from self._standing(standing)
        self._history = self._keys.history(standing)
        if unknown := unknown_notes(self._history, self._keys.notes):
            yield HealthFinding(
                "trouble",
                f"the journal lacks lines: there are notes of {len(unknown)} batches that it does not know",
                self._command("restore --journal-lost"),
                "every batch that is not released is given up; only tasks that begin later are taken. Look first "
                "whether the disk can bring the file back: that costs nothing",
            )
        known = self._history.batches.values()
        if keyless := [each for each in known if each.is_destroyed and not each.is_final]:
            yield HealthFinding(
                "trouble",
                f"the keys of {len(keyless)} unreleased batches are missing from key_dir, so it does not start: "
                + "; ".join(str(each.batch) for each in keyless[:3]),
                self._command("restore --key-folder-never-copied"),
                "these batches are given up for good, at every server. Look first whether the disk can bring the files "
                "back: that costs nothing",
            )
        with self._database.reading() as connection:
            yield from self._tasks(connection)
            yield from edited_addresses(connection, self._history)
            rows = {row.batch: row for row in connection.execute(as_read(batches)).all()}
            told = {row.batch: row for row in connection.execute(as_read(looks)).all()}
        for batch in list(self._history.batches.values()):
            yield from self._batch(batch, rows.get(batch.place))
            yield from self._look(batch, told.get(batch.place))

    # --- the whole --------------------------------------------------------------------------------------------

    def _pages(self, connection: Connection) -> Iterator[HealthFinding]:
        if connection.dialect.name != "sqlite":
            return  # it checks a page when it reads it, if its cluster has data checksums
        found = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
        if found != ["ok"]:
            yield HealthFinding(
                "trouble", f"the database is damaged: {'; '.join(map(str, found[:3]))}",
                self._command("restore --from BACKUP --key-folder-never-copied"),
                _SINCE,
            )  # fmt: skip

    def _beside(self, connection: Connection) -> Iterator[HealthFinding]:
        for what, command in foreign(connection, batches.metadata):
            typed = command.replace("lintra server restore", self._command("restore"))
            yield HealthFinding(
                "trouble", f"this is not the database that the server wrote: {what}",
                typed if typed != command else f"stop the server, and in sqlite3 or psql: {command}",
                _UNRELEASED if typed != command else "nothing; run doctor again, which looks at what was stored",
            )  # fmt: skip

    def _revision(self, connection: Connection) -> Iterator[HealthFinding]:
        found = connection.execute(select(alembic_version.c.version_num)).scalars().all()
        brought = [line.facts.get("revision") for line in self._keys.journal.lines if line.state == "migrated"]
        expected = brought[-1] if brought else REVISION
        if found != [expected]:
            yield HealthFinding(
                "trouble",
                f"table alembic_version says {', '.join(map(str, found)) or 'nothing'}, and the journal {expected}: it "
                "is an old copy, or was edited",
                self._command("restore --from BACKUP --key-folder-never-copied"),
                _SINCE,
            )

    def _standing(self, standing: StoredBatchState | None) -> Iterator[HealthFinding]:
        journal = self._keys.journal
        if standing is None:
            what = "table journal: the database belongs to no journal"
        elif not journal.has(standing.head):
            yield HealthFinding(
                "trouble",
                f"the journal lacks lines that the database has, up to line {standing.head.length}: the key folder was "
                "set back, or belongs to another server",
                self._command("restore --journal-lost"),
                "every batch that is not released is given up; only tasks that begin later are taken",
            )
            return
        else:
            lacking = self._lacking(standing)
            if len(lacking) < 2 and all(self._has_step(line) for line in lacking):
                return
            what = f"the database lacks the journal's last {len(lacking)} steps: it is an old copy"
        yield HealthFinding("trouble", what, self._command("restore"), _UNRELEASED)

    def _lacking(self, standing: StoredBatchState) -> Sequence[JournalEntry]:
        applied = {line.number for line in self._keys.lines(standing)}
        return [line for line in self._keys.journal.lines if line.number not in applied]

    def _has_step(self, line: JournalEntry) -> bool:
        folder = self._settings.key_dir / "steps"
        return folder.exists() and StepFiles(folder).read(line) is not None

    # --- tasks ------------------------------------------------------------------------------------------------

    def _tasks(self, connection: Connection) -> Iterator[HealthFinding]:
        rows = {row.task: row for row in connection.execute(as_read(tasks)).all()}
        for task_id, task in self._history.tasks.items():
            row = rows.get(task.place)
            if task.is_cut or (row is None and not self._history.of_task(task_id)):
                continue  # or a crash came before its row, and its author was not answered
            if wrong := self._wrong_task(task, row):
                yield HealthFinding(
                    "trouble", f"table tasks, row {task.place}{wrong}",
                    f"have the task's author bring it again: PUT /v1/tasks/{base64url(task_id)}/registration at the "
                    "analyzer",
                    "nothing; until then nobody can use the task here",
                )  # fmt: skip
            elif row is not None:
                yield from self._memories(task_id, Task.from_canonical(row.definition))

    def _memories(self, task_id: bytes, task: Task) -> Iterator[HealthFinding]:
        """Yield what was lost of the noise that this server remembers."""
        memory = stream_memory(self._settings.key_dir, self._keys.vault)
        if task.stream is not None and (gone := memory.lost(task.stream, self._history.of_task(task_id))):
            yield HealthFinding(
                "advice",
                f"what this server remembers of its noise in {len(gone)} windows of the stream {base64url(task_id)} is "
                f"lost, from window {gone[0]} on",
                "no command: nothing brings it back, and the server goes on",
                "later totals over these windows have more noise, which their errors count in; nobody's privacy",
            )

    def _wrong_task(self, task: Registered, row: Row[*tuple[Any, ...]] | None) -> str:
        if row is None:
            return " is gone"
        try:
            found = Task.from_canonical(row.definition)
            server = next(i for i, each in enumerate(found.servers) if each.identity_key == self._public_key)
            if found.id_bytes != task.task_id:
                raise InvalidSettingsError("it is another task's")
        except (LintraError, ValueError, TypeError, AttributeError, StopIteration):
            return ", column definition: it does not hash to the task that the journal names"
        wrapped = row.wrapped_token_key
        try:
            key = None if wrapped is None else self._keys.vault.unwrap(wrapped, TOKEN_KEY, task.task_id)
        except (ValueError, TypeError):
            key = None
        if found.uses_tokens and (key is None or key_commitment(key) != found.token_keys[server]):
            return ", column wrapped_token_key: it is not the key that the task names"
        return ""

    # --- batches ----------------------------------------------------------------------------------------------

    def _batch(self, batch: BatchHistory, row: Row[*tuple[Any, ...]] | None) -> Iterator[HealthFinding]:
        wrong = self._wrong_columns(batch, row)
        if wrong is not None and wrong.is_end:
            yield HealthFinding("trouble", wrong.what, "stop and start the server", "nothing: the row is written again")
        elif wrong is not None and batch.line is not None and batch.line.state == "released":
            kept = self._has_step(batch.line)
            yield HealthFinding(
                "trouble", f"{batch.batch}: {wrong.what}",
                self._command("restore --key-folder-never-copied") if kept
                else "ask the analyzer for what it was given: this server has it no more",
                "nothing: the release is stored again from its step file" if kept else "nothing",
            )  # fmt: skip
        elif wrong is not None:
            yield self._abandoned(batch, wrong)
        if not batch.is_destroyed and (lacking := self._wrong_rows(batch)) is not None:
            if lacking.is_free:
                command = self._command(f"accept-loss {batch.batch.words}")
                cost = "nothing: these rows are deleted"
                yield HealthFinding("trouble", f"{batch.batch}: {lacking.what}", command, cost)
            elif lacking.is_end and batch.line is None:
                cost = (
                    "these reports count as lost: the inventory and the certificate say how many, and the batch is "
                    "released only if max_missing allows it. `abandon` gives it up instead. A backup that has them "
                    "costs less: " + self._command("restore --from BACKUP --key-folder-never-copied")
                )
                command = self._command(f"accept-loss {batch.batch.words}")
                yield HealthFinding("trouble", f"{batch.batch}: {lacking.what}", command, cost)
            else:
                yield self._abandoned(batch, lacking)
        elif batch.is_destroyed and wrong is None and row is not None and not self._is_listed(batch, row.inventory):
            yield HealthFinding(
                "trouble",
                f"{batch.batch}: its identifiers in table segments are not those of its signed inventory, so whether a "
                "report was in it is not said",
                self._command("restore --from BACKUP --key-folder-never-copied"), _SINCE,
            )  # fmt: skip

    def _is_listed(self, batch: BatchHistory, inventory: object) -> bool:
        """Return whether the rows of a batch whose keys were destroyed hold what its inventory lists, if it has one."""
        is_cut = batch.task is not None and batch.task.is_cut
        if not isinstance(inventory, bytes) or is_cut or batch.is_bare:
            return True
        with self._database.reading() as connection:
            rows = (raw_rows(connection, place) for place in self._history.members(batch.place))
            ids = b"".join(row.ids for each in rows for row in each)
        try:
            found, _ = sort_ids(np.frombuffer(bytearray(ids), np.uint8).reshape(-1, HASH_BYTES))
        except (LintraError, ValueError):
            return False
        return found.root == parse_base64url(Signed[Inventory].from_canonical(inventory).message.root)

    def _abandoned(self, batch: BatchHistory, wrong: _Wrong) -> HealthFinding:
        cost = f"{_GIVEN_UP}. A backup that is sound costs less: restore --from BACKUP --key-folder-never-copied"
        return HealthFinding(
            "trouble", f"{batch.batch}: {wrong.what}", self._command(f"abandon {batch.batch.words}"),
            "nothing: it is over" if batch.is_final else cost,
        )  # fmt: skip

    def _wrong_columns(self, batch: BatchHistory, row: Row[*tuple[Any, ...]] | None) -> _Wrong | None:
        where = f"table batches, row {batch.place}"
        if row is None:
            gone = f"{where} is gone"
            if batch.line is None:
                return _Wrong(gone, True)
            return _Wrong(gone) if batch.contradiction(dict.fromkeys(_VOUCHED)) else None
        found: dict[str, Any] = dict(row._mapping)
        if said := batch.contradiction({name: found[name] for name in _VOUCHED}):
            return _Wrong(said)
        if batch.line is None and found["state"] not in ("open", "closing"):
            return _Wrong(f"{where}, column state says {found['state']}, and the journal open", True)
        return None

    def _wrong_rows(self, batch: BatchHistory) -> _Wrong | None:
        note = self._keys.notes.get(batch.batch.name)
        if note is None:
            return _Wrong("its note is gone from the key folder, so nobody knows where it ends")
        try:
            key = self._keys.key_of(batch)
        except UnavailableError as error:
            return _Wrong(error.detail)
        with self._database.reading() as connection:
            look = look_at_chain(connection, batch, key)
            at_note = (note.total, note.chain) in look.ends
            behind = look.end.total > note.total and batch.line is not None
            if look.is_broken or not at_note or behind:
                more = (look.end.total, look.end.chain) == (note.total, note.chain)
                return _Wrong(gone_in_words(look.end.total, note.total, more=more), True, more)
            return self._wrong_payloads(connection, batch, key, look)

    @staticmethod
    def _wrong_payloads(connection: Connection, batch: BatchHistory, key: BatchKey, look: ChainLook) -> _Wrong | None:
        numbers, totals = [row.number for row in look.rows], [row.total for row in look.rows]
        marks = [row.mark for row in look.rows]
        table, read = SegmentTable(np.array(numbers, np.int64), np.array(totals, np.int64), marks), 0
        try:
            for _ in opened_payloads(connection, batch.place, key.payload_key, table):
                read += 1
        except (InvalidTag, LintraError, TypeError, ValueError):
            number = numbers[min(read, len(numbers) - 1)]
            return _Wrong(f"table segments, row {number} of the batch, column payloads was changed")
        return None

    def _look(self, batch: BatchHistory, row: Row[*tuple[Any, ...]] | None) -> Iterator[HealthFinding]:
        if row is not None and look_of(row, self._keys.journal.mac, batch.batch.name) is None:
            yield HealthFinding(
                "advice", f"table looks, row {batch.place}: this server did not write it, so it is not used",
                f"no command: the next look at {batch.batch} replaces it", "one time unit without a census",
            )  # fmt: skip
