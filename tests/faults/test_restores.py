"""Copies, restores, losses and whole-machine snapshots: nothing is released twice, nothing is lost in silence.

Each attack stands twice: with the rule on it is refused and nothing is changed; with the rule off it works.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sqlalchemy import select, update

from faults.test_attacks import HONEST, corrupt_cohorts, corrupt_request, honest_side
from faults.test_losses import accept
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.crypto.ring import RingArray
from lintra_protocol.errors import InventoryMismatchError
from lintra_protocol.messages.documents import Census, Cohort, Inventory, Signed, sign
from lintra_protocol.rules.release import verify_census
from lintra_server import node
from lintra_server.batches import registry
from lintra_server.durability.encryption_at_rest import BatchKey, Vault
from lintra_server.durability.journal import NOT_AWAITED
from lintra_server.durability.key_files import KeyFiles
from lintra_server.operations import initialise, start
from lintra_server.operations.restore import Restored, restore
from lintra_server.storage.database import journal, segments
from lintra_server.storage.history import COLUMNS
from lintra_server.storage.key_folder import KeyFolder, batch_key_files
from lintra_server.storage.server_resources import NotStartedError, lock_folders, open_parts, open_vault
from lintra_server.storage.transition_log import Stepper
from support.server_world import PRECISION, START, World, a_world, token


def copy_data(world: World, to: Path) -> Path:
    """Copy the honest server's database folder while it stands still."""
    world.kill(HONEST)
    shutil.copytree(world.settings[HONEST].data_dir, to)
    world.start(HONEST)
    return to


def put_data(world: World, copy: Path) -> None:
    """Put a copy in the place of the honest server's database folder; the server has ended."""
    shutil.rmtree(world.settings[HONEST].data_dir)
    shutil.copytree(copy, world.settings[HONEST].data_dir)


def everything(world: World) -> dict[str, bytes]:
    """Return every file that a refused start must not change, by name; the notes of the copied log may move."""
    settings = world.settings[HONEST]
    files = [path for path in settings.key_dir.rglob("*") if path.is_file() and path.name not in ("lock", ".probe")]
    return {path.name: path.read_bytes() for path in files}


def restored(world: World, **options: bool) -> Restored:
    """Run the restore command's function on the honest server's folders."""
    settings = world.settings[HONEST]
    folder = lock_folders(settings, system_randomness)
    try:
        clock = node.new_clock(settings, folder, world.clock, world.clock)
        return restore(settings, system_randomness, folder, clock, **options)
    finally:
        folder.close()


async def release(world: World, own: Signed[Inventory], ids: list[bytes], claimed: list[bytes]) -> RingArray:
    """Release a cohort of the attacker's choice from the honest server; return its share, opened."""
    frozen = await world.freeze(HONEST, corrupt_request(world, own, ids, claimed))
    assert frozen.status_code == 200, frozen.text
    answer = await world.release(HONEST, corrupt_cohorts(world, Signed[Cohort].from_canonical(frozen.content)))
    assert answer.status_code == 200, answer.text
    return world.opened(HONEST, answer.content)[1]


async def state(world: World) -> str:
    """Return the state of the honest server's batch as the analyzer sees it, or the refusal."""
    answer = await world.close_batch(HONEST)
    return "open for release" if answer.status_code == 200 else token(answer)


STAGES = ["open", "closed", "frozen"]


