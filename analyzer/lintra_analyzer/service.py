"""The analyzer as one object: settings, keys, storage and network together, and what an analyst can do with them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol, TypeVar

import httpx2

from lintra_analysis.certificate.certificate import SignedRecord
from lintra_analysis.certificate.replay import ReplayedCheck
from lintra_analysis.estimators.table import Estimate
from lintra_analysis.kinds.decode import read
from lintra_analysis.releases.release import Release
from lintra_analysis.spec.build_task import build_task
from lintra_analysis.spec.second_round import build_second_task
from lintra_analysis.spec.specification import Specification
from lintra_analyzer.access import Access
from lintra_analyzer.exchange.census import CensusResult, take_census
from lintra_analyzer.exchange.collect import ServerExchange
from lintra_analyzer.exchange.large_reads import read_widely
from lintra_analyzer.exchange.replay import replay
from lintra_analyzer.exchange.servers import HttpClient, Network, Patience, Server
from lintra_analyzer.metrics import Metrics
from lintra_analyzer.settings import KnownServer, Settings
from lintra_analyzer.storage.archive import Archive
from lintra_analyzer.storage.keys import AnalyzerKeys
from lintra_analyzer.storage.list_files import ListKind
from lintra_analyzer.storage.readable import record_in, task_in
from lintra_analyzer.storage.rows import EVERYBODY, Job, ServerState, StoredTask
from lintra_analyzer.storage.store import DATABASE, Store
from lintra_analyzer.tasks.jobs import Jobs, ReleaseJob
from lintra_analyzer.tasks.models import Models, key_after
from lintra_analyzer.tasks.populations import PopulationTotals
from lintra_analyzer.tasks.registration import Bringing, current_state, register, require_registered
from lintra_analyzer.tasks.report_counts import ReportCounts
from lintra_analyzer.tasks.schedule import Schedule, num_begun, num_due
from lintra_analyzer.tasks.task_index import TaskIndex
from lintra_analyzer.tasks.windows import Window, window_of
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.randomness import RandomBytes, bulk_system_randomness
from lintra_protocol.crypto.tokens import make_token
from lintra_protocol.encoding.canonical import canonical_json
from lintra_protocol.errors import (
    InvalidAnalysisError,
    InvalidReleaseError,
    InvalidTaskError,
    TaskConflictError,
    UnknownBatchError,
)
from lintra_protocol.messages.documents import BATCH, Counters, TaskRecord, sign
from lintra_protocol.task import ServerEntry, Task
from lintra_service.process import repeat
from lintra_service.readiness import PROBE_SECONDS, Readiness
from lintra_service.supervisor import require_endless
from lintra_service.work_pool import WorkLimits, WorkPool, WorkRefusedError

INTERACTIVE_ATTEMPTS = 3

MOST_SMALL = 60
"""So many columns, or windows times columns, need no process of their own: a second at most."""

WORK_MODULES = ("lintra_analyzer.web.analyses", "lintra_analyzer.web.console.plan")
"""What plans and analyses import, so that a process that computes one starts fast."""

T = TypeVar("T", bound=Estimate)
T_co = TypeVar("T_co", bound=Estimate, covariant=True)


@dataclass(frozen=True)
class World:
    """What lies outside: the network, the clock in seconds since the epoch, and randomness."""

    http: HttpClient
    now: Callable[[], int]
    random_bytes: RandomBytes


class AnalysisRequest(Protocol):
    """What an analyst asks about one release."""

    @property
    def kind(self) -> str:
        """Return its name."""

    def run(self, release: Release) -> Estimate:
        """Ask it."""

    def is_small(self, release: Release) -> bool:
        """Return whether it is computed in a second and some megabytes."""


class Service:
    """Everything an analyst can do; the REST interface only translates."""

    def __init__(self, settings: Settings, keys: AnalyzerKeys, world: World) -> None:
        """Open the storage below `settings.data_dir`; `start` begins the work."""
        self.settings = settings
        self.keys = keys
        self.metrics = Metrics()
        self.store = Store(settings.data_dir / DATABASE, settings.key_folder)
        self.access = Access(settings.known_token_hashes(), self.store.users, world.now, world.random_bytes)
        self.archive = Archive(settings.data_dir / "releases")
        self._world = world
        # One system call per request would cost more than the stream does.
        self._request_ids = bulk_system_randomness()
        patience = Patience(settings.server_attempts, settings.retry_seconds, settings.retry_seconds_max)
        self._network = Network(world.http, keys.identity, patience, world.now, world.random_bytes)
        # While an analyst waits for the answer, a server that is away is not waited for as long as a job would.
        brief = replace(patience, attempts=min(patience.attempts, INTERACTIVE_ATTEMPTS))
        self._interactive = replace(self._network, patience=brief)
        self._creating = asyncio.Lock()
        self._replaying = asyncio.Lock()
        self.readiness = Readiness([settings.data_dir], {"database": self.store.check}, settings.min_free_bytes)
        self.readiness.probe()
        limits = WorkLimits(settings.work_processes, settings.work_seconds, settings.work_bytes)
        self.work = WorkPool(limits, WORK_MODULES)
        self.populations = PopulationTotals(self.store.listed)
        self.index = TaskIndex(self.store.listed)
        self.counts = ReportCounts(self.live_states, world.now)
        self.jobs = Jobs(self.store, self._release_of, self.metrics)
        self.schedule = Schedule(self.store, self.jobs, world.now)
        self.models = Models(self.store, self)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Resume interrupted jobs, and interrupt them again at the end."""
        self.jobs.resume()
        looking = repeat(PROBE_SECONDS, self.readiness.probe, "readiness")
        following = require_endless(asyncio.create_task(self.schedule.follow(), name="the schedule"))
        making = require_endless(asyncio.create_task(self.models.follow(), name="the rounds of models"))
        try:
            yield
        finally:
            for task in (looking, following, making):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await self.counts.stop()
            await self.jobs.stop()
            self.store.close()

    def now(self) -> int:
        """Return the time in seconds since the epoch."""
        return self._world.now()

    def new_request_id(self) -> str:
        """Return a name for one request."""
        return self._request_ids(8).hex()

    # --- tasks ---------------------------------------------------------------------------------------------------

    async def create_task(
        self, specification: Specification, request_key: str | None = None, population: str = EVERYBODY
    ) -> Task:
        """Build a task, sign it and store it; a repeated request finds the same task.

        It is of no use before `register_task` brought it to every server. `request_key` names the request, so that it
        can be repeated without making a second task. `population` says whose rows it is about, in the analyst's words;
        no part of the task itself. Raises TaskConflictError if the repeated request asks for something else, or for
        another population.
        """
        wanted = specification.canonical()
        # One at a time, so that two requests of the same key cannot both find it unused.
        async with self._creating:
            if request_key is not None and (stored := self.store.task_of_request(request_key, wanted)):
                if stored.population != population:
                    raise TaskConflictError("this Idempotency-Key was used before, for another population")
                return task_in(stored)
            now = self._world.now()
            servers = await asyncio.gather(*(self._entry(i, s) for i, s in enumerate(self.settings.servers)))
            task = await asyncio.to_thread(
                build_task, specification, servers, self.keys.public_keys, now, self._world.random_bytes
            )
            record = sign(self.keys.author, TaskRecord(definition=task)).canonical()
            self.store.add_task(
                StoredTask(task.task_id, record, wanted, now, population), task.num_servers, request_key
            )
            return task

    async def create_second_task(
        self, task_id: str, row_bound: Fraction | None = None, *, request_key: str | None = None
    ) -> Task:
        """Make, sign and store the round after a released one; there is one, and a repeated request finds it.

        `row_bound` is the norm that rows about their class's centre are clipped to; without it the release gives it.
        `request_key` names the request where it is not the one after this task.

        Raises:
            UnknownTaskError: there is no such task.
            InvalidTaskError: it is not the first of two rounds, is not released yet, or does not give what is needed.
            TaskConflictError: its second round was made with another bound.
        """
        stored = self.store.task(task_id)
        wanted = canonical_json({"after": task_id, "row_bound": None if row_bound is None else str(row_bound)})
        request_key = request_key or key_after(task_id)
        async with self._creating:
            if made := self.store.task_of_request(request_key, wanted):
                return task_in(made)
            release = self._opened_task(task_id)
            asked, now = self._specification(stored), self._world.now()
            arguments = asked, task_in(stored), release, now, self._world.random_bytes, row_bound
            task = await asyncio.to_thread(build_second_task, *arguments)
            record = sign(self.keys.author, TaskRecord(definition=task)).canonical()
            made = StoredTask(task.task_id, record, wanted, now, stored.population)
            self.store.add_task(made, task.num_servers, request_key)
            return task

    def _specification(self, stored: StoredTask) -> Specification:
        """Return what an analyst asked for; later rounds name the round before instead."""
        while isinstance(before := json.loads(stored.specification).get("after"), str):
            stored = self.store.task(before)
        return Specification.model_validate_json(stored.specification)

    async def register_task(self, task_id: str) -> list[ServerState]:
        """Bring a task to every server (see `register`)."""
        stored = self.store.task(task_id)
        task = task_in(stored)
        brought = Bringing(stored.record, self.keys.token_keys(task.servers), self._world.now)
        await register(task, brought, self._servers(task, self._interactive), self.store)
        states = self.store.registrations(task_id)
        require_registered(states)
        return states

    def task(self, task_id: str) -> Task:
        """Return a task."""
        return task_in(self.store.task(task_id))

    async def live_states(self, task_id: str) -> list[tuple[ServerState, Counters | None]]:
        """Ask every server for the task and its counters now."""
        task = self.task(task_id)
        asked = (current_state(task, server) for server in self._servers(task, self._interactive))
        states = await asyncio.gather(*asked)
        self.counts.keep(task_id, states)
        return states

    def make_tokens(self, task_id: str, count: int) -> list[str]:
        """Make tokens for clients of a task, each a place for one report; nothing is kept of them here.

        Raises InvalidTaskError if it has no tokens.
        """
        task = self.task(task_id)
        if not task.uses_tokens:
            raise InvalidTaskError("this task takes reports without tokens; make one with client_auth 'token'")
        keys = self.keys.token_keys(task.servers)
        return [make_token(keys, task.id_bytes, self._world.random_bytes).spelled() for _ in range(count)]

    async def census(self, task_id: str, batch: int = BATCH) -> CensusResult:
        """Ask every server what it holds of an open batch; it changes nothing."""
        task = self._task_with(task_id, batch)
        return await take_census(task, batch, self._servers(task, self._interactive), self.store)

    # --- releases ------------------------------------------------------------------------------------------------

    def start_release(self, task_id: str, batch: int = BATCH) -> Job:
        """Start the release of a task's batch, or go on with it."""
        self._task_with(task_id, batch)
        require_registered(self.store.registrations(task_id))
        return self.jobs.start(task_id, batch)

    def windows(self, task_id: str, first: int, count: int) -> list[Window]:
        """Return the windows of a task that have begun, from the number `first` on, `count` at most."""
        task = self.windowed(task_id)
        now = self._world.now()
        count = max(min(count, num_begun(task, now) - first), 0)
        jobs = {job.batch: job for job in self.store.jobs(task_id, first, count)}
        released = self.store.releases_of(task_id, first, count)
        due = num_due(task, now)
        return [
            window_of(task, number, jobs.get(number), released.get(number), is_due=number < due)
            for number in range(first, first + count)
        ]

    def windowed(self, task_id: str) -> Task:
        """Return a task with windows; raise UnknownTaskError or UnknownBatchError if there is none."""
        task = self.task(task_id)
        if task.windows is None:
            raise UnknownBatchError("the task has a single batch, and no windows")
        return task

    def _task_with(self, task_id: str, batch: int) -> Task:
        task = self.task(task_id)
        if not 0 <= batch < task.num_batches:
            raise UnknownBatchError(f"the task has batches 0 to {task.num_batches - 1}")
        return task

    def job(self, task_id: str, batch: int = BATCH) -> Job:
        """Return how far a task's release is; one that nobody asked for yet is `waiting` at its first stage."""
        self._task_with(task_id, batch)
        return self.store.job(task_id, batch) or Job(task_id, "inventory", "waiting", batch=batch)

    def record(self, release_id: str) -> SignedRecord:
        """Return a release's signed record."""
        return record_in(release_id, self.store.release(release_id))

    async def analyse(self, signed: SignedRecord, request: AnalysisRequest, who: str) -> Estimate:
        """Run an analysis over a release, for `who` asks, within the caps on memory and time.

        Raises InvalidAnalysisError if it reaches one of them; the detail says which.
        """
        release = await asyncio.to_thread(self.opened, signed)
        try:
            estimate = await self.work.run(who, request.run, release, small=request.is_small(release))
        except WorkRefusedError as error:
            raise InvalidAnalysisError(
                f"{request.kind}: {error}; ask about fewer columns or rows, or analyse the downloaded numbers"
            ) from None
        self.metrics.analysis(request.kind)
        return estimate

    def cohort_ids(self, signed: SignedRecord) -> ReportIds:
        """Return the sorted report identifiers of a release; raise InvalidReleaseError if they are gone."""
        kind: ListKind = "cohort_ids" if signed.record.verification is None else "accepted_ids"
        found = self.store.lists.get(signed.record.task_id, signed.record.batch, kind)
        if found is None:
            raise InvalidReleaseError("the identifiers of this release are missing")
        return found

    async def replay(self, signed: SignedRecord) -> tuple[ReplayedCheck, ...]:
        """Write a release's certificate once more from what the servers signed, and compare; one at a time."""
        record, task = signed.record, self.task(signed.record.task_id)
        exchange = ServerExchange(task, record.batch, self._servers(task, self._network), self.store)
        async with self._replaying:
            return await replay(task, signed, exchange, self.archive, self.keys)

    def opened(self, signed: SignedRecord) -> Release:
        """Return a release's numbers as estimators read them; a second round comes with its first."""
        return read(self.task(signed.record.task_id), *self.archive.read(signed.record), self._opened_task)

    def _opened_task(self, task_id: str) -> Release | None:
        job = self.store.job(task_id)
        return None if job is None or job.release_id is None else self.opened(self.record(job.release_id))

    # --- servers -------------------------------------------------------------------------------------------------

    async def _entry(self, index: int, known: KnownServer) -> ServerEntry:
        """Return a server with the key it must sign with: from the settings, or pinned, or met for the first time."""
        key = known.identity_key or self.store.servers.pinned_key(known.url)
        if key is None:
            # The settings were refused unless they allow this (see `Settings.trust_on_first_use`).
            key = self.store.servers.pin(known.url, await Server(self._interactive, index, known.url).identity_key())
        return ServerEntry(url=known.url, identity_key=key)

    def _servers(self, task: Task, network: Network) -> list[Server]:
        return [Server(network, index, entry.url) for index, entry in enumerate(task.servers)]

    def _release_of(self, task_id: str, batch: int) -> ReleaseJob:
        task = self.task(task_id)
        exchange = ServerExchange(task, batch, self._servers(task, self._network), self.store)
        return ReleaseJob(task, batch, exchange, self.store, self.archive, self.keys, self._world.now)


@asynccontextmanager
async def http_client(settings: Settings) -> AsyncIterator[httpx2.AsyncClient]:
    """Open the connections to the servers; redirects are refused, since a signature names the path."""
    async with httpx2.AsyncClient(timeout=settings.server_timeout_seconds, follow_redirects=False) as client:
        read_widely(client)
        yield client
