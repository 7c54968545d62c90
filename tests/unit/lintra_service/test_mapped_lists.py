"""Lists as files: whole or not there, read without being held, and never trusted for their name."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.errors import InvalidMessageError
from lintra_service.mapped_lists import ListCopy, ListFolder, copy_of
from lintra_service.scratch import Scratch

IDS = ReportIds.of(number.to_bytes(32, "big") for number in range(1000))
SOME = np.array([3, 500, 999])


def test_a_list_is_read_as_it_was_written_under_the_name_of_its_root(tmp_path: Path) -> None:
    folder = ListFolder(tmp_path / "lists")
    for listed in (IDS, ReportIds.of([]), IDS.without(SOME)):
        written = folder.write(listed)
        assert written == folder.read(listed.root) == listed
        assert written.root == folder.read(listed.root).root == listed.root
    assert len(list((tmp_path / "lists").iterdir())) == 3
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in (tmp_path / "lists").iterdir())
    with pytest.raises(FileNotFoundError):
        folder.read(bytes(32))


def test_of_a_list_that_was_refused_or_not_finished_nothing_stays(tmp_path: Path) -> None:
    folder = ListFolder(tmp_path)

    def write(data: bytes) -> None:
        with folder.writer() as writer:
            writer.add(data)
            writer.finish()

    with pytest.raises(InvalidMessageError, match="32 bytes each"):
        write(IDS.encode()[:-1])
    with pytest.raises(InvalidMessageError, match="not sorted"):
        write(IDS[1] + IDS[0])
    with folder.writer() as writer:
        writer.add(IDS.encode())
    assert not list(tmp_path.iterdir())


def test_a_file_has_its_name_only_after_it_is_durable_and_the_name_is_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.append([path.suffix for path in tmp_path.iterdir()]))
    ListFolder(tmp_path).write(IDS)
    assert seen == [[""], [".ids"]]


def test_a_copy_is_the_list_of_its_name_or_none_and_stays_when_the_file_is_changed(tmp_path: Path) -> None:
    folder, scratch = ListFolder(tmp_path / "lists"), Scratch(tmp_path / "scratch")
    folder.write(IDS)
    copy = folder.copied(IDS.root, len(IDS), scratch)
    assert copy == IDS
    assert copy.root == IDS.root
    (path,) = (tmp_path / "lists").iterdir()
    path.write_bytes(IDS.without(SOME).encode() + bytes(96))
    assert copy == IDS
    assert folder.copied(IDS.root, len(IDS), scratch) is None
    path.write_bytes(IDS.without(SOME).encode())
    assert folder.copied(IDS.root, len(IDS), scratch) is None
    path.write_bytes(ReportIds.of([bytes(32), *IDS[1:999], b"\xff" * 32]).encode())
    assert folder.copied(IDS.root, len(IDS), scratch) is None
    path.unlink()
    assert folder.copied(IDS.root, len(IDS), scratch) is None
    empty = folder.write(ReportIds.of([]))
    assert folder.copied(empty.root, 0, scratch) == []


def test_a_copy_of_a_list_is_as_long_as_was_said(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    with ListCopy(scratch, 64) as copy:
        copy.add(IDS.encode()[:64])
        with pytest.raises(InvalidMessageError, match="longer"):
            copy.add(IDS.encode()[64:96])
        assert copy.finish() == IDS[:2]
    with ListCopy(scratch, 64) as copy:
        copy.add(IDS.encode()[:32])
        with pytest.raises(InvalidMessageError, match="32 only"):
            copy.finish()
    assert copy_of(IDS.without(SOME), scratch) == IDS.without(SOME)


def test_a_copy_of_a_tree_is_of_the_right_length_or_none(tmp_path: Path) -> None:
    folder, scratch = ListFolder(tmp_path / "lists"), Scratch(tmp_path / "scratch")
    folder.write_tree(IDS.tree)
    stored = folder.copied_tree(IDS.root, len(IDS), scratch)
    assert stored is not None
    assert stored.root == IDS.root
    (path,) = (tmp_path / "lists").iterdir()
    path.write_bytes(bytes(len(stored.nodes)))
    assert stored.prove(3, b"") == IDS.tree.prove(3, b"")
    assert folder.copied_tree(IDS.root, 2000, scratch) is None
    assert folder.copied_tree(bytes(32), 1000, scratch) is None
    path.write_bytes(bytes(10**6))
    assert folder.copied_tree(IDS.root, 1000, scratch) is None


def test_only_the_files_of_named_roots_stay(tmp_path: Path) -> None:
    folder = ListFolder(tmp_path)
    few = ReportIds.of([bytes(32)])
    for listed in (IDS, few):
        folder.write(listed)
        folder.write_tree(listed.tree)
    folder.keep_only([few.root], seconds=100)
    assert len(list(tmp_path.iterdir())) == 4
    folder.keep_only([few.root])
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".ids", ".tree"]
    assert folder.read(few.root) == few


PROGRAM = """
import sys, numpy as np
from pathlib import Path
from lintra_protocol.cohort.report_ids import ComparedLists
from lintra_service.mapped_lists import ListFolder
folder = ListFolder(Path(sys.argv[1]))
lists = [folder.read(bytes.fromhex(root)) for root in sys.argv[2:]]
assert lists[0].root.hex() == sys.argv[2]
Path("/proc/self/clear_refs").write_text("5")
status = lambda: int(next(x for x in open("/proc/self/status") if x.startswith("VmHWM")).split()[1]) // 1024
before = status()
compared = ComparedLists.of(lists)
cohort = folder.write(compared.common())
assert len(cohort) == len(lists[0]) - 1
print(status() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells what a process had resident")
def test_lists_larger_than_the_memory_that_is_used_are_compared_and_their_cohort_written(tmp_path: Path) -> None:
    folder = ListFolder(tmp_path)
    rows = np.zeros((600_000, 32), np.uint8)
    rows[:, 24:] = np.arange(len(rows), dtype=">u8").view(np.uint8).reshape(-1, 8)
    rows[:, :8] = rows[:, 24:]
    whole = ReportIds(rows)
    roots = [folder.write(whole.without(np.array([place]))).root.hex() for place in (5, 599_990)]
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), *roots], check=True, capture_output=True, text=True
    )
    # Two lists and the cohort are 55 MiB together.
    assert int(told.stdout) < 25
