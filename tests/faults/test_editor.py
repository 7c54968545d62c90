"""Somebody who writes to a server's database wins nothing; without the rule that stops him he does.

Each attack is done twice: on the server as it is, and on a copy that lacks one rule.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from lintra_protocol.errors import BatchClosedError
from lintra_protocol.messages.documents import Inventory, Signed
from lintra_protocol.report.report import Report
from lintra_protocol.task import Task
from lintra_server.batches import registry
from lintra_server.batches.registry import RegisteredTask, Registry
from lintra_server.durability import notes
from lintra_server.durability.encryption_at_rest import PayloadKey
from lintra_server.durability.journal import BatchId
from lintra_server.storage import batch_reader, chains
from lintra_server.storage.chains import Chains
from lintra_server.storage.history import BatchHistory, History
from lintra_server.storage.marks import End, Marks
from lintra_server.storage.server_resources import database_path
from lintra_server.storage.transition_log import Stepper
from lintra_service.settings import InvalidSettingsError
from support.postgres import fresh
from support.postgres_world import a_server
from support.server_world import World, a_world, token

Patch = pytest.MonkeyPatch
COUNT = 20
LOOSE = "9"
"""What an editor makes of the epsilon of a task."""


def sql(world: World, statement: str, *values: object, server: int = 0) -> list[tuple[Any, ...]]:
    """Run a statement on a server's database, by default the first one's, past the server."""
    settings = world.settings[server]
    if settings.database_url is not None:
        with psycopg.connect(settings.database_url.get_secret_value(), autocommit=True) as postgres:
            found = postgres.execute(statement.replace("?", "%s"), values)
            return found.fetchall() if found.description else []
    with closing(sqlite3.connect(database_path(settings), isolation_level=None, timeout=30)) as connection:
        return connection.execute(statement, values).fetchall()


def keys_of(world: World) -> list[int]:
    return [key for (key,) in sql(world, "SELECT key FROM segments WHERE key >> 32 = 1 ORDER BY key")]


def split(ids: bytes) -> set[bytes]:
    return {ids[start : start + 32] for start in range(0, len(ids), 32)}


async def listed(world: World) -> set[bytes] | None:
    """Close the first server's batch; return what its inventory lists, None if there is none."""
    answer = await world.close_batch(0)
    if answer.status_code != 200:
        assert answer.status_code == 503, answer.text
        assert b"gone" in answer.content or b"lintra server" in answer.content
        return None
    assert Signed[Inventory].from_canonical(answer.content).message.lost == 0
    ids = await world.ids(0)
    return split(ids.encode())


async def collected(world: World) -> list[Report]:
    """Upload reports to the first server, a few at a time, each of which it acknowledges."""
    reports = world.reports(COUNT)
    for start in range(0, COUNT, 4):
        await world.upload(0, reports[start : start + 4])
    return reports


# --- the rules, taken out ----------------------------------------------------------------------------------------


def any_mark(patch: Patch, _: World) -> None:
    """Neither marks nor where a batch ends are looked at; payloads are bound to no mark."""

    def tail(self: Chains, batch: int) -> End:
        with self._reading() as connection:
            return chains._tail(connection, batch)

    def rows(self: Chains, connection: Any, batch: int, start: End, end: End) -> Any:
        yield from chains.raw_rows(connection, batch, start.number + 1)

    patch.setattr(Marks, "follows", lambda *_: True)
    patch.setattr(Chains, "end", tail)
    patch.setattr(Chains, "known", lambda *_: None)
    patch.setattr(Chains, "confirmed", lambda self, connection, batch: chains._tail(connection, batch))
    patch.setattr(Chains, "rows", rows)
    patch.setattr(Chains, "whole", lambda self, connection, batch: chains._tail(connection, batch))


def from_the_end(patch: Patch, _: World) -> None:
    """After a start a batch ends where the database says."""

    def load(self: Chains, batch: int) -> None:
        with self._reading() as connection:
            self.reached(batch, self.whole(connection, batch))

    patch.setattr(Chains, "_load", load)


