"""The entries of the ledger: queries in an open transaction, and the entries that it adds.

Prices are few and sources many, so that sums over prices are remembered and shared.
"""

import json
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import groupby
from operator import add, itemgetter

from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import InvalidMessageError, LedgerRefusedError
from lintra_protocol.privacy.composition import Spending

_EVERYBODY = ""
"""Stands in the column `source` of a vouched charge; no source has this name."""

_PARTS = tuple(Spending.model_fields)
_NEW_PRICE = (
    "INSERT INTO prices (mu_squared, slack, delta_coalition, delta_shares, mu_squared_alone, unbounded) "
    "VALUES (?, ?, ?, ?, ?, ?)"
)
_ALL_PRICES = "SELECT price, mu_squared, slack, delta_coalition, delta_shares, mu_squared_alone, unbounded FROM prices"

_AT_ONCE = 50_000
"""Sources in one statement; their names are one text of a megabyte then."""


@dataclass(frozen=True)
class Vouched:
    """All rows of one call, which the caller vouches to be about as many sources; `call` tells calls apart."""

    call: str = field(default_factory=lambda: secrets.token_hex(16))


Source = str | Vouched


class Book:
    """The ledger as one transaction about one batch of a task sees it."""

    def __init__(self, db: sqlite3.Connection, task_id: str, batch: int) -> None:
        """Use a connection for as long as its transaction lasts."""
        self._db = db
        self._batch = (task_id, batch)
        self._prices = _prices(db)
        # A charge for everybody that this transaction makes changes no total in it: nobody has a second one in a batch.
        self._common = _charged_prices(db, _EVERYBODY)

    def is_charged(self, report_id: bytes) -> bool:
        """Return whether a report was charged before; raise LedgerRefusedError if it was, in another task or batch."""
        found = self._db.execute(
            "SELECT task_id, batch FROM charges JOIN reports USING (charge) WHERE report_id = ?", (report_id,)
        ).fetchone()
        if found is not None and found != self._batch:
            raise LedgerRefusedError(f"report {base64url(report_id)} was charged in another task or batch")
        return found is not None

    def open_charge(self, source: Source) -> int | None:
        """Return the charge that a report of this source joins, or None if it needs one of its own.

        Raises LedgerRefusedError if the source has, or may have, another report in this batch.
        """
        task_id = self._batch[0]
        if isinstance(source, Vouched):
            found = self._db.execute(
                "SELECT charge, call FROM charges WHERE task_id = ? AND batch = ? LIMIT 1", self._batch
            ).fetchone()
            if found is not None and found[1] != source.call:
                raise LedgerRefusedError(f"task {task_id} has reports already; unnamed sources may be in them")
            return None if found is None else int(found[0])
        found = self._db.execute(
            "SELECT source FROM charges WHERE task_id = ? AND batch = ? AND source IN (?, ?)",
            (*self._batch, source, _EVERYBODY),
        ).fetchone()
        if found is not None:
            whose = "this source has" if found[0] == source else "sources that were not named have"
            raise LedgerRefusedError(f"{whose} a report in task {task_id} already; a second one is never sent")
        return None

    def require_fewer(self, source: Source, most: int) -> None:
        """Check that a source has, for certain, reports in fewer batches of this task than it may.

        Raises LedgerRefusedError if it has, or may have, as many already.
        """
        # A source has few charges and a task many: the sign keeps the database from looking through the task's.
        charges_of = "SELECT count(*) FROM charges WHERE +task_id = ? AND source = ?"
        (common,) = self._db.execute(charges_of, (self._batch[0], _EVERYBODY)).fetchone()
        if isinstance(source, Vouched):  # it may be any of those that have a name, too
            (own,) = self._db.execute(
                "SELECT coalesce(max(reports), 0) FROM (SELECT count(*) AS reports FROM charges "
                "WHERE task_id = ? AND source <> ? GROUP BY source)",
                (self._batch[0], _EVERYBODY),
            ).fetchone()
        else:
            (own,) = self._db.execute(charges_of, (self._batch[0], source)).fetchone()
        if common + own >= most:
            raise LedgerRefusedError(
                f"reports_per_source of task {self._batch[0]} is {most}, and this source has, or may have, as many"
            )

    def has_paid(self, source: Source) -> bool:
        """Return whether a source has, for certain, a charge in any batch of this task."""
        found = "SELECT 1 FROM charges WHERE +task_id = ? AND source IN (?, ?) LIMIT 1"
        name = _EVERYBODY if isinstance(source, Vouched) else source
        return self._db.execute(found, (self._batch[0], name, _EVERYBODY)).fetchone() is not None

    def totals(self, source: Source) -> Iterator[Spending]:
        """Yield what a source has spent; for sources that are not named, everything that one of them may have spent."""
        if not isinstance(source, Vouched):
            yield self._total(self._common + _charged_prices(self._db, source))
            return
        # Somebody of whom nothing is known yet spent the common charges only; others have one of few histories.
        yield self._total(self._common)
        histories = self._db.execute(
            "SELECT DISTINCT history FROM (SELECT group_concat(price) AS history FROM (SELECT source, price FROM "
            "charges WHERE source <> ? ORDER BY source, price) GROUP BY source)",
            (_EVERYBODY,),
        ).fetchall()
        for (history,) in histories:
            yield self._total(self._common + tuple(int(price) for price in str(history).split(",")))

    def enter(self, source: Source, price: Spending) -> int:
        """Charge a price to a source, and return the number of the charge."""
        name, call = (_EVERYBODY, source.call) if isinstance(source, Vouched) else (source, "")
        return _lastrowid(
            self._db.execute(
                "INSERT INTO charges (task_id, batch, source, call, price) VALUES (?, ?, ?, ?, ?)",
                (*self._batch, name, call, self._number_of(price)),
            )
        )

    # --- many sources at once: one statement for some ten thousand, where one for each takes minutes --------------

    def is_open_to_all(self) -> bool:
        """Return whether no charge of this task counts for everybody."""
        (common,) = self._db.execute(
            "SELECT count(*) FROM charges WHERE +task_id = ? AND source = ?", (self._batch[0], _EVERYBODY)
        ).fetchone()
        return not common

    def histories(self, sources: Sequence[str]) -> Iterator[tuple[str, bool, tuple[int, ...]]]:
        """Yield (source, whether it has a charge in any batch of this task, its prices) for those that have charges.

        Those without one are left out: all that they spent is the common charges. `spent_in` reads prices, and many
        sources share a history of them.
        """
        # In the order of names, as the index lies on the disk; the prices of a source then follow each other.
        question = (
            "SELECT wanted.value, charges.task_id = ?, charges.price FROM json_each(?) AS wanted "
            "CROSS JOIN charges ON charges.source = wanted.value"
        )
        ordered = sorted(set(sources))
        for start in range(0, len(ordered), _AT_ONCE):
            found = self._db.execute(question, (self._batch[0], _listed(ordered[start : start + _AT_ONCE])))
            for source, charges in groupby(found, key=itemgetter(0)):
                here, prices = zip(*((own, price) for _, own, price in charges), strict=True)
                yield source, any(here), prices

    def spent_in(self, history: tuple[int, ...]) -> Spending:
        """Return what a source of this history has spent, the common charges included."""
        return self._total(self._common + history)

    def enter_all(self, sources: Sequence[str], price: Spending) -> int:
        """Charge a price to each of some sources, and return the number of one of these charges.

        `sources` are different ones, at least one, none of which has a charge in this batch.
        """
        number = self._number_of(price)
        # In the order of names, since that is how the indexes lie on the disk.
        ordered = sorted(sources)
        for start in range(0, len(ordered), _AT_ONCE):
            self._db.execute(
                "INSERT INTO charges (task_id, batch, source, call, price) "
                "SELECT ?, ?, value, '', ? FROM json_each(?) ORDER BY key",
                (*self._batch, number, _listed(ordered[start : start + _AT_ONCE])),
            )
        found = self._db.execute(
            "SELECT charge FROM charges WHERE task_id = ? AND batch = ? AND source = ?", (*self._batch, ordered[0])
        )
        return int(found.fetchone()[0])

    # --- studies and reports -----------------------------------------------------------------------------------

    def set_aside(self, charge: int, price: Spending) -> None:
        """Note which part of a pilot's charge belongs to the main task of its study."""
        self._db.execute("INSERT INTO set_aside (charge, price) VALUES (?, ?)", (charge, self._number_of(price)))

    def covering(self, pilot: str, source: Source, price: Spending) -> int | None:
        """Return the charge of a pilot that covers this task for a source, or None if it took no part in the pilot.

        `pilot` is the pilot's task; `source` says whose report is about to leave. Raises LedgerRefusedError if the
        pilot set less aside, or another task has used it.
        """
        name = _EVERYBODY if isinstance(source, Vouched) else source
        found = self._db.execute(
            "SELECT charge, set_aside.price FROM charges JOIN set_aside USING (charge) "
            "WHERE task_id = ? AND source IN (?, ?)",
            (pilot, name, _EVERYBODY),
        ).fetchone()
        if found is None:
            return None
        charge, kept = int(found[0]), self._prices[found[1]]
        if not price.fits_into(kept):
            raise LedgerRefusedError(f"the task spends more than its pilot {pilot} set aside for it")
        others = "SELECT 1 FROM covered JOIN charges USING (charge) WHERE pilot = ? AND task_id <> ? LIMIT 1"
        if self._db.execute(others, (charge, self._batch[0])).fetchone():
            raise LedgerRefusedError(f"another task has used what pilot {pilot} set aside; a study has one main task")
        return charge

    def cover(self, charge: int, pilot: int) -> None:
        """Note that a charge, of nothing, is covered by that of a pilot."""
        self._db.execute("INSERT INTO covered (charge, pilot) VALUES (?, ?)", (charge, pilot))

    def add_report(self, report_id: bytes, charge: int) -> None:
        """Keep the identifier of a report with its charge, so that it is never charged again."""
        self._db.execute("INSERT INTO reports (report_id, charge) VALUES (?, ?)", (report_id, charge))

    def _number_of(self, price: Spending) -> int:
        """Return the number of a price, a new one if it has none."""
        number = next((number for number, known in self._prices.items() if known == price), None)
        if number is None:
            number = _lastrowid(
                self._db.execute(
                    _NEW_PRICE,
                    tuple(getattr(price, part) for part in _PARTS),
                )
            )
            self._prices[number] = price
        return number

    def _total(self, numbers: tuple[int, ...]) -> Spending:
        return sum_of(tuple(self._prices[number] for number in sorted(numbers)))


