"""Adds up the promises of all tasks about one population, again only when a task or a release was added.

A row is read once in the life of the process, when somebody first asks for its population. Rows do not change: a task
is stored before servers hear of it, and the first release of a batch stays.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from threading import Lock

from lintra_analyzer.storage.pages import Listed
from lintra_analyzer.storage.readable import record_in, task_in
from lintra_protocol.encoding.documents import rounded_up
from lintra_protocol.errors import LintraError
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.statement import PrivacyStatement

Worlds = tuple[str, str]
"""Which worlds a promise compares: its neighbours, and whom they are of. Only promises about the same add up."""


@dataclass(frozen=True)
class PopulationPrivacy:
    """What several tasks promise together, if the same people answered in each."""

    count: int  #: how many tasks
    epsilon: str | None  #: at `delta`; None where nothing is promised
    delta: str  #: the largest of those with a curve, and all others added
    without: int  #: how many of them have only a point and no curve: their epsilon and delta were added


def spent_together(statements: Sequence[PrivacyStatement]) -> PopulationPrivacy | None:
    """Return what several promises come to for somebody to whom all were made; None without any.

    Gaussian releases add up in squares of mu; where only a point is known, epsilon and delta are added (basic
    composition).
    """
    if not statements:
        return None
    spent, extra_epsilon, extra_delta, without = Spending.zero(), 0.0, 0.0, 0
    for one in statements:
        if one.mu == inf:
            without += 1
            extra_epsilon, extra_delta = extra_epsilon + one.epsilon, extra_delta + one.delta
        else:
            spent += Spending.of(one)
    delta = max((one.delta for one in statements if one.mu < inf), default=0.0)
    epsilon = extra_epsilon + (spent.epsilon_at(delta) if without < len(statements) else 0.0)
    return PopulationPrivacy(
        len(statements), rounded_up(epsilon) if epsilon < inf else None, rounded_up(delta + extra_delta), without
    )


@dataclass(frozen=True)
class PopulationTotal:
    """What the tasks about one population promise to one source, by task."""

    #: of a task's release, or of all windows that the source may answer in
    released: dict[str, PrivacyStatement] = field(default_factory=dict)
    #: of a task that is not released, at worst: devices were charged for it as well
    waiting: dict[str, PrivacyStatement] = field(default_factory=dict)
    unreadable: int = 0  #: how many tasks and releases could not be read, and are not counted

    @cached_property
    def by_release(self) -> PopulationPrivacy | None:
        """Return what all releases come to."""
        return spent_together(list(self.released.values()))

    @cached_property
    def by_worlds(self) -> dict[Worlds, tuple[PopulationPrivacy | None, PopulationPrivacy | None]]:
        """Return what releases come to, and what they do with all tasks that wait, for each kind of promise."""
        released = _by_worlds(self.released.values())
        every = _by_worlds([*self.released.values(), *self.waiting.values()])
        return {
            worlds: (spent_together(released.get(worlds, [])), spent_together(every[worlds]))
            for worlds in sorted(every)
        }


@dataclass
class _Unread:
    """Numbers of rows about a population that nobody asked for yet, the oldest first."""

    tasks: list[int] = field(default_factory=list)
    releases: list[int] = field(default_factory=list)


class PopulationTotals:
    """What was promised to each population; thread-safe."""

    def __init__(self, listed: Listed) -> None:
        """Add up what the rows of a database promise, as far as they are there when somebody asks."""
        self._listed = listed
        self._lock = Lock()
        self._last_task = self._last_release = 0
        self._population: dict[str, str] = {}
        self._unread: dict[str, _Unread] = {}
        self._promised: dict[str, PopulationTotal] = {}

    def to(self, population: str) -> PopulationTotal:
        """Return what tasks about a population promise, whoever may look at them."""
        with self._lock:
            self._notice()
            unread = self._unread.pop(population, None)
            if unread is not None:
                self._promised[population] = self._read(self._promised.get(population, PopulationTotal()), unread)
            return self._promised.get(population, PopulationTotal())

    def _notice(self) -> None:
        """Notice the rows that are new, without reading them."""
        for number, task_id, population in self._listed.new_tasks(self._last_task):
            self._last_task, self._population[task_id] = number, population
            self._unread.setdefault(population, _Unread()).tasks.append(number)
        for number, task_id in self._listed.new_releases(self._last_release):
            self._last_release = number
            self._unread.setdefault(self._population[task_id], _Unread()).releases.append(number)

    def _read(self, old: PopulationTotal, unread: _Unread) -> PopulationTotal:
        released, waiting, unreadable = dict(old.released), dict(old.waiting), old.unreadable
        for release in self._listed.releases_at(unread.releases):
            try:
                record = record_in(release.release_id, release.record).record
            except LintraError:
                unreadable += 1
                continue
            # The first release of a task stands for its windows: it says what all of them promise together.
            together = record.privacy if record.window is None else record.window.together
            released.setdefault(record.task_id, _kept(together))
            waiting.pop(record.task_id, None)
        for stored in self._listed.tasks_at(unread.tasks):
            try:
                task = task_in(stored)
            except LintraError:
                unreadable += 1
                continue
            if stored.task_id not in released:
                waiting[stored.task_id] = _kept(task.worst_together())
        return PopulationTotal(released, waiting, unreadable)


def _by_worlds(statements: Iterable[PrivacyStatement]) -> dict[Worlds, list[PrivacyStatement]]:
    found: dict[Worlds, list[PrivacyStatement]] = {}
    for statement in statements:
        found.setdefault((statement.neighbours, statement.persons or ""), []).append(statement)
    return found


def _kept(statement: PrivacyStatement) -> PrivacyStatement:
    """Return a statement without what is the same in thousands of them."""
    return replace(statement, remark="", if_colluding=(), trusted="", not_promised=())
