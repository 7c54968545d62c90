"""Reports that are gone: the loss has a name, the operator accepts it or gives the batch up, and nobody gains by it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import Connection
from typer.testing import CliRunner

from faults.test_attacks import HONEST, forged_inventory
from lintra_client.commands.counted import in_words
from lintra_client.counted import Counted
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import InvalidMessageError, InventoryMismatchError, UnavailableError
from lintra_protocol.messages.documents import Inventory, Signed, census_of, inventory_of, sign
from lintra_protocol.messages.inclusion import Absence
from lintra_protocol.rules.release import verify_census
from lintra_protocol.task import Task
from lintra_server.batches import gate
from lintra_server.cli import app
from lintra_server.durability.journal import BatchId
from lintra_server.durability.notes import Notes
from lintra_server.operations.losses import Begun, begun
from lintra_server.storage.database import SPAN
from lintra_server.storage.raw_statement import KeptConnection
from lintra_server.storage.server_resources import NotStartedError, lock_folders
from support.server_world import BASE, World, a_world, text, token
from support.windowed_world import WINDOWS, at, close, reports_of, windowed

PLACE = 1


def edit(world: World, statement: str, *values: object) -> int:
    """Change the honest server's database behind its back; return how many rows that met."""
    with closing(sqlite3.connect(world.settings[HONEST].data_dir / "lintra.sqlite")) as database, database:
        return database.execute(statement, values).rowcount


def rows(world: World) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(world.settings[HONEST].data_dir / "lintra.sqlite")) as database:
        return database.execute("SELECT * FROM segments ORDER BY key").fetchall()


def cut(world: World, number: int) -> None:
    """Delete all rows of the first batch from a segment on, while the server is stopped."""
    assert edit(world, "DELETE FROM segments WHERE key >= ? AND key < ?", PLACE * SPAN + number, (PLACE + 1) * SPAN)


@contextmanager
def stopped(world: World) -> Iterator[Begun]:
    """Give the honest server to its operator, who stopped it."""
    folder = lock_folders(world.settings[HONEST], system_randomness)
    try:
        with begun(world.settings[HONEST], system_randomness, folder) as server:
            yield server
    finally:
        folder.close()


def batch(world: World, number: int = 0) -> BatchId:
    return BatchId(world.task.id_bytes, number)


def accept(world: World, number: int = 0) -> int:
    """Accept a loss as the command does; return how many reports count as lost."""
    with stopped(world) as server:
        loss = server.loss(batch(world, number))
        server.accept(loss)
        return loss.lost


def config(world: World) -> Path:
    """Write the honest server's settings as a file, for its commands."""
    settings = world.settings[HONEST]
    path = world.folder / "server.toml"
    path.write_text(
        f'public_url = "{settings.public_url}"\ndata_dir = "{settings.data_dir}"\nkey_dir = "{settings.key_dir}"\n'
        'reserve_bytes = 0\n[policy]\nallowed_authors = "any"\nopen = true\n'
    )
    return path


async def stored_one_by_one(world: World, server: int, *counts: int) -> None:
    """Upload the world's reports in so many commits of so many."""
    reports, done = world.reports(sum(counts)), 0
    for count in counts:
        assert (await world.upload(server, reports[done : done + count])).failures == ()
        done += count


async def inventory(world: World, server: int = HONEST) -> Inventory:
    answer = await world.close_batch(server)
    assert answer.status_code == 200, answer.text
    return Signed[Inventory].from_canonical(answer.content).message