def any_definition(patch: Patch, _: World) -> None:
    """A definition is not hashed when it is read."""

    def loaded(self: Registry, task_id: str, row: Any) -> RegisteredTask:
        task = Task.from_canonical(row.definition)
        record = registry.sign(self._identity, registry.TaskRecord(definition=task)).canonical()
        return RegisteredTask(row.task, task, 0, record)

    patch.setattr(Registry, "_loaded", loaded)


def any_column(patch: Patch, _: World) -> None:
    """Columns are not compared with the journal's lines."""
    patch.setattr(BatchHistory, "contradiction", lambda *_: "")


def payloads_of_any_row(patch: Patch, _: World) -> None:
    """Payloads are not bound to the mark of their row."""
    encrypt, decrypt = PayloadKey.encrypt, PayloadKey.decrypt
    patch.setattr(PayloadKey, "encrypt", lambda self, payloads, _: encrypt(self, payloads, b""))
    patch.setattr(PayloadKey, "decrypt", lambda self, encrypted, _: decrypt(self, encrypted, b""))


def no_lines(patch: Patch, world: World) -> None:
    """What the journal says of a batch after it was opened is forgotten by a start; no column or step is compared."""
    any_column(patch, world)
    patch.setattr(Stepper, "_require_known", lambda *_: None)
    start = World.start

    def forgetful(self: World, server: int, **changes: object) -> None:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(BatchHistory, "apply", lambda *_: None)
            start(self, server, **changes)

    patch.setattr(World, "start", forgetful)


def places_from_the_database(patch: Patch, world: World) -> None:
    """Where a batch lies says the database."""

    def place(self: History, batch: BatchId) -> int | None:
        query = "SELECT batch FROM batches JOIN tasks USING (task) WHERE task_id = ? AND number = ?"
        found = sql(world, query, *batch)
        return found[0][0] if found else None

    patch.setattr(History, "place", place)


# --- rows of reports -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """An edit of the rows of a batch, after which fewer or others would be listed."""

    name: str
    edit: Callable[[World], object]
    restarts: bool = False


def _swap(world: World, column: str) -> None:
    first, second = keys_of(world)[1:3]
    values = dict(sql(world, f"SELECT key, {column} FROM segments WHERE key IN (?, ?)", first, second))
    sql(world, f"UPDATE segments SET {column} = ? WHERE key = ?", values[first], second)
    sql(world, f"UPDATE segments SET {column} = ? WHERE key = ?", values[second], first)


def _again(world: World) -> None:
    """Put a part of a batch beside the others once more, as if it had been stored twice."""
    first, *_, last = keys_of(world)
    sql(
        world,
        "INSERT INTO segments (key, total, ids, serials, mark, payloads) "
        "SELECT ?, total + 99, ids, serials, mark, payloads FROM segments WHERE key = ?",
        last + 1, first,
    )  # fmt: skip


def _delete(world: World, place: int) -> None:
    sql(world, "DELETE FROM segments WHERE key = ?", keys_of(world)[place])


def _forge(world: World) -> None:
    sql(world, "UPDATE segments SET ids = zeroblob(length(ids)) WHERE key = ?", keys_of(world)[-1])


