"""The doctor: each thing that is wrong is named with one command and its cost, and no damaged file is a traceback."""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from faults.test_losses import HONEST, PLACE, batch, config, cut, edit, inventory, stored_one_by_one
from faults.test_restores import restored
from lintra_protocol.encoding.canonical import base64url, canonical_json
from lintra_server.cli import _failing_in_words, app
from lintra_server.operations.doctor import Doctor
from lintra_server.storage.database import SPAN
from lintra_service.findings import HealthFinding
from lintra_service.settings import InvalidSettingsError
from support.server_world import World, a_world, configured
from support.streamed_world import collected, released, streamed

ADVICE = ("one volume", "no witness")


def found(world: World, *, running: bool = False) -> list[HealthFinding]:
    """Return what the doctor says of the honest server, but for advice that every test's folders get."""
    settings = world.settings[HONEST]
    doctor = Doctor(settings, Path("server.toml"), world.clock, world.clock, lambda _: None)
    said = list(doctor.examine())
    assert all(each.severity == "advice" for each in said if any(word in each.what for word in ADVICE))
    return [each for each in said if not any(word in each.what for word in ADVICE)]


def put_anew(world: World) -> None:
    """Start another server in the place of one that was damaged, for the world's end."""
    folders = {"data_dir": world.folder / "other", "key_dir": world.folder / "others"}
    world.settings[HONEST] = world.settings[HONEST].model_copy(update=folders)
    world.start(HONEST)


def failed_in_words(work: Callable[[], object]) -> bool:
    """Do what a command does, and return whether it failed as commands do: in words, with status 1."""
    ended = list[int]()
    try:
        with _failing_in_words():
            work()
    except typer.Exit as exited:
        ended.append(exited.exit_code)
    assert ended in ([], [1])
    return bool(ended)


def only(world: World) -> HealthFinding:
    (finding,) = found(world)
    return finding


