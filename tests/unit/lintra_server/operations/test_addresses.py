"""The doctor names what was edited also where the server does not use it, and no column is passed over in silence."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from faults.test_losses import HONEST, edit, stored_one_by_one
from lintra_server.storage.server_resources import NotStartedError
from support.server_world import World, a_world
from unit.lintra_server.operations.test_doctor import found, put_anew

EDITS: dict[str, tuple[str, str]] = {
    "UPDATE batches SET task = 9, number = 7": (
        "column task or number was edited", "UPDATE batches SET task = 1, number = 0 WHERE batch = 1",
    ),
    "UPDATE batches SET num_reports = 9": ("column num_reports was edited", "SET num_reports = 0 WHERE batch = 1"),
    "UPDATE tasks SET task_id = x'00'": ("column task_id was edited", "UPDATE tasks SET task_id = x'"),
    "INSERT INTO looks SELECT 9, told_at, counters, counted_at, reports, census, mac FROM looks": (
        "table looks has 1 rows that the journal does not know", "DELETE FROM looks WHERE batch IN (9)",
    ),
    "INSERT INTO segments SELECT key + 7 * 4294967296, total, mark, ids, serials, payloads FROM segments": (
        "table segments has 2 rows", "DELETE FROM segments WHERE key BETWEEN 8589934592 AND ",
    ),
}  # fmt: skip
"""Statements, what the doctor says of them, and the one that undoes them."""

TABLES = {"tasks": "task", "batches": "batch", "looks": "batch", "segments": "key", "journal": "one"}
SILENT = {
    ("open", "journal", "start"), ("released", "journal", "start"),  # a start counts on from the journal's own
    ("released", "batches", "wrapped_nonce"),  # emptied: it goes with the keys
    # Nothing of the rows of a released batch is used but its identifiers.
    *(("released", "segments", name) for name in ("total", "mark", "serials", "payloads")),
}  # fmt: skip


async def test_an_edited_address_and_a_row_of_nobody_are_named_with_the_statement_that_undoes_it(
    tmp_path: Path,
) -> None:
    async with a_world(tmp_path, "sum", tokens=True, num_servers=2) as world:
        await stored_one_by_one(world, HONEST, 12, 2)
        assert (await world.ask(HONEST, "GET", "/batches")).status_code == 200
        world.kill(HONEST)
        for statement, (said, undone) in EDITS.items():
            assert edit(world, statement) >= 1
            (finding,) = found(world)
            assert finding.severity == "advice"
            assert said in finding.what
            assert undone in finding.command
            assert edit(world, finding.command.partition("psql: ")[2]) >= 1
            assert found(world) == []
        world.start(HONEST)


async def test_missing_files_of_keys_are_named_before_the_start_that_they_stop(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        await stored_one_by_one(world, HONEST, 2)
        world.kill(HONEST)
        for path in (world.settings[HONEST].key_dir / "batches").iterdir():
            path.unlink()
        with pytest.raises(NotStartedError, match="the keys of 1 unreleased batches are missing"):
            world.start(HONEST)
        (finding,) = found(world)
        assert "the keys of 1 unreleased batches are missing" in finding.what
        assert "lintra server restore --key-folder-never-copied" in finding.command
        put_anew(world)


@pytest.mark.slow
async def test_no_edit_of_any_column_is_passed_over_in_silence(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", tokens=True, num_servers=2) as world:
        for server in (HONEST, 1):
            await stored_one_by_one(world, server, 12, 2)
        assert (await world.ask(HONEST, "GET", "/batches")).status_code == 200
        edited = 0
        for stage in ("open", "released"):
            if stage == "released":
                world.start(HONEST)
                await world.aggregate_request()
                assert (await world.release(HONEST)).status_code == 200
            world.kill(HONEST)
            assert found(world) == []
            for table, key in TABLES.items():
                edited += each_column_named(world, stage, table, key)
        assert edited > 80
        put_anew(world)


def each_column_named(world: World, stage: str, table: str, key: str) -> int:
    """Change each column of the last row of a table, one after the other; return how many changes there were."""
    changes = 0
    with closing(sqlite3.connect(world.settings[HONEST].data_dir / "lintra.sqlite", isolation_level=None)) as database:
        names = [(row[1], row[2]) for row in database.execute(f"PRAGMA table_info({table})")]
        row = database.execute(f"SELECT * FROM {table} ORDER BY {key} DESC LIMIT 1").fetchone()
        place = row[[name for name, _ in names].index(key)]
        for (name, kind), old in zip(names, row, strict=True):
            other = 9999 if "INT" in kind else "x" if "CHAR" in kind else b"\0\xff"
            for new in [other] if name == key else [other, None]:
                try:
                    database.execute(f"UPDATE {table} SET {name} = ? WHERE {key} = ?", (new, place))
                except sqlite3.IntegrityError:
                    continue
                changes += new != old
                assert new == old or found(world) or (stage, table, name) in SILENT, (stage, table, name, new)
                now = new if name == key else place
                database.execute(f"UPDATE {table} SET {name} = ? WHERE {key} = ?", (old, now))
    return changes
