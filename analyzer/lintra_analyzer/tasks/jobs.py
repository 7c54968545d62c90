"""Jobs: the release of a task's batch, stage by stage; every stage is durable, so a restart goes on where it stood.

A job that is refused stands still and keeps the refusal: `waiting` if time may help, `failed` if somebody must act.
Starting it again costs nothing, and what it gathered is kept.
"""

import asyncio
import time
from collections.abc import Callable

import structlog
from sqlalchemy.exc import SQLAlchemyError

from lintra_analyzer.exchange.collect import ServerExchange
from lintra_analyzer.exchange.issue_certificate import certify
from lintra_analyzer.exchange.reconstruct import FrozenCohort, reconstruct
from lintra_analyzer.metrics import Metrics
from lintra_analyzer.storage.archive import Archive
from lintra_analyzer.storage.keys import AnalyzerKeys
from lintra_analyzer.storage.rows import Job, JobState, Stage
from lintra_analyzer.storage.store import Store
from lintra_protocol.errors import InternalError, LintraError, UnavailableError
from lintra_protocol.http.problems import to_problem
from lintra_protocol.messages.documents import BATCH
from lintra_protocol.task import Task
from lintra_service.supervisor import require_no_failure

AGAIN_SECONDS = 5.0
"""How long a job waits for a disk that does not take what became of it."""

_log = structlog.get_logger(__name__)


class ReleaseJob:
    """One batch's way to its release."""

    def __init__(
        self,
        task: Task,
        batch: int,
        exchange: ServerExchange,
        store: Store,
        archive: Archive,
        keys: AnalyzerKeys,
        now: Callable[[], int],
    ) -> None:
        """Prepare the stages; nothing happens before one of them is called."""
        self._task = task
        self._batch = batch
        self._exchange = exchange
        self._store = store
        self._archive = archive
        self._keys = keys
        self._now = now

    async def take(self, stage: Stage) -> Stage:
        """Take one stage and return the next one."""
        match stage:
            case "inventory":
                await self._exchange.close()
                return "cohort"
            case "cohort":
                await self._exchange.freeze()
                return "aggregate" if self._task.verified is None else "checks"
            case "checks":
                await self._exchange.check()
                return "verdict"
            case "verdict":
                await self._exchange.judge()
                return "aggregate"
            case "aggregate":
                await self._exchange.aggregate(self._keys.sealing[self._task.suite])
                return "reconstruct"
            case "reconstruct":
                await self._reconstruct()
                return "released"
            case "released":
                return "released"

    async def _reconstruct(self) -> None:
        cohort = await self._exchange.frozen()
        await asyncio.to_thread(self._finish, cohort)

    def _finish(self, cohort: FrozenCohort) -> None:
        task, exchange = self._task, self._exchange
        result = reconstruct(task, self._batch, exchange.sketch_shares(), cohort, self._keys.sealing[task.suite])
        signed = certify(
            task,
            self._batch,
            tuple(exchange.inventories()),
            tuple(exchange.cohorts()),
            result,
            self._keys.identity,
            self._now(),
            tuple(exchange.verdicts()),
        )
        values = task.measurement.decode(result.sketch)
        # Files first: a record in the database always has its numbers. A crash in between leaves files without
        # record, and the next attempt writes its own.
        self._archive.write(signed, result.sketch, cohort.row_counts, values)
        self._store.add_release(signed.record.release_id, task.task_id, self._batch, signed.canonical())


class Jobs:
    """All jobs of this process, at most one for each batch.

    `ended` is set whenever one of them stands still or is done.
    """

    def __init__(self, store: Store, make: Callable[[str, int], ReleaseJob], metrics: Metrics) -> None:
        """Run jobs that `make` prepares from a task's identifier and the number of a batch."""
        self._store = store
        self._make = make
        self._metrics = metrics
        self._running: dict[tuple[str, int], asyncio.Task[None]] = {}
        self.ended = asyncio.Event()

    def resume(self) -> None:
        """Go on with every job that was running when the process ended."""
        for job in self._store.running_jobs():
            self._start(job)

    def start(self, task_id: str, batch: int) -> Job:
        """Start a job, or start it again where it stood; a running or finished one is left alone."""
        job = self._store.job(task_id, batch) or Job(task_id, "inventory", "waiting", batch=batch)
        if (task_id, batch) in self._running or job.state in ("merged", "released"):
            return job
        job = Job(task_id, job.stage, "running", batch=batch)
        self._store.set_job(job)
        self._start(job)
        return job

    @property
    def num_running(self) -> int:
        """Return how many jobs run now."""
        return len(self._running)

    async def stop(self) -> None:
        """Interrupt all jobs; they stay `running` in the store, and `resume` goes on with them."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def finished(self, task_id: str, batch: int = BATCH) -> None:
        """Wait until a job stands still or is done."""
        if running := self._running.get((task_id, batch)):
            await asyncio.wait([running])

    def _start(self, job: Job) -> None:
        key = (job.task_id, job.batch)
        task = asyncio.create_task(self._run(job), name="a release")
        self._running[key] = task
        task.add_done_callback(lambda _: self._end(key))
        task.add_done_callback(require_no_failure)

    def _end(self, key: tuple[str, int]) -> None:
        self._running.pop(key, None)
        self.ended.set()

    async def _run(self, job: Job) -> None:
        stage, log = job.stage, _log.bind(task=job.task_id, batch=job.batch)
        try:
            release = self._make(job.task_id, job.batch)
            while stage != "released":
                began = time.monotonic()
                following = await release.take(stage)
                self._metrics.stage(stage, time.monotonic() - began)
                log.info("stage done", stage=stage)
                stage = following
                if stage != "released":
                    self._store.set_job(Job(job.task_id, stage, "running", batch=job.batch))
        except LintraError as error:
            log.warning("stage refused", stage=stage, problem=error.token, detail=error.detail)
            await self._stand_still(job, stage, error)
        except (OSError, SQLAlchemyError) as error:  # the disk is full, say: later it may not be
            log.warning("stage not written down", stage=stage, reason=type(error).__name__)
            await self._stand_still(job, stage, UnavailableError("the analyzer's disk does not take it"))
        except Exception:
            # Without this, a defect would end the job silently and leave it `running` until the next restart.
            log.exception("stage broke", stage=stage)
            await self._stand_still(job, stage, InternalError("the log of the analyzer says more"))

    async def _stand_still(self, job: Job, stage: Stage, error: LintraError) -> None:
        """Write down that a job stands still, and why: as soon as the disk takes it."""
        state: JobState = "waiting" if error.retryable else "failed"
        self._metrics.refused(stage, error.token)
        problem = to_problem(error, task=job.task_id, batch=str(job.batch))
        while True:
            try:
                return self._store.set_job(Job(job.task_id, stage, state, problem, batch=job.batch))
            except SQLAlchemyError as failed:  # a full disk: what ended here would be `running` for ever
                _log.warning("a job cannot be written down", reason=type(failed).__name__)
                await asyncio.sleep(AGAIN_SECONDS)
