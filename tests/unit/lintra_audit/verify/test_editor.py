"""The editor of `lintra audit verify` writes to databases of servers that run, and to no other."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lintra_audit.verify.editor import _write
from lintra_audit.verify.processes import ServerFolder, new_server_folder


def test_an_edit_is_in_the_database_of_the_server_that_is_meant(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with closing(sqlite3.connect(tmp_path / "data" / "lintra.sqlite")) as database:
        database.execute("CREATE TABLE segments (key)")
        database.execute("INSERT INTO segments VALUES (1), (2)")
        database.commit()
        played = new_server_folder()
        _write(ServerFolder(played.port, played.key, tmp_path), "DELETE FROM segments WHERE key = ?", 2)
        assert database.execute("SELECT key FROM segments").fetchall() == [(1,)]


def test_a_server_that_nobody_runs_has_no_database() -> None:
    with pytest.raises(ValueError, match="no database"):
        _write(new_server_folder(), "DELETE FROM segments")
