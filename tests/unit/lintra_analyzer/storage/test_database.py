"""The schema of the database: what was tagged does not change."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lintra_analyzer.storage.database import REVISION
from lintra_analyzer.storage.store import DATABASE, Store
from lintra_protocol import __version__
from support.frozen_analyzer import SCHEMA, thaw, versions

VERSIONS = versions()


def revision_of(frozen: Path) -> str:
    found = re.search(r"INSERT INTO \"?alembic_version\"? VALUES\('(\d+)'\)", (frozen / SCHEMA).read_text("utf-8"))
    assert found is not None
    return found[1]


def schema_of(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        made = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
        return [" ".join(sql.split()) for (sql,) in made]


@pytest.mark.parametrize("frozen", [path for path in VERSIONS if revision_of(path) == REVISION])
def test_a_schema_that_was_tagged_does_not_change_under_the_same_revision(frozen: Path, tmp_path: Path) -> None:
    thaw(frozen, tmp_path / "then")
    Store(tmp_path / "now" / DATABASE).close()
    assert schema_of(tmp_path / "then" / DATABASE) == schema_of(tmp_path / "now" / DATABASE)


def test_every_revision_of_a_tag_is_known_and_this_version_is_frozen() -> None:
    # A new tag adds a folder: PYTHONPATH=tests python -m support.frozen_analyzer VERSION
    assert VERSIONS[-1].name == f"analyzer-{__version__}"
    assert all(revision_of(frozen) <= REVISION for frozen in VERSIONS)
