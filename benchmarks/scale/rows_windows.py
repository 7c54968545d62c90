"""A row of a task with windows: a day of them in simulated time, taken, closed and released one after the other."""

import asyncio
from pathlib import Path

import bench_server
import httpx2
import numpy as np

from lintra_analyzer.exchange.collect import ServerExchange
from lintra_analyzer.exchange.servers import Network, Patience, Server
from lintra_analyzer.storage.archive import Archive
from lintra_analyzer.storage.keys import AnalyzerKeys, load_keys
from lintra_analyzer.storage.rows import ServerState, Stage, StoredTask
from lintra_analyzer.storage.store import Store
from lintra_analyzer.tasks.jobs import ReleaseJob
from lintra_protocol.crypto.randomness import bulk_system_randomness, system_randomness
from lintra_protocol.crypto.sealing import HYBRID
from lintra_protocol.fields.windows import Windows
from lintra_protocol.mechanisms import Sum
from lintra_protocol.messages.documents import TaskRecord, sign
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.report.report import make_reports, seal_block
from lintra_protocol.report.upload import MAX_REPORTS, encode_upload
from lintra_protocol.task import Task
from lintra_server.settings import Settings
from lintra_server.web.app import create_app
from lintra_server.web.upload_route import UploadRoute
from scale.cohort import task_of
from scale.figures import Asked, Measured, row, stopwatch

HOURS, REPORTS = 24, 4 * MAX_REPORTS
HOUR, COLUMNS, SERVERS = 3600, 10, 2
FIRST = 1_800_000_000 // HOUR
"""The hour in which the simulated day begins."""


class Clock:
    """Time that stands until it is moved."""

    def __init__(self) -> None:
        self.hours = 0.0

    def wall(self) -> float:
        """Return seconds since the epoch."""
        return (FIRST + self.hours) * HOUR

    def running(self) -> float:
        """Return seconds that went by."""
        return self.hours * HOUR


@row(
    "windows_day", "a day of 24 hourly windows of 1,024 reports, simulated: two servers and the analyzer", "CPU s", None
)
def _day(asked: Asked) -> Measured:
    hours = asked.of(HOURS, least=3)
    windows = asyncio.run(_released(asked.folder / "windows", hours, 1))
    whole = asyncio.run(_released(asked.folder / "day", 1, hours))
    reports = f"{hours} windows of {REPORTS} reports"
    return Measured(windows, whole, "the same reports in one window of a day", reports)


async def _released(folder: Path, windows: int, hours_each: int) -> float:
    """Return the CPU seconds in which servers and analyzer take and release some windows; clients are not counted."""
    bench_server.quiet()
    folder.mkdir()
    clock = Clock()
    apps = [create_app(_settings(folder, number), now=clock.wall, running=clock.running) for number in range(SERVERS)]
    (folder / "keys").mkdir(mode=0o700)
    keys = load_keys(folder / "keys", True, system_randomness)
    task = _task(keys, apps, windows, hours_each)
    record = sign(keys.author, TaskRecord(definition=task))
    for app in apps:
        app.node.registry.register(task.task_id, record)
    store, archive = Store(folder / "analyzer.sqlite"), Archive(folder / "releases")
    store.add_task(StoredTask(task.task_id, record.canonical(), b"{}", 0), SERVERS, None)
    for server in range(SERVERS):
        store.set_registration(task.task_id, ServerState(server, "accepted"))
    mounts = {entry.url: httpx2.ASGITransport(app) for entry, app in zip(task.servers, apps, strict=True)}
    spent = 0.0
    async with httpx2.AsyncClient(mounts=mounts) as client:
        network = Network(
            client, keys.identity, Patience(1000, 0.01, 1.0), lambda: int(clock.wall()), system_randomness
        )
        servers = [Server(network, index, entry.url) for index, entry in enumerate(task.servers)]
        for window in range(windows):
            clock.hours = window * hours_each + hours_each / 2
            uploads = _uploads(task, apps, window, REPORTS * hours_each)
            with stopwatch() as used:
                for app, bodies in zip(apps, uploads, strict=True):
                    for body in bodies:
                        await bench_server.post(app, task.task_id, body)
                clock.hours = (window + 1) * hours_each + 1  # the window and its grace are over
                exchange = ServerExchange(task, window, servers, store)
                job = ReleaseJob(task, window, exchange, store, archive, keys, lambda: int(clock.wall()))
                stage: Stage = "inventory"
                while stage != "released":
                    stage = await job.take(stage)
            spent += used[0]
    if len(store.releases()) != windows:
        raise ValueError(f"{len(store.releases())} of {windows} windows were released")
    for app in apps:
        app.node.close()
    return spent


def _uploads(task: Task, apps: list[UploadRoute], window: int, count: int) -> list[list[bytes]]:
    """Return for each server the uploads of a window, in whole blocks."""
    rows, random_bytes = np.zeros((count, task.num_words), np.int64), bulk_system_randomness()
    reports = make_reports(task, rows, task.span(window)[0], random_bytes)
    found = []
    for server, app in enumerate(apps):
        key_id, key = next((key_id, key) for key_id, key in app.node.keys.active().items() if key.suite == HYBRID)
        parts = [reports[start : start + MAX_REPORTS] for start in range(0, count, MAX_REPORTS)]
        blocks = [seal_block(task, server, key_id, key.public_bytes, part) for part in parts]
        found.append([encode_upload([block]) for block in blocks])
    return found


def _task(keys: AnalyzerKeys, apps: list[UploadRoute], windows: int, hours_each: int) -> Task:
    claim = Claim(epsilon="4", delta="0.000001", min_clients=REPORTS // 2)
    bare, last = Sum(row_bound="1", fraction_bits=0, sigma=4), FIRST + windows * hours_each
    spans = Windows(window=hours_each, grace=0, max_windows=windows, reports_per_source=1)
    more = {"not_before": FIRST, "not_after": last, "batches": "windowed", "windows": spans}
    return task_of(keys, apps, bare, claim, REPORTS * hours_each, COLUMNS, **more)


def _settings(folder: Path, number: int) -> Settings:
    return Settings.model_validate(
        {
            "public_url": f"http://server-{number}",
            "data_dir": folder / f"data-{number}",
            "key_dir": folder / f"keys-{number}",
            "create_keys": True,
            "policy": {"allowed_authors": "any", "open": True},
        }
    )