def reports_of(db: sqlite3.Connection, task_id: str, source: str | None) -> list[tuple[str, int]]:
    """Return the reports of a task, oldest charge first, each with its batch; of one source, if it is named."""
    query = "SELECT report_id, batch FROM charges JOIN reports USING (charge) WHERE task_id = ? AND ? IN (source, '')"
    found = db.execute(f"{query} ORDER BY charge, report_id", (task_id, source or ""))
    return [(base64url(report_id), batch) for report_id, batch in found]


def total_of(db: sqlite3.Connection, source: str) -> Spending:
    """Return what a source has spent, charges that were vouched for included."""
    prices = _prices(db)
    numbers = _charged_prices(db, _EVERYBODY) + _charged_prices(db, source)
    return sum_of(tuple(prices[number] for number in sorted(numbers)))


def all_charges(db: sqlite3.Connection) -> Iterator[tuple[str | None, str, int, int, Spending, str | None]]:
    """Yield (source, task, batch, number of reports, price, pilot that covers it) of every charge, oldest first.

    The source is None where it is any, and the pilot where none covers the charge.
    """
    prices = _prices(db)
    rows = db.execute(
        "SELECT source, task_id, batch, (SELECT count(*) FROM reports WHERE reports.charge = charges.charge), price, "
        "(SELECT pilots.task_id FROM covered JOIN charges AS pilots ON pilots.charge = covered.pilot "
        "WHERE covered.charge = charges.charge) FROM charges ORDER BY charge"
    )
    for source, task_id, batch, num_reports, price, pilot in rows:
        yield source or None, task_id, batch, num_reports, prices[price], pilot