async def test_a_cut_batch_takes_and_gives_nothing_and_goes_on_once_its_loss_is_accepted(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        await stored_one_by_one(world, HONEST, 12, 1, 2)
        for server in (1, 2):
            await stored_one_by_one(world, server, 15)
        world.kill(HONEST)
        cut(world, 2)
        world.start(HONEST)
        refused = await world.post(HONEST, await world.body(HONEST, world.reports(1, "late")))
        said = f"task {world.task.task_id}, batch 0: reports 14 to 15 of 15 are gone"
        assert said in refused.text
        assert f"lintra server accept-loss {world.task.task_id} 0" in refused.text
        assert (await world.close_batch(HONEST)).status_code == 503
        world.kill(HONEST)
        # The last row that is there might be that of a failed commit, so its report counts as lost, too.
        assert accept(world) == 3
        world.start(HONEST)
        late = world.reports(1, "late")
        assert (await world.upload(HONEST, late)).failures == ()
        # Who repeats a lost report is heard.
        assert (await world.upload(HONEST, world.reports(15)[14:])).failures == ()
        found = await inventory(world)
        assert (found.count, found.lost) == (15, 3)
        assert b'"lost":3' in (await world.close_batch(HONEST)).content
        other = await world.close_batch(1)
        assert b"lost" not in other.content  # absent where nothing is lost, as ever
        assert (await world.release(HONEST)).status_code == 200


@pytest.mark.parametrize("rule", [True, False], ids=["on", "off"])
async def test_an_editor_who_cuts_the_honest_list_cannot_leave_out_all_but_a_victim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    if not rule:
        monkeypatch.setattr(gate, "_once_held", lambda own: own.count)
    async with a_world(tmp_path, "sum", tokens=True) as world:
        # Eleven reports are the adversary's, the twelfth is the victim's; then many honest ones come.
        await stored_one_by_one(world, HONEST, 11, 1, 20)
        world.kill(HONEST)
        cut(world, 2)
        assert accept(world) == 21
        world.start(HONEST)
        own = Signed[Inventory].from_canonical((await world.close_batch(HONEST)).content)
        listed = await world.ids(HONEST)
        assert len(listed) == 12
        corrupt = tuple(forged_inventory(world, server, list(listed)) for server in (1, 2))
        answer = await world.freeze(HONEST, await world.cohort_request(HONEST, (own, *corrupt), [list(listed)] * 3))
        if rule:
            assert (answer.status_code, token(answer)) == (409, "too_many_missing")
        else:
            assert answer.status_code == 200


async def test_losses_of_merged_windows_add_up_and_count_as_missing(tmp_path: Path) -> None:
    def merging(task: Task) -> Task:
        return windowed(task, WINDOWS.model_copy(update={"max_merge": 2}))

    async with a_world(tmp_path, "sum", num_servers=2, change=merging) as world:
        for window in (0, 1):
            at(world, 2 * window + 1)
            reports = reports_of(world, window)
            for part in (reports[:12], reports[12:13], reports[13:]):
                assert (await world.upload(HONEST, part)).failures == ()
        world.kill(HONEST)
        for place in (1, 2):
            assert edit(world, "DELETE FROM segments WHERE key = ?", place * SPAN + 2) == 1
        assert [accept(world, window) for window in (0, 1)] == [2, 2]
        world.start(HONEST)
        at(world, 8)
        answer = await close(world, HONEST, 1, 0)
        assert answer.status_code == 200, answer.text
        found = Signed[Inventory].from_canonical(answer.content).message
        assert (found.count, found.lost) == (26, 4)


async def test_whoever_has_a_receipt_for_a_lost_report_is_told_that_it_was_lost(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        await stored_one_by_one(world, HONEST, 12, 1, 1)
        for server in (1, 2):
            await stored_one_by_one(world, server, 14)
        world.kill(HONEST)
        cut(world, 2)
        assert accept(world) == 2
        world.start(HONEST)
        await world.aggregate_request()
        reports, answers = world.reports(14), list[Absence]()
        for server in (HONEST, 1):
            url = f"{BASE.format(world.task.task_id)}/inclusion/{text(reports[13])}"
            answers.append(Absence.from_canonical((await world.http[server].get(url)).content))
        assert [answer.lost for answer in answers] == [2, 0]
        # Of a report that is in the inventory and not at every server nothing is said.
        stray = await world.http[HONEST].get(f"{BASE.format(world.task.task_id)}/inclusion/{text(reports[0])}")
        assert b"lost" not in stray.content
        told = in_words(world.task, "ID", Counted("ID", 0, False, 13, "root", False, lost={HONEST: 2}))
        assert "was lost" in told
        assert f"{world.task.servers[HONEST].url} says that it lost up to 2 reports" in told


@pytest.mark.parametrize("before", ["notes.put", "notes.sync", "database.writing"])
async def test_a_crash_while_a_loss_is_accepted_leaves_the_batch_cut_and_the_loss_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    async with a_world(tmp_path, "sum") as world:
        await stored_one_by_one(world, HONEST, 12, 1, 1, 1)
        world.kill(HONEST)
        # A row in the middle is gone: those behind it follow nothing.
        assert edit(world, "DELETE FROM segments WHERE key = ?", PLACE * SPAN + 2) == 1

        def crash(*_: object) -> None:
            raise KeyboardInterrupt

        with stopped(world) as server, monkeypatch.context() as patched:
            loss = server.loss(batch(world))
            part, _, name = before.partition(".")
            patched.setattr(getattr(server.parts, part), name, crash)
            with pytest.raises(KeyboardInterrupt):
                server.accept(loss)
        world.start(HONEST)
        assert (await world.upload_answer(HONEST, world.reports(1, "late"))).status_code == 503
        world.kill(HONEST)
        again = accept(world)
        assert (again >= 1) == (before == "notes.put")
        world.start(HONEST)
        found = await inventory(world)
        assert found.count == 13
        assert found.lost == loss.lost


async def test_the_row_of_a_failed_commit_in_the_place_of_acknowledged_ones_hides_no_loss(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        await stored_one_by_one(world, HONEST, 12)
        kept = list[tuple[object, ...]]()
        # The editor sees the row of a large commit, which then fails.
        commit = KeptConnection._commit

        def seen(connection: KeptConnection, begun: Connection) -> None:
            commit(connection, begun)
            kept.extend(row for row in rows(world) if row[0] == PLACE * SPAN + 1)
            edit(world, "DELETE FROM segments WHERE key = ?", PLACE * SPAN + 1)
            raise OSError("the disk is full")

        with patch.object(KeptConnection, "_commit", seen):
            await world.post(HONEST, await world.body(HONEST, world.reports(9, "adversary")))
        assert kept
        assert (await world.upload(HONEST, world.reports(5, "honest"))).failures == ()
        world.kill(HONEST)
        cut(world, 1)
        columns = ", ".join("?" * len(kept[0]))
        edit(world, f"INSERT INTO segments VALUES ({columns})", *kept[0])
        # 17 were acknowledged and 21 stand there now: by the totals alone nothing would be lost.
        assert accept(world) == 5
        world.start(HONEST)
        found = await inventory(world)
        assert (found.count, found.lost) == (21, 5)


async def test_of_a_closed_batch_no_loss_is_accepted_but_it_can_be_given_up(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        await stored_one_by_one(world, HONEST, 12, 1)
        await inventory(world)
        world.kill(HONEST)
        cut(world, 0)
        asked = [world.task.task_id, "0", "--config", str(config(world))]
        refused = CliRunner().invoke(app, ["accept-loss", *asked])
        assert refused.exit_code == 1
        assert "its inventory is signed" in refused.output
        assert "lintra server abandon" in refused.output
        unsure = CliRunner().invoke(app, ["abandon", *asked], input="n\n")
        assert unsure.exit_code == 1
        assert "nothing was changed" in unsure.output
        assert list((world.settings[HONEST].key_dir / "batches").iterdir())
        done = CliRunner().invoke(app, ["abandon", *asked, "--yes"])
        assert done.exit_code == 0, done.output
        assert "given up for good" in done.output
        assert not list((world.settings[HONEST].key_dir / "batches").iterdir())
        assert rows(world) == [] or all(row[-1] is None for row in rows(world))
        world.start(HONEST)
        assert token(await world.close_batch(HONEST)) == "abandoned"


@pytest.mark.parametrize("stage", ["before the first report", "open", "closed"])
async def test_rows_that_somebody_put_behind_a_batch_are_named_and_are_no_loss(tmp_path: Path, stage: str) -> None:
    async with a_world(tmp_path, "sum") as world:
        if stage != "before the first report":
            await stored_one_by_one(world, HONEST, 12, 1)
        if stage == "closed":
            await inventory(world)
        world.kill(HONEST)
        planted = "INSERT INTO segments (key, total, ids, mark) VALUES (?, 14, zeroblob(32), zeroblob(28))"
        assert edit(world, planted, PLACE * SPAN + 5) == 1
        world.start(HONEST)
        count = len(rows(world)) - 1 and 13
        with pytest.raises(UnavailableError) as wrong:
            world.apps[HONEST].node.store.held(PLACE)
        told = wrong.value.detail
        assert f"rows behind its {count} reports that this server did not write; nothing is lost" in told
        assert f"lintra server accept-loss {world.task.task_id} 0" in told
        world.kill(HONEST)
        done = CliRunner().invoke(
            app, ["accept-loss", world.task.task_id, "0", "--config", str(config(world)), "--yes"]
        )
        assert done.exit_code == 0, done.output
        assert "Nothing is lost" in done.output
        world.start(HONEST)
        if stage == "before the first report":
            await stored_one_by_one(world, HONEST, 12, 1)
        found = await inventory(world)
        assert (found.count, found.lost) == (13, 0)


async def test_an_open_batch_can_be_given_up_and_a_final_one_cannot(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        await stored_one_by_one(world, HONEST, 12)
        world.kill(HONEST)
        with stopped(world) as server:
            with pytest.raises(NotStartedError, match=r"nothing of task .* is missing"):
                server.loss(batch(world))
            server.abandon(server.given_up(batch(world)))
        with stopped(world) as server, pytest.raises(NotStartedError, match="is abandoned, and that is final"):
            server.given_up(batch(world))
        world.start(HONEST)
        assert token(await world.close_batch(HONEST)) == "abandoned"


async def test_a_lost_note_is_no_loss_that_anybody_could_count(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        await stored_one_by_one(world, HONEST, 12)
        world.kill(HONEST)
        notes = Notes(world.settings[HONEST].key_dir / "notes")
        notes.remove(batch(world).name)
        notes.close()
        with stopped(world) as server, pytest.raises(NotStartedError, match=r"nobody knows how many.*abandon"):
            server.loss(batch(world))
        world.start(HONEST)
        assert (await world.close_batch(HONEST)).status_code == 503


async def test_a_task_whose_row_was_deleted_is_registered_again_by_its_author_and_goes_on(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        await stored_one_by_one(world, HONEST, 12)
        for server in (1, 2):
            await stored_one_by_one(world, server, 14)
        world.kill(HONEST)
        assert edit(world, "DELETE FROM tasks") == 1
        world.start(HONEST)
        late = world.reports(14)[12:]
        assert (await world.upload_answer(HONEST, late)).status_code == 503
        assert (await world.register(HONEST)).status_code == 201
        assert (await world.upload(HONEST, late)).failures == ()
        assert (await inventory(world)).count == 14
        assert (await world.release(HONEST)).status_code == 200


@pytest.mark.parametrize("gone", [False, True], ids=["its segments are there", "its segments are gone"])
async def test_a_deleted_row_of_a_batch_is_entered_again_and_a_loss_by_its_note(tmp_path: Path, gone: bool) -> None:
    async with a_world(tmp_path, "sum") as world:
        await stored_one_by_one(world, HONEST, 11, 1)
        world.kill(HONEST)
        assert edit(world, "DELETE FROM batches") == 1
        if gone:
            cut(world, 0)
        world.start(HONEST)
        answer = await world.upload_answer(HONEST, world.reports(13)[12:])
        if not gone:
            assert answer.status_code == 200
            assert (await inventory(world)).count == 13
            return
        assert "reports 1 to 12 of 12 are gone" in answer.text
        world.kill(HONEST)
        assert accept(world) == 12
        world.start(HONEST)
        assert (await world.upload(HONEST, world.reports(12))).failures == ()
        found = await inventory(world)
        assert (found.count, found.lost) == (12, 12)


async def test_a_total_of_another_kind_is_a_loss_like_any_other(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        await stored_one_by_one(world, HONEST, 12, 1)
        world.kill(HONEST)
        edit(world, "UPDATE segments SET total = 'many' WHERE key = ?", PLACE * SPAN + 1)
        assert accept(world) == 13
        world.start(HONEST)
        assert (await inventory(world)).count == 12


async def test_a_census_before_a_loss_proves_no_lie_and_one_that_lacks_more_does(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        ids = [report.report_id for report in world.reports(14)]
        counted, left = ReportIds.of(ids), ReportIds.of(ids[:12])
        key = world.apps[HONEST].node.identity
        census = sign(key, census_of(world.task, 0, HONEST, counted, 1, 7))

        def closed(lost: int) -> Signed[Inventory]:
            return sign(key, inventory_of(world.task, 0, HONEST, left, bytes(32), 0, 7, lost=lost))

        assert verify_census(world.task, census, counted, closed(2), left) == 2
        for lost in (0, 1):
            with pytest.raises(InventoryMismatchError, match="signed for 2 reports"):
                verify_census(world.task, census, counted, closed(lost), left)


def test_an_inventory_that_spells_out_that_nothing_is_lost_is_refused() -> None:
    key = base64url(bytes(32))
    made = Inventory(
        task_id=key, batch=0, server=0, count=1, root=key, nonce_commitment=key, closed_at=1, start=1
    )  # fmt: skip
    assert b"lost" not in made.canonical()
    assert Inventory.from_canonical(made.canonical()) == made
    with pytest.raises(InvalidMessageError):
        Inventory.from_canonical(made.canonical().replace(b'"kind":"inventory",', b'"kind":"inventory","lost":0,'))
