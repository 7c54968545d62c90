"""Models of several rounds: each round is a task, and what it released gives the next one's parameter.

The analyzer makes the rounds one after the other, also after a restart: nothing stands here that the store does not
hold. A model is named by the task of its first round. The same people answer up to K rounds; or every round is a window
with people of its own, and one that few answered is a gap, which ends nothing.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, Protocol, cast

import structlog

from lintra_analysis.certificate.certificate import SignedRecord
from lintra_analysis.estimators.logit import logit
from lintra_analysis.estimators.logit_estimate import LogisticEstimate
from lintra_analysis.estimators.newton import stops
from lintra_analysis.releases.release import Release
from lintra_analysis.spec.specification import Specification
from lintra_analyzer.storage.rows import EVERYBODY, Job, ServerState, StoredModel
from lintra_analyzer.storage.store import Store
from lintra_protocol.errors import AbandonedError, CohortTooSmallError, InvalidTaskError, LintraError
from lintra_protocol.http.problems import from_problem
from lintra_protocol.mechanisms.newton_step import NewtonStep
from lintra_protocol.task import Task

MODEL_SECONDS = 5.0
"""How often all models are looked at."""

MOST_WINDOWS = 60
"""Most windows of a model: every one of them is read again with the last."""

LATE_SECONDS = 60
"""How long after its end a round at least waits for reports that are still on their way; a tenth of its time if that is
more. Then it is a gap."""

RESTED_SECONDS = 60
"""How long a round rests at most that was refused for now: two seconds at first, and each time twice as long."""

OWN_KEYS = "second round of "
"""How the keys begin by which the analyzer itself names requests for rounds."""

ModelState = Literal["collecting", "releasing", "waiting", "ended"]

_log = structlog.get_logger(__name__)


class Rounds(Protocol):
    """What making rounds asks of the analyzer."""

    def now(self) -> int:
        """Return the time in seconds since the epoch."""

    def task(self, task_id: str) -> Task:
        """Return a task."""

    async def create_task(
        self, specification: Specification, request_key: str | None = None, population: str = EVERYBODY
    ) -> Task:
        """Build, sign and store a task."""

    async def create_second_task(self, task_id: str, *, request_key: str | None = None) -> Task:
        """Build, sign and store the round after a released one."""

    async def register_task(self, task_id: str) -> list[ServerState]:
        """Bring a task to the servers that have not accepted it."""

    def start_release(self, task_id: str) -> Job:
        """Start the release of a task, or go on with it."""

    def record(self, release_id: str) -> SignedRecord:
        """Return a release's signed record."""

    def opened(self, signed: SignedRecord) -> Release:
        """Return a release with the rounds before it."""


@dataclass(frozen=True)
class ModelRound:
    """One round: its task, how far its release is, and what the servers said where one has not taken it."""

    task_id: str
    job: Job | None
    refused: tuple[ServerState, ...] = ()

    @property
    def release_id(self) -> str | None:
        """Return its release, if there is one."""
        return None if self.job is None else self.job.release_id


@dataclass(frozen=True)
class Model:
    """A model as it stands; `estimate` is what the rounds that were released say, None before the first was."""

    stored: StoredModel
    task: Task  #: of the first round
    specification: Specification
    rounds: tuple[ModelRound, ...]
    release_id: str | None  #: of the last round that was released
    estimate: LogisticEstimate | None

    @property
    def target(self) -> str:
        """Return the name of the column that is explained."""
        return self.task.encoded_columns[cast("NewtonStep", self.task.mechanism).target].name

    @property
    def state(self) -> ModelState:
        """Return what is being waited for."""
        if self.stored.ended is not None:
            return "ended"
        job = self.rounds[-1].job
        if job is None or job.state == "running":
            return "collecting" if job is None else "releasing"
        return "releasing" if job.state == "released" else "waiting"


