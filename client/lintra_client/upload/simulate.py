"""Many clients in one machine: worker processes that each send a slice of an array, for demonstrations and load.

Sealing takes most of the time and holds Python's lock, so only processes help. Call it under
`if __name__ == "__main__":`, since every worker starts as a new interpreter.
"""

import asyncio
import multiprocessing
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import replace
from multiprocessing.queues import SimpleQueue

import numpy as np

from lintra_client.task_check import ClientPolicy, Servers
from lintra_client.upload.bulk import Progress, SendSummary
from lintra_client.upload.client import Client
from lintra_client.upload.sync_client import BlockingClient
from lintra_protocol.crypto.ring import FloatArray

_POLL = 0.1
"""Seconds between two reports of progress."""

_done: "SimpleQueue[int] | None" = None


def simulate(
    task_id: str,
    servers: Servers,
    rows: FloatArray,
    workers: int,
    progress: Progress | None = None,
    *,
    policy: ClientPolicy | None = None,
) -> SendSummary:
    """Send every row of an array as if each came from its own client.

    `rows` has shape `(n, d)`, in the users' units; each worker gets its slice once. `progress` is told now and then how
    many rows are done.

    Raises:
        ValueError: there is no worker.
        InvalidRowError: the rows do not fit; nothing has left.
        LintraError: the task is refused, or a server cannot be reached.
    """
    if workers < 1:
        raise ValueError(f"at least one worker is needed, got {workers}")
    # The task and all rows are checked here, before any worker sends a part of them.
    with BlockingClient(task_id, servers, policy=policy, ledger=None) as client:
        checked = client.task.schema_arrays.rows(rows)
    parts = np.array_split(checked, min(workers, max(1, len(checked))))
    context = multiprocessing.get_context("spawn")
    done = context.SimpleQueue()
    with ProcessPoolExecutor(len(parts), mp_context=context, initializer=_set_queue, initargs=(done,)) as pool:
        futures = [pool.submit(_send, task_id, servers, policy, part) for part in parts]
        _watch(futures, done, progress)
        summaries = [future.result() for future in futures]
    done.close()
    return _joined(summaries, [len(part) for part in parts])


def _watch(futures: "list[Future[SendSummary]]", done: "SimpleQueue[int]", progress: Progress | None) -> None:
    total, running = 0, True
    while running:
        running = bool(wait(futures, timeout=_POLL).not_done)
        before = total
        # The queue is emptied even if nobody listens: a full one would stop the workers.
        while not done.empty():
            total += done.get()
        if progress is not None and total > before:
            progress(total)


def _joined(summaries: list[SendSummary], lengths: list[int]) -> SendSummary:
    starts = np.cumsum([0, *lengths[:-1]]).tolist()
    failed = tuple(
        replace(row, index=row.index + start)
        for start, summary in zip(starts, summaries, strict=True)
        for row in summary.failed
    )
    stopped = next((summary.stopped for summary in summaries if summary.stopped is not None), None)
    sent, clipped, incomplete = (
        sum(getattr(each, number) for each in summaries) for number in ("sent", "clipped", "incomplete")
    )
    return SendSummary(sent, clipped, failed, stopped, incomplete)


# --- in a worker ----------------------------------------------------------------------------------------------


def _set_queue(done: "SimpleQueue[int]") -> None:
    global _done
    _done = done


def _send(task_id: str, servers: Servers, policy: ClientPolicy | None, rows: FloatArray) -> SendSummary:
    reported = 0

    def report(total: int) -> None:
        nonlocal reported
        if _done is not None:
            _done.put(total - reported)
        reported = total

    async def run() -> SendSummary:
        async with Client(task_id, servers, policy=policy, ledger=None) as client:
            return await client.send_many(rows, progress=report)

    return asyncio.run(run())