CUTS = [
    Cut("the first segment is deleted", lambda world: _delete(world, 0)),
    Cut("one in the middle is deleted", lambda world: _delete(world, 2)),
    Cut("the last one is deleted", lambda world: _delete(world, -1)),
    Cut("the last one is deleted before a restart", lambda world: _delete(world, -1), restarts=True),
    Cut("all are deleted before a restart", lambda world: sql(world, "DELETE FROM segments"), restarts=True),
    Cut("identifiers are swapped", lambda world: _swap(world, "ids")),
    Cut("marks are swapped", lambda world: _swap(world, "mark")),
    Cut("the last identifiers are invented", _forge),
    Cut("a part stands beside the others", _again),
]


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.name)
async def test_a_batch_whose_rows_were_edited_is_held_and_named(cut: Cut, tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        await collected(world)
        cut.edit(world)
        if cut.restarts:
            world.reopen(0)
        assert await listed(world) is None


async def test_without_marks_a_deleted_row_is_not_missed(tmp_path: Path, monkeypatch: Patch) -> None:
    async with a_world(tmp_path) as world:
        reports = await collected(world)
        any_mark(monkeypatch, world)
        sql(world, "DELETE FROM segments WHERE key = ?", keys_of(world)[-1])
        found = await listed(world)
        assert found is not None
        assert found < {report.report_id for report in reports}


async def test_without_notes_a_cut_end_is_not_missed_after_a_restart(tmp_path: Path, monkeypatch: Patch) -> None:
    async with a_world(tmp_path) as world:
        reports = await collected(world)
        from_the_end(monkeypatch, world)
        sql(world, "DELETE FROM segments WHERE key = ?", keys_of(world)[-1])
        world.reopen(0)
        found = await listed(world)
        assert found is not None
        assert found < {report.report_id for report in reports}


# --- what a batch is -------------------------------------------------------------------------------------------------


async def repointed(world: World) -> bool:
    """Give the batch of one task to another, looser one; return whether the other lists its reports."""
    reports = await collected(world)
    task = world.task
    claim = task.claim.model_copy(update={"epsilon": "5"})
    looser = task.model_copy(update={"purpose": "another", "claim": claim})
    assert (await world.register(0, looser)).status_code == 201
    sql(world, "UPDATE batches SET task = 3 - task")
    world.reopen(0)
    world.task = looser
    answer = await world.close_batch(0)
    return answer.status_code == 200 and Signed[Inventory].from_canonical(answer.content).message.count == len(reports)


async def redefined(world: World, servers: Sequence[int] = (0,)) -> bool:
    """Change the promise of a task in databases; return whether their servers serve it."""
    await collected(world)
    # As long as the true one: of another length it would not even be read.
    loose = world.task.model_copy(update={"claim": world.task.claim.model_copy(update={"epsilon": LOOSE})})
    assert len(loose.canonical()) == len(world.task.canonical())
    served = []
    for server in servers:
        sql(world, "UPDATE tasks SET definition = ?", loose.canonical(), server=server)
        restarted(world, server)
        answer = await world.ask(server, "GET", "")
        assert answer.status_code == 200 or b"definition was changed" in answer.content
        served.append(f'"epsilon":"{LOOSE}"'.encode() in answer.content)
    assert len(set(served)) == 1
    return served[0]


async def redefined_everywhere(world: World) -> bool:
    """Change the promise of a task in the databases of all servers at once, as whoever hosts them all can."""
    return await redefined(world, range(len(world.apps)))


def restarted(world: World, server: int) -> None:
    """Start a server again; one on PostgreSQL with the settings that it has now."""
    world.kill(server)
    world.start(server)


async def reopened(world: World) -> bool:
    """Let a closed batch look open, with no inventory; return whether a second inventory is given out."""
    await collected(world)
    first = await world.close_batch(0)
    sql(world, "UPDATE batches SET state = 'open', inventory = NULL, wrapped_nonce = NULL, closed_at = NULL")
    world.reopen(0)
    answer = await world.close_batch(0)
    return answer.status_code == 200 and answer.content != first.content


async def another_inventory(world: World) -> bool:
    """Change the inventory that a server gives out; return whether it does."""
    await collected(world)
    first = (await world.close_batch(0)).content
    sql(world, "UPDATE batches SET inventory = ?", first.replace(b'"count":20', b'"count":19'))
    answer = await world.ask(0, "GET", "/batches/0/inventory")
    return answer.status_code == 200 and answer.content != first


async def another_sum(world: World) -> bool:
    """Swap the payloads of two rows; return whether the server adds up shares of reports that it does not list so."""
    await collected(world)
    for server in (1, 2):
        await world.upload(server, world.reports(COUNT))
    _swap(world, "payloads")
    closed = await world.close_batch(0)
    if closed.status_code != 200:
        assert b"column payloads was changed" in closed.content
        return False
    return (await world.release(0)).status_code == 200


Attack = Callable[[World], Awaitable[bool]]
ATTACKS: list[tuple[Attack, Callable[[Patch, World], None]]] = [
    (repointed, places_from_the_database),
    (redefined, any_definition),
    (redefined_everywhere, any_definition),
    (reopened, no_lines),
    (another_inventory, any_column),
    (another_sum, payloads_of_any_row),
]


@pytest.mark.parametrize("attack", [attack for attack, _ in ATTACKS])
async def test_an_edit_wins_nothing(attack: Attack, tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        assert not await attack(world)


@pytest.mark.parametrize(("attack", "rule"), ATTACKS)
async def test_without_the_rule_the_edit_wins(
    attack: Attack, rule: Callable[[Patch, World], None], tmp_path: Path, monkeypatch: Patch
) -> None:
    async with a_world(tmp_path) as world:
        rule(monkeypatch, world)
        assert await attack(world)


@pytest.mark.parametrize("hashed", [True, False], ids=["hashed", "believed"])
async def test_a_task_that_is_redefined_in_postgresql_is_served_only_if_nobody_hashes_it(
    tmp_path: Path, monkeypatch: Patch, hashed: bool
) -> None:
    with a_server(tmp_path, fresh("editor")) as world:
        key = world.apps[0].node.identity.public_key
        entry = world.task.servers[0].model_copy(update={"identity_key": key})
        world.task = world.task.model_copy(update={"servers": (entry, *world.task.servers[1:])})
        assert (await world.register(0)).status_code == 201
        if not hashed:
            any_definition(monkeypatch, world)
        assert await redefined(world) != hashed


# --- what was heard before a release ----------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["a census that was taken", "a census that is taken now"])
async def test_identifiers_that_are_edited_after_a_release_are_in_no_census(tmp_path: Path, asked: str) -> None:
    async with a_world(tmp_path) as world:
        await collected(world)
        for server in (1, 2):
            await world.upload(server, world.reports(COUNT))
        taken = asked == "a census that was taken"
        look = await world.ask(0, "GET", "/batches/0/census" if taken else "/batches")
        assert look.status_code == 200, look.text
        assert (await world.release(0)).status_code == 200
        sql(world, "UPDATE segments SET ids = randomblob(length(ids))")
        world.reopen(0)
        answer = await world.ask(0, "GET", "/batches/0/census/ids" if taken else "/batches/0/census")
        assert token(answer) == ("unavailable" if taken else "batch_closed")


# --- notes that are torn ---------------------------------------------------------------------------------------------


def torn(world: World) -> None:
    """Let the last note of the first server be half written, as after a crash of its machine."""
    path = world.settings[0].key_dir / "notes"
    data = bytearray(path.read_bytes())
    slot = next(at for at in range(128, len(data), 128) if any(data[at : at + 32]))
    places = [slot + 32, slot + 32 + (len_of := notes._PLACE_BYTES)]
    newest = max(places, key=lambda at: data[at : at + 6])
    data[newest + 20 : newest + len_of - 4] = bytes(len_of - 24)
    path.write_bytes(data)


@pytest.mark.parametrize("checked", [True, False], ids=["checked", "believed"])
async def test_a_torn_note_is_taken_for_a_cut_chain_only_without_its_checksum(
    tmp_path: Path, monkeypatch: Patch, checked: bool
) -> None:
    if not checked:
        monkeypatch.setattr(notes, "zlib", SimpleNamespace(crc32=lambda *_: 0))
    async with a_world(tmp_path) as world:
        reports = await collected(world)
        world.kill(0)
        torn(world)
        world.start(0)
        found = await listed(world)
        assert found == ({report.report_id for report in reports} if checked else None)


# --- what is served all the same ------------------------------------------------------------------------------------


async def test_a_token_key_of_another_kind_stops_its_task_alone(tmp_path: Path) -> None:
    async with a_world(tmp_path, tokens=True) as world:
        for value in (7, "text", b"", b"short"):
            sql(world, "UPDATE tasks SET wrapped_token_key = ?", value)
            world.reopen(0)
            answer = await world.close_batch(0)
            assert answer.status_code == 503
            assert b"wrapped_token_key was changed" in answer.content


async def test_a_deleted_task_is_registered_again_with_all_its_reports(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = await collected(world)
        sql(world, "DELETE FROM tasks")
        sql(world, "DELETE FROM batches")
        world.reopen(0)
        # Not that nobody registered it: a client would take that for its last word.
        assert (await world.close_batch(0)).status_code == 503
        assert (await world.post(0, await world.body(0, reports))).status_code == 503
        await world.register(0)
        assert await listed(world) == {report.report_id for report in reports}


@pytest.mark.parametrize("restarts", [True, False], ids=["after a start", "live"])
@pytest.mark.parametrize("length", ["as long", "longer"])
async def test_an_edited_task_is_registered_again_with_all_its_reports(
    tmp_path: Path, length: str, restarts: bool
) -> None:
    async with a_world(tmp_path) as world:
        reports = await collected(world)
        edited = world.task.canonical().replace(b'"a test"', b'"a tesT"' if length == "as long" else b'"an attack"')
        sql(world, "UPDATE tasks SET definition = ?", edited)
        if restarts:
            world.reopen(0)
            assert (await world.close_batch(0)).status_code == 503
        assert (await world.register(0)).status_code in (200, 201)
        world.reopen(0)
        assert await listed(world) == {report.report_id for report in reports}


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE batches SET inventory = NULL",
        "UPDATE segments SET ids = randomblob(length(ids))",
        "DELETE FROM segments",
        "DELETE FROM batches",
    ],
)
async def test_no_report_of_a_released_batch_is_called_late_because_its_list_was_edited(
    edit: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    async with a_world(tmp_path) as world:
        reports = await collected(world)
        for server in (1, 2):
            await world.upload(server, reports)
        assert (await world.release(0)).status_code == 200
        world.apps[0].node.maintain()

        async def heard() -> set[str]:
            answer = await world.post(0, await world.body(0, reports))
            return (
                {token(answer)} if answer.status_code != 200 else {each["type"] for each in answer.json()["failures"]}
            )

        assert not await heard()
        world.reopen(0)
        sql(world, edit)
        assert await heard() == {"unavailable"}
        # Without the rule the server says that it never had them.
        monkeypatch.setattr(BatchHistory, "_may_be_empty", lambda *_: True)
        monkeypatch.setattr(batch_reader, "edited", lambda _: BatchClosedError("it is released"))
        world.reopen(0)
        assert await heard() == {"batch_closed"}


async def test_a_trigger_that_swallows_reports_is_told_at_the_next_one(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(COUNT)
        await world.upload(0, reports[:4])
        sql(world, "CREATE TRIGGER t AFTER INSERT ON segments BEGIN DELETE FROM segments WHERE key = NEW.key; END")
        await world.post(0, await world.body(0, reports[4:8]))
        answer = await world.post(0, await world.body(0, reports[8:12]))
        assert answer.status_code == 503 or {f["type"] for f in answer.json()["failures"]} == {"unavailable"}
        assert any("trigger" in reason for reason in world.halts)


async def test_tables_that_were_brought_up_to_date_are_not_called_older_ones(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        await collected(world)
        world.kill(0)
        sql(world, "UPDATE alembic_version SET version_num = '0000'")
        with pytest.raises(InvalidSettingsError, match="alembic_version"):
            world.start(0)
        sql(world, "UPDATE alembic_version SET version_num = '0001'")
        world.start(0)
        assert await listed(world) is not None
