"""A collection with windows in which every party is a process, the analyzer too, and is killed at any moment.

Three servers behind proxies that lose, cut and repeat; clients that send until they are acknowledged; an analyzer that
only its schedule drives. It is killed at random moments, and at those that matter: when one of its steps reaches a
server, and when the server has answered it and the answer is lost.
"""

import asyncio
import io
import random
import shutil
import signal
import socket
import sqlite3
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TypeVar

import httpx2
import numpy as np
from services import free_ports

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_analyzer import serve
from lintra_analyzer.settings import KnownServer, Settings
from lintra_analyzer.tasks import schedule
from lintra_client import Client, Retries
from lintra_protocol.crypto.randomness import RandomBytes, expand
from lintra_protocol.crypto.ring import FloatArray, RingArray, from_ring, to_ring
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.errors import LintraError
from lintra_protocol.task import Task
from lintra_service.bearer_tokens import token_hash
from simulation.books import ONCE, law
from simulation.outside import OutsideServer, RealTimes, outside_settings
from simulation.proxy import Proxy
from simulation.reading import read_journal
from simulation.running import FAST
from simulation.trouble import Trouble
from simulation.world import seeded
from support.forks import forked, log_to
from support.measured import measurement_of
from support.tasks import TRUSTING

T = TypeVar("T")

NUM_SERVERS, FEWEST, WINDOWS = 3, 12, 5
TOKEN = "lintra_a-token-that-only-tests-know"
STEPS = (b"/inventory", b"/cohort", b"/aggregate")
AIMED = 0.4
"""The share of an analyzer's steps in the middle of which it is killed."""

KILLS, AIMED_KILLS = 12, 6
"""At most so many at random moments and in the middle of steps, so that there is an end."""

MOST_ENDS = 3

PATIENCE = 300.0
"""Seconds after the last window in which all of them are settled."""

SPECIFICATION = {
    "purpose": "a simulation",
    "columns": [{"name": name, "lower": -9, "upper": 9, "center": 0.5, "scale": 2} for name in ("a", "b", "c")],
    "mechanism": {"kind": "sum"},
    "row_bound": 3,
    "epsilon": 1,
    "delta": 1e-6,
    "min_clients": FEWEST,
    "verification": "none",
    "time_precision": 1,
    "reports_per_source": 1,
}


@dataclass
class AimedProxy(Proxy):
    """A faulty proxy that says when a step of the analyzer passes: before it does, and when it was answered."""

    passing: Callable[[], None] = lambda: None

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        """Read one request; it becomes the only one of its connection, whatever its sender would like."""
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[:-2]
        lengths = [line[16:] for line in lines if line.lower().startswith(b"content-length: ")]
        kept = [line for line in lines if not line.lower().startswith(b"connection:")]
        head = b"\r\n".join([first, *kept, b"connection: close", b"", b""])
        return head + await reader.readexactly(int(lengths[0]) if lengths else 0)

    async def _pass(self, request: bytes, delay: float = 0, *, whole: bool = True) -> bytes:
        line = request.partition(b"\r\n")[0]
        step = line.startswith((b"PUT", b"POST")) and line.partition(b" HTTP")[0].endswith(STEPS)
        aimed = self.chance.choice(("before", "after")) if step and self.chance.random() < AIMED else ""
        if aimed == "before":
            self.passing()
        answer = await super()._pass(request, delay, whole=whole)
        if aimed == "after":
            self.passing()
        return answer


def _run(settings: Settings, log: str) -> None:
    """Be the analyzer: what `lintra analyzer run` does, with a schedule that looks oftener."""
    log_to(log)
    schedule.SCHEDULE_SECONDS, schedule.AGAIN_SECONDS = 0.2, 1
    serve.run(settings)
    sys.stdout.flush()