def _listed(sources: Sequence[str]) -> str:
    return json.dumps(sources, ensure_ascii=False)


def _charged_prices(db: sqlite3.Connection, source: str) -> tuple[int, ...]:
    return tuple(price for (price,) in db.execute("SELECT price FROM charges WHERE source = ?", (source,)))


def _prices(db: sqlite3.Connection) -> dict[int, Spending]:
    try:
        return {number: _price(*texts) for number, *texts in db.execute(_ALL_PRICES)}
    except (InvalidMessageError, ValueError) as error:
        raise LedgerRefusedError(f"the ledger holds a price that cannot be read: {error}") from None


def _lastrowid(cursor: sqlite3.Cursor) -> int:
    return int(cursor.lastrowid or 0)


# --- numbers that many sources share --------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _price(*parts: str) -> Spending:
    return Spending.from_document(dict(zip(_PARTS, parts, strict=True)))


@lru_cache(maxsize=4096)
def sum_of(prices: tuple[Spending, ...]) -> Spending:
    """Return what all of these spend together, exactly.

    Raises LedgerRefusedError if it is too much to be written down.
    """
    try:
        return reduce(add, prices, Spending.zero())
    except ValueError as error:
        raise LedgerRefusedError(f"what is spent cannot be counted any more: {error}") from None


@lru_cache(maxsize=4096)
def epsilon_of(spent: Spending, delta: float) -> float:
    """Return the epsilon of what is spent, at a delta."""
    return spent.epsilon_at(delta)


@lru_cache(maxsize=4096)
def epsilon_alone_of(spent: Spending, delta: float) -> float:
    """Return the same if all others are invented, of the releases that are bounded then."""
    return spent.epsilon_alone_at(delta)
