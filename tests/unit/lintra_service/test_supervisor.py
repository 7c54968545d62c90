"""A thread that died or hangs is found, one that works or waits for one that works is not."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from lintra_service.supervisor import HALTED, Supervisor, track_remote_work, track_work

HANG = 3.0


@contextmanager
def thread_of(work: Callable[[], object], name: str = "a test") -> Iterator[threading.Thread]:
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    time.sleep(0.05)
    yield thread
    thread.join(10)


def looks(supervisor: Supervisor, count: int) -> list[str | None]:
    """Look so many times, a second of the supervisor's apart."""
    found = []
    for _ in range(count):
        found.append(supervisor.look(1.0))
        time.sleep(0.01)
    return found


def waiting_for(event: threading.Event, name: str = "a step") -> Callable[[], None]:
    def wait() -> None:
        with track_work(name):
            event.wait(30)

    return wait


def busy_until(event: threading.Event) -> None:
    with track_work("a long sum"):
        while not event.is_set():
            sum(range(1000))


def test_a_thread_that_has_work_and_does_nothing_is_a_hang_after_a_minute_and_its_place_is_told() -> None:
    supervisor, free = Supervisor(pytest.fail, HANG), threading.Event()
    with thread_of(waiting_for(free)):
        found = looks(supervisor, 6)
        free.set()
    assert found[:3] == [None] * 3
    reason = next(filter(None, found))
    assert reason.startswith("a step has made no progress for 3 s")
    assert looks(supervisor, 6) == [None] * 6  # it has no work any more


def test_a_thread_that_computes_is_left_alone_and_so_is_one_that_waits_for_it() -> None:
    supervisor, done, free = Supervisor(pytest.fail, HANG), threading.Event(), threading.Event()
    with thread_of(lambda: busy_until(done)), thread_of(waiting_for(free)):
        assert looks(supervisor, 10) == [None] * 10
        done.set()
        time.sleep(0.05)
        assert any(looks(supervisor, 6))
        free.set()


def test_work_that_began_after_the_wait_does_not_excuse_it() -> None:
    supervisor, done, free = Supervisor(pytest.fail, HANG), threading.Event(), threading.Event()
    with thread_of(waiting_for(free)):
        assert looks(supervisor, 2) == [None, None]
        with thread_of(lambda: busy_until(done)):
            found = looks(supervisor, 6)
            done.set()
        free.set()
    assert any(found)


def test_what_another_machine_does_is_no_hang() -> None:
    supervisor, free = Supervisor(pytest.fail, HANG), threading.Event()

    def ask() -> None:
        with track_work("a release"), track_remote_work():
            free.wait(30)

    with thread_of(ask):
        assert looks(supervisor, 10) == [None] * 10
        free.set()


def test_a_thread_whose_child_process_works_is_left_alone() -> None:
    supervisor = Supervisor(pytest.fail, HANG)

    def compute() -> None:
        with track_work("a release"):
            subprocess.run([sys.executable, "-c", "import time\nend=time.time()+1.5\nwhile time.time()<end: pass"])

    with thread_of(compute) as thread:
        while thread.is_alive():
            assert supervisor.look(0.5) is None
            time.sleep(0.25)


def test_a_call_that_hangs_in_a_thread_of_the_event_loop_is_found_without_a_word_from_it() -> None:
    supervisor, free = Supervisor(pytest.fail, HANG), threading.Event()

    async def call() -> None:
        # A function of a package of ours, as all that a service hands to such a thread.
        scope = {"__name__": "lintra_test", "free": free}
        exec("def hang():\n    free.wait(30)\n", scope)
        hanging = asyncio.create_task(asyncio.to_thread(scope["hang"]))  # type: ignore[arg-type]
        await asyncio.sleep(0.05)
        found = list[str | None]()
        with thread_of(lambda: found.extend(looks(supervisor, 6))) as looking:
            looking.join()
        free.set()
        await hanging
        assert "has made no progress for 3 s, in lintra_test.hang" in next(filter(None, found))

    asyncio.run(call())


def test_a_loop_that_does_not_answer_is_found_and_one_that_does_is_not() -> None:
    supervisor, found = Supervisor(pytest.fail, HANG), list[str | None]()

    async def main() -> None:
        supervisor.watch_loop(asyncio.get_running_loop())
        assert await asyncio.to_thread(looks, supervisor, 6) == [None] * 6
        with thread_of(lambda: found.extend(looks(supervisor, 8))) as looking:
            looking.join()  # and the loop with it
        assert found[-1] is not None
        assert found[-1].startswith("the event loop has not answered for 3 s")

    asyncio.run(main())
    assert looks(supervisor, 6) == [None] * 6  # it is closed


def test_something_that_died_is_told_by_its_name() -> None:
    supervisor, alive = Supervisor(pytest.fail, HANG), [True]
    supervisor.watch("the writer", lambda: alive[0])
    assert supervisor.look() is None
    alive[0] = False
    assert supervisor.look() == "the writer died"


SCRIPT = """
import asyncio, os, signal, sys, threading, time
from lintra_service import supervisor
from lintra_service import process
from lintra_service.logs import configure_logging
configure_logging("info", "json")
supervisor.LOOK_SECONDS = 0.1
def hang():
    with supervisor.track_work("the writer"):
        threading.Event().wait()
def die():
    raise OSError(28, "a secret of the disk")
async def main():
    {main}
    await asyncio.sleep(30)
def watched():
    return supervisor.Supervisor(hang_seconds=2)
{before}
process.run(main, watched())
"""


def ended(main: str, before: str = "", **options: object) -> "subprocess.CompletedProcess[str]":
    script = SCRIPT.format(main=main, before=before)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=40, **options)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("main", "reason"),
    [
        ("threading.Thread(target=die, name='lintra-notes').start()", "lintra-notes died: OSError"),
        ("threading.Thread(target=hang).start()", "the writer has made no progress for 2 s"),
        ("time.sleep(30)", "the event loop has not answered for 2 s"),
        (
            "supervisor.require_endless(asyncio.create_task(asyncio.sleep(0.1), name='the schedule'))",
            "the schedule ended",
        ),
    ],
    ids=["dead thread", "hanging thread", "hanging loop", "ended task"],
)
def test_a_process_ends_with_status_70_and_one_line(main: str, reason: str) -> None:
    process = ended(main)
    assert process.returncode == HALTED
    (line,) = process.stderr.splitlines()
    assert '"event": "halted"' in line
    assert reason in line
    assert "secret" not in line


def test_a_process_whose_supervisor_cannot_run_is_ended_by_the_kernel() -> None:
    # Native code that keeps the interpreter: here a C function, called in a way that does not let go of it.
    process = ended("import ctypes; ctypes.PyDLL(None).sleep(30)")
    assert process.returncode == -14
