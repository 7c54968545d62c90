"""A SQLite database is written only by the server that has it: whatever else happens to its files is noticed."""

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lintra_protocol.errors import UnavailableError
from lintra_server.durability import file_events
from lintra_server.storage import identity, sqlite_files
from lintra_server.storage.database import Database
from lintra_server.storage.store import Store
from support.stores import Stored, add, empty

Change = Callable[[Path, Path], object]


def beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def written_elsewhere(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(200)
        file.write(b"\0")


CHANGES: dict[str, Change] = {
    "an old copy is moved over it": lambda path, old: old.replace(path),
    "a new file is moved over it": lambda path, old: (old.write_bytes(b""), old.replace(path)),
    "it is deleted": lambda path, _: path.unlink(),
    "it is moved away": lambda path, _: path.rename(beside(path, ".aside")),
    "an old copy is written into it": lambda path, old: shutil.copyfile(old, path),
    "one byte is written into it": lambda path, _: written_elsewhere(path),
    "its log is deleted": lambda path, _: beside(path, "-wal").unlink(),
    "its log is emptied": lambda path, _: os.truncate(beside(path, "-wal"), 0),
    "its log is cut": lambda path, _: os.truncate(beside(path, "-wal"), 4096),
    "an old log is written into its log": lambda path, old: shutil.copyfile(beside(old, "-wal"), beside(path, "-wal")),
    "an old log is moved over its log": lambda path, old: beside(old, "-wal").replace(beside(path, "-wal")),
}  # fmt: skip

BY_EVENT_LATE = {"its log is emptied", "its log is cut"}
"""`truncate` by name opens nothing, and what a log is written to is the server's everyday work: no event tells."""


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    with empty("sqlite", tmp_path) as made:
        yield made


@pytest.fixture
def no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "LOOK_SECONDS", 1e6)


def copied(path: Path, to: Path) -> None:
    """Write a consistent copy of a database to one file."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)


def watched(stored: Stored, halts: list[str]) -> tuple[Store, Database, Path]:
    """Return a store with some reports, its database, which is watched, and an old copy of its files."""
    store = stored.open()
    database = store.database
    assert isinstance(database, Database)
    database.watch(halts.append)
    for number in range(3):
        add(store, number)
    old = database.path.with_name("old")
    for end in ("", "-wal"):
        shutil.copyfile(beside(database.path, end), beside(old, end))
    for number in range(3, 9):
        add(store, number)
    database._look_regularly()
    assert halts == []
    return store, database, old


@pytest.mark.usefixtures("no_thread")
@pytest.mark.parametrize("events", [True, False], ids=["events", "no events"])
@pytest.mark.parametrize("change", CHANGES)
def test_nothing_is_acknowledged_after_somebody_changed_a_file(
    stored: Stored, monkeypatch: pytest.MonkeyPatch, change: str, events: bool
) -> None:
    if not events:  # as on a system that tells none
        monkeypatch.setattr(sqlite_files, "FileEvents", lambda _: file_events.FileEvents({Path("nowhere"): 0}))
    halts: list[str] = []
    store, database, old = watched(stored, halts)
    CHANGES[change](database.path, old)
    if events and change in BY_EVENT_LATE:
        with pytest.raises(UnavailableError):
            database._look_regularly()
    with pytest.raises(UnavailableError):
        add(store, 10)
    for use in (database.reading, database.writing):
        with pytest.raises(UnavailableError), use():
            pass
    assert all("run `lintra server doctor` next" in each for each in halts)
    assert len(halts) >= 3


@pytest.mark.parametrize("change", CHANGES)
def test_a_quiet_server_notices_a_changed_file_within_a_second(stored: Stored, change: str) -> None:
    halts: list[str] = []
    _, database, old = watched(stored, halts)
    CHANGES[change](database.path, old)
    deadline = time.monotonic() + 1
    while not halts and time.monotonic() < deadline:
        time.sleep(0.01)
    assert halts


def test_without_the_look_an_upload_is_acknowledged_into_a_file_that_has_no_name(stored: Stored) -> None:
    store = stored.open()
    for number in range(3):
        add(store, number)
    database = store.database
    assert isinstance(database, Database)
    old = database.path.with_name("old")
    copied(database.path, old)
    old.replace(database.path)
    assert add(store, 5) == [True]
    with closing(sqlite3.connect(f"file:{database.path}?immutable=1", uri=True)) as named:
        assert named.execute("SELECT max(total) FROM segments").fetchone() == (3,)


def test_a_server_that_moves_its_own_log_again_and_again_while_it_is_read_and_copied_notices_nothing(
    stored: Stored, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sqlite_files, "LONG_LOG", 20)
    monkeypatch.setattr(identity, "LOOK_SECONDS", 0.01)
    halts: list[str] = []
    store = stored.open()
    database = store.database
    assert isinstance(database, Database)
    database.watch(halts.append)
    ended = threading.Event()
    problems: list[BaseException] = []

    def busy(work: Callable[[int], object]) -> threading.Thread:
        def run() -> None:
            try:
                number = 0
                while not ended.is_set():
                    number += 1
                    work(number)
            except BaseException as error:
                problems.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def copy(number: int) -> None:
        copied(database.path, tmp_path / f"copy{number}")  # as `lintra server backup` does
        time.sleep(0.02)

    def touch(_: int) -> None:
        database.touch()
        time.sleep(0.003)

    threads = [busy(touch), busy(lambda _: store.batch(1)), busy(copy)]
    for number in range(900):
        assert add(store, number) == [True]
    database.forget_log()
    for number in range(900, 950):
        assert add(store, number) == [True]
    ended.set()
    for thread in threads:
        thread.join()
    database._look_regularly()
    assert (halts, problems) == ([], [])
    assert beside(database.path, "-wal").stat().st_size < 2 << 20
    assert len(store.held(1)[0]) == 950


@pytest.mark.usefixtures("no_thread")
def test_a_log_is_moved_when_it_is_long_and_begun_again(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_files, "LONG_LOG", 50)
    halts: list[str] = []
    store = stored.open()
    database = store.database
    assert isinstance(database, Database)
    database.watch(halts.append)
    sizes = []
    for number in range(200):
        add(store, number)
        if number % 10 == 9:
            database._look_regularly()
        sizes.append(beside(database.path, "-wal").stat().st_size)
    assert max(sizes) < 100 * 4200
    assert halts == []


@pytest.mark.usefixtures("no_thread")
def test_rows_that_somebody_deletes_through_sqlite_are_missed_at_the_next_look(stored: Stored) -> None:
    halts: list[str] = []
    _, database, _ = watched(stored, halts)
    with closing(sqlite3.connect(database.path)) as other, other:
        other.execute("UPDATE tasks SET definition = definition")
    database._look_regularly()
    assert halts == []
    with closing(sqlite3.connect(database.path)) as other, other:
        other.execute("DELETE FROM segments WHERE total = 9")
    database._slow_again = 0.0
    with pytest.raises(UnavailableError):
        database._look_regularly()
    assert "it was set back" in halts[0]