class Models:
    """All models of this analyzer; the rounds of those that have not ended follow each other by themselves."""

    def __init__(self, store: Store, rounds: Rounds) -> None:
        """Keep models in a store; `rounds` makes and releases their tasks."""
        self._store = store
        self._rounds = rounds
        self._tried: dict[str, tuple[float, int]] = {}
        self._creating = asyncio.Lock()

    async def create(
        self,
        specification: Specification,
        windows: int = 1,
        request_key: str | None = None,
        population: str = EVERYBODY,
    ) -> Task:
        """Make the first round's task; a repeated request finds the same model.

        Raises InvalidTaskError if the specification has no rounds, or does not fit so many windows.
        """
        rounds = specification.mechanism.num_rounds
        if specification.mechanism.kind != "newton_step":
            raise InvalidTaskError(f"a {specification.mechanism.kind} is no model in rounds; newton_step is one")
        if specification.windows is not None:
            raise InvalidTaskError("every round of a model is a task of its own: leave `windows` out of specification")
        if windows > 1 and rounds > 1:
            raise InvalidTaskError(
                f"{rounds} rounds of the same people, or {windows} windows with people of their own: one of both is 1"
            )
        if windows == rounds == 1:
            raise InvalidTaskError("a model has several rounds: give `rounds` of the mechanism, or `windows`")
        task = await self._rounds.create_task(specification, request_key, population)
        self._store.add_model(StoredModel(task.task_id, windows))
        return task

    def stop(self, task_id: str) -> None:
        """Make no further round of a model; what was released stays."""
        self._store.model(task_id)
        self._store.end_model(task_id, "an analyst ended it")

    def show(self, task_id: str) -> Model:
        """Return a model with its rounds; raise UnknownTaskError if there is none."""
        stored = self._store.model(task_id)
        rounds = [self._round(each) for each in self._task_ids(task_id)]
        last = next((each.release_id for each in reversed(rounds) if each.release_id is not None), None)
        estimate = None
        if last is not None:
            estimate = logit(self._rounds.opened(self._rounds.record(last)), of="cohort")
        asked = Specification.model_validate_json(self._store.task(task_id).specification)
        return Model(stored, self._rounds.task(task_id), asked, tuple(rounds), last, estimate)

    def _round(self, task_id: str) -> ModelRound:
        states = self._store.registrations(task_id)
        refused = tuple(state for state in states if state.state != "accepted")
        return ModelRound(task_id, self._store.job(task_id), refused)

    def _task_ids(self, task_id: str) -> list[str]:
        found: list[str] = []
        following: str | None = task_id
        while following is not None:
            found.append(following)
            following = self._store.task_named(key_after(following))
        return found

    # --- what happens by itself ----------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Look again and again, for ever; a failure is logged, and the next look may succeed."""
        while True:
            try:
                await self.look()
            except Exception:
                _log.exception("models cannot be looked at")
            await asyncio.sleep(MODEL_SECONDS)

    async def look(self) -> None:
        """Take one step of every model that has not ended, as far as it can be taken now."""
        async with self._creating:
            for stored in self._store.open_models():
                try:
                    await self._step(stored)
                except LintraError as error:
                    _log.warning("a model waits", model=stored.task_id, problem=error.token, detail=error.detail)
                except Exception:
                    _log.exception("a model failed", model=stored.task_id)

    async def _step(self, stored: StoredModel) -> None:
        task_ids = await asyncio.to_thread(self._task_ids, stored.task_id)
        last = self._round(task_ids[-1])
        if last.refused and not self._rests(last.task_id):
            await self._rounds.register_task(last.task_id)
        elif last.release_id is not None:
            await self._after_release(stored, task_ids, last.release_id)
        elif not last.refused:
            await self._release(stored, task_ids, last)

    async def _release(self, stored: StoredModel, task_ids: Sequence[str], last: ModelRound) -> None:
        """Release a round that is over; one that few answered, or that servers gave up, is a gap."""
        task = self._rounds.task(last.task_id)
        end = task.not_after * task.time_precision
        late = self._rounds.now() - end
        if last.job is not None and last.job.state in ("waiting", "failed"):
            problem = from_problem(last.job.problem or {})
            lasted = (task.not_after - task.not_before) * task.time_precision
            few = isinstance(problem, CohortTooSmallError) and late > max(LATE_SECONDS, lasted / 10)
            if few or isinstance(problem, AbandonedError):
                await self._after_gap(stored, task_ids, problem)
                return
        if late >= 0 and (last.job is None or last.job.state == "waiting") and not self._rests(last.task_id):
            self._rounds.start_release(last.task_id)

    async def _after_release(self, stored: StoredModel, task_ids: Sequence[str], release_id: str) -> None:
        signed = self._rounds.record(release_id)
        release = await asyncio.to_thread(self._rounds.opened, signed)
        chain = release.need("newton").chain
        if stored.windows > 1:
            finished = len(task_ids) >= stored.windows
            why = f"all {stored.windows} windows are over"
        else:
            finished = stops(chain)
            agree = len(chain) < chain[-1].rounds
            why = "the last two rounds agree" if agree else f"the last of {chain[-1].rounds} rounds is released"
        if finished:
            self._store.end_model(stored.task_id, why)
            return
        task = await self._rounds.create_second_task(task_ids[-1])
        await self._rounds.register_task(task.task_id)

    async def _after_gap(self, stored: StoredModel, task_ids: Sequence[str], problem: LintraError) -> None:
        number = len(task_ids)
        if stored.windows == 1:
            self._store.end_model(stored.task_id, f"round {number} will not be released: {problem}")
            return
        if number >= stored.windows:
            self._store.end_model(stored.task_id, f"all {stored.windows} windows are over; the last was not released")
            return
        released = next((each for each in reversed(task_ids) if self._round(each).release_id is not None), None)
        key = key_after(task_ids[-1])
        if released is None:
            first = self._store.task(stored.task_id)
            asked = Specification.model_validate_json(first.specification)
            task = await self._rounds.create_task(asked, key, first.population)
        else:
            task = await self._rounds.create_second_task(released, request_key=key)
        await self._rounds.register_task(task.task_id)

    def _rests(self, task_id: str) -> bool:
        """Return whether a round was tried so short a time ago that it rests; if not, note that it is tried now."""
        now = time.monotonic()
        when, times = self._tried.get(task_id, (-inf, 0))
        if now - when < min(RESTED_SECONDS, 2.0**times if times else 0):
            return True
        self._tried[task_id] = now, times + 1
        return False


def key_after(task_id: str) -> str:
    """Return the key of the request for the round after a task, of which there is one."""
    return f"{OWN_KEYS}{task_id}"
