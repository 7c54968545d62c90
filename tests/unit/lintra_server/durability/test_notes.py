"""Notes of where batches end."""

import errno
import os
from pathlib import Path

import pytest

from lintra_server.durability.notes import CHAIN_BYTES, NAME_BYTES, ChainNote, DamagedNotesError, Notes


def name(number: int) -> bytes:
    return (number + 1).to_bytes(NAME_BYTES, "big")


def chain(number: int) -> bytes:
    return number.to_bytes(CHAIN_BYTES, "big")


def test_a_note_that_the_disk_refuses_leaves_the_one_before_and_may_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, pwrite = Notes(tmp_path / "notes"), os.pwrite
    notes.put(name(1), 1, chain(1))

    def failing(*_: object) -> int:
        raise OSError(errno.EIO, "the disk is broken")

    def half(file: int, data: bytes, place: int) -> int:
        return pwrite(file, data[: len(data) // 2], place)

    def again() -> None:
        notes.put(name(1), 2, chain(2))

    def told() -> None:
        notes.tell(name(1), 5)

    changes = [(again, half), (again, failing), (told, failing), (lambda: notes.put(name(2), 1, chain(3)), failing)]
    for change, broken in [*changes, (lambda: notes.remove(name(1)), failing)]:
        before = {each: notes.get(each) for each in notes.names()}
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", broken)
            with pytest.raises(OSError, match=r"broken|in part"):
                change()
        seen = Notes(tmp_path / "notes", read_only=True)
        assert {each: notes.get(each) for each in notes.names()} == before
        assert {each: seen.get(each) for each in seen.names()} == before
        seen.close()
        change()
    assert notes.names() == {name(2)}
    notes.close()


def test_what_is_noted_is_there_before_it_is_synchronised_and_after_the_file_has_grown(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    for number in range(200):
        notes.put(name(number), number, chain(number))
    notes.tell(name(7), 3)
    notes.put(name(7), 70, chain(70))
    notes.remove(name(8))
    seen = Notes(tmp_path / "notes", read_only=True)
    assert seen.get(name(7)) == notes.get(name(7)) == ChainNote(70, chain(70), 3)
    assert seen.get(name(8)) is notes.get(name(8)) is None
    assert all(
        seen.get(name(number)) == ChainNote(number, chain(number)) for number in range(200) if number not in (7, 8)
    )
    size = (tmp_path / "notes").stat().st_size
    notes.put(name(1000), 1, chain(1))  # in the slot that is free
    assert (tmp_path / "notes").stat().st_size == size
    seen.close()
    notes.close()


def test_an_empty_file_is_not_taken_for_notes_by_who_only_looks(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    with pytest.raises(DamagedNotesError, match="is empty"):
        Notes(tmp_path / "notes", read_only=True)