@dataclass
class Analyzer:
    """The analyzer's folder, and its process while it runs.

    Attributes:
        forgetful: whether it forgets its releases at every start, which a law must find.
    """

    settings: Settings
    log: Path
    process: BaseProcess | None = None
    kills: int = 0
    ended: int = 0
    forgetful: bool = False

    def start(self) -> None:
        """Start the process; whether it answers is for others to find out."""
        if self.forgetful:
            self._forget()
        self.process = forked(_run, self.settings, str(self.log))

    def answers(self) -> bool:
        """Return whether somebody listens at its port; not while it is killed, or starts."""
        if self.process is None:
            return True  # there is nothing to wait for
        with socket.socket() as way:
            way.settimeout(1)
            return way.connect_ex(("127.0.0.1", self.settings.port)) == 0

    def _forget(self) -> None:
        """Lose what was released, as an analyzer would that answers before it is durable."""
        database = self.settings.data_dir / "analyzer.sqlite"
        if database.exists():
            with closing(sqlite3.connect(database)) as connection:
                for table in ("jobs", "releases"):
                    connection.execute(f"DELETE FROM {table}")
                connection.commit()

    def ensure(self) -> None:
        """Start it if it ended by itself, as when another process has just taken its port; not for ever."""
        process = self.process
        if process is not None and process.exitcode not in (None, -signal.SIGKILL):
            self.ended += 1
            said = f"exit status {process.exitcode}: {self.log.read_text()[-1000:]}"
            law(self.ended < MOST_ENDS, "the analyzer ends by itself", said)
            self.start()

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self.kills += 1
            self.process.kill()
            self.process.join()
            self.process = None

    def client(self) -> AnalyzerClient:
        """Return an analyst's connection; a request waits for the process to come back."""
        return AnalyzerClient(f"http://127.0.0.1:{self.settings.port}", TOKEN, attempts=1)


@dataclass
class Known:
    """What the clients and the analyst saw; every law is about this.

    Attributes:
        rows: every report that was made: its noised words, by its identifier, in its window.
        acknowledged: by window, what all servers took.
        released: by window, the release's identifier, as it was first seen.
    """

    rows: defaultdict[int, dict[bytes, RingArray]] = field(default_factory=lambda: defaultdict(dict))
    acknowledged: defaultdict[int, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    released: dict[int, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


async def simulate_analyzer(seed: int, *, forgetful: bool = False) -> Known:
    """Run one collection to its end and return what was seen; with an analyzer that forgets, if it is to be found.

    Raises:
        ViolationError: a law was broken.
    """
    chance = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="lintra-analyzer-", dir=FAST if FAST.is_dir() else None))
    servers = [_server(folder, number, chance) for number in range(NUM_SERVERS)]
    known = Known()
    analyzer: Analyzer | None = None
    try:
        for one in servers:
            await _proxy(one).open()
            await asyncio.to_thread(one.start)
        analyzer = _analyzer(folder, servers)
        analyzer.forgetful = forgetful
        analyzer.start()
        task = await asyncio.to_thread(_created, analyzer, chance)
        for one in servers:
            _proxy(one).passing = _aimed(analyzer, known)
        ending = asyncio.Event()

        async def live() -> None:
            await asyncio.gather(*(_answer_window(task, window, servers, seed, known) for window in range(WINDOWS)))
            await _settle(analyzer, task, known)
            ending.set()

        killing = asyncio.create_task(_kill_at_any_moment(analyzer, servers, chance, ending, known))
        both = {asyncio.create_task(live()), killing}
        done, pending = await asyncio.wait(both, return_when=asyncio.FIRST_EXCEPTION)
        for task_left in pending:
            task_left.cancel()
        await asyncio.gather(*done)
        # Once more, when all is done: what was released is found again, and not made again.
        analyzer.kill()
        analyzer.start()
        await asyncio.sleep(1.5)
        await _settle(analyzer, task, known)
        await asyncio.to_thread(_last_look, analyzer, task, known)
        for one in servers:
            await asyncio.to_thread(one.terminate)
            _require_once(one.key_dir / "journal", task)
        law("Traceback" not in analyzer.log.read_text(), "a traceback in the analyzer's log", analyzer.log.read_text())
        known.counts["SIGKILL of the analyzer"] = analyzer.kills
    except Exception as error:
        said = "" if analyzer is None else f"{analyzer.process}: {analyzer.log.read_text()[-2000:]}"
        error.add_note(f"seed {seed}; windows {known.released}; {said}")
        raise
    finally:
        if analyzer is not None:
            analyzer.kill()
        for one in servers:
            await _proxy(one).close()
            one.kill()
        shutil.rmtree(folder, ignore_errors=True)
    return known


