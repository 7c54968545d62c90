"""`lintra try --organisation`: what organisations learn together, each sending one report, and what each learns alone.

All of it is measured on the rows of the whole table: R2 of somebody's coefficients is that of predictions of everybody.
Bounds follow from the table by the rule of `files.bounds`, and so does the bound of a person's rows.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.regression_estimate import RegressionEstimate
from lintra_analysis.kinds.decode import read
from lintra_analysis.releases.columns import INTERCEPT
from lintra_analysis.trial.collection import Collected, collect_contributions
from lintra_analysis.trial.files.bounds import Bounds, bounds_of
from lintra_analysis.trial.files.table import FileTable
from lintra_analysis.trial.selection import chosen_columns, complete_rows, encoded
from lintra_analysis.trial.trial import (
    CONFIDENCE,
    AsCollected,
    Trial,
    compared,
    ordinary,
    specification_of,
    told_apart_from_noise,
)
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import InvalidTableError, LintraError
from lintra_protocol.fields.person_names import person_name
from lintra_protocol.fields.schema import Schema
from lintra_protocol.mechanisms.collusion import epsilons_if_colluding

MOST_ALONE = 30
"""So many organisations, those with the most rows, are shown alone."""

_DIGITS = 4


@dataclass(frozen=True)
class Alone:
    """What one organisation learns by itself.

    Attributes:
        name: in the file.
        rows: of the organisation, those included in which a number is missing.
        r2: over all rows of the table, of coefficients from its own release with the same promise; None if it gives
            none.
        r2_non_private: of least squares on its own rows; None if they do not determine it.
    """

    name: str
    rows: int
    persons: int
    r2: float | None
    r2_non_private: float | None


@dataclass(frozen=True, repr=False)
class OrganisationTrial:
    """What a trial of organisations found.

    Attributes:
        pooled: all of them together, each with one report.
        promised_to: to whom, in words.
        colluding: what epsilon becomes if so many per cent of the organisations collude.
        organisations: how many there are.
        dropped_rows: rows beyond those that are kept of each person.
        r2: over all rows, of the private coefficients of all together; None if there are none.
        r2_non_private: of least squares on all rows.
        alone: the largest organisations, the one with the most rows first.
    """

    pooled: Trial
    promised_to: str
    colluding: Mapping[int, float]
    organisations: int
    dropped_rows: int
    r2: float | None
    r2_non_private: float | None
    alone: tuple[Alone, ...]

    def __repr__(self) -> str:
        return f"OrganisationTrial({self.organisations} organisations, {self.pooled!r})"

    @property
    def specification(self) -> dict[str, object]:
        """Return what a task that collects such rows asks for."""
        return self.pooled.specification

    def document(self) -> dict[str, object]:
        """Return the trial as JSON holds it."""
        return self.pooled.document() | {
            "organisations": self.organisations,
            "promised_to": self.promised_to,
            "epsilon_if_colluding": {
                str(self.organisations * percent // 100): found
                for percent, found in self.colluding.items()
                if found < math.inf
            },
            "dropped_rows": self.dropped_rows,
            "r2_over_all_rows": {"private": self.r2, "non_private": self.r2_non_private},
            "alone": [
                {
                    "organisation": each.name,
                    "rows": each.rows,
                    "persons": each.persons,
                    "r2": {"private": each.r2, "non_private": each.r2_non_private},
                }
                for each in self.alone
            ],
        }


@dataclass(frozen=True, eq=False, repr=False)
class Whose:
    """Whose each row of a table is.

    Attributes:
        organisations: names of organisations, the one with the most rows first.
        of: the number of each row's organisation, shape `(n,)`.
        persons: the number of each row's person, from 0, the same in every organisation; shape `(n,)`.
    """

    organisations: tuple[str, ...]
    of: IntArray
    persons: IntArray

    @classmethod
    def named(cls, organisations: Sequence[str], persons: Sequence[str] | None) -> "Whose":
        """Number what a file names; without persons every row is that of another.

        Spellings of one person's name are one person, as for the clients that will send the rows.

        Raises:
            InvalidTableError: there is one organisation only, or a person's name is none.
        """
        counts = Counter(organisations)
        names = tuple(sorted(counts, key=lambda name: (-counts[name], name)))
        if len(names) < 2:
            raise InvalidTableError(f"all rows are of one organisation, {names[0]!r}; at least two can learn together")
        number = {name: place for place, name in enumerate(names)}
        own = np.array([number[name] for name in organisations], np.int64)
        return cls(names, own, np.arange(len(own)) if persons is None else _numbered(persons))

    @property
    def pairs(self) -> IntArray:
        """Return the number, from 0, of each row's person in its organisation, shape `(n,)`."""
        both = self.of * (int(self.persons.max()) + 1) + self.persons
        numbered: IntArray = np.unique(both, return_inverse=True)[1].astype(np.int64)
        return numbered

    @property
    def rows_per_person(self) -> int:
        """Return the most rows of one person in one organisation."""
        return int(np.bincount(self.pairs).max())

    @property
    def organisations_per_person(self) -> int:
        """Return in how many organisations one person has rows, at most."""
        pairs = np.unique(np.stack([self.persons, self.of], axis=1), axis=0)
        return int(np.bincount(pairs[:, 0]).max())

    def first(self, most: int | None) -> IntArray:
        """Return where the first `most` rows of each person in each organisation stand, shape `(k,)`, ascending."""
        pairs = self.pairs
        if most is None:
            return np.arange(len(pairs))
        order = np.argsort(pairs, kind="stable")
        counts = np.bincount(pairs)
        rank = np.empty(len(pairs), np.int64)
        rank[order] = np.arange(len(pairs)) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.flatnonzero(rank < most)

    def kept(self, places: IntArray) -> "Whose":
        """Return whose the rows at these places, shape `(k,)`, are."""
        return Whose(self.organisations, self.of[places], self.persons[places])

    def rows_of(self, organisation: int) -> tuple[IntArray, IntArray]:
        """Return the places of an organisation's rows, shape `(k,)`, and whose each is, numbered from 0."""
        places = np.flatnonzero(self.of == organisation)
        return places, np.unique(self.persons[places], return_inverse=True)[1].astype(np.int64)


