"""Notes of where batches end."""

import time
from pathlib import Path

import pytest

from lintra_server.disk.notes import CHAIN_BYTES, NAME_BYTES, DamagedNotesError, Note, Notes


def name(number: int) -> bytes:
    return (number + 1).to_bytes(NAME_BYTES, "big")


def chain(number: int) -> bytes:
    return number.to_bytes(CHAIN_BYTES, "big")


def test_a_note_does_not_change_the_times_of_its_file_for_which_a_commit_would_wait(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    notes.put(name(1), 1, chain(1))
    before = (tmp_path / "notes").stat()
    time.sleep(0.02)  # longer than the clock of any file system ticks
    for total in range(2, 50):
        notes.put(name(1), total, chain(total))
    after = (tmp_path / "notes").stat()
    assert (after.st_mtime_ns, after.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)
    notes.close()


def test_what_is_noted_is_there_before_it_is_synchronised_and_after_the_file_has_grown(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    for number in range(200):
        notes.put(name(number), number, chain(number))
    notes.tell(name(7), 3)
    notes.put(name(7), 70, chain(70))
    notes.remove(name(8))
    seen = Notes(tmp_path / "notes", read_only=True)
    assert seen.get(name(7)) == notes.get(name(7)) == Note(70, chain(70), 3)
    assert seen.get(name(8)) is notes.get(name(8)) is None
    assert all(seen.get(name(number)) == Note(number, chain(number)) for number in range(200) if number not in (7, 8))
    size = (tmp_path / "notes").stat().st_size
    notes.put(name(1000), 1, chain(1))  # in the slot that is free
    assert (tmp_path / "notes").stat().st_size == size
    seen.close()
    notes.close()


def test_an_empty_file_is_not_taken_for_notes_by_who_only_looks(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    with pytest.raises(DamagedNotesError, match="is empty"):
        Notes(tmp_path / "notes", read_only=True)
