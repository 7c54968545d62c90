"""Computations in processes of their own: caps, turns, and an end when the asker leaves."""

import asyncio
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from lintra_protocol.errors import InvalidAnalysisError, OverloadedError
from lintra_service import work_pool
from lintra_service.work_pool import WorkLimits, WorkPool, WorkRefusedError

LIMITS = WorkLimits(processes=1, seconds=30, most_bytes=256 << 20)


PRELOAD = ("numpy", "pytest", "lintra_protocol.http.problems", "lintra_service.work_pool")


def double(number: int) -> int:
    return 2 * number


def much(count: int) -> int:
    return int(np.ones(count).sum())


def long(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


def refuses() -> None:
    raise InvalidAnalysisError("there is no such column")


def breaks() -> None:
    os._exit(1)


def wrong() -> None:
    raise ZeroDivisionError("by nought")


async def test_a_computation_gives_what_it_returns_and_raises_what_it_refuses() -> None:
    pool = WorkPool(LIMITS, PRELOAD)
    assert await pool.run("Ada", double, 21) == 42
    assert await pool.run("Ada", double, 21, small=True) == 42
    with pytest.raises(InvalidAnalysisError) as refused:
        await pool.run("Ada", refuses)
    assert refused.value.detail == "there is no such column"
    with pytest.raises(RuntimeError, match="ZeroDivisionError: by nought"):
        await pool.run("Ada", wrong)


async def test_memory_is_capped_and_the_next_computation_is_not_harmed() -> None:
    pool = WorkPool(LIMITS, PRELOAD)
    assert await pool.run("Ada", much, 1 << 20) == 1 << 20  # 8 MiB
    with pytest.raises(WorkRefusedError, match="more than 256 MiB"):
        await pool.run("Ada", much, 1 << 26)  # 512 MiB
    with pytest.raises(WorkRefusedError, match="memory"):
        await pool.run("Ada", breaks)
    assert await pool.run("Ada", double, 4) == 8


async def test_time_is_capped_and_who_leaves_ends_the_computation(tmp_path: Path) -> None:
    pool = WorkPool(WorkLimits(processes=1, seconds=2.5), PRELOAD)
    with pytest.raises(WorkRefusedError, match=r"more than 2\.5 seconds"):
        await pool.run("Ada", long, str(tmp_path / "first"))
    asked = asyncio.create_task(WorkPool(LIMITS, PRELOAD).run("Ada", long, str(tmp_path / "second")))
    while not (tmp_path / "second").exists():
        await asyncio.sleep(0.02)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    for name in ("first", "second"):
        process = int((tmp_path / name).read_text())
        deadline = time.monotonic() + 10
        while Path(f"/proc/{process}").exists() and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        assert not Path(f"/proc/{process}").exists(), name


async def test_who_asks_much_waits_behind_who_asks_little() -> None:
    pool, order, may = WorkPool(LIMITS, PRELOAD), [], threading.Event()

    async def ask(who: str, number: int) -> None:
        await pool.run(who, may.wait, small=True)
        order.append((who, number))

    def asked(who: str, number: int) -> asyncio.Task[None]:
        return asyncio.create_task(ask(who, number))

    first = [asked("Ada", number) for number in range(5)]
    left, last = asked("Eve", 8), asked("Bob", 9)
    await asyncio.sleep(0)
    left.cancel()
    may.set()
    await asyncio.gather(*first, last)
    assert order.index(("Bob", 9)) == 2
    assert len(order) == 6
    assert await pool.run("Eve", double, 1, small=True) == 2  # who left holds no place


async def test_a_full_queue_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_pool, "MOST_WAITING", 2)
    pool = WorkPool(LIMITS, PRELOAD)
    asked = [asyncio.create_task(pool.run("Ada", double, number, small=True)) for number in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError, match="ask again"):
        await pool.run("Bob", double, 1, small=True)
    assert await asyncio.gather(*asked) == [0, 2, 4]


def test_a_process_whose_asker_has_left_says_nothing_before_and_after_it_computes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its traceback would stand behind the line that says why a service ended."""
    monkeypatch.setattr(work_pool, "_limit", lambda limits: None)
    ours, theirs = work_pool._context.Pipe(duplex=False)
    ours.close()
    work_pool._compute(theirs, LIMITS, long, [str(tmp_path / "begun")])
    assert not (tmp_path / "begun").exists()