def _numbered(persons: Sequence[str]) -> IntArray:
    """Return the number of each row's person, from 0, shape `(n,)`."""
    numbers: dict[str, int] = {}
    found = np.empty(len(persons), np.int64)
    for place, spelled in enumerate(persons):
        try:
            found[place] = numbers.setdefault(person_name(spelled), len(numbers))
        except ValueError as error:
            raise InvalidTableError(f"row {place + 1}, whose row it is: {error}") from None
    return found


def try_organisations(
    table: FileTable,
    whose: Whose,
    target: str,
    epsilon: float,
    delta: float | None,
    now: int,
    random_bytes: RandomBytes,
    said: Callable[[str], None] = lambda _: None,
    *,
    rows_per_person: int | None = None,
) -> OrganisationTrial:
    """Let every organisation of a table contribute privately, and compare with what each learns alone.

    `table` is read from a file, without the columns that say whose rows these are. `whose` is that of every row of the
    table. `target` is a column of numbers, or of zeros and ones. `delta` is promised; the usual one if not given.
    `said` is told in words how far the trial is. `rows_per_person` says to keep so many rows of each person in an
    organisation, the first ones; all if not given.
    """
    started, asked = time.perf_counter(), table.num_rows
    places = whose.first(rows_per_person)
    chosen, whose = _rows_of(chosen_columns(table, target), places), whose.kept(places)
    rows, _ = complete_rows(chosen)
    bounds, block = bounds_of(chosen), chosen.block()
    person_bound = _person_bound(bounds, rows, whose.pairs[~np.isnan(block).any(axis=1)], whose.rows_per_person)
    specification = specification_of(chosen, bounds, len(whose.organisations), epsilon, delta) | {
        "max_clients": len(whose.organisations),
        "contributors": {
            "rows_per_person": whose.rows_per_person,
            "organisations_per_person": whose.organisations_per_person,
            "max_rows": int(np.bincount(whose.of).max()),
            **({} if person_bound is None else {"person_bound": person_bound}),
        },
    }
    files = [whose.rows_of(number) for number in range(len(whose.organisations))]
    collected, contributions = collect_contributions(
        specification, [(block[own], persons) for own, persons in files], now, random_bytes, said
    )
    as_collected = _as_collected(chosen, bounds, whose, collected)
    pooled = compared(chosen, bounds, as_collected, specification, collected, started)
    schema, everybody = Schema(bounds.columns, indicators=True), encoded(bounds, rows, clip=False)
    alone = []
    for number, (own, persons) in list(enumerate(files))[:MOST_ALONE]:
        said(f"estimating what each learns alone: {number + 1} of {min(len(files), MOST_ALONE)}")
        by_itself = _by_itself(collected, contributions[number], random_bytes)
        r2 = _r2_of_release(by_itself, target, schema, everybody)
        plain = _ordinary_r2(bounds, schema, block[own], pooled, everybody)
        alone.append(Alone(whose.organisations[number], len(own), int(persons.max()) + 1, r2, plain))
    task = collected.task
    return OrganisationTrial(
        pooled=replace(pooled, seconds=time.perf_counter() - started),
        promised_to=collected.privacy.persons,
        colluding=epsilons_if_colluding(task.mechanism, task.claim, task.num_columns),
        organisations=len(files),
        dropped_rows=asked - chosen.num_rows,
        r2=r2_of_coefficients(_shown(pooled.estimate), schema, everybody),
        r2_non_private=pooled.r2_non_private,
        alone=tuple(alone),
    )


