"""Steps of a release as jobs: one that takes longer than a request goes on, and whoever asks again joins it.

A step that is done within a second is answered at once. Otherwise the answer is its progress, and the asker comes
again. A job only waits: the step itself makes its decision durable (see `steps`), so that after a crash the same
request leads to the same bytes. The failure of a job is kept until it was told.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from lintra_protocol.errors import OverloadedError, UnavailableError
from lintra_protocol.messages.documents import Progress, StepName
from lintra_server.batches.executor import Tell
from lintra_service.supervisor import track_work

ANSWER_SECONDS = 1.0
"""What takes longer is told to be under way."""

AT_ONCE = 4
"""Jobs that run; others wait, so that the steps of many batches do not hold many lists at once."""

MOST = 20
"""Jobs that run or wait, each with its request."""

STOP_SECONDS = 20.0

log = structlog.get_logger()


@dataclass
class ReleaseStep:
    """A step of one batch that was begun."""

    step: StepName
    digest: bytes  #: of the request that it answers
    began: float  #: on the clock that counts seconds
    done: float = 0.0  #: how much of it, from 0 to 1, as far as it says
    #: the step's answer or refusal, when there is one
    outcome: "Future[bytes]" = field(default_factory=Future, repr=False)
    thread: threading.Thread | None = field(default=None, repr=False)

    def tell(self, done: float) -> None:
        """Note how much is done."""
        self.done = done

    def progress(self, now: float) -> Progress:
        """Say how far it is."""
        return Progress(step=self.step, seconds=int(now - self.began), thousandths=int(1000 * min(self.done, 1.0)))


class ReleaseSteps:
    """The jobs of one server, at most one for each batch; used from one event loop, while steps run in threads."""

    def __init__(self, running: Callable[[], float] = time.monotonic) -> None:
        """Have none. `running` counts seconds, and nobody sets it."""
        self.running = running
        self._jobs: dict[int, ReleaseStep] = {}
        self._turns = threading.BoundedSemaphore(AT_ONCE)
        self._stopping = False

    async def run(
        self, batch: int, step: StepName, digest: bytes, work: Callable[[Tell], bytes]
    ) -> bytes | ReleaseStep:
        """Begin a step, or join it if the same request began it; return its answer, or the job if that takes longer.

        `digest` is that of the request: another one for this batch waits for the end of the first. `work` does the step
        in a thread, and is given what to tell how far it is.

        Raises:
            LintraError: what the step says.
            OverloadedError: too many steps are waiting.
            UnavailableError: another step of this batch is being done, or the server is stopping.
        """
        if (other := self._another(batch, step, digest)) is not None:
            await _ended(other)
        if (other := self._another(batch, step, digest)) is not None:
            raise UnavailableError(f"another step of this batch is being done, its {other.step}; ask again later")
        job = self._jobs.get(batch)
        if job is None or job.outcome.done():
            job = self._begin(batch, ReleaseStep(step, digest, self.running()), work)
        return await self._told(batch, job)

    async def join(self, batch: int, step: StepName) -> bytes | ReleaseStep | None:
        """Return what became of a step that was begun, or its job; None if nothing is to be told of it."""
        job = self._jobs.get(batch)
        return None if job is None or job.step != step else await self._told(batch, job)

    def close(self) -> None:
        """Begin nothing more, and wait a while for what was begun; what is not done then is done when asked again."""
        self._stopping = True
        for job in list(self._jobs.values()):
            job.outcome.cancel()  # those that wait for their turn
        unfinished = wait([job.outcome for job in self._jobs.values()], STOP_SECONDS).not_done
        if unfinished:
            log.warning("steps are left undone", steps=len(unfinished))

    def _another(self, batch: int, step: StepName, digest: bytes) -> ReleaseStep | None:
        """Return the batch's job, if it is not done and answers another request."""
        job = self._jobs.get(batch)
        return None if job is None or job.outcome.done() or (job.step, job.digest) == (step, digest) else job

    def _begin(self, batch: int, job: ReleaseStep, work: Callable[[Tell], bytes]) -> ReleaseStep:
        if self._stopping:
            raise UnavailableError("the server is stopping")
        for number in [number for number, each in self._jobs.items() if each.outcome.done()]:
            if len(self._jobs) >= MOST:  # failures that nobody asked for
                del self._jobs[number]
        if len(self._jobs) >= MOST:
            raise OverloadedError(f"{MOST} steps of releases are being done")
        self._jobs[batch] = job
        # A daemon: a process that was asked to end does not wait an hour for a step that a restart does again.
        job.thread = threading.Thread(target=self._work, args=(job, work), name=f"lintra-{job.step}", daemon=True)
        try:
            job.thread.start()
        except RuntimeError:  # there is no room for a thread: without this, all who ask again would wait for it
            del self._jobs[batch]
            raise UnavailableError("there is no room for another thread") from None
        return job

    def _work(self, job: ReleaseStep, work: Callable[[Tell], bytes]) -> None:
        with self._turns:
            if not job.outcome.set_running_or_notify_cancel():
                return
            with track_work(f"the {job.step} of a batch"):
                try:
                    job.outcome.set_result(work(job.tell))
                except BaseException as error:
                    job.outcome.set_exception(error)

    def are_well(self) -> bool:
        """Return whether no thread of a job ended without an outcome; in any thread."""
        # A thread ends after its outcome is there, so it is looked at first.
        return all(
            job.thread is None or job.thread.ident is None or job.thread.is_alive() or job.outcome.done()
            for job in list(self._jobs.values())
        )

    async def _told(self, batch: int, job: ReleaseStep) -> bytes | ReleaseStep:
        if not await _ended(job):
            return job
        # An answer is in the store from now on; a failure was told.
        if self._jobs.get(batch) is job:
            del self._jobs[batch]
        try:
            return job.outcome.result()
        except CancelledError:
            raise UnavailableError("the server is stopping") from None


async def _ended(job: ReleaseStep) -> bool:
    """Wait as long as an answer may take; return whether the job has ended."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def end(_: object) -> None:
        with suppress(RuntimeError):  # whoever waited is gone, and the loop with it
            loop.call_soon_threadsafe(ended.set)

    job.outcome.add_done_callback(end)
    with suppress(TimeoutError):
        async with asyncio.timeout(ANSWER_SECONDS):
            await ended.wait()
    return job.outcome.done()
