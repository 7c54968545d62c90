"""Whatever a disk does to an analyzer's files: the doctor names a command and its cost, and `run` ends in words."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from lintra_analyzer.cli import app
from lintra_analyzer.storage.access_tokens import AccessToken, Scope
from lintra_analyzer.storage.keys import load_keys
from lintra_analyzer.storage.store import DATABASE, Store
from lintra_analyzer.storage.trusted_file import FILE, KEY_FILE
from lintra_protocol.crypto.randomness import system_randomness
from support import make_task
from support.analyzer_world import NOW
from support.many_tasks import add_tasks

SERVERS = "".join(f'\n[[servers]]\nurl = "http://server-{n}.test"\n' for n in range(2))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an analyzer that has run: keys on another volume, tasks, tokens."""
    folder = tmp_path_factory.mktemp("whole")
    load_keys(folder / "keys", create=True, random_bytes=system_randomness)
    store = Store(folder / "data" / DATABASE, folder / "keys")
    add_tasks(store, make_task(), 200)
    store.users.add(AccessToken("a" * 64, "Ada", "viewer", Scope(), NOW))
    store.close()
    config = f'data_dir = "data"\nkey_dir = "keys"\ntrust_on_first_use = true\nport = 0\ninternal_port = 0\n{SERVERS}'
    (folder / "analyzer.toml").write_text(config)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "analyzer"))


def said(command: str, folder: Path) -> Result:
    return CliRunner().invoke(app, [command, "--config", str(folder / "analyzer.toml")], catch_exceptions=False)


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 3])


def garbage_header(path: Path) -> None:
    path.write_bytes(b"\x07" * 100 + path.read_bytes()[100:])


def corrupt_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for page in range(4, len(data) // 4096, 3):
        data[4096 * page : 4096 * page + 2000] = b"\xa5" * 2000
    path.write_bytes(data)


def zero(path: Path) -> None:
    path.write_bytes(b"")


def gone(path: Path) -> None:
    path.unlink()


def text(path: Path) -> None:
    path.write_text("this is no database, and no key\n" * 400)


def another_database(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num)")
        connection.execute("INSERT INTO alembic_version VALUES ('0001')")
        connection.commit()


def newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0099'")
        connection.commit()


OF_DATABASE = [truncated, garbage_header, corrupt_pages, zero, gone, text, another_database, newer]
OF_KEYS = [truncated, zero, text]


def test_a_well_analyzer_has_no_findings(folder: Path) -> None:
    result = said("doctor", folder)
    assert (result.exit_code, result.output) == (0, "nothing is wrong\n")


def test_advice_alone_ends_with_zero(folder: Path) -> None:
    shutil.move(folder / "keys", folder / "data" / "keys")
    config = folder / "analyzer.toml"
    config.write_text(config.read_text().replace('key_dir = "keys"\n', ""))
    result = said("doctor", folder)
    assert result.exit_code == 0
    assert result.output.startswith("ADVICE ")
    assert "key_dir" in result.output


def looked_at(folder: Path, before: dict[Path, bytes]) -> None:
    """Check that the doctor says trouble with a command and a cost, changes nothing, and that a start is refused."""
    result = said("doctor", folder)
    assert result.exit_code == 1, result.output
    lines = result.output.splitlines()
    (place, *_) = [number for number, line in enumerate(lines) if line.startswith("TROUBLE")]
    assert lines[place + 1].startswith("         do:    ")
    assert lines[place + 2].startswith("         costs: ")
    assert {path: path.read_bytes() for path in before} == before
    refused = said("run", folder)
    assert refused.exit_code == 1
    assert "Traceback" not in refused.output
    assert refused.output.strip()


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}


@pytest.mark.parametrize("damage", OF_DATABASE)
def test_a_damaged_database_is_a_finding_and_no_start_takes_it_for_a_new_one(
    folder: Path, damage: Callable[[Path], None]
) -> None:
    damage(folder / "data" / DATABASE)
    looked_at(folder, files_of(folder))


@pytest.mark.parametrize("name", ["identity.key", "author.key", "tokens.key", "sealing-x25519.key", KEY_FILE, FILE])
@pytest.mark.parametrize("damage", [*OF_KEYS, gone])
@pytest.mark.grid(3)
def test_a_damaged_key_or_file_of_tokens_is_a_finding(folder: Path, name: str, damage: Callable[[Path], None]) -> None:
    damage(folder / "keys" / name)
    looked_at(folder, files_of(folder))


def test_a_key_that_others_can_read_is_mended_by_the_command_that_is_named(folder: Path) -> None:
    (folder / "keys" / "author.key").chmod(0o644)
    output = said("doctor", folder).output
    assert "chmod 600" in output
    (folder / "keys" / "author.key").chmod(0o600)
    assert said("doctor", folder).exit_code == 0


@pytest.mark.parametrize("damage", [truncated, zero, text, gone])
def test_the_command_that_the_doctor_names_for_the_file_of_tokens_mends_it(
    folder: Path, damage: Callable[[Path], None]
) -> None:
    damage(folder / "keys" / FILE)
    command = f"lintra analyzer access reset --config {folder / 'analyzer.toml'}"
    assert command in said("doctor", folder).output
    done = CliRunner().invoke(app, command.split()[2:])
    assert done.exit_code == 0, done.output
    assert said("doctor", folder).exit_code == 0


def test_a_row_that_cannot_be_read_is_named_with_its_table(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "data" / DATABASE)) as connection:
        (task_id,) = connection.execute("SELECT task_id FROM tasks LIMIT 1").fetchone()
        connection.execute("UPDATE tasks SET record = x'00' WHERE task_id = ?", (task_id,))
        connection.execute("INSERT INTO jobs VALUES (?, 0, 'unknown', 'waiting', NULL, NULL)", (task_id,))
        connection.commit()
    result = said("doctor", folder)
    assert result.exit_code == 1
    assert f"table tasks: task {task_id} cannot be read" in result.output
    assert f"table jobs: task {task_id}, batch 0" in result.output


def test_the_doctor_looks_also_while_the_analyzer_runs(folder: Path) -> None:
    store = Store(folder / "data" / DATABASE, folder / "keys")
    store.users.add(AccessToken("b" * 64, "Bob", "viewer", Scope(), NOW))
    assert said("doctor", folder).exit_code == 0
    store.close()
