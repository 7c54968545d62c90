"""What lists choose tasks by: purpose, population, mechanism and end of every task, each read once and kept in memory.

A definition may be long, and a search that read every one of them would take seconds. Rows of tasks do not change, so
what is kept stays true; a page reads the rows that it shows, and checks these.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Literal

from lintra_analyzer.storage.access_tokens import Scope
from lintra_analyzer.storage.pages import Listed, Page
from lintra_analyzer.storage.rows import StoredTask

ARCHIVE_SECONDS = 90 * 86_400
"""How long a task that takes no reports any more stays among those of today."""

FEWEST_LETTERS = 8
"""Of an identifier that somebody looks for: fewer are in many by chance."""

Group = Literal["today", "open", "attention", "released", "archive"]
GROUPS: dict[Group, str] = {
    "today": "all of today",
    "open": "take reports",
    "attention": "need somebody",
    "released": "released",
    "archive": "archive",
}
"""What a list can be narrowed to; the first is all but the archive."""


@dataclass(frozen=True)
class IndexedTask:
    """What a task is chosen by. Of a row that cannot be read the words are empty, and it never ends."""

    number: int
    task_id: str
    population: str
    words: str = ""  #: what is searched, in lower case
    ends: int | None = None  #: seconds since the epoch
    has_windows: bool = False

    def has(self, wanted: Iterable[str]) -> bool:
        """Return whether it has all of some words."""
        return all(
            word.lower() in self.words or (len(word) >= FEWEST_LETTERS and self.task_id.startswith(word))
            for word in wanted
        )

    def group(self, job_state: str | None, now: int, *, registered: bool) -> Group:
        """Return where it belongs today, given the state of its only batch's job and whether every server knows it."""
        over = self.ends is not None and now >= self.ends
        if over and self.ends is not None and now >= self.ends + ARCHIVE_SECONDS:
            return "archive"
        if self.has_windows and registered:
            return "released" if over else "open"
        if job_state == "released":
            return "released"
        return "attention" if over or not registered or job_state in ("failed", "waiting") else "open"


class TaskIndex:
    """The tasks of one database, the newest first; thread-safe."""

    def __init__(self, listed: Listed) -> None:
        """Know the rows of a database, as far as they are there when somebody asks."""
        self._listed = listed
        self._lock = Lock()
        self._last = 0
        self._tasks: list[IndexedTask] = []

    def page(
        self, scope: Scope, words: str, group: Group, now: int, before: int | None, limit: int
    ) -> tuple[Page[StoredTask], Mapping[Group, int]]:
        """Return a page of the tasks in a scope, and how many there are in each group.

        `words` must all be in the purpose, the population or the mechanism, or begin the identifier. The page holds
        tasks that are older than a place in the list.
        """
        states, lacking = self._listed.job_states(), self._listed.unregistered()
        wanted = words.split()
        counts: dict[Group, int] = dict.fromkeys(GROUPS, 0)
        chosen: list[IndexedTask] = []
        for task in reversed(self._known()):
            if not scope.holds(task.task_id, task.population) or not task.has(wanted):
                continue
            found = task.group(states.get(task.task_id), now, registered=task.task_id not in lacking)
            counts[found] += 1
            counts["today"] += found != "archive"
            if found == group or (group == "today" and found != "archive"):
                chosen.append(task)
        rest = [task for task in chosen if before is None or task.number < before]
        rows = {row.task_id: row for row in self._listed.some_tasks([task.task_id for task in rest[:limit]])}
        following = rest[limit - 1].number if len(rest) > limit else None
        return Page([rows[task.task_id] for task in rest[:limit]], following), counts

    def _known(self) -> list[IndexedTask]:
        with self._lock:
            new = self._listed.new_tasks(self._last)
            stored = self._listed.tasks_at([number for number, *_ in new])
            for (number, *_), row in zip(new, stored, strict=True):
                self._tasks.append(_indexed(number, row))
                self._last = number
            return list(self._tasks)


def _indexed(number: int, row: StoredTask) -> IndexedTask:
    try:
        definition = json.loads(row.record)["message"]["definition"]
        words = f"{definition['purpose']} {definition['mechanism']['kind']} {row.population}".lower()
        ends = int(definition["not_after"]) * int(definition["time_precision"])
        return IndexedTask(number, row.task_id, row.population, words, ends, bool(definition.get("windows")))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return IndexedTask(number, row.task_id, row.population, row.population.lower())
