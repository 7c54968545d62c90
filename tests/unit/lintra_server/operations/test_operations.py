"""The operator's commands: found, back up, restore, look, accept a clock, tell a witness."""

import shutil
import stat
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.encoding.canonical import base64url
from lintra_server.cli import app
from lintra_server.node import Node
from lintra_server.settings import Settings
from lintra_server.storage.database import Database
from lintra_server.storage.key_folder import ACCEPT_FILE
from support.server_world import configured

ROOT = Path(__file__).resolve().parents[4]


def lintra(*arguments: str, ok: bool = True) -> str:
    """Run `lintra server ...`; return what it printed."""
    result = CliRunner().invoke(app, list(arguments))
    assert (result.exit_code == 0) == ok, result.output
    return result.output


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return configured(tmp_path)[0]


def started(config: Path) -> None:
    """Start a server and stop it again, as the process does, without its listeners."""
    Node(Settings.load(config), system_randomness, time.time).close()


def test_init_makes_a_server_once(config: Path) -> None:
    made = lintra("init", "--config", str(config)).split()[-1]
    assert lintra("keys", "--config", str(config)).split() == [made]
    started(config)
    assert "there is a server here already" in lintra("init", "--config", str(config), ok=False)


def test_init_with_a_key_that_was_there_bars_older_tasks(config: Path) -> None:
    settings = Settings.load(config)
    settings.key_dir.mkdir(mode=0o700)
    key = settings.key_dir / "identity.key"
    key.write_text(base64url(system_randomness(32)) + "\n")
    key.chmod(0o600)
    with pytest.raises(ValueError, match="lintra server init"):
        started(config)
    lintra("init", "--config", str(config))
    node = Node(settings, system_randomness, time.time)
    barred_before = node.store.history.barred_before
    node.close()
    assert abs(barred_before - time.time()) < 60


def test_a_founding_that_was_interrupted_is_finished_by_the_next_start(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise OSError("power cut")

    with monkeypatch.context() as patched:
        patched.setattr("lintra_server.operations.initialise._establish", crash)
        with pytest.raises(OSError, match="power cut"):
            started(config)
    started(config)
    assert "TROUBLE" not in lintra("doctor", "--config", str(config))


def test_a_backup_is_whole_private_and_says_what_it_contains(config: Path, tmp_path: Path) -> None:
    node = Node(Settings.load(config), system_randomness, time.time)  # it runs meanwhile
    said = lintra("backup", "--config", str(config), str(tmp_path / "backup"))
    node.close()
    manifest, copy = sorted((tmp_path / "backup").iterdir(), reverse=True)
    assert [manifest.name, copy.name] == ["manifest.json", "lintra.sqlite"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in (manifest, copy)} == {0o600}
    assert "batches: none; 0 reports" in said
    assert "opens only with the key folder" in said
    database = Database(copy)
    assert database.intact() == []
    database.close()
    assert "new folder" in lintra("backup", "--config", str(config), str(tmp_path / "backup"), ok=False)


def test_a_lost_database_comes_back_from_a_backup_by_one_command(config: Path, tmp_path: Path) -> None:
    started(config)
    lintra("backup", "--config", str(config), str(tmp_path / "backup"))
    started(config)
    settings = Settings.load(config)
    shutil.rmtree(settings.data_dir)
    with pytest.raises(ValueError, match="missing: the database"):
        started(config)
    said = lintra("restore", "--config", str(config), "--from", str(tmp_path / "backup"), "--key-folder-never-copied")
    assert "0 batches go on, 0 were given up" in said
    assert "new tasks must begin after" in said
    started(config)


def test_the_long_lived_keys_have_a_backup_of_their_own(config: Path, tmp_path: Path) -> None:
    started(config)
    lintra("keys", "--config", str(config), "--backup", str(tmp_path / "safe"))
    settings = Settings.load(config)
    for name in ("identity.key", "storage-root.key"):
        assert (tmp_path / "safe" / name).read_text() == (settings.key_dir / name).read_text()
        assert stat.S_IMODE((tmp_path / "safe" / name).stat().st_mode) == 0o600
    assert {path.name for path in (tmp_path / "safe").iterdir()} == {"identity.key", "storage-root.key"}


def test_a_clock_is_accepted_by_a_running_server(config: Path) -> None:
    now = [time.time()]
    started(config)
    node = Node(Settings.load(config), system_randomness, lambda: now[0])
    now[0] += 400 * 86_400
    with pytest.raises(Exception, match="clock"):
        node.clock.check()
    assert "accepted" in lintra("clock", "--config", str(config), "--accept")
    node.note()
    node.clock.check()
    assert not (Settings.load(config).key_dir / ACCEPT_FILE).exists()
    node.close()
    # The time that was seen last is now far ahead of this machine's.
    assert "behind the last time seen" in lintra("clock", "--config", str(config))


def test_a_witness_is_told_once_where_the_journal_stands(config: Path, tmp_path: Path) -> None:
    started(config)
    witness = tmp_path / "elsewhere"
    witness.mkdir()
    config.write_text(f'witness_dir = "{witness}"\n' + config.read_text())
    with pytest.raises(ValueError, match="lintra server witness"):
        started(config)
    assert "knows where the journal stands" in lintra("witness", "--config", str(config))
    started(config)
    assert "remembers something already" in lintra("witness", "--config", str(config), ok=False)
    # Here both folders and the witness are on one disk, of which the doctor says that it is no other machine's.
    assert "witness_dir is on one volume with" in lintra("doctor", "--config", str(config))


def commands(page: str) -> list[list[str]]:
    """Return the arguments of every `lintra server` line in a page's code blocks, in order."""
    blocks = page.split("```")[1::2]
    lines = [line.partition("#")[0].split() for block in blocks for line in block.splitlines()]
    return [words[2:] for words in lines if words[:2] == ["lintra", "server"]]


def test_every_command_of_the_page_does_what_it_says(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(config.parent)
    known = commands((ROOT / "docs/how-to/operations.md").read_text("utf-8"))
    assert {words[0] for words in known} == {"init", "doctor", "backup", "keys", "restore", "clock"}
    for words in known:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, (words, result.output)
    started(config)


def test_nothing_in_the_key_folder_is_readable_by_others(config: Path) -> None:
    started(config)
    settings = Settings.load(config)
    for folder in (settings.key_dir, settings.data_dir):
        modes = {stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}
        assert modes <= {0o600, 0o700}
