"""Prepares an organisation's contribution, so that it can be looked at before it leaves: `Client.contribution`.

The promise is made to persons. The ledger of this machine charges every person of the file, all in one transaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lintra_client.ledger.entries import Vouched
from lintra_client.ledger.ledger import Ledger
from lintra_client.organisations.mapping import FileMapping
from lintra_client.organisations.table import Rows, persons_of, values_of
from lintra_client.sending.sealed_reports import Parcel
from lintra_client.sending.sending import Sending, Sent
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.crypto.tokens import Token
from lintra_protocol.errors import InvalidRowError, LedgerRefusedError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.fields.schema import OTHER
from lintra_protocol.mechanisms.collusion import epsilons_if_colluding
from lintra_protocol.report.report import make_reports
from lintra_protocol.tables.sent_columns import SentColumn
from lintra_protocol.task import Task

ORGANISATION = "organisation"
"""Under this name the outbox keeps an organisation's report; nothing is ever charged to it."""

_A_SHADE = 1 + 1e-9


@dataclass(frozen=True)
class Account:
    """What a contribution holds and does to its rows; numbers of persons and rows, never a row.

    Attributes:
        rows: those that are contributed.
        persons: whose rows they are.
        most_rows: of one person.
        joined: how many more spellings of names than persons there are, such as 17.0 beside 17.
        dropped_rows: rows of a person beyond those that were kept.
        left_out: persons who have no privacy left, and whose rows are not contributed.
        moved: for each column, how many values lie beyond its bounds and were moved there.
        missing: for each column, how many values are missing.
        others: for each category that reserves the level `OTHER`, how many rows have it, missing values included.
        left_out_rows: rows that are not counted since a value is missing; 0 under an exact count.
        shrunk: persons whose rows were shrunk together, or rows that were shrunk one by one; 0 where rows are weighted.
        shrunk_to: the smallest part that is left of a person's length, 1 where nobody was shrunk; 0 if not known.
        count: how the number of rows is released: "exact" or "noisy".
        promise: in words.
        colluding: epsilon if so many per cent of the organisations collude.
        noise: the median over the words of this report's noise, in parts of the word itself.
    """

    rows: int
    persons: int
    most_rows: int
    joined: int
    dropped_rows: int
    left_out: int
    moved: dict[str, int]
    missing: dict[str, int]
    others: dict[str, int]
    left_out_rows: int
    shrunk: int
    shrunk_to: float
    count: str
    promise: str
    colluding: dict[int, float]
    noise: float


@dataclass(frozen=True)
class Contribution:
    """A contribution that is ready to leave; `repr` shows how many rows and persons it holds.

    Attributes:
        account: what to look at before it leaves.
        sources: whom the ledger charges: every person by name, or one vouched charge for all of them.
        normalised: the rows, shape `(n, d)`, moved into the bounds of their columns, centred and scaled.
        persons: whose row each is, shape `(n,)`, numbered from 0.
        num_columns: of the task's encoded rows.
    """

    account: Account
    sources: tuple[str, ...] | Vouched = field(repr=False)
    normalised: FloatArray = field(repr=False)
    persons: IntArray = field(repr=False)
    num_columns: int = field(repr=False)

    def __repr__(self) -> str:
        return f"Contribution({self.account.rows} rows of {self.account.persons} persons)"

    def parcel(self, task: Task, time: int, random_bytes: RandomBytes, tokens: tuple[Token, ...]) -> Parcel:
        """Return the one report, rounded and noised now; bit for bit that of `lintra_protocol.ideal`."""
        noised = task.measurement.contribution(self.normalised, self.persons, random_bytes)
        reports = tuple(make_reports(task, noised[np.newaxis], time, random_bytes))
        moved, missing = any(self.account.moved.values()), any(self.account.missing.values())
        clipped = (moved or self.account.shrunk > 0,)
        return Parcel(reports, clipped, (missing,), tokens=tokens, apart=True, batch=task.batch_of(time))


