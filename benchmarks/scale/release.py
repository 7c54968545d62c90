"""One release among real processes: N servers on loopback, an analyzer of its own process, stage by stage.

Run by itself it is the analyzer: `python -m scale.release FOLDER PID..` prints what every stage cost as JSON.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from functools import cache
from pathlib import Path

import httpx2
import numpy as np
import structlog

from lintra_analysis.certificate.certificate import SignedRecord
from lintra_analyzer.exchange.collect import ServerExchange
from lintra_analyzer.exchange.servers import Network, Patience, Server
from lintra_analyzer.storage.archive import Archive
from lintra_analyzer.storage.rows import ServerState, Stage, StoredTask
from lintra_analyzer.storage.store import Store
from lintra_analyzer.tasks.jobs import ReleaseJob
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.crypto.ring import IntArray, from_ring, to_ring
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.messages.documents import BATCH
from lintra_server.batches.transform import add_reports
from lintra_service.memory import give_back_large_blocks
from scale.beside import QUIET_SECONDS, Waits, asking
from scale.cohort import Collection, collect, rows_of
from scale.costs import ReleaseCost, StageCost
from scale.processes import cpu_seconds, forget_peak, peak_mebibytes, running_servers

_PATIENCE = Patience(1000, 0.2, 1.0)
_SECONDS = 3600.0
_BLOCK = 1 << 16


@cache
def release(folder: Path, num_reports: int, num_servers: int, *, asked: bool = False) -> ReleaseCost:
    """Fill servers, start them, let an analyzer release, check the sketch, and return what it cost; once each.

    With `asked` the last server is asked for other things meanwhile, which costs it a few milliseconds a second.
    """
    place = folder / f"release-{num_reports}-{num_servers}"
    try:
        made = collect(place, num_reports, num_servers)
        with running_servers(made.configs, [entry.url for entry in made.task.servers]) as pids:
            command = [sys.executable, "-m", "scale.release", str(place), *map(str, pids)]
            benchmarks = str(Path(__file__).resolve().parents[1])
            environment = {**os.environ, "PYTHONPATH": benchmarks, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            with asking(place, num_servers - 1, environment) if asked else nullcontext([]) as answers:  # type: ignore[attr-defined]
                time.sleep(QUIET_SECONDS if asked else 0)
                told = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
        found = json.loads(told)
        stages = tuple(StageCost(**stage) for stage in found["stages"])
        return ReleaseCost(num_reports, num_servers, stages, tuple(answers))
    finally:
        shutil.rmtree(place, ignore_errors=True)


class CountingHttp:
    """Sends requests, and counts the bytes of their bodies and of the answers'."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        """Send through a client."""
        self._client = client
        self._sent = 0
        self._answers: list[httpx2.Response] = []

    def build_request(self, method: str, url: str, *, content: bytes, headers: dict[str, str]) -> httpx2.Request:
        """Return a request that was not sent yet."""
        return self._client.build_request(method, url, content=content, headers=headers)

    async def send(self, request: httpx2.Request, *, stream: bool) -> httpx2.Response:
        """Send it."""
        response = await self._client.send(request, stream=stream)
        self._sent += int(request.headers.get("content-length", 0))
        self._answers.append(response)
        return response

    def taken(self) -> int:
        """Return the bytes since the last call."""
        found = self._sent + sum(answer.num_bytes_downloaded for answer in self._answers)
        self._sent, self._answers = 0, []
        return found


Check = Callable[[Collection, IntArray, SignedRecord, Store], None]
"""Refuses a sketch that is not that of the collection."""


async def measured_release(
    made: Collection, pids: list[int], check: Check, after: Callable[[Stage], None] = lambda _: None
) -> list[StageCost]:
    """Be the analyzer: take one stage after the other, and look at all processes before and after each."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    give_back_large_blocks()  # as `lintra analyzer run` does
    keys, task, data = made.keys, made.task, made.folder / "analyzer"
    data.mkdir()
    store, archive = Store(data / "analyzer.sqlite"), Archive(data / "releases")
    store.add_task(StoredTask(task.task_id, (made.folder / "task.json").read_bytes(), b"{}", 0), task.num_servers, None)
    for server in range(task.num_servers):
        store.set_registration(task.task_id, ServerState(server, "accepted"))
    async with httpx2.AsyncClient(timeout=_SECONDS, follow_redirects=False) as client:
        http = CountingHttp(client)
        network = Network(http, keys.identity, _PATIENCE, lambda: int(time.time()), system_randomness)
        servers = [Server(network, index, entry.url) for index, entry in enumerate(task.servers)]
        exchange = ServerExchange(task, BATCH, servers, store)
        job = ReleaseJob(task, BATCH, exchange, store, archive, keys, lambda: int(time.time()))
        costs: list[StageCost] = []
        stage: Stage = "inventory"
        while stage != "released":
            cost, stage = await _cost(job, stage, http, pids)
            costs.append(cost)
            after(stage)
    record = SignedRecord.from_canonical(store.releases()[0])
    check(made, archive.read(record.record)[0], record, store)
    return costs


async def _cost(job: ReleaseJob, stage: Stage, http: CountingHttp, pids: list[int]) -> tuple[StageCost, Stage]:
    everyone = [os.getpid(), *pids]
    for pid in everyone:
        forget_peak(pid)
    before, started = [cpu_seconds(pid) for pid in everyone], time.monotonic()
    following = await job.take(stage)
    seconds = time.monotonic() - started
    used = [cpu_seconds(pid) - first for pid, first in zip(everyone, before, strict=True)]
    peaks = [peak_mebibytes(pid) for pid in everyone]
    return StageCost(stage, used[0], max(used[1:]), peaks[0], max(peaks[1:]), seconds, http.taken(), started), following


def waits(found: ReleaseCost, kind: str) -> tuple[Waits, Waits]:
    """Return how long answers of a kind took before the release began, and while it went on."""
    began, last = found.stages[0].began, found.stages[-1]
    return Waits.of(found.answers, kind, 0.0, began), Waits.of(found.answers, kind, began, last.began + last.seconds)


def check_rows(made: Collection, sketch: IntArray, signed: SignedRecord, store: Store) -> None:
    """Refuse a sketch that is not the matrix times the rows, but for the servers' noise."""
    record, mechanism = signed.record, made.task.mechanism
    listed = store.lists.get(record.task_id, BATCH, "cohort_ids")
    ids = np.zeros((0, 32), np.uint8) if listed is None else listed.array
    matrix = mechanism.public_matrix(record.num_clients, parse_base64url(record.seed))
    expected = np.zeros(sketch.shape, np.uint64)
    for start in range(0, len(ids), _BLOCK):
        rows = rows_of(ids[start : start + _BLOCK])
        add_reports(matrix, expected, np.arange(start, start + len(rows)), to_ring(rows))
    worst = int(np.abs(sketch - from_ring(expected)).max())
    if len(ids) != record.num_clients or worst > 10 * made.task.measurement.smoothing * made.task.num_servers:
        raise ValueError(f"the sketch of {len(ids)} reports is off by {worst}")


def main(folder: str, *pids: str) -> None:
    """Print as JSON what the stages cost."""
    costs = asyncio.run(measured_release(Collection.load(Path(folder)), [int(pid) for pid in pids], check_rows))
    sys.stdout.write(json.dumps({"stages": [asdict(cost) for cost in costs]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
