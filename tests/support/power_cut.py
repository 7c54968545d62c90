"""Runs a server's start, closing, freezing and release in processes whose machine loses power at one moment.

    python -m support.power_cut FOLDER FIRST LAST STEP SINCE [LYING]

For every STEP-th number from FIRST to LAST it forks a process on a copy of the folder. Before its synchronisation to
the disk of that number the process writes down what a power cut would leave, and kills itself; then one starts from
just that. Synchronisations are counted once the journal was synchronised SINCE times: 0 is the start, and after 3, the
opening and two lines, the journal has what closes the batch, and the database gets it next. Each number is tried twice:
once all that was never synchronised is lost, contents and names; once names, removals and sizes have reached the disk
and contents have not, as file systems do that write their own books first.

Of a folder called LYING nothing is kept that was synchronised there, as if the server had left that out.

A disk keeps what `os.fsync` was called for: of a file its content at that moment, of a folder the names in it. SQLite
synchronises by itself: with `synchronous=FULL` its log, and the name of a new one, are on the disk when a commit
returns, so that its files stand for themselves at every moment at which no commit is under way.
"""

import json
import os
import shutil
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import structlog

from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.task import Task
from lintra_server.storage.key_folder import JOURNAL_FILE
from support.killed_gate import before_commits, exchange, forked, settings_in

_SQLITE = (".sqlite", ".sqlite-wal", ".sqlite-shm")


class Disk:
    """What would be left of a folder, with everything below it; at the beginning all of it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names: dict[Path, dict[str, int]] = {}
        self._contents: dict[int, bytes] = {}
        self._held: list[int] = []  # open, so that no number of a file is given to another
        for folder in [root, *filter(Path.is_dir, root.rglob("*"))]:
            self._keep_names(folder)
            for path in filter(Path.is_file, folder.iterdir()):
                self._keep_content(os.open(path, os.O_RDONLY))

    def synchronised(self, descriptor: int, lying: str) -> None:
        """Keep what an `fsync` of a file or folder keeps, but nothing in a folder whose disk is lying."""
        if lying and lying in Path(f"/proc/self/fd/{descriptor}").readlink().parts:
            return
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            self._keep_names(Path(f"/proc/self/fd/{descriptor}").readlink())
        else:
            self._keep_content(os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY))

    def left(self, to: Path, *, torn: bool) -> None:
        """Write what a power cut leaves at this moment into a new folder."""
        self._leave(self._root, to, torn=torn)

    def _keep_names(self, folder: Path) -> None:
        self._names[folder] = {entry.name: entry.inode() for entry in os.scandir(folder)}

    def _keep_content(self, descriptor: int) -> None:
        self._held.append(descriptor)
        found = os.fstat(descriptor)
        self._contents[found.st_ino] = os.pread(descriptor, found.st_size, 0)

    def _leave(self, folder: Path, to: Path, *, torn: bool) -> None:
        to.mkdir(mode=0o700)
        now = {entry.name: entry.inode() for entry in os.scandir(folder)}
        for path in (folder / name for name in now if name.endswith(_SQLITE)):
            shutil.copy(path, to / path.name)
        for name, number in (now if torn else self._names.get(folder, {})).items():
            path = folder / name
            if path.is_dir() or path in self._names:
                self._leave(path, to / name, torn=torn)
            elif not name.endswith(_SQLITE):
                content = self._contents.get(number, b"")
                if torn and now[name] == number:
                    size = path.stat().st_size
                    content = content[:size] + bytes(size - len(content[:size]))
                (to / name).write_bytes(content)
                (to / name).chmod(0o600)


def watched(
    disk: Disk, since: int, lying: str, act: Callable[[int], None]
) -> tuple[Callable[[int], None], Callable[..., None]]:
    """Return what takes the place of `os.fsync`, and what is called before a commit; both act on their number."""
    fsync = os.fsync
    counted, lines = 0, 0

    def count(*_: object) -> None:
        nonlocal counted
        counted += lines >= since
        act(counted)

    def synchronising(descriptor: int) -> None:
        nonlocal lines
        count()
        fsync(descriptor)
        disk.synchronised(descriptor, lying)
        lines += Path(f"/proc/self/fd/{descriptor}").readlink().name == JOURNAL_FILE

    return synchronising, count


def cut_at(number: int, since: int, folder: Path, to: Path, *, torn: bool, lying: str) -> None:
    """Let this process lose power before a synchronisation; what is left goes to a new folder."""
    disk = Disk(folder)

    def cut(counted: int) -> None:
        if counted == number:
            disk.left(to, torn=torn)
            os.kill(os.getpid(), signal.SIGKILL)

    synchronising, count = watched(disk, since, lying, cut)

    os.fsync = synchronising  # type: ignore[assignment]
    before_commits(count)


def main(folder: Path, first: int, last: int, step: int, since: int, lying: str = "") -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    task = Task.from_canonical((folder / "task.json").read_bytes())
    keys = {server: SigningKey(settings_in(folder, server).identity_secret(system_randomness)) for server in (1, 2)}
    copy, left = folder / "copy", folder / "left"
    for number in range(first, last + 1, step):
        for torn in (False, True):
            for gone in (copy, left):
                shutil.rmtree(gone, ignore_errors=True)
            for name in ("server0", "keys0"):
                shutil.copytree(folder / name, copy / name)

            def losing(say: Callable[[bytes], None], number: int = number, torn: bool = torn) -> None:
                cut_at(number, since, copy, left, torn=torn, lying=lying)
                exchange(copy, task, keys, say)

            ended, said = forked(losing)
            again, after = forked(lambda say: exchange(left if left.exists() else copy, task, keys, say))
            line = {"at": number, "torn": torn, "ended": ended, "said": said, "again": again, "after": after}
            sys.stdout.write(json.dumps(line) + "\n")
        if ended == 0:  # nothing is synchronised any more
            return


if __name__ == "__main__":
    first, last, step, since = map(int, sys.argv[2:6])
    main(Path(sys.argv[1]), first, last, step, since, *sys.argv[6:7])