def prepare(
    task: Task,
    ledger: Ledger | None,
    rows: Rows,
    mapping: FileMapping,
    *,
    person: str | Sequence[object] | None,
    keep: int | None,
    leave_out: bool,
    strict: bool,
) -> Contribution:
    """Encode all rows of an organisation; nothing is charged, and nothing leaves.

    `ledger` is that of this organisation, if it keeps one. `person` is the column, or for each row the name, that says
    whose row it is. `keep` says how many rows of a person are kept, the first ones; None to refuse a file in which one
    has more than the task allows. `leave_out` says whether the rows of persons who have no privacy left are left out;
    else the file is refused. `strict` says to refuse a missing value. `mapping` is
    what the sender says of columns and cells.

    Raises:
        InvalidRowError: the rows do not fit the task, or a column is missing in over half of them.
        InvalidTableError: cells can be read in two ways, and the mapping does not say in which.
        LedgerRefusedError: persons have no privacy left, and are not left out.
    """
    held = task.contributors
    if held is None:
        raise InvalidRowError("the task takes single rows and no contributions: use send, or send_many")
    if person is None and held.rows_per_person > 1:
        raise InvalidRowError(
            f"a person may have up to {held.rows_per_person} rows: say whose row each is, by the column of persons"
        )
    values, read = values_of(task, rows, person if isinstance(person, str) else None, mapping, strict=strict)
    check_losses(read)
    persons, names, joined = persons_of(rows, person, len(values), ask=not mapping.same_persons)
    kept, dropped = _kept(persons, held, keep, joined)
    refused: set[str] = set()
    if ledger is not None and names:
        refused = set(ledger.unaffordable(task, names))
        if refused and not leave_out:
            raise LedgerRefusedError(
                f"{len(refused)} of {len(names)} persons have no privacy left for this task: leave them out"
            )
        kept &= ~np.isin(persons, [number for number, name in enumerate(names) if name in refused])
    values, own = values[kept], persons[kept]
    if not len(values):
        raise InvalidRowError("the table has no row, so there is nothing to contribute")
    present, numbered = np.unique(own, return_inverse=True)
    normalised = task.schema_arrays.normalise(values)
    account = _account(task, held, values, numbered, normalised, (joined, dropped, len(refused)))
    sources = tuple(names[number] for number in present) if names else Vouched()
    return Contribution(account, sources, normalised, numbered, task.num_columns)


async def finished(sending: Sending, task: Task, time: int) -> Sent | None:
    """Send what is left of a contribution that was begun, charged as it was; None if none was."""
    batch = task.batch_of(time)
    kept = await sending.begun(ORGANISATION, batch)
    return None if kept is None else await sending.resumed(ORGANISATION, kept, batch)


async def send_once(
    sending: Sending, made: Contribution, task: Task, time: int, random_bytes: RandomBytes, tokens: tuple[Token, ...]
) -> tuple[Sent, Parcel | None]:
    """Send a contribution through an outbox, or what is left of the one that was begun before.

    Returns:
        The receipts, and the parcel if it was made now.

    Raises:
        LedgerRefusedError, LintraError: as `Sending.first` and `Sending.resumed`.
    """
    before = await finished(sending, task, time)
    if before is not None:
        return before, None
    parcel = made.parcel(task, time, random_bytes, tokens)
    sent = await sending.first(ORGANISATION, parcel)
    if sent is None:
        raise LedgerRefusedError("another process is sending this organisation's report; try again")
    return sent, parcel


def check_losses(columns: Sequence[SentColumn]) -> None:
    """Refuse a table in which a column says nothing in over half of the rows: it would spend the report for nothing.

    Raises:
        InvalidRowError: the detail names the column and says how many rows lack it.
    """
    for each in columns:
        if 2 * each.missing > len(each.values):
            lost = f"its value is missing in {each.missing:,} of {len(each.values):,} rows"
            raise InvalidRowError(f"column {each.column.name!r}: {lost}; leave these rows out, or decline", column=None)


