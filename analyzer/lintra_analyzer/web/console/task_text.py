"""A task in words: how it stands, what opens the gate, and what a device is asked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lintra_analysis.spec.build_task import warnings_of
from lintra_analyzer.storage.rows import Job, Problem, ServerState
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.fields.schema import Column
from lintra_protocol.report.upload import block_bytes
from lintra_protocol.rules.release import fewest_reports
from lintra_protocol.task import Task
from lintra_protocol.trust import not_verified, trust_in_words

STAGES = {
    "inventory": "the batch is being closed at every server",
    "cohort": "the servers agree on the reports that all of them hold",
    "checks": "the servers check the proofs of all reports",
    "verdict": "the servers say which reports passed",
    "aggregate": "every server adds up its shares",
    "reconstruct": "the sums are put together, and the record is signed",
    "released": "it is released",
}

_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))


@dataclass(frozen=True)
class TaskStatus:
    """How a task stands."""

    word: str  #: for a list: "collecting", "released" and so on
    tone: str  #: "good", "warn", "bad" or "quiet"
    sentence: str  #: for its page
    release_id: str | None = None  #: of its release, if there is one
    can_release: bool = False  #: whether starting the release, or trying it again, makes sense
    can_register: bool = False  #: whether servers lack it, so that it can be brought to them again

    @property
    def collects(self) -> bool:
        """Return whether reports may still come."""
        return self.word in ("collecting", "waiting")


def standing_of(
    task: Task, states: Sequence[ServerState], job: Job | None, now: int, num_released: int = 0
) -> TaskStatus:
    """Say how a task stands.

    `states` are what each server said to it. `job` is that of its only batch; of a task with windows nothing is looked
    at. `num_released` says how many of its windows are released.
    """
    ends = task.not_after * task.time_precision
    missing = [task.servers[state.server].url for state in states if state.state != "accepted"]
    if missing:
        word = "refused" if refusals_of(states) else "not registered"
        said = f"It is not registered with {', '.join(missing)}: nobody can send."
        return TaskStatus(word, "bad", " ".join([said, *_reasons(task, states)]), can_register=True)
    if task.windows is not None:
        word = "collecting" if now < ends else "over"
        said = f"Each of its {task.windows.max_windows} windows is released when it is over; {num_released} are so far."
        return TaskStatus(word, "good" if now < ends else "quiet", said)
    if job is not None and job.state != "waiting":
        return _of_job(job)
    if job is not None and job.problem is not None:
        return TaskStatus("waiting", "warn", f"It is not released yet: {in_words(job.problem)}", can_release=True)
    if now < ends:
        said = "Reports are collected. The release can be started as soon as the gate opens; it closes the collection."
        return TaskStatus("collecting", "good", said, can_release=True)
    return TaskStatus("over", "warn", "The time for reports is over, and nothing was released yet.", can_release=True)


def refusals_of(states: Sequence[ServerState]) -> list[ServerState]:
    """Return what those servers said that refused a task for good; a server that is away is not among them."""
    return [state for state in states if state.problem is not None and state.problem.get("retryable") is not True]


def _reasons(task: Task, states: Sequence[ServerState]) -> Iterator[str]:
    """Yield why servers lack a task, a sentence for each reason, with the servers that gave it."""
    servers: dict[str, list[str]] = {}
    for state in states:
        if state.problem is not None:
            url = task.servers[state.server].url
            # The detail names the server, which the sentence does as well.
            reason = in_words(state.problem).replace(f"server {state.server} ({url}): ", "").replace(f"{url}: ", "")
            servers.setdefault(reason, []).append(url)
    for reason, urls in servers.items():
        who = f"All {len(urls)} servers say" if len(urls) == task.num_servers else f"{', '.join(urls)} says"
        yield f"{who}: {reason}"


def _of_job(job: Job) -> TaskStatus:
    if job.state == "released":
        return TaskStatus("released", "good", "It is released.", job.release_id)
    if job.state == "running":
        return TaskStatus("releasing", "good", f"It is being released: {STAGES[job.stage]}.")
    problem = "" if job.problem is None else in_words(job.problem)
    return TaskStatus("failed", "bad", f"It will not be released: {problem}")


def in_words(problem: Problem) -> str:
    """Return what a problem document says, as a sentence."""
    title, detail = str(problem["title"]).rstrip("."), str(problem["detail"])
    return f"{title}: {detail}." if detail else f"{title}."


def span_in_words(seconds: int) -> str:
    """Return a length of time in its two largest units: "3 days 4 hours"."""
    parts: list[str] = []
    left = max(seconds, 0)
    for name, size in _UNITS:
        count, left = divmod(left, size)
        if count or (name == "second" and not parts):
            parts.append(f"{count} {name}{'s' * (count != 1)}")
        elif parts:
            break
    return " ".join(parts[:2])


def time_left(task: Task, now: int, standing: TaskStatus) -> str:
    """Return how long reports are still taken; nothing of a task that takes none any more."""
    if standing.word in {"released", "releasing", "refused", "failed"}:
        return ""
    begins, ends = task.not_before * task.time_precision, task.not_after * task.time_precision
    if now < begins:
        return f"begins in {span_in_words(begins - now)}"
    return f"{span_in_words(ends - now)} left" if now < ends else f"over for {span_in_words(now - ends)}"


def gate_of(task: Task) -> list[str]:
    """Return what every server requires, alone, before it reveals anything."""
    who = "reports" if task.contributors is None else "reports of organisations"
    rejected = " (so many, that enough are left if some fail their proof)" if task.max_rejected is not None else ""
    said = [f"At least {fewest_reports(task):,} {who} are at all {task.num_servers} servers{rejected}."]
    said.append(f"At most {task.max_clients:,} take part: for more the sums have no room.")
    if task.uses_tokens:
        part = f"{float(fraction(task.max_missing)):.0%}"
        said.append(f"Of the reports that a server holds at most {part} are missing at another one.")
    if task.mechanism.num_rows > 1:
        said.append("Every row of the sketch holds enough honest reports beyond the tolerated coalition.")
    said.append(
        f"The privacy of the very reports that take part, computed anew, keeps ε = {float(task.claim.epsilon):.4g} "
        f"at δ = {float(task.claim.delta):.4g}."
    )
    said.append("No report was ever part of another release. A gate that stays shut reveals nothing.")
    return said


def asked_of_device(task: Task) -> Iterator[str]:
    """Yield what a device that takes part is asked for, in plain words."""
    organisation = task.contributors is not None
    who = "An organisation" if organisation else "A device"
    names = [_column(column) for column in task.columns[:_MOST_NAMED]]
    more = f", and {len(task.columns) - _MOST_NAMED} more" if len(task.columns) > _MOST_NAMED else ""
    held = "all its rows of" if organisation else "one row of"
    yield f"{who} takes {held} {len(task.columns)} columns: {'; '.join(names)}{more}."
    if task.noise == "servers":
        yield (
            f"On the device {task.measurement.clipping_rule()}, and the result is cut into shares. "
            "No noise is added there: every server adds enough of its own to the sum, so one that does is enough."
        )
    else:
        yield f"On the device {task.measurement.clipping_rule()}, noise is added, and the result is cut into shares."
    sizes = sum(block_bytes(task, server, 1) for server in range(task.num_servers))
    yield (
        f"Each of the {task.num_servers} servers gets one share, {_bytes(sizes)} in all. A share alone says nothing: "
        "only all servers together could add up what one device sent."
    )
    times = f"at most {task.reports_per_source} times" if task.reports_per_source > 1 else "once"
    together = task.worst_together()
    yield (
        f"It answers {times}, and its ledger is charged ε = {together.epsilon:.4g} at δ = {together.delta:.4g} before "
        "the first byte leaves; the device computes this promise itself, and refuses a false one."
    )
    if task.uses_tokens:
        yield "It needs a token that the author of the task made for it."
    if task.verified is not None:
        yield "Its report carries a proof that the row is not too long, which shows nothing else."
    else:
        yield not_verified(task)
    yield from trust_in_words(task)
    yield "That it took part is visible; what it holds is not."


def warnings_in(task: Task) -> list[str]:
    """Return what an analyst should know about a task before it starts."""
    return [f"{warning[:1].upper()}{warning[1:]}." for warning in warnings_of(task)]


_MOST_NAMED = 12


def _column(column: Column) -> str:
    if column.kind == "boolean":
        return f"{column.name} (yes or no)"
    if column.kind == "category":
        more = ", …" * (len(column.levels) > _MOST_NAMED)
        return f"{column.name} (one of {', '.join(column.levels[:_MOST_NAMED])}{more})"
    unit = f" {column.unit}" if column.unit else ""
    return f"{column.name} (cut to {column.lower} to {column.upper}{unit})"


def _bytes(count: int) -> str:
    return (
        f"{count:,} bytes"
        if count < 10_000
        else f"{count / 1000:,.0f} kB"
        if count < 10**7
        else f"{count / 1e6:,.0f} MB"
    )
