"""Backups that somebody changed, or that do not fit their key folder: refused in words, before anything is in place."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from faults.test_losses import HONEST, PLACE, accept, edit, inventory, stored_one_by_one
from faults.test_restores import restored
from lintra_protocol.encoding.canonical import canonical_json, parse_canonical_json
from lintra_server.operations import restore
from lintra_server.operations.backup import back_up
from lintra_server.operations.manifests import DoctoredBackupError, Manifest, sha256_of
from lintra_server.operations.restore import put_database
from lintra_server.storage.database import SPAN
from lintra_server.storage.server_resources import NotStartedError
from lintra_service.settings import InvalidSettingsError
from support.server_world import World, a_world


def backup(world: World, name: str = "backup", server: int = HONEST) -> tuple[Path, list[str]]:
    """Back a server up as its command does; return the folder and what was said."""
    folder = world.folder / name
    return folder, list(back_up(world.settings[server], folder))


def database(world: World) -> bytes:
    return (world.settings[HONEST].data_dir / "lintra.sqlite").read_bytes()


async def test_a_backup_taken_while_the_server_runs_is_put_back_and_its_batch_says_what_is_lost(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        await stored_one_by_one(world, HONEST, 12)
        folder, said = backup(world)
        assert "batches: 1 open; 12 reports" in said
        assert (await world.upload(HONEST, world.reports(14)[12:])).failures == ()
        world.kill(HONEST)
        shutil.rmtree(world.settings[HONEST].data_dir)
        world.settings[HONEST].data_dir.mkdir(mode=0o700)
        put_database(world.settings[HONEST], folder)
        done = restored(world, never_copied=True)
        assert done.kept == 1
        assert "reports 13 to 14 of 14 are gone" in done.lost[0]
        assert accept(world) == 14  # the whole last row might be one of a failed commit
        world.start(HONEST)
        assert (await inventory(world)).count == 12


EDITS = {
    "a definition": "UPDATE tasks SET definition = definition || x'20'",
    "a state": "UPDATE batches SET state = 'merged'",
    "a cut chain": f"DELETE FROM segments WHERE key = {PLACE * SPAN + 1}",
    "the journal's place": "UPDATE journal SET length = length - 1",
    "nothing that is read": "CREATE TABLE another (a)",
}


@pytest.mark.parametrize("what", EDITS)
@pytest.mark.parametrize("rule", [True, False], ids=["on", "off"])
@pytest.mark.grid(2)
async def test_a_doctored_backup_is_refused_and_nothing_is_put_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, rule: bool
) -> None:
    if not rule:  # the file's own hash is compared with nothing

        def believing(manifest: Manifest, _: bytes, *others: object) -> None:
            require(manifest, manifest.sha256, *others)  # type: ignore[arg-type]

        require = Manifest.require
        monkeypatch.setattr(Manifest, "require", believing)
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        await stored_one_by_one(world, HONEST, 12, 1)
        folder, _ = backup(world)
        world.kill(HONEST)
        with closing(sqlite3.connect(folder / "lintra.sqlite")) as doctored, doctored:
            doctored.execute(EDITS[what])
        before = database(world)
        if rule:
            with pytest.raises(DoctoredBackupError, match="was changed"):
                put_database(world.settings[HONEST], folder)
            assert database(world) == before
            assert [path.name for path in world.settings[HONEST].data_dir.glob("*.incoming*")] == []
        elif what != "the journal's place":  # which the journal knows better
            put_database(world.settings[HONEST], folder)
            assert database(world) != before
            put_back = tmp_path / "sound"
            put_back.mkdir(mode=0o700)
            (put_back / "lintra.sqlite").write_bytes(before)
            put_database(world.settings[HONEST], put_back, without_manifest=True)
        world.start(HONEST)


async def test_a_backup_without_its_manifest_needs_the_operators_word_and_then_the_notes_judge_it(
    tmp_path: Path,
) -> None:
    async with a_world(tmp_path, "sum") as world:
        await stored_one_by_one(world, HONEST, 12, 1, 1)
        folder, _ = backup(world)
        world.kill(HONEST)
        (folder / "manifest.json").unlink()
        with closing(sqlite3.connect(folder / "lintra.sqlite")) as doctored, doctored:
            doctored.execute("DELETE FROM segments WHERE key = ?", (PLACE * SPAN + 2,))
        before = database(world)
        with pytest.raises(NotStartedError, match="--without-manifest"):
            put_database(world.settings[HONEST], folder)
        assert database(world) == before
        put_database(world.settings[HONEST], folder, without_manifest=True)
        done = restored(world, never_copied=True)
        assert "reports 14 to 14 of 14 are gone" in done.lost[0]
        assert accept(world) == 2
        world.start(HONEST)


async def test_a_manifest_that_was_changed_or_is_of_another_server_is_refused(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        await stored_one_by_one(world, HONEST, 12, 1)
        folder, _ = backup(world)
        other, _ = backup(world, "other", 1)
        world.kill(HONEST)
        manifest = folder / "manifest.json"
        sound = manifest.read_bytes()
        document = parse_canonical_json(sound.rstrip(b"\n"))
        assert isinstance(document, dict)
        body = document["manifest"]
        assert isinstance(body, dict)
        changed = canonical_json({**document, "manifest": {**body, "batches": []}})
        for bad in (changed, b"", b"{}", sound[:-9], (other / "manifest.json").read_bytes()):
            manifest.write_bytes(bad)
            with pytest.raises(DoctoredBackupError, match="manifest"):
                put_database(world.settings[HONEST], folder)
        manifest.write_bytes(sound)
        put_database(world.settings[HONEST], folder)
        assert sha256_of(world.settings[HONEST].data_dir / "lintra.sqlite") == sha256_of(folder / "lintra.sqlite")
        with pytest.raises(DoctoredBackupError, match="manifest is not one that this server wrote"):
            put_database(world.settings[HONEST], other)
        assert restored(world, never_copied=True).lost == []
        world.start(HONEST)


async def test_a_backup_of_a_line_that_the_journal_lost_is_refused(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        await stored_one_by_one(world, HONEST, 12)
        journal = world.settings[HONEST].key_dir / "journal"
        earlier = journal.read_bytes()
        await inventory(world)
        folder, _ = backup(world)
        world.kill(HONEST)
        kept = journal.read_bytes()
        journal.write_bytes(earlier)
        with pytest.raises(DoctoredBackupError, match="never stood there"):
            put_database(world.settings[HONEST], folder)
        journal.write_bytes(kept)
        world.start(HONEST)


async def test_a_backup_of_a_damaged_server_says_so_and_one_of_no_server_is_not_begun(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        await stored_one_by_one(world, HONEST, 12, 1)
        world.kill(HONEST)
        edit(world, "UPDATE segments SET ids = zeroblob(32) WHERE key = ?", PLACE * SPAN + 1)
        assert any(line.startswith("DAMAGED: task") for line in backup(world)[1])
        (world.settings[HONEST].key_dir / "journal").rename(tmp_path / "journal")
        with pytest.raises((InvalidSettingsError, OSError)):
            backup(world, "never")
        assert not (world.folder / "never").exists() or not list((world.folder / "never").iterdir())
        (tmp_path / "journal").rename(world.settings[HONEST].key_dir / "journal")
        assert restore.MANIFEST_FILE == "manifest.json"
        world.start(HONEST)