async def reach(world: World, stage: str) -> tuple[Signed[Inventory], list[bytes]]:
    """Bring the honest server's batch to a stage; return its inventory and list, as they will be or are."""
    own, ids = await honest_side(world, 14)
    if stage == "frozen":
        assert (await world.freeze(HONEST, corrupt_request(world, own, ids, ids))).status_code == 200
    return own, ids


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.grid(3)
async def test_a_database_copied_before_a_release_and_restored_after_it_is_refused_and_changes_nothing(
    tmp_path: Path, stage: str
) -> None:
    async with a_world(tmp_path, "sum") as world:
        if stage == "open":
            await world.upload_everywhere(world.reports(14))
            copy = copy_data(world, tmp_path / "copy")
        own, ids = await reach(world, stage)
        if stage != "open":
            copy = copy_data(world, tmp_path / "copy")
        await release(world, own, ids, ids)
        world.kill(HONEST)
        put_data(world, copy)
        before = everything(world)
        with pytest.raises(NotStartedError, match="lintra server restore"):
            world.start(HONEST)
        assert everything(world) == before
        # The command stores the very bytes again that left, from the step file of the release.
        done = restored(world)
        assert (done.released, done.kept) == (1, 0)
        world.start(HONEST)
        assert (await world.ask(HONEST, "GET", "/batches/0/aggregate")).status_code == 200
        again = await world.freeze(HONEST, corrupt_request(world, own, ids, ids[1:]))
        if stage == "frozen":
            assert (again.status_code, token(again)) == (409, "cohort_conflict")
        else:
            # Restored with the release alone: what it was made of is gone for good, and to ask again is of no use.
            assert (again.status_code, token(again)) == (404, "not_found")
            assert "a restore lost its" in again.json()["detail"]


