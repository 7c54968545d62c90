"""What is going on with a task, as a picture shows it: a line of steps, and a bar of reports against what is needed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lintra_analyzer.storage.rows import Job
from lintra_analyzer.tasks.report_counts import ReportCount
from lintra_analyzer.web.console.task_text import TaskStatus, span_in_words
from lintra_protocol.rules.release import fewest_reports
from lintra_protocol.task import Task

Progress = Literal["done", "now", "failed", "later"]

_STEP_OF = {
    "inventory": "collected", "cohort": "frozen", "checks": "checked", "verdict": "checked",
    "aggregate": "released", "reconstruct": "released", "released": "released",
}  # fmt: skip
"""The step that is reached when a stage of a job is over."""

_WORDS: Mapping[Progress, str] = {"done": "done", "now": "under way", "failed": "failed", "later": "not begun"}


@dataclass(frozen=True)
class TaskStep:
    """One step of a task."""

    name: str
    progress: Progress
    at: int | None = None  #: seconds since the epoch; None where it is not known, or not yet

    @property
    def words(self) -> str:
        """Return the progress for those who do not see colours."""
        return _WORDS[self.progress]


@dataclass(frozen=True)
class Bar:
    """How much there is of what is needed."""

    value: int
    most: int
    text: str  #: what it says, the age of the number included
    enough: bool = False


def steps_of(task: Task, standing: TaskStatus, job: Job | None, times: Mapping[str, int]) -> list[TaskStep]:
    """Return the steps of a task with a single batch: which are done, and which is under way.

    `times` says when a step was done, as far as that is known.
    """
    names = ["made", "collected", "frozen", *(["checked"] if task.verification != "none" else []), "released"]
    at = names.index("collected")
    if job is not None and standing.word not in ("waiting", "refused", "not registered"):
        at = names.index(_STEP_OF[job.stage])
    if standing.word == "released":
        at = len(names)
    here: Progress = "failed" if standing.tone == "bad" else "now"
    if standing.word in ("refused", "not registered"):
        at = 0
    return [
        TaskStep(name, "done" if place < at else here if place == at else "later", times.get(name))
        for place, name in enumerate(names)
    ]


def reports_bar(task: Task, count: ReportCount | None, now: int) -> Bar | None:
    """Return the reports of a task that collects, as its servers said last; None if they were not asked yet."""
    needed = fewest_reports(task)
    if count is None or count.reports is None:
        return None
    unit = span_in_words(task.time_precision)
    age = span_in_words(now - count.asked_at) + " ago" if now - count.asked_at >= 60 else "just now"
    said = f"{count.reports:,} of {needed:,} reports; asked {age}, and servers count once in {unit}"
    return Bar(min(count.reports, needed), needed, said, count.reports >= needed)


def windows_bar(task: Task, released: int) -> Bar:
    """Return how many windows of a task are released."""
    most = task.num_batches
    return Bar(min(released, most), most, f"{released:,} of {most:,} windows are released", released >= most)
