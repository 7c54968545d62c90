"""Organisations under audit: files of persons' rows, what each organisation sends, and whom its ledger charges."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from lintra_client.ledger.ledger import Ledger
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.mechanisms.layout import ROWS
from lintra_protocol.task import Task

ANY_EPSILON = 1e6
"""The ceiling of an audited ledger, so high that it refuses nothing."""

THE_ORGANISATION = "the organisation"


@dataclass(frozen=True, eq=False, repr=False)
class File:
    """The rows of one organisation; `repr` shows none."""

    rows: FloatArray  #: normalised, shape `(n, d)`; NaN is a number that is missing
    persons: IntArray  #: whose row each is, shape `(n,)`, numbered from 0
    null_rows: int = 0  #: further rows that are null and counted all the same

    def __repr__(self) -> str:
        return f"File({len(self.rows)} rows)"

    @classmethod
    def of_persons(cls, rows: FloatArray) -> "File":
        """Return a file in which every row of shape `(n, d)` is that of a person of its own."""
        return cls(rows, np.arange(len(rows)))

    def with_person(self, rows: FloatArray) -> "File":
        """Return the file with one person more, who has these rows, shape `(k, d)`."""
        persons = np.full(len(rows), int(self.persons.max(initial=-1)) + 1)
        return File(np.concatenate([self.rows, rows]), np.concatenate([self.persons, persons]), self.null_rows)


def exact_contribution(task: Task, file: File, random_bytes: RandomBytes = bytes) -> IntArray:
    """Return what an organisation sends before noise, shape `(w,)`, its null rows counted; dithered ones rounded up."""
    exact = task.measurement.exact_contribution(file.rows, file.persons, random_bytes)
    exact[task.measurement.layout.sent(ROWS)] += file.null_rows
    return exact


def admit(task: Task) -> None:
    """Check a task as every party does."""
    task.check()


def contribute(task: Task, organisation: int, file: File, runs: int, random_bytes: RandomBytes) -> IntArray:
    """Encode a file `runs` times with fresh noise, as an organisation does; shape `(runs, w)`."""
    del organisation  # all do the same
    draws = runs if task.mechanism.dithered_entries(task.num_columns) else 1
    exact = np.array([exact_contribution(task, file, random_bytes) for _ in range(draws)])
    return task.measurement.noised(np.broadcast_to(exact, (runs, exact.shape[1])), random_bytes)


def charge(task: Task, persons: Sequence[str]) -> dict[str, float]:
    """Charge a contribution with the rows of some persons to a fresh ledger, and return the mu that each has spent."""
    with TemporaryDirectory() as folder, Ledger(Path(folder) / "ledger.sqlite", max_epsilon=ANY_EPSILON) as ledger:
        ledger.charge_contribution(task, bytes(32), persons)
        spent = {name: ledger.spent(name).spent.mu_squared for name in (*persons, THE_ORGANISATION)}
    return {name: sqrt(fraction(squared)) for name, squared in spent.items()}


Admit = Callable[[Task], None]
Contribute = Callable[[Task, int, File, int, RandomBytes], IntArray]
"""From a task, an organisation's number, its file and a number of runs to noised reports of shape `(runs, w)`."""
Charge = Callable[[Task, Sequence[str]], dict[str, float]]
"""From a task and persons to the mu that each of them, and `THE_ORGANISATION`, has spent."""
