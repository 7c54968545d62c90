"""Destroys shares after their release and retention, and batches that were not released in time.

A deadline must have passed for an hour of the process's own running time before anything is destroyed for it.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

from lintra_server.clock import DAY, Clock, Overdue
from lintra_server.durability.journal import Journal
from lintra_server.storage.batch_states import FINAL_STATES, BatchRow, BatchStates, abandoning, cut, destroy_batch
from lintra_server.storage.database import AnyDatabase
from lintra_server.storage.store import Store
from lintra_server.storage.transition_log import KEPT_STATES, StepFiles, Stepper

RELEASE_FILE_DAYS = 30
"""How long the step file of a release is kept, for a restore: it is sealed to the analyzer."""


class Retention:
    """Destroys what is due (R13)."""

    def __init__(
        self,
        store: Store,
        states: BatchStates,
        stepper: Stepper,
        journal: Journal,
        files: StepFiles,
        abandon_after: int,
        cut_after: int,
        running: Callable[[], float],
        forget: Callable[[bytes], None],
    ) -> None:
        """Look after one store.

        `stepper` gives batches up; `journal` has the lines that step files belong to. `files` are the step files;
        `abandon_after` is the time, in seconds after a task's end, when an unreleased batch is given up. `cut_after` is
        the time, in seconds after a task's end, when a batch in a final state is cut to that state. `running` counts
        seconds, and nobody sets it; `forget` is told the identifier of a task that was cut.
        """
        self._store = store
        self._states = states
        self._stepper = stepper
        self._journal = journal
        self._files = files
        self._abandon_after = abandon_after
        self._cut_after = cut_after
        self._forget = forget
        self._overdue = Overdue(running)

    def run(self, clock: Clock, database: AnyDatabase) -> int:
        """Destroy what is due; return how many batches lost their shares."""
        # A batch that nobody needs any more by its own rule, not by the clock, waits for no clock.
        rows = self._states.rows()
        at_once = [row for row in rows if not row.is_emptied and self._is_over(row)]
        for row in at_once:
            destroy_batch(self._store, self._states, row)
        if at_once:
            rows = self._states.rows()
        now = clock.now()
        due = {row.batch: row for row in rows if not row.is_emptied and self._is_due(row, now)}
        late = {number for number in self._release_files() if self._files.age(number, now) >= RELEASE_FILE_DAYS * DAY}
        old = self._old(rows, now)
        settled = self._overdue.settled(
            {("batch", batch) for batch in due}
            | {("file", number) for number in late}
            | {("task", task_id) for task_id in old}
        )
        found = [row for batch, row in due.items() if ("batch", batch) in settled]
        destroyed = []
        # What was merged into another batch ends after it, and as it did.
        for row in sorted(found, key=lambda row: row.into is not None):
            if row.into is not None and row.into.state not in FINAL_STATES and row.into not in destroyed:
                continue
            is_over = row.into is not None or row.state in FINAL_STATES
            if not is_over and not self._stepper.perform(abandoning(self._stepper.start, row)):
                continue  # it was released meanwhile
            destroy_batch(self._store, self._states, row)
            destroyed.append(row)
        for number in late:
            if ("file", number) in settled:
                self._files.remove(number)
        for task_id in old:
            if ("task", task_id) in settled:
                cut(self._store, self._states, task_id)
                self._forget(task_id)
        if at_once or destroyed:
            database.forget_log()
        return len(at_once) + len(destroyed)

    @staticmethod
    def _is_over(row: BatchRow) -> bool:
        state = row.fate.state
        return state in ("abandoned", "scrubbed") or (state == "released" and not row.retention)

    def _is_due(self, row: BatchRow, now: float) -> bool:
        row = row.fate
        if row.state == "released":
            return (row.released_at or 0) + row.retention <= now
        return row.state in ("open", "closed", "frozen", "checked", "judged") and row.ends + self._abandon_after <= now

    def _old(self, rows: Sequence[BatchRow], now: float) -> dict[bytes, list[BatchRow]]:
        """Return the batches of every task that ended long ago, all of whose batches came to their end."""
        by_task: defaultdict[bytes, list[BatchRow]] = defaultdict(list)
        for row in rows:
            by_task[row.task_id].append(row)
        tasks = self._store.history.tasks
        return {
            task_id: rows
            for task_id, rows in by_task.items()
            if not tasks[task_id].is_cut and all(self._is_old(row, now) for row in rows)
        }

    def _is_old(self, row: BatchRow, now: float) -> bool:
        return (
            row.fate.is_destroyed
            and row.fate.state in ("scrubbed", "abandoned")
            and row.task_ends + self._cut_after <= now
        )

    def _release_files(self) -> list[int]:
        lines = self._journal.lines
        return [n for n in self._files.numbers() if n <= len(lines) and lines[n - 1].state in KEPT_STATES]