async def test_without_step_files_nothing_leaves_a_restored_batch_for_good(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        own, ids = await reach(world, "closed")
        copy = copy_data(world, tmp_path / "copy")
        await release(world, own, ids, ids)
        world.kill(HONEST)
        put_data(world, copy)
        shutil.rmtree(world.settings[HONEST].key_dir / "steps")
        done = restored(world, never_copied=True)
        # The journal knows for ever that it was released; nothing of it can be stored again, and nothing leaves.
        assert (done.released, done.abandoned, done.kept) == (0, 0, 0)
        for _ in range(2):
            world.start(HONEST)
            assert (await world.close_batch(HONEST)).content == own.canonical()
            again = await world.freeze(HONEST, corrupt_request(world, own, ids, ids[1:]))
            assert (again.status_code, token(again)) == (404, "not_found")
            assert "a restore lost its" in again.text
            world.kill(HONEST)
        world.start(HONEST)


def rules_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch off what tells a copy from the original: a start takes any database for the one that ran last.

    Nothing is forgotten either, so that the copy can open its reports.
    """
    monkeypatch.setattr(KeyFiles, "destroy", lambda *_: None)
    monkeypatch.setattr(KeyFiles, "destroy_all_but", lambda *_: 0)

    def learn(parts: start.ServerResources, _: object = None) -> None:
        standing = parts.states.standing()
        applied = standing.head.length if standing else 0
        lines = (line for line in parts.journal.lines if line.number <= applied or line.state in NOT_AWAITED)
        parts.history.learn(lines)

    monkeypatch.setattr(start, "compare", lambda _: None)
    monkeypatch.setattr(start, "learn", learn)
    monkeypatch.setattr(Stepper, "_require_known", lambda *_: None)


async def test_with_the_rules_off_a_restored_copy_releases_twice_and_shows_one_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path, "sum") as world:
        rules_off(monkeypatch)
        own, ids = await reach(world, "closed")
        copy = copy_data(world, tmp_path / "copy")
        first = await release(world, own, ids, ids)
        world.kill(HONEST)
        put_data(world, copy)
        world.start(HONEST)
        second = await release(world, own, ids, ids[1:])
        victim = next(report for report in world.reports(14) if report.report_id == ids[0])
        assert_array_equal((first - second)[0], np.frombuffer(victim.shares[HONEST][33:], "<u8"))


@pytest.mark.parametrize("rule", [True, False], ids=["on", "off"])
async def test_after_a_release_nothing_in_a_copy_opens_though_the_root_key_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    async with a_world(tmp_path, "sum") as world:
        if not rule:
            monkeypatch.setattr(KeyFiles, "destroy", lambda *_: None)
            monkeypatch.setattr(KeyFiles, "destroy_all_but", lambda *_: 0)
        own, ids = await reach(world, "closed")
        node = world.apps[HONEST].node
        with node.database.reading() as connection:  # what a thief copies while the batch is open
            payloads, mark = connection.execute(select(segments.c.payloads, segments.c.mark)).first() or (b"", b"")
        await release(world, own, ids, ids)
        root = Vault(world.settings[HONEST].storage_root_keys(system_randomness), system_randomness)
        batch = node.store.history.batches[1].batch
        with pytest.raises(ValueError, match="root key"):
            root.unwrap(payloads, "batch keys", *batch.bound)  # the root key alone never opens it
        secret = batch_key_files(world.settings[HONEST].key_dir, root).read(batch.name, *batch.bound)
        assert (secret is None) == rule
        if secret is not None:
            assert BatchKey(secret, system_randomness).decrypt(payloads, mark)


@pytest.mark.parametrize("rule", [True, False], ids=["on", "off"])
async def test_a_task_that_only_the_lost_part_knew_is_not_registered_again(tmp_path: Path, rule: bool) -> None:
    async with a_world(tmp_path, "sum") as world:
        # A copy from before the task was registered, recorded uploads, and a key folder that was set back as well.
        recorded = await world.body(HONEST, world.reports(14))
        world.kill(HONEST)
        shutil.rmtree(world.settings[HONEST].data_dir)
        (world.settings[HONEST].key_dir / "journal").unlink()
        done = restored(world, journal_lost=True)
        world.clock.seconds += 2
        world.start(HONEST)
        if not rule:
            world.apps[HONEST].node.store.history.barred_before = 0
        answer = await world.register(HONEST)
        if rule:
            assert (answer.status_code, token(answer)) == (403, "policy_refused")
            assert "was restored" in answer.json()["detail"]
            assert done.barred_before > START
        else:
            assert answer.status_code == 201
            await world.post(HONEST, recorded)


@pytest.mark.parametrize("rule", [True, False], ids=["on", "off"])
async def test_a_task_that_took_reports_of_clocks_ahead_before_the_restore_is_not_registered_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    # It begins within one time unit, so a server takes the reports of clients whose clocks run ahead already.
    soon = {"not_before": START // PRECISION + 1}
    async with a_world(tmp_path, "sum", change=lambda task: task.model_copy(update=soon)) as world:
        assert (await world.upload(HONEST, world.reports(14))).failures == ()
        world.kill(HONEST)
        shutil.rmtree(world.settings[HONEST].data_dir)
        (world.settings[HONEST].key_dir / "journal").unlink()
        done = restored(world, journal_lost=True)
        assert done.barred_before < (START // PRECISION + 1) * PRECISION
        world.start(HONEST)
        if not rule:
            monkeypatch.setattr(registry, "SKEW_UNITS", 0)
        answer = await world.register(HONEST)
        if rule:
            assert (answer.status_code, token(answer)) == (403, "policy_refused")
            assert f"from {START} on" in answer.json()["detail"]
        else:
            assert answer.status_code == 201
            assert (await world.upload(HONEST, world.reports(14))).failures == ()


async def test_a_main_file_without_its_log_is_noticed_at_the_start(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        await world.upload(HONEST, world.reports(3))
        world.apps[HONEST].node.database.forget_log()
        await world.upload(HONEST, world.reports(9))
        world.apps[HONEST].node.note()
        data = world.settings[HONEST].data_dir
        main = (data / "lintra.sqlite").read_bytes()  # the log lies beside it, with the last six
        world.kill(HONEST)
        shutil.rmtree(data)
        data.mkdir(mode=0o700)
        (data / "lintra.sqlite").write_bytes(main)
        (data / "lintra.sqlite").chmod(0o600)
        # The server starts, and holds the batch that lost reports: it takes and gives nothing until that is accepted.
        world.start(HONEST)
        assert "reports 4 to 9 of 9 are gone" in (await world.upload_answer(HONEST, world.reports(12))).text
        assert await state(world) == "unavailable"
        world.kill(HONEST)
        done = restored(world, never_copied=True)
        assert (len(done.lost), done.kept, done.abandoned) == (1, 1, 0)
        assert "reports 4 to 9 of 9 are gone" in done.lost[0]
        assert accept(world) == 9
        world.start(HONEST)
        await world.upload(HONEST, world.reports(12))
        assert await state(world) == "open for release"


@pytest.mark.parametrize("rule", [True, False], ids=["on", "off"])
async def test_an_honest_server_restored_after_a_census_is_no_proven_liar(tmp_path: Path, rule: bool) -> None:
    async with a_world(tmp_path, "sum") as world:
        await world.upload(HONEST, world.reports(12))
        copy = copy_data(world, tmp_path / "copy")
        await world.upload(HONEST, world.reports(14))
        census = Signed[Census].from_canonical((await world.ask(HONEST, "GET", "/batches/0/census")).content)
        counted = ReportIds.parse((await world.ask(HONEST, "GET", "/batches/0/census/ids")).content, 100)
        world.kill(HONEST)
        put_data(world, copy)
        assert restored(world, never_copied=True).kept == 1
        accept(world)
        world.start(HONEST)
        inventory = Signed[Inventory].from_canonical((await world.close_batch(HONEST)).content)
        assert inventory.message.start > census.message.start
        held = await world.ids(HONEST)
        assert inventory.message.lost >= 2
        if not rule:  # as if neither numbers of starts nor losses were signed
            key = world.apps[HONEST].node.identity
            census = sign(key, census.message.model_copy(update={"start": inventory.message.start}))
            inventory = sign(key, inventory.message.model_copy(update={"lost": 0}))
            with pytest.raises(InventoryMismatchError, match="signed for 2 reports"):
                verify_census(world.task, census, counted, inventory, held)
        else:
            assert verify_census(world.task, census, counted, inventory, held) == 2


@pytest.mark.parametrize("witnessed", [True, False], ids=["on", "off"])
async def test_a_snapshot_of_both_folders_is_noticed_by_a_witness_and_by_nobody_else(
    tmp_path: Path, witnessed: bool
) -> None:
    witness = tmp_path / "elsewhere" if witnessed else None
    async with a_world(tmp_path, "sum", witness=witness) as world:
        own, ids = await reach(world, "closed")
        world.kill(HONEST)
        settings = world.settings[HONEST]
        for folder in (settings.data_dir, settings.key_dir):
            shutil.copytree(folder, tmp_path / "snapshot" / folder.name)
        world.start(HONEST)
        first = await release(world, own, ids, ids)
        world.kill(HONEST)
        for folder in (settings.data_dir, settings.key_dir):
            shutil.rmtree(folder)
            shutil.copytree(tmp_path / "snapshot" / folder.name, folder)
        if witnessed:
            with pytest.raises(NotStartedError, match="witness knows another journal"):
                world.start(HONEST)
            with pytest.raises(NotStartedError, match="witness knows another journal"):
                restored(world, never_copied=True)
            assert restored(world, journal_lost=True).abandoned == 1
            world.start(HONEST)
            # It begins with an empty database, and knows neither the task nor takes it once more.
            assert await state(world) == "unrecognized_task"
            assert token(await world.register(HONEST)) == "policy_refused"
        else:
            world.start(HONEST)
            second = await release(world, own, ids, ids[1:])
            assert (first != second).any()


async def test_two_live_copies_with_one_witness_release_once(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", witness=tmp_path / "elsewhere") as world:
        own, ids = await reach(world, "closed")
        paused = world.apps[HONEST].node
        settings = world.settings[HONEST]
        copies = {name: tmp_path / f"resumed {name}" for name in ("data_dir", "key_dir")}
        for name, copy in copies.items():
            shutil.copytree(getattr(settings, name), copy)
        # The copy starts while the original is paused: it moves the witness on.
        original = world.apps[HONEST], world.http[HONEST]
        world.start(HONEST, **copies)
        await release(world, own, ids, ids)
        world.apps[HONEST].node.close()
        world.apps[HONEST], world.http[HONEST] = original
        answer = await world.freeze(HONEST, corrupt_request(world, own, ids, ids[1:]))
        assert (answer.status_code, token(answer)) == (503, "unavailable")
        assert "witness" in world.halts[0]
        assert paused.store.batch(1).cohort is None


async def test_a_row_set_back_under_a_running_server_stops_its_batch(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        await world.upload(HONEST, world.reports(5))
        with world.apps[HONEST].node.database.writing() as connection:  # what a failover to a late replica does
            connection.execute(update(segments).values(total=3))
        answer = await world.post(HONEST, await world.body(HONEST, world.reports(6)))
        assert (answer.status_code, token(answer)) == (503, "unavailable")
        # Its row is not the one that was stored: that batch stops, and nothing else.
        assert "reports 1 to 5 of 5 are gone" in answer.text
        # The look of every second may come before the upload; to it a database with fewer reports was set back.
        assert all("the database holds fewer reports than were stored in it" in halt for halt in world.halts)
        assert await state(world) == "unavailable"


@pytest.mark.parametrize("rule", [True, False], ids=["on", "off"])
async def test_the_conditional_commit_stops_a_step_on_a_database_that_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    async with a_world(tmp_path, "sum") as world:
        own, ids = await reach(world, "closed")
        database = world.apps[HONEST].node.database
        if rule:  # of the two, the length would be noticed before any change
            with database.writing() as connection:
                connection.execute(update(journal).values(digest=bytes(32)))
        answer = await world.freeze(HONEST, corrupt_request(world, own, ids, ids))
        assert answer.status_code == (503 if rule else 200)
        assert bool(world.halts) == rule


LOSSES: dict[str, tuple[Callable[[World], Path], str]] = {
    "identity key": (lambda world: world.settings[HONEST].key_dir / "identity.key", "the identity key"),
    "root key": (lambda world: world.settings[HONEST].key_dir / "storage-root.key", "the storage root key"),
    "journal": (lambda world: world.settings[HONEST].key_dir / "journal", "the journal"),
    "database": (lambda world: world.settings[HONEST].data_dir / "lintra.sqlite", "the database"),
}


@pytest.mark.parametrize("what", LOSSES)
@pytest.mark.grid(2)
async def test_a_lost_part_is_named_and_nothing_is_made_in_its_place(tmp_path: Path, what: str) -> None:
    find, name = LOSSES[what]
    async with a_world(tmp_path, "sum") as world:
        path = find(world)
        world.kill(HONEST)
        aside = tmp_path / "aside"
        path.rename(aside)
        with pytest.raises(NotStartedError, match=f"missing: {name}"):
            world.start(HONEST)
        assert not path.exists()
        aside.rename(path)
        world.start(HONEST)
        assert (await world.upload(HONEST, world.reports(1))).failures == ()


async def test_with_the_rule_off_a_lost_folder_becomes_a_new_server_that_registers_old_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path, "sum") as world:
        world.kill(HONEST)
        settings = world.settings[HONEST]
        identity = (settings.key_dir / "identity.key").read_bytes()
        for folder in (settings.data_dir, settings.key_dir):
            shutil.rmtree(folder)
        settings.key_dir.mkdir(mode=0o700)
        (settings.key_dir / "identity.key").write_bytes(identity)
        (settings.key_dir / "identity.key").chmod(0o600)
        with pytest.raises(NotStartedError, match="lintra server init"):
            world.start(HONEST)
        monkeypatch.setattr(node, "may_initialise", lambda *_: True)
        establish = initialise._establish
        monkeypatch.setattr(initialise, "_establish", lambda parts, _: establish(parts, 0))
        world.start(HONEST)
        assert (await world.register(HONEST)).status_code == 201


def test_an_untouched_key_folder_is_one_that_one_process_owns(tmp_path: Path) -> None:
    folder = KeyFolder(tmp_path / "keys", system_randomness)
    assert not folder.has_journal
    folder.close()


async def test_folders_that_others_can_enter_are_refused_with_the_command_to_run(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        world.kill(HONEST)
        settings = world.settings[HONEST]
        for path, mode in ((settings.key_dir, 0o750), (settings.data_dir / "lintra.sqlite", 0o644)):
            right = path.stat().st_mode
            path.chmod(mode)
            with pytest.raises(ValueError, match=f"chmod {'700' if path.is_dir() else '600'} {path}"):
                world.start(HONEST)
            path.chmod(right)
        world.start(HONEST)


async def test_an_unreachable_witness_stops_steps_but_no_uploads(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", witness=tmp_path / "elsewhere") as world:
        own, ids = await reach(world, "closed")
        folder = tmp_path / "elsewhere" / f"of{HONEST}"
        folder.rename(tmp_path / "away")
        request = corrupt_request(world, own, ids, ids)
        answer = await world.freeze(HONEST, request)
        assert (answer.status_code, token(answer)) == (503, "unavailable")
        assert (await world.upload(HONEST, world.reports(14))).failures == ()
        (tmp_path / "away").rename(folder)
        assert (await world.freeze(HONEST, request)).status_code == 200


async def test_the_same_journal_under_another_root_key_is_refused(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        world.kill(HONEST)
        settings = world.settings[HONEST]
        folder = lock_folders(settings, system_randomness)
        parts = open_parts(settings, system_randomness, folder)
        parts.close()
        key = settings.key_dir / "storage-root.key"
        right = key.read_text()
        key.write_text("A" * 43 + "\n")
        with pytest.raises(ValueError, match="root key"):
            world.start(HONEST)
        # A new root key is listed first; after one start the old one is not needed any more.
        key.write_text(f"{'A' * 43},{right}")
        world.start(HONEST)
        world.kill(HONEST)
        key.write_text("A" * 43 + "\n")
        world.start(HONEST)
        assert open_vault(settings, system_randomness)
        assert (await world.upload(HONEST, world.reports(2))).failures == ()


@pytest.mark.parametrize("rule", [True, False], ids=["on", "off"])
@pytest.mark.grid(2)
async def test_a_release_that_the_journal_knows_is_never_computed_again_whatever_the_database_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    # A failover between the check and the journal line would otherwise leave two releases in the journal, and a restore
    # would have to guess which of them left.
    kept = {"retention": 604_800}
    async with a_world(tmp_path, "sum", change=lambda task: task.model_copy(update=kept)) as world:
        own, ids = await reach(world, "closed")
        first = await release(world, own, ids, ids)
        with world.apps[HONEST].node.database.writing() as connection:
            later = ", ".join(f"{name}=NULL" for state in ("frozen", "released") for name in COLUMNS[state])
            connection.exec_driver_sql(f"UPDATE batches SET state='closed', {later}")
        if not rule:
            monkeypatch.setattr(Stepper, "_require_known", lambda *_: None)
            known = world.apps[HONEST].node.store.history.batches[1]
            known.line = next(line for line in world.apps[HONEST].node._parts.journal.lines if line.state == "closed")
            known.expected = {name: each for name, each in known.expected.items() if each[1] == known.line.number}
        frozen = await world.freeze(HONEST, corrupt_request(world, own, ids, ids[1:]))
        if rule:
            # What state it is in says the journal, so there is no step that could be taken once more.
            assert frozen.status_code in (404, 503)
            assert world.halts == []
        else:
            assert (await release(world, own, ids, ids[1:]) != first).any()
