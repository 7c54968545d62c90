"""The typed answers of the REST interface, from which its description is made."""

import math

from pydantic import BaseModel, ConfigDict, Field

from lintra_analysis.certificate.certificate import ReleaseRecord, stated
from lintra_analysis.spec.build_task import warnings_of
from lintra_analyzer.exchange.census import CensusResult
from lintra_analyzer.storage.readable import record_in, task_in
from lintra_analyzer.storage.rows import (
    Job,
    JobState,
    Problem,
    Registration,
    ServerState,
    Stage,
    StoredRelease,
    StoredTask,
)
from lintra_analyzer.tasks.windows import Window, WindowState
from lintra_protocol.encoding.documents import rounded_up
from lintra_protocol.errors import LintraError
from lintra_protocol.mechanisms.collusion import epsilons_if_colluding
from lintra_protocol.messages.documents import Counters
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.report.upload import block_bytes
from lintra_protocol.rules.release import fewest_reports
from lintra_protocol.task import Task


class _View(BaseModel):
    model_config = ConfigDict(frozen=True)


class ServerView(_View):
    """What one server said to a task; `counters` only where they were asked for."""

    server: int
    url: str
    state: Registration
    problem: Problem | None = None
    counters: Counters | None = None


class Headroom(_View):
    """How far the sums stay inside the ring: the grid, the noise, and the chance that any entry leaves it."""

    fraction_bits: int
    sigma: int
    rows: int
    words: int
    log10_wrap_probability: float | None


class UploadLimits(_View):
    """What one client sends to each server, and to all of them, in bytes."""

    report_bytes: list[int]
    total_bytes: int


class TaskSummary(_View):
    """One line about a task."""

    task_id: str
    purpose: str
    mechanism: str
    epsilon: str
    delta: str
    min_clients: int
    not_before_seconds: int
    not_after_seconds: int
    registered: bool


class TaskView(TaskSummary):
    """A task: its definition, which `task_id` is the hash of, and what follows from it at the minimum cohort."""

    definition: Task
    privacy: PrivacyStatement
    headroom: Headroom
    upload: UploadLimits
    warnings: list[str]
    servers: list[ServerView]


class UnreadableTask(_View):
    """A line about a task whose row this version cannot read; `unreadable` says why, and what to do."""

    task_id: str
    unreadable: str


class TokenRequest(BaseModel):
    """How many tokens to make."""

    model_config = ConfigDict(extra="forbid")

    count: int = Field(default=1, ge=1, le=10_000, strict=True)


class Tokens(_View):
    """Tokens of a task, one for each client; whoever has one can send a report."""

    tokens: list[str]


class CensusServer(_View):
    """What one server holds: `missing` of the reports that some other server has are not there.

    If `start`, how often it says that it had begun, is less than `highest_start`, the largest number it ever said, it
    was set back, or this census is from before its last start.
    """

    server: int
    reports: int
    missing: int
    counted_at_seconds: int
    start: int
    highest_start: int


class CensusView(_View):
    """What a release would consist of now: `common` reports are at every server, `anywhere` at some.

    `needed` reports open the gate: where reports are verified more than `min_clients`, so that enough are left if some
    fail. `gate` says so in words.
    """

    task_id: str
    common: int
    anywhere: int
    min_clients: int
    needed: int
    gate: str
    servers: list[CensusServer]


class JobView(_View):
    """How far a release is: `running` by itself, `waiting` for reports or servers, `failed`, or `released`."""

    task_id: str
    batch: int
    stage: Stage
    state: JobState
    problem: Problem | None
    release_id: str | None


class WindowView(_View):
    """A window: `open` until its grace is over, `due`, `running`, `waiting`, `released`, a `gap` for ever, `failed`."""

    window: int
    begins_seconds: int
    ends_seconds: int
    state: WindowState
    release_id: str | None
    num_clients: int | None
    problem: Problem | None


class ReleaseSummary(_View):
    """One line about a release."""

    release_id: str
    task_id: str
    mechanism: str
    num_clients: int
    epsilon: str
    delta: str
    released_at: int


class UnreadableRelease(_View):
    """A line about a release whose row this version cannot read; `unreadable` says why, and what to do."""

    release_id: str
    task_id: str
    unreadable: str


class ReleaseView(_View):
    """A release's record; `signature` covers its canonical encoding, `release_id` is its hash."""

    release_id: str
    record: ReleaseRecord
    signature: str


class CohortView(_View):
    """The sorted report identifiers of a release, in base64url."""

    release_id: str
    cohort_root: str
    report_ids: list[str]


class CertificateView(_View):
    """What every answer repeats of the certificate of the release it rests on."""

    release_id: str
    task_id: str
    num_clients: int
    epsilon: str
    delta: str
    neighbours: str
    max_corrupt_clients: int
    privacy_spent: str
    warnings: list[str]


class AnalysisView(_View):
    """The answer of an estimator, and the certificate of the release it rests on."""

    release_id: str
    kind: str
    result: dict[str, object]
    certificate: CertificateView


class TogetherView(_View):
    """What so many reports of one source are promised together."""

    reports_per_source: int
    epsilon: str
    delta: str
    neighbours: str


