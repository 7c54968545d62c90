"""Compares what organisations learn together, each with one report, with what each learns alone.

R2 of all coefficients is measured on the rows of the whole table, whoever they were learned from. Collections are
simulated: the noise is drawn many times, and an organisation gains if all together predict better than it does alone in
80 % of the draws. The bound of a person's rows follows from the table, as all bounds do.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lintra_analysis.kinds.decode import read
from lintra_analysis.releases.release import Release
from lintra_analysis.trial.coefficients import RegressionComparison, r2_of
from lintra_analysis.trial.collection import Collected
from lintra_analysis.trial.draws import Draws
from lintra_analysis.trial.files.bounds import Bounds
from lintra_analysis.trial.selection import EncodedRows
from lintra_analysis.trial.verdict import SEEN, OwnRows
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import InvalidAnalysisError, InvalidTableError
from lintra_protocol.fields.person_names import person_name
from lintra_protocol.fields.schema import Schema
from lintra_protocol.mechanisms.collusion import epsilons_if_colluding

MOST_ALONE = 30
"""So many organisations, those with the most rows, are shown alone."""

_DIGITS = 4
_CUT_OFF = 1e-10


@dataclass(frozen=True)
class R2OverAll:
    """R2 over all rows of the table: of a private release, its median over draws, and of least squares.

    The first is None where there are too few rows for a regression, the second where none is without a gap.
    """

    private: float | None
    non_private: float | None


@dataclass(frozen=True)
class Alone:
    """What one organisation learns by itself: from its own release with the same promise, and from its own rows.

    `rows` counts those in which a number is missing, too. `better` is the share of simulated collections in which all
    together predict better than it does alone under the same promise, and `better_than_own_rows` than least squares on
    its own rows, without noise.
    """

    organisation: str
    rows: int
    persons: int
    r2: R2OverAll
    better: float
    better_than_own_rows: float


@dataclass(frozen=True, repr=False)
class PooledComparison:
    """What organisations learn together and each by itself.

    Attributes:
        promised_to: to whom, in words.
        colluding: what epsilon becomes if so many per cent of the organisations collude.
        organisations: how many there are.
        dropped_rows: rows beyond those that are kept of each person.
        alone: the largest organisations, the one with the most rows first.
    """

    promised_to: str
    colluding: Mapping[int, float]
    organisations: int
    dropped_rows: int
    r2: R2OverAll
    alone: tuple[Alone, ...]

    def document(self) -> dict[str, object]:
        """Return it as JSON holds it."""
        known = {percent: found for percent, found in self.colluding.items() if found < math.inf}
        return {
            "organisations": self.organisations,
            "promised_to": self.promised_to,
            "epsilon_if_colluding": {str(self.organisations * each // 100): found for each, found in known.items()},
            "dropped_rows": self.dropped_rows,
            "r2_over_all_rows": asdict(self.r2),
            "alone": [asdict(each) for each in self.alone],
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

    @cached_property
    def files(self) -> list[tuple[IntArray, IntArray]]:
        """Return for each organisation the places of its rows, shape `(k,)`, and whose each is, numbered from 0."""
        held = [np.flatnonzero(self.of == number) for number in range(len(self.organisations))]
        return [(own, np.unique(self.persons[own], return_inverse=True)[1].astype(np.int64)) for own in held]


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


def contributors_of(whose: Whose, bounds: Bounds, rows: FloatArray, pairs: IntArray) -> dict[str, object]:
    """Return what the specification of organisations says instead of that of clients.

    `rows` are the complete ones, shape `(n, d)`, in users' units. `pairs` are the number of each row's person in its
    organisation, shape `(n,)`.
    """
    person_bound = _person_bound(bounds, rows, pairs, whose.rows_per_person)
    return {
        "min_clients": len(whose.organisations),
        "max_clients": len(whose.organisations),
        "contributors": {
            "rows_per_person": whose.rows_per_person,
            "organisations_per_person": whose.organisations_per_person,
            "max_rows": int(np.bincount(whose.of).max()),
            **({} if person_bound is None else {"person_bound": person_bound}),
        },
    }


def pooled_of(
    whose: Whose,
    collected: Collected,
    answer: RegressionComparison,
    rows: EncodedRows,
    whole: NDArray[np.bool_],
    dropped_rows: int,
    said: Callable[[str], None],
) -> PooledComparison:
    """Compare what all learn with what each learns alone.

    `rows` are the complete rows of all, those of the table for which `whole`, shape `(n,)`, is true.
    """
    assert collected.exact is not None
    task, features, draws = collected.task, [slope.name for slope in answer.judgement.slopes], answer.judgement.draws
    together = _drawn_r2(collected.exact, rows, features, draws)
    alone, count = [], min(len(whose.organisations), MOST_ALONE)
    for number, (name, (places, persons)) in enumerate(zip(whose.organisations, whose.files[:count], strict=False)):
        said(f"estimating what each learns alone: {number + 1} of {count}")
        exact = read(task, collected.contributions[number][np.newaxis], np.array([1], np.int64))
        try:
            by_itself = _drawn_r2(exact, rows, features, draws)
        except InvalidAnalysisError:
            by_itself = None
        own = rows.own[whose.of[whole] == number]
        plain = _r2_of_own(rows, own, features) if len(own) else None
        better = 1.0 if by_itself is None else float(np.mean(together > by_itself))
        without = 1.0 if plain is None else float(np.mean(together > plain))
        r2 = R2OverAll(None if by_itself is None else float(np.median(by_itself)), plain)
        alone.append(Alone(name, len(places), int(persons.max()) + 1, r2, better, without))
    return PooledComparison(
        promised_to=collected.privacy.persons,
        colluding=epsilons_if_colluding(task.measurement, task.claim),
        organisations=len(whose.organisations),
        dropped_rows=dropped_rows,
        r2=R2OverAll(float(np.median(together)), answer.r2.own),
        alone=tuple(alone),
    )


def gains(shares: Sequence[float]) -> tuple[int, int]:
    """Return how many of these shares of draws say "better together", and how many say neither that nor the reverse."""
    better = sum(share >= SEEN for share in shares)
    return better, sum(max(share, 1 - share) < SEEN for share in shares)


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


def _drawn_r2(exact: Release, rows: EncodedRows, features: Sequence[str], draws: int) -> FloatArray:
    """Return R2 over all rows of the point that a release prints, for many draws of its noise, shape `(B,)`.

    Raises InvalidAnalysisError if there are too few rows for a regression.
    """
    drawn = Draws.of(exact.second_moment(), rows.names[-1], features, draws)
    units = rows.in_units(rows.own)[:, [*rows.places(features), len(rows.names) - 1]]
    return OwnRows.of(units, drawn.design.gram.columns, own_slopes=False).r2_of(drawn.points())


def _r2_of_own(rows: EncodedRows, own: FloatArray, features: Sequence[str]) -> float:
    """Return R2 over all rows of least squares on an organisation's own, shape `(m, k)`.

    Of slopes that these do not determine the smallest are taken, so that a column that is the same in all of them has
    the slope 0.
    """
    places, middle = rows.places(features), own.mean(axis=0)
    centred = own - middle
    slopes = np.linalg.lstsq(centred[:, places], centred[:, -1], rcond=_CUT_OFF)[0]
    return r2_of(rows.own[:, -1], middle[-1] + (rows.own[:, places] - middle[places]) @ slopes)
