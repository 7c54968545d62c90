"""Readiness is what the last look saw, and a look that is long ago says nothing."""

import shutil
from pathlib import Path

import pytest

from lintra_protocol.errors import UnavailableError
from lintra_service import readiness
from lintra_service.readiness import OLD_SECONDS, Readiness


def test_nothing_is_ready_before_the_first_look(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="nothing was looked at"):
        Readiness([tmp_path], {}, 0).require()


def test_every_folder_is_written_and_synced_at_every_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(readiness.os, "fsync", synced.append)
    folders = [tmp_path / "data", tmp_path / "keys"]
    for folder in folders:
        folder.mkdir()
    seen = Readiness(folders, {}, 0)
    seen.probe()
    first = [(folder / ".probe").read_bytes() for folder in folders]
    seen.probe()
    assert len(synced) == 4
    assert all((folder / ".probe").read_bytes() != block for folder, block in zip(folders, first, strict=True))
    seen.require()


def test_a_folder_that_is_gone_and_comes_back_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    seen = Readiness([folder], {}, 0)
    seen.probe()
    seen.require()
    shutil.rmtree(folder)
    seen.probe()
    with pytest.raises(UnavailableError, match="cannot be written: No such file"):
        seen.require()
    folder.mkdir()
    seen.probe()
    seen.require()


def test_a_full_disk_takes_no_uploads_before_it_is_quite_full(tmp_path: Path) -> None:
    seen = Readiness([tmp_path], {}, min_free_bytes=2**62)
    seen.probe()
    for ask in (seen.require, seen.require_space):
        with pytest.raises(UnavailableError, match="bytes are free"):
            ask()


def test_a_look_that_hangs_grows_old(tmp_path: Path) -> None:
    now = [0.0]
    seen = Readiness([tmp_path], {}, 0, clock=lambda: now[0])
    seen.probe()
    now[0] = OLD_SECONDS
    seen.require()
    now[0] += 1
    with pytest.raises(UnavailableError, match="a disk may hang"):
        seen.require()


def test_a_check_that_fails_is_named_and_its_words_are_not_shown(tmp_path: Path) -> None:
    def broken() -> None:
        raise OSError("secret words")

    seen = Readiness([tmp_path], {"database": broken}, 0)
    seen.probe()
    with pytest.raises(UnavailableError, match="database: OSError") as refused:
        seen.require()
    assert "secret" not in str(refused.value)