class CombinedView(_View):
    """The windows of a task together."""

    task_id: str
    result: dict[str, object]
    privacy: TogetherView
    privacy_spent: str


class IntervalView(CombinedView):
    """An analysis of windows of a stream, from the first to the last, added up."""

    first: int
    last: int
    kind: str
    people: str


class KeysView(_View):
    """The analyzer's public keys; a server's policy allows the author key."""

    identity_key: str
    author_key: str
    sealing_keys: dict[str, str]


def summary_of(task: Task, states: list[ServerState]) -> TaskSummary:
    """Describe a task in one line."""
    return TaskSummary(
        task_id=task.task_id,
        purpose=task.purpose,
        mechanism=task.mechanism.kind,
        epsilon=task.claim.epsilon,
        delta=task.claim.delta,
        min_clients=task.claim.min_clients,
        not_before_seconds=task.not_before * task.time_precision,
        not_after_seconds=task.not_after * task.time_precision,
        registered=all(state.state == "accepted" for state in states),
    )


def listed_task(stored: StoredTask, states: list[ServerState]) -> TaskSummary | UnreadableTask:
    """Describe a row of the list of tasks."""
    try:
        return summary_of(task_in(stored), states)
    except LintraError as error:
        return UnreadableTask(task_id=stored.task_id, unreadable=error.detail)


def listed_release(stored: StoredRelease) -> ReleaseSummary | UnreadableRelease:
    """Describe a row of the list of releases."""
    try:
        return release_summary(record_in(stored.release_id, stored.record).record)
    except LintraError as error:
        return UnreadableRelease(release_id=stored.release_id, task_id=stored.task_id, unreadable=error.detail)


def view_of(task: Task, states: list[ServerState], counters: list[Counters | None] | None = None) -> TaskView:
    """Describe a task."""
    found = counters or [None] * len(states)
    sizes = [block_bytes(task, server, 1) for server in range(task.num_servers)]
    privacy = task.privacy(task.claim.min_clients)
    colluding = epsilons_if_colluding(task.measurement, task.claim, task.shares_seen)
    log_wrap = task.measurement.log_wrap_probability(task.max_clients)
    return TaskView(
        **vars(summary_of(task, states)),
        definition=task,
        privacy=stated(privacy, task.mechanism.remark(privacy), colluding, verified=task.verified is not None),
        headroom=Headroom(
            fraction_bits=task.mechanism.fraction_bits,
            sigma=task.mechanism.sigma,
            rows=task.mechanism.num_rows,
            words=task.sketch_words,
            log10_wrap_probability=log_wrap / math.log(10) if math.isfinite(log_wrap) else None,
        ),
        upload=UploadLimits(report_bytes=sizes, total_bytes=sum(sizes)),
        warnings=warnings_of(task),
        servers=[
            ServerView(
                server=state.server,
                url=task.servers[state.server].url,
                state=state.state,
                problem=state.problem,
                counters=counter,
            )
            for state, counter in zip(states, found, strict=True)
        ],
    )


def gate_now(task: Task, census: CensusResult) -> str:
    """Say whether the counts of a census would open the gate."""
    needed = fewest_reports(task)
    if census.common < needed:
        left = needed - census.common
        return f"The gate is shut: {census.common:,} reports are at all servers, and {left:,} more are needed."
    return f"There are enough: {census.common:,} reports are at all servers, and {needed:,} are needed."


def census_view(task: Task, census: CensusResult) -> CensusView:
    """Describe a census."""
    return CensusView(
        task_id=task.task_id,
        common=census.common,
        anywhere=census.anywhere,
        min_clients=task.claim.min_clients,
        needed=fewest_reports(task),
        gate=gate_now(task, census),
        servers=[
            CensusServer(
                server=count.server,
                reports=count.reports,
                missing=count.missing,
                counted_at_seconds=count.counted_at * task.time_precision,
                start=count.start,
                highest_start=count.highest_start,
            )
            for count in census.servers
        ],
    )


def job_view(job: Job) -> JobView:
    """Describe a job."""
    return JobView.model_validate(job, from_attributes=True)


def window_view(window: Window) -> WindowView:
    """Describe a window."""
    return WindowView(
        window=window.number,
        begins_seconds=window.begins,
        ends_seconds=window.ends,
        state=window.state,
        release_id=window.release_id,
        num_clients=window.num_clients,
        problem=window.problem,
    )


def together_view(task: Task) -> TogetherView:
    """Say what all that one source may send is promised."""
    together = task.worst_together()
    return TogetherView(
        reports_per_source=task.reports_per_source,
        epsilon=rounded_up(together.epsilon),
        delta=rounded_up(together.delta),
        neighbours=together.neighbours,
    )


def release_summary(record: ReleaseRecord) -> ReleaseSummary:
    """Describe a release in one line."""
    return ReleaseSummary(
        release_id=record.release_id,
        task_id=record.task_id,
        mechanism=record.mechanism,
        num_clients=record.num_clients,
        epsilon=rounded_up(record.privacy.epsilon),
        delta=rounded_up(record.privacy.delta),
        released_at=record.released_at,
    )