def _kept(persons: IntArray, held: Contributors, keep: int | None, joined: int) -> tuple[NDArray[np.bool_], int]:
    """Return which rows are kept, shape `(n,)`, and how many are not."""
    most, limit = int(np.bincount(persons).max(initial=0)), held.rows_per_person
    if keep is not None and not 1 <= keep <= limit:
        raise InvalidRowError(f"keep: the task allows 1 to {limit} rows of a person, got {keep}")
    if keep is None and most > limit:
        found = f"a person has {most} rows" + f" ({joined} spellings of names were joined)" * (joined > 0)
        raise InvalidRowError(f"{found}, and the task allows {limit}: keep the first {limit} of each, or decline")
    order = np.argsort(persons, kind="stable")
    counts = np.bincount(persons)
    rank = np.empty(len(persons), np.int64)
    rank[order] = np.arange(len(persons)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = rank < (limit if keep is None else keep)
    return kept, int((~kept).sum())


def _account(
    task: Task,
    held: Contributors,
    values: FloatArray,
    persons: IntArray,
    normalised: FloatArray,
    told: tuple[int, int, int],
) -> Account:
    schema, measurement = task.schema_arrays, task.measurement
    # The account needs no draw: `bytes` gives zeros, by which dithering rounds up.
    exact = measurement.exact_contribution(normalised, persons, bytes)
    lacking = np.isnan(values)
    # A row that is left out moves nothing.
    counts = np.ones(len(values), np.bool_)
    if measurement.leaves_out:
        counts[lacking.any(axis=1)] = False
    beyond = ((values < schema.lower) | (values > schema.upper)) & counts[:, np.newaxis]
    weighted = measurement.average_weight(normalised) is not None
    # That a row counts less is no shrinking: only the target's bound then moves a value.
    shrunk, part = (0, 1.0) if weighted else _shrunk(task, normalised, persons, counts)
    if weighted:
        target = [column.name == _target(task) for column in schema.columns]
        beyond |= np.outer(measurement.is_clipped(normalised) & counts, target)
    sigmas = measurement.layout.sigmas
    noisy = sigmas > 0
    relative = sigmas[noisy] / np.maximum(np.abs(exact[noisy]), 1)
    claim = task.claim
    joined, dropped, left_out = told
    return Account(
        rows=len(values),
        persons=int(persons.max()) + 1,
        most_rows=int(np.bincount(persons).max()),
        joined=joined,
        dropped_rows=dropped,
        left_out=left_out,
        moved=dict(zip(schema.names, beyond.sum(axis=0).tolist(), strict=True)),
        missing=dict(zip(schema.names, lacking.sum(axis=0).tolist(), strict=True)),
        others={
            column.name: int((values[:, place] == column.levels.index(OTHER)).sum())
            for place, column in enumerate(schema.columns)
            if OTHER in column.levels
        },
        left_out_rows=int((~counts).sum()),
        shrunk=shrunk,
        shrunk_to=part,
        count=held.count,
        promise=(
            f"epsilon {claim.epsilon} at delta {claim.delta} ({claim.neighbours}) to {held.persons}, if at most "
            f"{claim.max_corrupt_clients} of at least {claim.min_clients} organisations collude"
        ),
        colluding=epsilons_if_colluding(measurement, claim),
        noise=float(np.median(relative)),
    )


def _target(task: Task) -> str | None:
    """Return the name of the column that row weights treat as the target; None without one."""
    place: int | None = getattr(task.mechanism, "target", None)
    return None if place is None else task.encoded_columns[place].name


def _shrunk(task: Task, normalised: FloatArray, persons: IntArray, counts: NDArray[np.bool_]) -> tuple[int, float]:
    """Return how many persons, or rows, are longer than they may be, and the smallest part that is left of a person.

    `counts`, shape `(n,)`, says which rows are not left out.
    """
    bound = task.measurement.person_norm
    if bound is None:
        return int((task.measurement.is_clipped(normalised) & counts).sum()), 0.0
    squares = np.square(np.nan_to_num(normalised[counts], nan=0.0)).sum(axis=1)
    lengths = np.sqrt(np.bincount(persons[counts], weights=squares, minlength=1))
    longer = lengths > bound * _A_SHADE
    return int(longer.sum()), float(bound / lengths.max()) if longer.any() else 1.0
