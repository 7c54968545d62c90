"""A supervisor within a process: a dead thread, or one that hangs, ends the process with status 70 and one line.

A process that hangs is worse than one that ended: whatever started it starts an ended one again (`restart` of a
container, `Restart` of systemd), and every answer that a client had stands for something on the disk.

What hangs is told by the kernel's own counts: a thread that has work and, for a minute, neither ran nor read nor wrote,
itself or a process that it started, makes no progress. So a release of an hour is left alone, and no step has to say
how far it is. A thread that waits for one that runs is left alone, too, as long as that one began before the wait.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from lintra_service.logs import write_last_line

HALTED = 70
"""The exit status of a process that must not go on: a part of it died or hangs, its disk failed, or its database is not
its own any more."""

HANG_SECONDS = 60.0
"""After which work without progress is a hang."""

LOOK_SECONDS = 1.0
"""How often the supervisor looks; what it did not see pass, since the machine stood still, does not count."""

_POOLS = ("AnyIO worker thread", "asyncio_", "uvloop_", "lintra-opener")
"""How the names of threads begin that a library keeps: one with a function of ours on its stack has work."""

_OWN = "lintra_"


def end_process(reason: str) -> None:
    """End the process at once with status 70; one line on the standard error says why, if it can be written."""
    try:
        # In a thread, since a disk that hangs may hang whoever writes to it.
        saying = threading.Thread(target=write_last_line, args=(reason,), daemon=True)
        saying.start()
        saying.join(1.0)
    finally:
        # Without handlers and finalisers: one of them may be what hangs.
        os._exit(HALTED)


@dataclass(eq=False)
class _Work:
    """What a thread has to do.

    Attributes:
        name: says what it is.
        ident: the thread's, as Python numbers it.
        thread: the thread's, as the kernel numbers it.
        is_remote: whether it waits for another machine, of whose progress nobody here knows.
        began, moved, excused: when it was first seen, was last seen to make progress, and when last a thread did that
            it may wait for; in seconds that the supervisor ran.
    """

    name: str
    ident: int
    thread: int
    is_remote: bool = False
    began: float | None = None
    seen: object = None
    moved: float = 0.0
    excused: float = 0.0


_working: dict[_Work, None] = {}
_own_work = threading.local()


@contextmanager
def track_work(name: str) -> Iterator[None]:
    """Say that this thread has work until the end of the block; without progress for a minute it is a hang."""
    work = _Work(name, threading.get_ident(), threading.get_native_id())
    before, _own_work.work = getattr(_own_work, "work", None), work
    _working[work] = None
    try:
        yield
    finally:
        _own_work.work = before
        del _working[work]


@contextmanager
def track_remote_work() -> Iterator[None]:
    """Say that this thread's work is being done by another machine: nothing that it does here is progress."""
    work: _Work | None = getattr(_own_work, "work", None)
    if work is None:  # a thread of a pool
        with track_work("another machine's work"), track_remote_work():
            yield
        return
    work.is_remote = True
    try:
        yield
    finally:
        work.is_remote = False


def require_endless(work: asyncio.Task[None]) -> asyncio.Task[None]:
    """End the process when a task of the event loop ends that should go on until it is cancelled; return the task."""
    work.add_done_callback(_require_cancelled)
    return work


def _require_cancelled(task: asyncio.Task[None]) -> None:
    require_no_failure(task)
    if not task.cancelled():
        end_process(f"{task.get_name()} ended")


def require_no_failure(task: asyncio.Task[None]) -> None:
    """End the process if a task of the event loop, which is over, ended with an exception that nobody waits for."""
    if not task.cancelled() and (error := task.exception()) is not None:
        end_process(f"{task.get_name()} died: {type(error).__name__}")


