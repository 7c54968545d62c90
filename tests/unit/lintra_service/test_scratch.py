"""Copies that only this process can change: without a name, small ones in memory, nothing left by a crash."""

import errno
import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lintra_protocol.errors import UnavailableError
from lintra_service.scratch import Scratch
from support import small_disk

ROWS = np.random.default_rng(3).integers(0, 256, (1000, 96), np.uint8)
BODY = ROWS.tobytes()


def links(scratch: Scratch, size: int) -> str:
    """Return where a copy of some size is made, as the system names it."""
    with scratch.file(size) as file:
        return str(Path(f"/proc/self/fd/{file._file.fileno()}").readlink())


@pytest.mark.parametrize("in_memory", [1 << 20, 0], ids=["memory", "disk"])
def test_rows_that_come_in_any_order_make_what_pieces_in_order_make(tmp_path: Path, in_memory: int) -> None:
    scratch, order = Scratch(tmp_path, in_memory), np.random.default_rng(4).permutation(len(ROWS))
    with scratch.file(len(BODY)) as scattered, scratch.file(len(BODY)) as written:
        for places in np.array_split(order, 7):
            scattered.place(ROWS[places], places)
        for start in range(0, len(BODY), 1001):
            written.write(BODY[start : start + 1001])
        assert b"".join(scattered.pieces()) == b"".join(written.pieces()) == BODY
        look = written.look()
        with pytest.raises(ValueError, match="more than 96000 bytes"):
            written.write(b"x")
    assert look[:] == BODY
    with scratch.file(0) as nothing:
        assert nothing.look() == b""


def test_a_copy_has_no_name_and_memory_holds_so_many_bytes_of_all(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "scratch", in_memory=1000)
    with scratch.file(600) as file:
        look = file.look()
        assert "memfd:" in links(scratch, 400)
        assert "(deleted)" in (on_disk := links(scratch, 401))
        assert str(tmp_path / "scratch") in on_disk
        assert not list((tmp_path / "scratch").iterdir())
    assert "memfd:" not in links(scratch, 401)  # it is still looked at
    del look
    gc.collect()
    assert "memfd:" in links(scratch, 1000)


def test_a_file_that_nobody_looks_at_any_more_gives_its_room_back(tmp_path: Path) -> None:
    try:
        with small_disk.mounted(tmp_path / "disk", "256k") as disk:
            scratch = Scratch(disk / "scratch", in_memory=0)
            for _ in range(5):
                with scratch.file(200_000) as file:
                    file.write(bytes(200_000))
                    look = file.look()
                assert look[-1:] == b"\0"
                del look
            with scratch.file(200_000), pytest.raises(UnavailableError, match=r"is full; .* 100000 bytes"):
                scratch.file(100_000)
            scratch.file(100_000).__exit__(None, None, None)
    except small_disk.NotMountedError as error:
        pytest.skip(str(error))


def test_a_full_folder_is_named_and_what_fits_into_memory_is_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    scratch = Scratch(tmp_path / "scratch", in_memory=100)
    with pytest.raises(UnavailableError, match="scratch: is full; a copy of 101 bytes is needed to go on"):
        scratch.file(101)
    assert "memfd:" in links(scratch, 100)


PROGRAM = """
import os, signal, sys
from pathlib import Path
from lintra_service.scratch import Scratch
scratch = Scratch(Path(sys.argv[1]), 0)
file = scratch.file(1000)
file.write(bytes(1000))
look = file.look()
(Path(sys.argv[1]) / "of another version").write_bytes(b"left")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_no_copy_and_the_next_one_begins_with_an_empty_folder(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    ended = subprocess.run([sys.executable, "-c", PROGRAM, str(folder)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert [path.name for path in folder.iterdir()] == ["of another version"]
    Scratch(folder)
    assert not list(folder.iterdir())
    assert folder.stat().st_mode & 0o777 == 0o700