def _server(folder: Path, number: int, chance: random.Random) -> OutsideServer:
    ports = free_ports(3)
    proxy = AimedProxy(random.Random(chance.random()), ports[0], ports[1], share=0.08)
    settings = outside_settings(folder, number, ports)
    return OutsideServer(settings, RealTimes(), seeded(f"restore {number}", number), Trouble(), proxy=proxy)


def _proxy(one: OutsideServer) -> AimedProxy:
    if not isinstance(one.proxy, AimedProxy):
        raise TypeError("this server has another proxy")
    return one.proxy


def _analyzer(folder: Path, servers: list[OutsideServer]) -> Analyzer:
    port, internal = free_ports(2)
    known = []
    for one in servers:
        if one.identity is None:
            raise RuntimeError("this server never ran")
        known.append(KnownServer(url=one.settings.public_url, identity_key=one.identity.public_key))
    settings = Settings.model_validate(
        {
            "port": port, "internal_port": internal, "data_dir": folder / "analyzer", "create_keys": True,
            "min_free_bytes": 0, "servers": known, "token_hashes": [token_hash(TOKEN)], "log_level": "warning",
            "server_attempts": 6, "server_timeout_seconds": 20, "retry_seconds": 0.05, "retry_seconds_max": 0.5,
        }
    )  # fmt: skip
    return Analyzer(settings, folder / "analyzer.log")


def _created(analyzer: Analyzer, chance: random.Random) -> Task:
    """Create the task; its windows begin when it is registered."""
    windows = {"window_seconds": chance.choice((3, 4)), "grace_seconds": 3, "max_windows": WINDOWS}
    key = f"{chance.random()}"
    created = _patiently(
        lambda client: client.create_task({**SPECIFICATION, "windows": windows}, request_key=key), analyzer
    )
    task = Task.from_value(created["definition"])
    _patiently(lambda client: client.register_task(task.task_id), analyzer)
    return task