@dataclass
class Supervisor:
    """Watches a process's threads and its event loop, from a thread of its own.

    `end` ends the process, with a reason; `hang_seconds` are those after which work without progress is a hang.
    """

    end: Callable[[str], None] = end_process
    hang_seconds: float = HANG_SECONDS
    _alive: dict[str, Callable[[], bool]] = field(default_factory=dict)
    _loops: list["_Loop"] = field(default_factory=list)
    _pooled: dict[int, _Work] = field(default_factory=dict)
    _ran: float = 0.0
    _alarmed: bool = False

    def watch(self, name: str, alive: Callable[[], bool]) -> None:
        """Watch something that must live until it was asked to end; `alive` does not wait."""
        self._alive[name] = alive

    def watch_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch an event loop until it is closed: it must answer."""
        self._loops.append(_Loop(loop, self._ran))

    def start(self) -> None:
        """Begin to look, until the process ends; an exception that ends any thread ends the process from now on.

        If the supervisor itself cannot run for two minutes, since native code does not let go of the interpreter, the
        kernel ends the process by SIGALRM.
        """
        threading.excepthook = self._died
        self._alarmed = threading.current_thread() is threading.main_thread()
        threading.Thread(target=self._keep_looking, name="lintra-supervisor", daemon=True).start()

    def look(self, passed: float = LOOK_SECONDS) -> str | None:
        """Look once, so many seconds after the last time; return why the process must end, or None."""
        self._ran += passed
        for name, alive in list(self._alive.items()):
            if not alive():
                return f"{name} died"
        self._loops = [loop for loop in self._loops if not loop.is_closed]
        if any(loop.hangs(self._ran, self.hang_seconds) for loop in self._loops):
            return f"the event loop has not answered for {self.hang_seconds:.0f} s{_place(threading.main_thread())}"
        return self._hung([*_working, *self._working_of_pools()])

    def _hung(self, works: list[_Work]) -> str | None:
        moved: list[float] = []
        for work in works:
            # A new object equals nothing seen before: of another machine's work all looks like progress.
            seen = object() if work.is_remote else progress_of(work.thread)
            if work.began is None or seen != work.seen:
                if work.began is None:
                    work.began = self._ran
                work.seen, work.moved = seen, self._ran
                moved.append(work.began)
        for work in works:
            # It may wait for a thread that moves and began before it stopped: then nothing hangs.
            if any(began <= work.moved for began in moved):
                work.excused = self._ran
            elif self._ran - max(work.moved, work.excused) >= self.hang_seconds:
                thread = next((each for each in threading.enumerate() if each.ident == work.ident), None)
                return f"{work.name} has made no progress for {self.hang_seconds:.0f} s{_place(thread)}"
        return None

    def _working_of_pools(self) -> list[_Work]:
        """Return what threads do that a library keeps, for as long as each of them is seen to have something to do."""
        frames, told = sys._current_frames(), {work.ident for work in [*_working]}
        busy: dict[int, _Work] = {}
        for thread in threading.enumerate():
            if thread.ident is None or thread.native_id is None or not thread.name.startswith(_POOLS):
                continue
            if thread.ident not in told and _own_frame(frames.get(thread.ident)) is not None:
                work = self._pooled.get(thread.ident) or _Work(thread.name, thread.ident, thread.native_id)
                busy[thread.ident] = work
        self._pooled = busy
        return list(busy.values())

    def _keep_looking(self) -> None:
        resting = threading.Event()
        while True:
            try:
                # Set anew at each look, so that it goes off only where this thread cannot run.
                if self._alarmed:
                    signal.alarm(2 * int(self.hang_seconds))
                reason = self.look()
            except BaseException as error:  # nobody watches who watches
                reason = f"the supervisor failed: {type(error).__name__}"
            if reason is not None:
                self.end(reason)
                return
            resting.wait(LOOK_SECONDS)

    def _died(self, what: threading.ExceptHookArgs) -> None:
        if what.exc_type is not SystemExit:
            name = what.thread.name if what.thread else "a thread"
            self.end(f"{name} died: {what.exc_type.__name__}")


class _Loop:
    """An event loop that is asked again and again."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now: float) -> None:
        self._loop = loop
        self._asked = self._answered = 0
        self._since = now

    @property
    def is_closed(self) -> bool:
        return self._loop.is_closed()

    def hangs(self, now: float, seconds: float) -> bool:
        """Return whether the last question has waited too long for its answer; ask the next one if it has one."""
        if self._answered == self._asked:
            self._asked += 1
            self._since = now
            with suppress(RuntimeError):  # it was closed just now
                self._loop.call_soon_threadsafe(self._answer, self._asked)
        return now - self._since >= seconds

    def _answer(self, number: int) -> None:
        self._answered = number


def progress_of(thread: int) -> object:
    """Return what changes when a thread of this process, or a process that it started, runs, reads or writes.

    Where the system does not tell, it changes always, so that nothing is called a hang.
    """
    own = Path(f"/proc/self/task/{thread}")
    try:
        children = (own / "children").read_text().split()
        return [
            (own / "schedstat").read_text(), _times(own), _written(own),
            *((child, _times(Path("/proc", child)), _written(Path("/proc", child))) for child in children),
        ]  # fmt: skip
    except (OSError, IndexError):  # no such system, no descriptor left, or a child that just ended
        return object()


def _times(process: Path) -> list[str]:
    """Return page faults and CPU time of a thread, or of a process."""
    # The name in brackets may hold blanks. Behind it: state is field 3, minflt 10, cstime 17 (proc(5)).
    return (process / "stat").read_text().rpartition(")")[2].split()[7:15]


def _written(process: Path) -> str:
    return (process / "io").read_text()


def _own_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of ours on a thread's stack."""
    while frame is not None and not str(frame.f_globals.get("__name__", "")).startswith(_OWN):
        frame = frame.f_back
    return frame


def _place(thread: threading.Thread | None) -> str:
    """Say in which of our functions a thread stands; never a value."""
    try:
        frame = _own_frame(sys._current_frames().get(thread.ident or 0)) if thread else None
    except RuntimeError:  # pragma: no cover
        return ""
    return f", in {frame.f_globals['__name__']}.{frame.f_code.co_name}, line {frame.f_lineno}" if frame else ""