async def test_of_a_sound_server_there_is_advice_only_also_while_it_runs_in_every_state(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", tokens=True) as world:
        assert found(world) == []
        await stored_one_by_one(world, HONEST, 10, 4)
        assert (await world.ask(HONEST, "GET", "/batches")).status_code == 200
        for server in (1, 2):
            await stored_one_by_one(world, server, 14)
        assert found(world) == []
        await inventory(world)
        assert found(world) == []
        await world.aggregate_request()
        assert found(world) == []
        assert (await world.release(HONEST)).status_code == 200
        assert found(world) == []
        world.kill(HONEST)
        assert found(world) == []
        world.start(HONEST)


async def test_the_exit_code_tells_advice_from_trouble(tmp_path: Path) -> None:
    path, settings = configured(tmp_path)
    assert CliRunner().invoke(app, ["init", "--config", str(path)]).exit_code == 0
    well = CliRunner().invoke(app, ["doctor", "--config", str(path)])
    assert well.exit_code == 0
    assert "ADVICE   data_dir and key_dir are on one volume" in well.output
    settings.data_dir.chmod(0o755)
    sick = CliRunner().invoke(app, ["doctor", "--config", str(path)])
    assert sick.exit_code == 1
    assert f"do:    chmod -R go= {settings.data_dir}" in sick.output


async def test_lost_memory_of_noise_is_advice_as_long_as_a_later_window_needs_it(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2, change=streamed) as world:
        await collected(world, 0, 2)
        for window in (0, 2):
            await released(world, window)
            assert found(world) == []
        memories = sorted((world.settings[HONEST].key_dir / "streams").iterdir())
        memories[0].write_bytes(b"damaged")
        finding = only(world)
        assert (finding.severity, "in 1 windows" in finding.what) == ("advice", True)
        memories[1].unlink()
        assert "in 2 windows" in only(world).what
        assert "from window 0 on" in only(world).what
        await collected(world, 5)
        await released(world, 5)  # the last one: nothing is taken back any more
        assert found(world) == []


EDITS: dict[str, tuple[str, str, str]] = {
    "a definition": ("UPDATE tasks SET definition = x'7b7d'", "table tasks, row 1, column definition", "bring it"),
    "a row of a task": ("DELETE FROM tasks", "table tasks, row 1 is gone", "bring it"),
    "the key of tokens": ("UPDATE tasks SET wrapped_token_key = x'00'", "column wrapped_token_key", "bring it"),
    "a state": ("UPDATE batches SET state = 'closed'", "column state says closed", "stop and start"),
    "a row of a batch": ("DELETE FROM batches", "table batches, row 1 is gone", "stop and start"),
    "an inventory": ("UPDATE batches SET inventory = x'00'", "column inventory", "abandon"),
    "payloads": ("UPDATE segments SET payloads = x'00' WHERE key % 2 = 1", "column payloads", "abandon"),
    "a mark": (
        "UPDATE segments SET mark = zeroblob(28) WHERE key % 2 = 1", "reports 13 to 14 of 14 are gone", "accept-loss",
    ),
    "identifiers": ("UPDATE segments SET ids = zeroblob(64) WHERE key % 2 = 1", "reports 13 to 14", "accept-loss"),
    "a total of another kind": ("UPDATE segments SET total = 'x' WHERE key % 2 = 1", "reports 13 to 14", "accept-loss"),
    "a look": ("UPDATE looks SET reports = 99", "table looks, row 1", "no command"),
    "a look of another kind": ("UPDATE looks SET counters = 'x'", "table looks, row 1", "no command"),
    "the journal's place": ("UPDATE journal SET length = length + 9", "the journal lacks lines", "--journal-lost"),
    "no place at all": ("DELETE FROM journal", "belongs to no journal", "lintra server restore"),
    "a place of another kind": ("UPDATE journal SET length = 'x'", "belongs to no journal", "lintra server restore"),
    "the revision": ("UPDATE alembic_version SET version_num = '0000'", "alembic_version says 0000", "restore --from"),
}  # fmt: skip


async def test_a_trigger_beside_the_tables_is_named_with_the_command_that_removes_it(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        world.kill(HONEST)
        edit(world, "CREATE TRIGGER evil AFTER INSERT ON looks BEGIN DELETE FROM looks; END")
        finding = only(world)
        assert "trigger evil on table looks" in finding.what
        assert 'DROP TRIGGER "evil"' in finding.command
        edit(world, 'DROP TRIGGER "evil"')
        world.start(HONEST)
        assert (await world.ask(HONEST, "GET", "/batches")).status_code == 200


@pytest.mark.parametrize("what", EDITS)
@pytest.mark.grid(2)
async def test_whatever_was_edited_is_named_with_one_command_and_its_cost(tmp_path: Path, what: str) -> None:
    statement, said, command = EDITS[what]
    async with a_world(tmp_path, "sum", tokens=True, num_servers=2) as world:
        await stored_one_by_one(world, HONEST, 12, 2)
        assert (await world.ask(HONEST, "GET", "/batches")).status_code == 200
        world.kill(HONEST)
        assert edit(world, statement) >= 1
        finding = only(world)
        assert said in finding.what
        assert command in finding.command
        assert finding.cost
        assert finding.severity == ("advice" if "look" in what else "trouble")
        if "place" in what or "revision" in what:
            # What the server itself says of it is one line, and names a command, too.
            with pytest.raises(InvalidSettingsError, match="lintra server restore"):
                world.start(HONEST)
        put_anew(world)


async def test_a_cut_batch_is_named_as_the_server_names_it_and_the_command_mends_it(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        await stored_one_by_one(world, HONEST, 12, 2)
        world.kill(HONEST)
        cut(world, 1)
        finding = only(world)
        assert f"{batch(world)}: reports 13 to 14 of 14 are gone" in finding.what
        words = finding.command.split()[2:-2]
        done = CliRunner().invoke(app, [*words, "--yes", "--config", str(config(world))])
        assert done.exit_code == 0, done.output
        assert found(world) == []
        world.start(HONEST)


async def test_the_release_of_an_edited_row_is_stored_again_by_the_command(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        for server in range(3):
            await stored_one_by_one(world, server, 14)
        assert (await world.release(HONEST)).status_code == 200
        world.kill(HONEST)
        edit(world, "UPDATE batches SET aggregate = x'00'")
        finding = only(world)
        assert "column aggregate contradicts line" in finding.what
        assert "nothing: the release is stored again" in finding.cost
        assert "restore --key-folder-never-copied" in finding.command
        assert restored(world, never_copied=True).released == 1
        assert found(world) == []
        world.start(HONEST)
        assert (await world.ask(HONEST, "GET", "/batches/0/aggregate")).status_code == 200


async def test_an_edited_definition_is_put_right_by_its_author_who_registers_it_again(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", tokens=True) as world:
        await stored_one_by_one(world, HONEST, 12)
        world.kill(HONEST)
        edit(world, "UPDATE tasks SET definition = x'7b7d', wrapped_token_key = 'x'")
        world.start(HONEST)
        assert (await world.upload_answer(HONEST, world.reports(1, "late"))).status_code == 503
        assert (await world.register(HONEST)).status_code == 201
        assert (await world.upload(HONEST, world.reports(1, "late"))).failures == ()
        assert found(world) == []


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 7])


def _garbage(path: Path) -> None:
    path.write_bytes(random.Random(3).randbytes(max(1, path.stat().st_size)))


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


def _pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for page in range(1, len(data) // 4096):
        data[4096 * page : 4096 * page + 64] = random.Random(page).randbytes(64)
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "truncated": _truncated, "garbage": _garbage, "empty": _emptied, "corrupt pages": _pages,
}  # fmt: skip
FILES = ("lintra.sqlite", "journal", "journal.key", "notes", "identity.key", "storage-root.key", "batches", "sealing")
CASES = [(name, how) for name in FILES for how in DAMAGES if how != "corrupt pages" or name == "lintra.sqlite"]


@pytest.mark.parametrize(("name", "how"), CASES)
@pytest.mark.grid(3)
async def test_no_damaged_file_gives_a_traceback_and_each_command_says_one_line(
    tmp_path: Path, name: str, how: str
) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        await stored_one_by_one(world, HONEST, 12, 2)
        world.apps[HONEST].node.database.forget_log()
        world.kill(HONEST)
        settings, toml = world.settings[HONEST], str(config(world))
        folder = settings.data_dir if name == "lintra.sqlite" else settings.key_dir
        for suffix in ("-wal", "-shm"):
            (settings.data_dir / f"lintra.sqlite{suffix}").unlink(missing_ok=True)
        path = folder / name
        for each in sorted(path.iterdir()) if path.is_dir() else [path]:
            DAMAGES[how](each)
        troubles = [finding for finding in found(world) if finding.severity == "trouble"]
        # An empty file of a sealing key is one that was destroyed, and a crash came before it was removed.
        assert troubles or (name, how) == ("sealing", "empty")
        assert all(finding.command and finding.cost for finding in troubles)
        if name == "lintra.sqlite":
            assert "restore --from BACKUP" in troubles[0].command
        if name == "journal":
            assert "restore --journal-lost" in troubles[0].command
        before = {each: each.read_bytes() for each in (path.iterdir() if path.is_dir() else [path])}
        for command in (["init"], ["keys"], ["backup", str(tmp_path / "backup")]):
            done = CliRunner().invoke(app, [*command, "--config", toml])
            assert done.exception is None or isinstance(done.exception, SystemExit), (command, done.exception)
            assert done.exit_code == 0 or len(done.stderr.strip().splitlines()) == 1, (command, done.stderr)
        if name != "batches" and (name, how) not in (("sealing", "empty"), ("notes", "empty")):
            # The others stop a batch, or nothing.
            assert failed_in_words(lambda: world.start(HONEST))
            # What a crash leaves of the journal's last line is cut off, as ever.
            assert name == "journal" or {each: each.read_bytes() for each in before} == before
        failed_in_words(lambda: restored(world, never_copied=True))
        put_anew(world)


async def test_a_batch_whose_key_file_was_changed_stops_alone_and_can_be_given_up(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        other = world.task.model_copy(update={"purpose": "another"})
        assert (await world.register(HONEST, other)).status_code == 201
        world.kill(HONEST)
        (world.settings[HONEST].key_dir / "batches" / f"{batch(world).name.hex()}.key").write_bytes(b"x" * 60)
        finding = only(world)
        assert "the file of its keys" in finding.what
        world.start(HONEST)
        refused = await world.upload_answer(HONEST, world.reports(1))
        assert refused.status_code == 503
        assert "lintra server abandon" in refused.text
        world.task = other
        assert (await world.upload(HONEST, world.reports(1))).failures == ()
        world.kill(HONEST)
        done = CliRunner().invoke(app, [*finding.command.split()[2:-2], "--yes", "--config", str(config(world))])
        assert done.exit_code == 0, done.output
        assert found(world) == []
        world.start(HONEST)


async def test_the_doctor_changes_nothing_that_a_server_stands_on(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        await stored_one_by_one(world, HONEST, 12, 2)
        world.kill(HONEST)
        settings = world.settings[HONEST]
        before = {path: path.read_bytes() for path in tmp_path.rglob("*0/**/*") if path.is_file()}
        assert found(world) == []
        assert {path: path.read_bytes() for path in before} == before
        assert (PLACE + 1) * SPAN > SPAN
        assert settings.key_dir.exists()
        world.start(HONEST)


def test_a_zero_byte_database_is_not_made_anew_and_the_backup_comes_first(tmp_path: Path) -> None:
    path, settings = configured(tmp_path)
    run = [sys.executable, "-c", "from lintra_server.cli import app; app()"]
    assert CliRunner().invoke(app, ["init", "--config", str(path)]).exit_code == 0
    database = settings.data_dir / "lintra.sqlite"
    for suffix in ("-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    database.write_bytes(b"")
    done = subprocess.run([*run, "run", "--config", str(path)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "missing: the database" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert database.stat().st_size == 0
    said = CliRunner().invoke(app, ["doctor", "--config", str(path)]).output
    assert said.index("restore --from BACKUP") < said.index("Without a backup")


async def test_a_line_of_a_later_version_is_no_damage_and_costs_an_installation(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        journal = world.apps[HONEST].node.stepper._journal
        number = journal.head.length + 1
        later = canonical_json({"line": number, "start": 1, "state": "unheard of", "task": "", "step": ""})
        mac = journal._mac(journal.head.digest, later)
        world.kill(HONEST)
        path = world.settings[HONEST].key_dir / "journal"
        before = path.read_bytes()
        path.write_bytes(before + later + b" " + base64url(mac).encode() + b"\n")
        finding = only(world)
        assert "another version of this software wrote it" in finding.what
        assert finding.command == "install that version of lintra, or a later one"
        path.write_bytes(before)
        world.start(HONEST)