def _patiently(ask: Callable[[AnalyzerClient], T], analyzer: Analyzer) -> T:
    """Ask the analyzer until it answers: it is killed and comes back."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with analyzer.client() as client:
                return ask(client)
        except (LintraError, httpx2.TransportError):
            if time.monotonic() > deadline:
                raise
            analyzer.ensure()
            time.sleep(0.1)


def _aimed(analyzer: Analyzer, known: Known) -> Callable[[], None]:
    def passing() -> None:
        if known.counts["killed in the middle of a step"] < AIMED_KILLS and analyzer.process is not None:
            known.counts["killed in the middle of a step"] += 1
            analyzer.kill()

    return passing


async def _kill_at_any_moment(
    analyzer: Analyzer, servers: list[OutsideServer], chance: random.Random, ending: asyncio.Event, known: Known
) -> None:
    """Kill the analyzer, now and then a server, and start what was killed."""
    while not ending.is_set():
        if analyzer.process is None:
            await asyncio.to_thread(analyzer.start)
        # Often it is killed before it answers; but a slow machine must let it get somewhere, too.
        while chance.random() < 0.8 and not analyzer.answers() and not ending.is_set():
            await asyncio.sleep(0.1)
        await asyncio.sleep(chance.uniform(0.05, 4))
        if known.counts["killed at a random moment"] < KILLS and not ending.is_set():
            known.counts["killed at a random moment"] += 1
            analyzer.kill()
        if known.counts["SIGKILL of a server"] < 3 and chance.random() < 0.15:
            known.counts["SIGKILL of a server"] += 1
            one = chance.choice(servers)
            await asyncio.to_thread(one.kill)
            await asyncio.to_thread(one.start)
    if analyzer.process is None:
        await asyncio.to_thread(analyzer.start)


def _noise(seed: int, window: int, index: int) -> RandomBytes:
    return expand(index.to_bytes(32, "big"), f"seed {seed}, window {window}")


async def _answer_window(task: Task, window: int, servers: list[OutsideServer], seed: int, known: Known) -> None:
    """Let the clients of a window answer it; in one of them they are too few."""
    chance = random.Random(f"{seed} {window}")
    begins = task.span(window)[0] * task.time_precision
    await asyncio.sleep(max(begins + 0.1 - time.time(), 0))
    count = FEWEST - 2 if window == 1 else FEWEST + chance.randrange(6)
    urls = [one.settings.public_url for one in servers]
    retries = Retries(attempts=40, patience=10, first_wait=0.05, longest_wait=0.3, jitter=0.1)
    rows = np.random.default_rng([seed, window]).normal(0, 3, (count, 3))
    try:
        async with Client(task.task_id, urls, policy=TRUSTING, ledger=None, retries=retries) as client:
            await asyncio.gather(
                *(_answer(client, rows[index], _noise(seed, window, index), known) for index in range(count))
            )
    except LintraError:  # no server answered in time: nothing of this window was sent
        known.counts["a window that nobody answered"] += 1


async def _answer(client: Client, row: FloatArray, rng: RandomBytes, known: Known) -> None:
    # What a report adds to the sum is what its shares are of: kept here, and looked for in the release.
    drawn: list[bytes] = []

    def remembered(count: int) -> bytes:
        drawn.append(rng(count))
        return drawn[-1]

    parcel = client.prepare(row.tolist(), remembered)
    (report_id,) = parcel.report_ids
    again = iter(drawn)
    words = client.task.encode(client.task.schema_arrays.row(row.tolist())[np.newaxis], lambda _: next(again))
    known.rows[parcel.batch][report_id] = to_ring(words)
    try:
        await client.deliver(parcel)
    except LintraError:  # unknown, or too late
        known.counts["a report that was not acknowledged everywhere"] += 1
    else:
        known.acknowledged[parcel.batch].add(report_id)


async def _settle(analyzer: Analyzer, task: Task, known: Known) -> None:
    """Look at the windows until all are settled. (law) What was released stays the same release, and stays."""
    over = task.span(WINDOWS - 1)[1] * task.time_precision
    while True:
        windows = await asyncio.to_thread(_patiently, lambda client: client.windows(task.task_id), analyzer)
        for each in windows:
            window, release = each["window"], each["release_id"]
            if window in known.released or release is not None:
                first = known.released.setdefault(window, release)
                law(first == release, "a window has another release than before, or none", window, first, release)
        if len(windows) == WINDOWS and all(each["state"] in ("released", "gap", "failed") for each in windows):
            return
        law(time.time() < over + PATIENCE, "windows are never settled", windows)
        await asyncio.sleep(0.3)


def _last_look(analyzer: Analyzer, task: Task, known: Known) -> None:
    """(law) Every window that enough answered is released, once, with all that was acknowledged, as their exact sum."""
    releases = _patiently(lambda client: client.releases(), analyzer)
    law(
        sorted(each["release_id"] for each in releases) == sorted(known.released.values()),
        "there are other releases than windows have", releases, known.released,
    )  # fmt: skip
    for window in range(WINDOWS):
        acknowledged = known.acknowledged[window]
        release = known.released.get(window)
        if release is None:
            law(len(acknowledged) < FEWEST, "a window that enough answered is lost", window, len(acknowledged))
            known.counts["a gap"] += 1
            continue
        known.counts["window released"] += 1
        found = _patiently(partial(_released, release=release), analyzer)
        law(acknowledged <= found.cohort, "an acknowledged report is in no release", window, len(acknowledged))
        law(found.described == (window, len(found.cohort)), "a certificate is of another window", window)
        total = np.zeros((1, task.num_words), np.uint64)
        for report_id in found.cohort:
            total += known.rows[window][report_id]
        expected = measurement_of(task, task.num_columns).decode(from_ring(total))
        law(np.array_equal(found.values, expected), "a release is not the sum of its cohort", window)


@dataclass(frozen=True)
class Found:
    """A release as the analyst reads it: window and number of clients as certified, cohort, and values."""

    described: tuple[int, int]
    cohort: set[bytes]
    values: FloatArray


def _released(client: AnalyzerClient, release: str) -> Found:
    record = client.record(release).verified(client.keys()["identity_key"])
    cohort = {parse_base64url(each) for each in client.cohort(release)["report_ids"]}
    values = np.load(io.BytesIO(client.sketch(release)), allow_pickle=False)["values"]
    return Found((record.batch, record.num_clients), cohort, values)


def _require_once(journal: Path, task: Task) -> None:
    """(law) No server closed, froze or released a window twice."""
    steps = Counter(
        (batch, line.state) for line in read_journal(journal) for batch in line.batches if line.state in ONCE
    )
    law(all(count == 1 for count in steps.values()), "a window is released twice", steps)
    law(bool(steps), "a journal holds nothing of the task", task.task_id)
