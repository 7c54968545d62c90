"""The ledger (rule R12): what this device has already answered, and how much privacy that has cost its sources.

A source is somebody whose facts the rows state: on a person's device there is one, "self". A charge is on disk before
the first byte of its report leaves, and is never taken back, whatever happens to the report.
"""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self

from lintra_client.ledger.entries import (
    Book,
    Source,
    Vouched,
    all_charges,
    epsilon_alone_of,
    epsilon_of,
    reports_of,
    sum_of,
    total_of,
)
from lintra_client.ledger.file import LedgerFile
from lintra_client.ledger.outbox import Outbox
from lintra_client.ledger.prices import Balance, price_of, set_aside_by, task_before
from lintra_protocol.errors import LedgerRefusedError
from lintra_protocol.messages.documents import BATCH
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.statement import ALONE
from lintra_protocol.task import Task

SELF = "self"
MAX_EPSILON = 3.0
DELTA = 1e-6

# Epsilons are rounded up, by less than this; a task of epsilon 1 must fit below a ceiling of 1.
_ROUNDING = 1 + 1e-9

_MOST_PRICES = 64


class Distinct(Enum):
    """The type of `DISTINCT_SOURCES`."""

    SOURCES = "distinct sources"


DISTINCT_SOURCES = Distinct.SOURCES
"""The caller vouches: each row states the facts of another source, and the ledger need not know which."""


class OwnLedger(Enum):
    """The type of `DEFAULT_LEDGER`."""

    DEFAULT = "default"


DEFAULT_LEDGER = OwnLedger.DEFAULT
"""The ledger of this user, where the command line keeps it, too (`default_path`)."""


@dataclass(frozen=True)
class Entry:
    """One charge, in the order in which they were made.

    Attributes:
        source: the pseudonym of the source (`Ledger.pseudonym`), since its name is not kept. None if the caller vouched
            for the rows of one call; the charge then counts for every source.
        task_id: in base64url.
        num_reports: how many reports it covers: one, or those of the call that were about to leave.
        spent: what it cost each source; of a pilot, what its main task will cost included.
        pilot: the task whose charge covers this one, which then costs nothing more.
    """

    source: str | None
    task_id: str
    batch: int
    num_reports: int
    spent: Spending
    pilot: str | None = None


