"""`lintra server`: what it prints, and how it exits."""

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError
from typer.testing import CliRunner

from lintra_server.cli import app
from lintra_server.settings import Settings
from support.server_world import configured


def test_the_public_key_is_the_one_that_signs(tmp_path: Path) -> None:
    path, settings = configured(tmp_path)
    result = CliRunner().invoke(app, ["keys", "--config", str(path)])
    assert result.exit_code == 0
    assert result.output.strip() == settings.signing_key(bytes).public_key


def test_the_example_is_printed_whole(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["example-config"])
    path = tmp_path / "server.toml"
    path.write_text(result.output, "utf-8")
    assert Settings.load(path).public_url == "http://127.0.0.1:8101"


@pytest.mark.parametrize("command", ["run", "keys"])
def test_wrong_settings_end_the_command_with_their_reason(tmp_path: Path, command: str) -> None:
    path = tmp_path / "server.toml"
    path.write_text('public_url = "http://a.example"\nprot = 1\n', "utf-8")
    result = CliRunner().invoke(app, [command, "--config", str(path)])
    assert result.exit_code == 1
    assert "prot" in result.output


def test_a_start_whose_database_cannot_be_opened_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = configured(tmp_path)

    def refuse(*_: object) -> None:
        raise OperationalError("SELECT a secret", {}, sqlite3.OperationalError("disk I/O error"))

    monkeypatch.setattr("lintra_server.serve.create_app", refuse)
    monkeypatch.setattr("lintra_server.serve.configure_logging", lambda *_: None)
    result = CliRunner().invoke(app, ["run", "--config", str(path)])
    assert result.exit_code == 1
    assert result.output == ("the database cannot be used: disk I/O error; `lintra server doctor` looks at it\n")