def _rows_of(table: FileTable, places: IntArray) -> FileTable:
    columns = tuple(replace(column, values=column.values[places]) for column in table.columns)
    return FileTable(columns, len(places), table.left_out)


def _person_bound(bounds: Bounds, rows: FloatArray, pairs: IntArray, rows_per_person: int) -> Real | None:
    """Return the bound P of all rows of a person: P^2 is mean and two deviations of persons' sums of squared norms.

    As with rows a fifth of the persons can be longer, whatever they are like (Cantelli's inequality). It is at most
    what as many rows as a person may have need; None where that is less, or a person has one row. `rows` are the
    complete ones, shape `(n, d)`, in users' units. `pairs` are the number of each row's person in its organisation,
    shape `(n,)`; `rows_per_person` is r.
    """
    if rows_per_person == 1:
        return None
    squares = np.square(Schema(bounds.columns, indicators=True).normalise(rows)).sum(axis=1)
    of_persons = np.bincount(pairs, weights=squares)
    of_persons = of_persons[np.bincount(pairs) > 0]
    bound = real(f"{math.sqrt(of_persons.mean() + 2 * of_persons.std()):.{_DIGITS}g}")
    return bound if fraction(bound) ** 2 < rows_per_person * fraction(bounds.row_bound) ** 2 else None


def _as_collected(chosen: FileTable, bounds: Bounds, whose: Whose, collected: Collected) -> AsCollected:
    """Return the complete rows as organisations collected them: all of a person in one of them clipped together."""
    block = chosen.block()
    whole = ~np.isnan(block).any(axis=1)
    schema = Schema(bounds.columns, indicators=True)
    normalised, pairs = schema.normalise(block[whole]), whose.pairs[whole]
    lengths = np.sqrt(np.bincount(pairs, weights=np.square(normalised).sum(axis=1)))
    bound = collected.task.mechanism.person_norm or math.inf
    shrink = np.minimum(1.0, bound / np.maximum(lengths, bound))[pairs]
    moved = ((block[whole] < schema.lower) | (block[whole] > schema.upper)).any(axis=1)
    return AsCollected(normalised * shrink[:, np.newaxis], float((moved | (shrink < 1)).mean()))


def _by_itself(collected: Collected, contribution: IntArray, random_bytes: RandomBytes) -> Collected:
    """Return what one organisation could release by itself with the same promise: its sum with noise of its own."""
    task = collected.task
    noised = task.mechanism.noised(contribution, task.num_columns, random_bytes)
    alone = replace(collected.privacy, num_clients=1, honest_clients=1)
    return Collected(task, read(task, noised[np.newaxis], np.array([1], np.int64)), alone)


def _r2_of_release(collected: Collected, target: str, schema: Schema, everybody: FloatArray) -> float | None:
    """Return R2 over all rows of what a release tells; None if it tells nothing."""
    try:
        seen, _ = told_apart_from_noise(collected, target)
        estimate = regression(collected.release, target, seen, of="cohort", confidence=CONFIDENCE)
    except LintraError:
        return None
    return r2_of_coefficients(_shown(estimate), schema, everybody)


def _ordinary_r2(bounds: Bounds, schema: Schema, own: FloatArray, pooled: Trial, everybody: FloatArray) -> float | None:
    """Return R2 over all rows of least squares on an organisation's own complete rows, with nothing clipped."""
    whole = own[~np.isnan(own).any(axis=1)]
    if not len(whole):
        return None
    features = [each.name for each in pooled.coefficients if each.name != INTERCEPT]
    found, _ = ordinary(schema, encoded(bounds, whole, clip=False), features)
    return r2_of_coefficients(found, schema, everybody)


def _shown(estimate: RegressionEstimate) -> dict[str, float]:
    """Return the coefficients that an analyst would read: under a penalty where nothing else bounds them."""
    told = estimate.penalised
    rows = estimate.rows if told is None else (*told.coefficients, told.intercept)
    return {each.name: each.value for each in rows}


def r2_of_coefficients(coefficients: Mapping[str, float], schema: Schema, block: FloatArray) -> float | None:
    """Return R2 of predictions of the last column; None without coefficients. It may be below 0.

    `coefficients` are by name, in the columns' units, the intercept included. `block` holds rows as normalised, nothing
    clipped, shape `(n, k)`.
    """
    if INTERCEPT not in coefficients:
        return None
    scale = np.array([float(fraction(column.scale)) for column in schema.encoded])
    center = np.array([float(fraction(column.center)) for column in schema.encoded])
    values = block * scale + center
    slopes = np.array([coefficients.get(column.name, 0.0) for column in schema.encoded[:-1]])
    outcome = values[:, -1]
    residual = outcome - coefficients[INTERCEPT] - values[:, :-1] @ slopes
    spread = float(np.square(outcome - outcome.mean()).sum())
    found = 1 - float(residual @ residual) / spread if spread > 0 else 0.0
    return found if math.isfinite(found) else None
