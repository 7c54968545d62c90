"""The database: durable, versioned, and first come first kept."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lintra_analyzer.storage import database
from lintra_analyzer.storage.rows import Job, ServerState, StoredTask
from lintra_analyzer.storage.store import Store
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.errors import InvalidReleaseError, TaskConflictError, UnknownResourceError, UnknownTaskError
from lintra_service.settings import InvalidSettingsError

TASK = StoredTask("task", b"record", b"specification", 5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "analyzer.sqlite"


def opened(path: Path) -> Store:
    """Open a store that knows one task of two servers."""
    store = Store(path)
    if not store.tasks():
        store.add_task(TASK, 2, "request")
    return store


def test_what_was_stored_is_there_after_a_restart(path: Path) -> None:
    store = opened(path)
    store.set_registration("task", ServerState(1, "refused", {"type": "x", "status": 403}))
    store.set_job(Job("task", "cohort", "running"))
    store.put_document("task", 0, "inventory", b"body", 1)
    assert store.servers.pin("url", "key") == "key"
    store.close()
    again = opened(path)
    assert again.task("task") == TASK
    assert again.registrations("task") == [
        ServerState(0, "pending"),
        ServerState(1, "refused", {"type": "x", "status": 403}),
    ]
    assert again.job("task") == Job("task", "cohort", "running")
    assert again.running_jobs() == [Job("task", "cohort", "running")]
    assert again.document("task", 0, "inventory", 1) == b"body"
    assert again.servers.pinned_key("url") == "key"
    again.close()


def test_every_commit_waits_for_the_disk(path: Path) -> None:
    store = opened(path)
    with store._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
    store.close()


def test_the_first_answer_stays(path: Path) -> None:
    store = opened(path)
    assert not store.has_document("task", 0, "cohort", 0)
    store.put_document("task", 0, "cohort", b"first", 0)
    store.put_document("task", 0, "cohort", b"second", 0)
    assert store.document("task", 0, "cohort", 0) == b"first"
    assert store.has_document("task", 0, "cohort", 0)
    assert store.document("task", 0, "cohort", 1) is None
    assert store.servers.pin("url", "first") == store.servers.pin("url", "second") == "first"
    store.close()


def test_a_task_has_one_release(path: Path) -> None:
    store = opened(path)
    assert store.add_release("one", "task", 0, b"1") == "one"
    assert store.add_release("two", "task", 0, b"2") == "one"
    assert store.releases() == [b"1"]
    assert store.job("task") == Job("task", "released", "released", None, "one")
    store.close()


def test_a_request_key_names_one_specification(path: Path) -> None:
    store = opened(path)
    assert store.task_of_request("request", b"specification") == TASK
    assert store.task_of_request("another", b"specification") is None
    with pytest.raises(TaskConflictError):
        store.task_of_request("request", b"else")
    store.close()


def test_what_is_unknown_is_refused(path: Path) -> None:
    store = opened(path)
    with pytest.raises(UnknownTaskError):
        store.task("unknown")
    with pytest.raises(UnknownResourceError):
        store.release("unknown")
    assert store.job("unknown") is None
    store.close()


def test_a_database_of_another_version_is_left_alone(path: Path) -> None:
    opened(path).close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = '0099'")
    connection.commit()
    connection.close()
    with pytest.raises(InvalidSettingsError, match="99"):
        Store(path)


LATER = """
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.execute("CREATE TABLE later (one INTEGER)")
"""


def test_a_database_of_an_earlier_version_is_copied_aside_and_brought_up_to_date(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(path).close()
    migrations = tmp_path / "migrations"
    shutil.copytree(database._MIGRATIONS, migrations)
    (migrations / "versions" / "r0002.py").write_text(LATER)
    monkeypatch.setattr(database, "_MIGRATIONS", migrations)
    monkeypatch.setattr(database, "REVISION", "0002")
    for _ in range(2):  # a second start has nothing to do
        Store(path).close()
    (aside,) = path.parent.glob("*.before-*")
    assert aside.stat().st_mode & 0o777 == 0o600
    now, before = layout(path), layout(aside)
    assert now.pop("later")
    assert now == before
    for file, revision in ((path, "0002"), (aside, "0001")):
        with closing(sqlite3.connect(file)) as connection:
            assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(revision,)]


def identifiers(first: int, last: int) -> ReportIds:
    return ReportIds.of(number.to_bytes(32, "big") for number in range(first, last))


def test_a_list_is_a_file_that_is_there_after_a_restart_and_one_that_nothing_names_is_not(path: Path) -> None:
    store = opened(path)
    for server, listed in enumerate((identifiers(0, 200), identifiers(0, 200), identifiers(1, 100))):
        store.lists.put("task", 0, "ids", store.lists.files.write(listed), server)
    store.lists.put("task", 0, "ids", store.lists.files.write(identifiers(7, 9)), 2)  # the first one stays
    assert len(list(path.parent.glob("lists/*"))) == 3
    store.close()
    (path.parent / "lists" / "coming-half").write_bytes(b"x")
    again = opened(path)
    assert [again.lists.get("task", 0, "ids", server) for server in range(4)] == [
        identifiers(0, 200), identifiers(0, 200), identifiers(1, 100), None
    ]  # fmt: skip
    assert again.lists.has("task", 0, "ids", 2)
    assert not again.lists.has("task", 0, "cohort_ids")
    assert len(list(path.parent.glob("lists/*"))) == 2
    again.close()


def test_a_list_that_is_gone_or_was_cut_is_an_error_that_says_so(path: Path) -> None:
    store = opened(path)
    store.lists.put("task", 0, "cohort_ids", store.lists.files.write(identifiers(0, 9)))
    (file,) = path.parent.glob("lists/*")
    for data in (file.read_bytes()[:-32], file.read_bytes()[:-1]):
        file.write_bytes(data)
        with pytest.raises(InvalidReleaseError, match=r"changed|missing"):
            store.lists.get("task", 0, "cohort_ids")
    file.unlink()
    with pytest.raises(InvalidReleaseError, match="missing"):
        store.lists.get("task", 0, "cohort_ids")
    store.close()


def test_a_new_census_takes_the_place_of_the_last_one_whose_list_goes_within_an_hour(path: Path) -> None:
    store = opened(path)
    store.replace_census("task", 0, 1, b"first", store.lists.files.write(identifiers(0, 5)))
    (old,) = path.parent.glob("lists/*")
    store.replace_census("task", 0, 1, b"second", store.lists.files.write(identifiers(0, 6)))
    assert store.document("task", 0, "census", 1) == b"second"
    assert store.lists.get("task", 0, "census_ids", 1) == identifiers(0, 6)
    assert old.exists()  # another exchange may just have written the same list, and not named it yet
    os.utime(old, (0, 0))
    store.replace_census("task", 0, 1, b"second", store.lists.files.write(identifiers(0, 6)))
    assert not old.exists()
    store.close()


def layout(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return name, type and constraints of every column of every table."""
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: sorted(row[1:] for row in connection.execute(f"PRAGMA table_info({name})")) for name in names}
