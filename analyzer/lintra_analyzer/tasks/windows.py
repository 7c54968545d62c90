"""The state of a window: collected, released, or a gap."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from lintra_analysis.certificate.certificate import SignedRecord
from lintra_analysis.kinds.decode import read
from lintra_analysis.releases.release import Release
from lintra_analyzer.storage.archive import Archive
from lintra_analyzer.storage.readable import record_in
from lintra_analyzer.storage.rows import Job, Problem
from lintra_protocol.errors import AbandonedError, LintraError
from lintra_protocol.http.problems import from_problem, to_problem
from lintra_protocol.task import Task

T_co = TypeVar("T_co", covariant=True)

WindowState = Literal["open", "due", "running", "waiting", "released", "merged", "gap", "failed", "unreadable"]
"""`due`: it is over and nobody began its release; `merged`: it is part of a later one; `gap`: never released;
`unreadable`: this version cannot read its release."""


class Opened(Mapping[int, Release]):
    """The releases of windows by number, each opened when it is asked for: a year of hours need not fit in memory."""

    def __init__(self, records: Mapping[int, bytes], opened: Callable[[bytes], Release]) -> None:
        """Open signed records by a function."""
        self._records = records
        self._opened = opened

    def __getitem__(self, number: int) -> Release:
        return self._opened(self._records[number])

    def __iter__(self) -> Iterator[int]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)


class OfReleases(Protocol[T_co]):
    """What is asked about releases together."""

    def run(self, releases: Mapping[int, Release]) -> T_co:
        """Ask it."""


def combined(archive: Archive, task: Task, records: Mapping[int, bytes], asked: OfReleases[T_co]) -> T_co:
    """Return what is asked about the windows of a task, whose signed records are given by number."""

    def opened(record: bytes) -> Release:
        return read(task, *archive.read(SignedRecord.from_canonical(record).record), _no_first)

    return asked.run(Opened(records, opened))


def _no_first(_task_id: str) -> None:
    """Return the release of a first round, which a task with windows does not have."""


@dataclass(frozen=True)
class Window:
    """One window of a task."""

    number: int
    begins: int  #: seconds since the epoch
    ends: int  #: seconds since the epoch; the grace comes after it
    state: WindowState
    release_id: str | None = None
    num_clients: int | None = None
    problem: Problem | None = None  #: why there is none, or not yet


def window_of(task: Task, number: int, job: Job | None, record: bytes | None, *, is_due: bool) -> Window:
    """Describe a window from its job and the record of its release, if there are any."""
    begins, ends = (unit * task.time_precision for unit in task.span(number))
    if job is None:
        return Window(number, begins, ends, "due" if is_due else "open")
    if record is None:
        return Window(number, begins, ends, _state(job), problem=job.problem)
    try:
        released = record_in(job.release_id or "", record).record
    except LintraError as error:
        return Window(number, begins, ends, "unreadable", job.release_id, problem=dict(to_problem(error)))
    return Window(number, begins, ends, "released", released.release_id, released.num_clients)


def _state(job: Job) -> WindowState:
    if job.state == "merged":
        return job.state
    is_gap = job.problem is not None and isinstance(from_problem(job.problem), AbandonedError)
    return "gap" if is_gap else job.state