class Ledger:
    """A durable account of reports; one file may serve many tasks, clients, threads and processes at once."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        max_epsilon: float = MAX_EPSILON,
        delta: float = DELTA,
        max_epsilon_alone: float | None = None,
    ) -> None:
        """Open the ledger at a path on a local disk, or begin one there.

        Args:
            path: of the file, which only its owner may read; others beside it begin with the same name, among them the
                key, without which the ledger is refused.
            max_epsilon: the ceiling for each source, over all tasks together, to nine digits.
            max_epsilon_alone: the ceiling of the second sum, in which everybody else is invented; three times as much
                if not given.
            delta: at which epsilon is computed. A task whose coalitions alone have this probability does not fit.

        Raises:
            ValueError: the ceiling is not a positive number, or delta not strictly between 0 and 1.
            LedgerRefusedError: the file cannot be used.
        """
        if not 0 < max_epsilon < math.inf:
            raise ValueError(f"the ceiling must be a positive number, got {max_epsilon}")
        if not 0 < delta < 1:
            raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}")
        self.max_epsilon = float(max_epsilon)
        self.max_epsilon_alone = ALONE * self.max_epsilon if max_epsilon_alone is None else float(max_epsilon_alone)
        self.delta = float(delta)
        self._file = LedgerFile(Path(path))
        self._prices: dict[str, tuple[Spending | None, Spending]] = {}

    def __repr__(self) -> str:
        return f"Ledger({str(self._file.path)!r}, max_epsilon={self.max_epsilon}, delta={self.delta})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._file.close()

    @property
    def outbox_path(self) -> Path:
        """Return where the sealed messages lie that wait for this ledger's reports to be complete."""
        return self._file.path.with_name(self._file.path.name + ".outbox")

    def open_outbox(self) -> Outbox:
        """Open the outbox beside this ledger, or begin it; raise LedgerRefusedError if it cannot be used."""
        return Outbox(self.outbox_path, self._file.names)

    def pseudonym(self, source: object) -> str:
        """Return what stands in this ledger in place of a name: HMAC-SHA256 under its key, in base64url.

        Raises:
            ValueError: it names nobody (see `lintra_protocol.fields.person_names`).
            LedgerRefusedError: the file cannot be used.
        """
        return self._file.names.of(source)

    # --- charging ----------------------------------------------------------------------------------------------

    def charge_task(self, task: Task, reports: Mapping[bytes, Source], batch: int) -> dict[bytes, LedgerRefusedError]:
        """Charge reports of a task at its own price, or at that of its whole study (see `charge`).

        Raises:
            ValueError, LedgerRefusedError: as `charge`; or the task gives no privacy that could be counted.
        """
        if task.task_id not in self._prices:
            # It takes longer to reckon than a charge does to write. Nothing of a task ever changes.
            if len(self._prices) >= _MOST_PRICES:
                self._prices.clear()
            self._prices[task.task_id] = set_aside_by(task), price_of(task)
        main, price = self._prices[task.task_id]
        most, is_round = task.reports_per_source, task.mechanism.other_rounds.before is not None
        before, once = task_before(task), task.stream is not None
        return self.charge(
            task.task_id, price, reports, batch, main=main, pilot=before, most=most, is_round=is_round, once=once
        )

    def charge(
        self,
        task_id: str,
        price: Spending,
        reports: Mapping[bytes, Source],
        batch: int = BATCH,
        *,
        main: Spending | None = None,
        pilot: str | None = None,
        most: int = 1,
        is_round: bool = False,
        once: bool = False,
    ) -> dict[bytes, LedgerRefusedError]:
        """Charge reports that are about to leave, all in one transaction that is on disk when this returns.

        Args:
            task_id: in base64url.
            price: what a release of this task costs a source; see `price_of`.
            reports: for each identifier, whose facts it states. What was charged before is not charged again.
            batch: of the task.
            main: of a pilot: what is charged with it, and set aside for the main task of its study.
            pilot: of a main task: its pilot. Whose report was charged there pays nothing more.
            most: in how many batches of the task a source may have a report.
            is_round: whether the pilot is the round before, in which every source must have taken part.
            once: whether the price is that of all of them, so that a later report of a source costs nothing.

        Returns:
            The reports that must not leave; nothing was charged for them. Those that are not in it may.

        Raises:
            ValueError: a source's name cannot be one.
            LedgerRefusedError: the file cannot be used, or rows that were vouched for do not fit; none may leave.
        """
        names = self._file.names
        reports = {
            report_id: source if isinstance(source, Vouched) else names.of(source)
            for report_id, source in reports.items()
        }
        refused: dict[bytes, LedgerRefusedError] = {}
        with self._file.transaction() as db:
            book = Book(db, task_id, batch)
            for report_id, source in reports.items():
                try:
                    self._charge(book, _Charge(price, main, pilot, most, is_round, once), report_id, source)
                except LedgerRefusedError as error:
                    if isinstance(source, Vouched):
                        raise
                    refused[report_id] = error
        return refused

    def charge_contribution(
        self, task: Task, report_id: bytes, sources: Sequence[str] | Vouched, batch: int = BATCH
    ) -> None:
        """Charge an organisation's report to every person whose rows are in it, in one transaction, or to nobody.

        Args:
            task: with contributors.
            report_id: of the one report. What was charged before is not charged again.
            sources: the persons, each once; or the caller vouches that no two rows are about the same one.
            batch: of the task.

        Raises:
            ValueError: a person's name cannot be one.
            LedgerRefusedError: the file cannot be used, or some person has no privacy left; nothing was charged.
        """
        wanted = _Charge(price_of(task), None, None, 1)
        if not isinstance(sources, Vouched):
            sources = list(map(self._file.names.of, sources))
        with self._file.transaction() as db:
            book = Book(db, task.task_id, batch)
            if book.is_charged(report_id):
                return
            if isinstance(sources, Vouched):
                self._charge(book, wanted, report_id, sources)
                return
            refused = len(sources) - len(set(sources)) + len(self._unaffordable(book, wanted.price, sources))
            if refused:
                raise LedgerRefusedError(f"{refused} of {len(sources)} persons have no privacy left for this task")
            book.add_report(report_id, book.enter_all(sources, wanted.price))

    def unaffordable(self, task: Task, sources: Iterable[str], batch: int = BATCH) -> list[str]:
        """Return which persons have no privacy left for a task, or were charged in it before; nothing is charged.

        Raises:
            ValueError: a person's name cannot be one.
            LedgerRefusedError: the file cannot be used.
        """
        names = self._file.names
        named = [(source, names.of(source)) for source in sources]
        with self._file.transaction() as db:
            book = Book(db, task.task_id, batch)
            refused = self._unaffordable(book, price_of(task), [name for _, name in named])
        return [source for source, name in named if name in refused]

    def _unaffordable(self, book: Book, price: Spending, sources: Sequence[str]) -> set[str]:
        """Return who has, or may have, a charge in this task, or has no room for its price below the ceiling."""
        if not book.is_open_to_all() or not self._has_room(book, (), price):
            # What counts for everybody leaves room for nobody.
            return set(sources)
        room: dict[tuple[int, ...], bool] = {}
        found = set()
        for source, here, history in book.histories(sources):
            if history not in room:
                room[history] = self._has_room(book, history, price)
            if here or not room[history]:
                found.add(source)
        return found

    def _has_room(self, book: Book, history: tuple[int, ...], price: Spending) -> bool:
        try:
            self._require_room(book.spent_in(history), price)
        except LedgerRefusedError:
            return False
        return True

    def is_charged(self, task: Task, report_id: bytes, batch: int = BATCH) -> bool:
        """Return whether a report of a task was charged.

        Raises:
            LedgerRefusedError: the file cannot be used, or it was charged in another task or batch.
        """
        with self._file.transaction() as db:
            return Book(db, task.task_id, batch).is_charged(report_id)

    def _charge(self, book: Book, wanted: "_Charge", report_id: bytes, source: Source) -> None:
        # A report may leave only if it was charged before, or
        #   (1) no other report of its source was charged in this task and batch, and none in too many others;
        #   (2) with it, everything that its source takes part in stays below the ceiling;
        #   (3) the charge is on disk: the caller's transaction ends before the report leaves.
        if book.is_charged(report_id):
            return
        charge = book.open_charge(source)  # (1)
        if charge is None:
            book.require_fewer(source, wanted.most)  # (1)
            charge = self._entered(book, wanted, source)
        book.add_report(report_id, charge)

    def _entered(self, book: Book, wanted: "_Charge", source: Source) -> int:
        """Return a new charge of a source in this task."""
        price = wanted.price if wanted.main is None else sum_of((wanted.price, wanted.main))
        covering = None if wanted.pilot is None else book.covering(wanted.pilot, source, price)
        if covering is not None:
            charge = book.enter(source, Spending.zero())
            book.cover(charge, covering)
            if wanted.main is not None:
                book.set_aside(charge, wanted.main)
            return charge
        if wanted.is_round:
            raise LedgerRefusedError(
                f"the task is a later round of {wanted.pilot}, in which this source took no part; only those answer it "
                "whose first report has paid for all rounds"
            )
        if wanted.once and book.has_paid(source):
            return book.enter(source, Spending.zero())
        for total in book.totals(source):
            self._require_room(total, price)  # (2)
        charge = book.enter(source, price)
        if wanted.main is not None:
            book.set_aside(charge, wanted.main)
        return charge

    def _require_room(self, total: Spending, price: Spending) -> None:
        after = epsilon_of(sum_of((total, price)), self.delta)
        if not after <= self.max_epsilon * _ROUNDING:
            raise LedgerRefusedError(
                f"epsilon at delta {self.delta:g} is {epsilon_of(total, self.delta):.6g} already and would be "
                f"{after:.6g}; the ceiling is {self.max_epsilon:g}"
            )
        alone = epsilon_alone_of(sum_of((total, price)), self.delta)
        if not alone <= self.max_epsilon_alone * _ROUNDING:
            raise LedgerRefusedError(
                f"if everybody else is invented epsilon at delta {self.delta:g} would be {alone:.6g}; the ceiling is "
                f"{self.max_epsilon_alone:g}"
            )

    # --- reading -----------------------------------------------------------------------------------------------

    def reports(self, task_id: str, source: str | None = None) -> list[tuple[str, int]]:
        """Return a task's reports, oldest charge first, each with its batch; of one source, if it is named."""
        whose = None if source is None else self.pseudonym(source)
        with self._file.transaction() as db:
            return reports_of(db, task_id, whose)

    def entries(self, source: str | None = None) -> list[Entry]:
        """Return all charges, or those that count for one source, oldest first (see `spent` for errors)."""
        whose = None if source is None else self.pseudonym(source)
        with self._file.transaction() as db:
            found = [Entry(*values) for values in all_charges(db)]
        return found if source is None else [entry for entry in found if entry.source in (None, whose)]

    def spent(self, source: str = SELF) -> Balance:
        """Return what a source has spent, charges that were vouched for included, since it may be in any of them.

        Raises:
            ValueError: the name cannot be one.
            LedgerRefusedError: the file cannot be used.
        """
        whose = self.pseudonym(source)
        with self._file.transaction() as db:
            total = total_of(db, whose)
        sums = epsilon_of(total, self.delta), epsilon_alone_of(total, self.delta)
        return Balance(total, sums[0], self.delta, self.max_epsilon, sums[1], self.max_epsilon_alone)


@dataclass(frozen=True)
class _Charge:
    """What a task costs, what it sets aside for the main task of its study, its pilot, and how often it is charged.

    `is_round` says whether the pilot is the round before, without which nothing is charged. `once` says whether the
    first of these charges pays for all.
    """

    price: Spending
    main: Spending | None
    pilot: str | None
    most: int
    is_round: bool = False
    once: bool = False


def default_path() -> Path:
    """Return where the command line keeps its ledger: in the user's state directory (XDG base directories)."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    return folder / "lintra" / "ledger.sqlite"
