"""Judges whether a collection of rows like a table's would tell its slopes, over many draws of the noise.

1. A slope is *large* if it is at least a tenth of a deviation of the target for a deviation of its feature.
2. It is *seen* in a draw if its 95 % interval is bounded and excludes 0.
3. The verdict is *good* if every large slope is seen in 80 % of the draws and the slope that the collection estimates
   has the sign of the table's own and at least half its size; or, without a large slope, if all would be seen from a
   tenth of a deviation on. It is *part* if that holds of some large slopes, *prediction only* if of none, but the
   median R2 of the point exceeds half of the table's, and else *not at this size*.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lintra_analysis.releases.columns import ScaledColumn, centers, scales
from lintra_analysis.trial.draws import FEW, SOME, Draws
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.privacy.gaussian import gaussian_mu

Verdict = Literal["good", "part", "prediction only", "not at this size"]

LARGE = 0.1
SEEN = 0.8
STEP = 0.05
OTHERS = 10
HALF = 0.5
POWER = 2.8 / 1.96
"""A slope of 2.8 deviations of its error is found in 80 % of the draws; an interval reaches 1.96 of them."""

_WIDTHS, _LEAST_WIDTHS = 400, 4

MORE_ROWS, LARGER_EPSILONS = (4, 16), (2.0, 4.0)


@dataclass(frozen=True)
class SlopeVerdict:
    """What draws say of one slope, in the columns' own units.

    Attributes:
        own: of the table, by ordinary least squares; None where its rows do not determine it.
        weighted: that a collection estimates: the same of the rows as they are collected, without noise; None likewise.
        large: whether the own slope is.
        seen: share of the draws in which it is seen, in steps of 5 %; None for a small slope that is not asked about.
        seen_from: the size from which a slope would be seen in 80 % of the draws; None if no size would be.
        off_by: the median distance of the printed point from the table's own slope.
    """

    name: str
    own: float | None
    weighted: float | None
    large: bool
    seen: float | None
    seen_from: float | None
    off_by: float | None

    @property
    def kept(self) -> bool:
        """Return whether the collection's slope has the sign of the table's own and at least half of its size."""
        if self.own is None or self.weighted is None:
            return False
        return bool(self.weighted * np.sign(self.own) >= HALF * abs(self.own))

    @property
    def told(self) -> bool:
        """Return whether it is seen often enough, and is what the table's is."""
        return self.kept and self.seen is not None and self.seen >= SEEN


@dataclass(frozen=True)
class Size:
    """A cohort of so many rows like the table's, at an epsilon, and whether the verdict there would be good."""

    rows: int
    epsilon: float
    good: bool


@dataclass(frozen=True)
class SimulatedCollections:
    """The verdict on the full model, and what it rests on.

    Attributes:
        draws: how many there were.
        slopes: of all features, in their order.
        r2: the median, over draws, of the R2 that predictions by the point have on the table's own rows.
        own_r2: of ordinary least squares on them.
        sizes: other sizes that were simulated, until one was good: at this epsilon, then with these rows, then both.
    """

    draws: int
    slopes: tuple[SlopeVerdict, ...]
    r2: float
    own_r2: float
    verdict: Verdict
    sizes: tuple[Size, ...]


@dataclass(frozen=True, eq=False)
class OwnRows:
    """The table's own rows beside draws of its collection: what they are held against.

    Attributes:
        products: Z^T Z of rows of a one, the features and the target, normalised and with nothing clipped, `(q, q)`.
        slopes: of ordinary least squares, normalised, shape `(f,)`; None where the rows do not determine them.
        units: the units of a normalised slope, shape `(f,)`.
        constant: what stands for the one in a collected row.
    """

    products: FloatArray
    slopes: FloatArray | None
    units: FloatArray
    constant: float

    @classmethod
    def of(cls, values: FloatArray, columns: Sequence[ScaledColumn], *, own_slopes: bool) -> "OwnRows":
        """Fit rows in units, shape `(n, q - 1)`, the target last; `columns` are those of a release, a constant first.

        `own_slopes` says whether the rows determine them.
        """
        varying = columns[-values.shape[1] :]
        rows = (values - centers(varying)) / scales(varying)
        whole = np.column_stack([np.ones(len(rows)), rows])
        slopes = np.linalg.lstsq(whole[:, :-1], whole[:, -1], rcond=None)[0][1:] if own_slopes else None
        units = scales(varying)[-1] / scales(varying)[:-1]
        return cls(whole.T @ whole, slopes, units, float(columns[0].constant or 1.0))

    @cached_property
    def about_means(self) -> FloatArray:
        """The products about the means, shape `(q - 1, q - 1)`."""
        sums = self.products[0, 1:]
        return np.asarray(self.products[1:, 1:] - np.outer(sums, sums) / self.products[0, 0])

    @cached_property
    def standard(self) -> FloatArray:
        """What makes a normalised slope one in deviations, shape `(f,)`."""
        squares = np.diagonal(self.about_means)
        return np.asarray(np.sqrt(squares[:-1] / squares[-1])) if squares[-1] > 0 else np.zeros(squares.size - 1)

    @property
    def deviations(self) -> FloatArray:
        """Return what makes a slope in its unit one in deviations, shape `(f,)`."""
        return np.asarray(self.standard / np.abs(self.units))

    @property
    def sizes(self) -> FloatArray:
        """Return the sizes of the slopes in deviations, 0 where the rows do not determine them; shape `(f,)`."""
        return np.abs(np.zeros(self.units.size) if self.slopes is None else self.slopes) * self.standard

    @property
    def large(self) -> NDArray[np.bool_]:
        """Return which slopes are large, shape `(f,)`."""
        return np.asarray(self.sizes >= LARGE)

    @property
    def r2(self) -> float:
        """Return that of ordinary least squares; of dependent features, too."""
        moments = self.about_means
        solution = np.linalg.lstsq(moments[:-1, :-1], moments[:-1, -1], rcond=None)[0]
        return float(solution @ moments[:-1, -1] / moments[-1, -1]) if moments[-1, -1] > 0 else 0.0

    def r2_of(self, points: FloatArray) -> FloatArray:
        """Return R2 of predictions of these rows by coefficients of shape `(B, p)`; shape `(B,)`. It may be below 0."""
        theta = np.column_stack([self.constant * points[:, 0], points[:, 1:], -np.ones(len(points))])
        total = float(self.about_means[-1, -1])
        return np.asarray(1 - np.sum(theta @ self.products * theta, axis=1) / total) if total > 0 else 0 * theta[:, 0]

    def some(self, features: IntArray) -> "OwnRows":
        """Return the same rows with some features only, numbered in shape `(k,)`."""
        index = np.concatenate([[0], features + 1, [len(self.products) - 1]])
        slopes = None if self.slopes is None else self.slopes[features]
        return OwnRows(self.products[np.ix_(index, index)], slopes, self.units[features], self.constant)


def judge(draws: Draws, own: OwnRows, rows: int, epsilon: float, delta: float) -> SimulatedCollections:
    """Judge a collection; `rows`, `epsilon` and `delta` say which it is.

    `draws` have an intercept. A row of the table is one of `own`.
    """
    slopes = slopes_of(draws, own)
    r2 = float(np.median(own.r2_of(draws.points())))
    verdict = verdict_of(slopes, own.deviations, r2, own.r2)
    any_large = own.slopes is not None and bool(own.large.any())

    def good(louder: float) -> bool:
        found = slopes_of(draws.louder(louder, SOME), own, widths=not any_large)
        return verdict_of(found, own.deviations) == "good"

    asked = verdict != "good" and own.slopes is not None
    sizes = tuple(other_sizes(good, rows, epsilon, delta)) if asked else ()
    return SimulatedCollections(len(draws.noise), slopes, r2, own.r2, verdict, sizes)


def verdict_of(
    slopes: tuple[SlopeVerdict, ...], deviations: FloatArray, explained: float = 0.0, own_explained: float = 0.0
) -> Verdict:
    """Return the verdict on slopes; `deviations`, shape `(f,)`, make each one in deviations of target and feature.

    `explained` is what predictions explain of these rows in the median, and `own_explained` what the table's own do.
    """
    large = [slope for slope in slopes if slope.large]
    reach = [
        slope.seen_from is not None and slope.seen_from * deviation < LARGE
        for slope, deviation in zip(slopes, deviations.tolist(), strict=True)
        if slope.seen is not None
    ]
    determined = all(slope.own is not None for slope in slopes)
    if all(slope.told for slope in large) if large else determined and all(reach):
        return "good"
    if any(slope.told for slope in large):
        return "part"
    return "prediction only" if explained > HALF * own_explained > 0 else "not at this size"


def slopes_of(draws: Draws, own: OwnRows, *, widths: bool = True) -> tuple[SlopeVerdict, ...]:
    """Return what draws say of each slope; `widths` says whether from which size on one is seen is asked, too."""
    names, start = draws.design.names, draws.start
    sizes, large = own.sizes, own.large
    small = [place for place in np.argsort(-sizes, kind="stable").tolist() if not large[place]]
    asked = np.sort(np.concatenate([np.flatnonzero(large), np.array(small[:OTHERS], np.int64)]))
    parts = draws.statements(asked)
    seen = sum((part.excludes_zero() for part in parts), np.zeros(len(asked))) / len(draws.noise)
    bounded = np.concatenate([part.bounded for part in parts])
    half = _half_widths(draws, asked, bounded) if widths else np.full(len(asked), np.inf)
    points = draws.points()[:, start:]
    weighted = draws.solution()[start:]
    place_of: Mapping[int, int] = {int(place): number for number, place in enumerate(asked.tolist())}
    found = []
    for place, name in enumerate(names):
        unit, number = float(own.units[place]), place_of.get(place)
        truth = None if own.slopes is None else float(own.slopes[place])
        told = number is not None and np.isfinite(half[number])
        found.append(
            SlopeVerdict(
                name=name,
                own=None if truth is None else truth * unit,
                weighted=float(weighted[place]) * unit,
                large=bool(large[place]),
                seen=None if number is None else round(round(float(seen[number]) / STEP) * STEP, 2),
                seen_from=POWER * float(half[number]) * unit if told and number is not None else None,
                off_by=None if truth is None else float(np.median(np.abs(points[:, place] - truth))) * unit,
            )
        )
    return tuple(found)


def _half_widths(draws: Draws, asked: IntArray, bounded: NDArray[np.bool_]) -> FloatArray:
    """Return the median half-width of each interval, shape `(k,)`; infinite if under 80 % of the draws have intervals.

    It hardly varies from draw to draw, and a width takes thirty times as long as to exclude 0, so few draws tell it.
    """
    if bounded.mean() < SEEN:
        return np.full(len(asked), np.inf)
    count = min(FEW, max(_LEAST_WIDTHS, _WIDTHS // len(asked)))
    ends = [part.intervals() for part in draws.at(np.flatnonzero(bounded)[:count]).statements(asked)]
    return np.asarray(np.median(np.diff(np.concatenate(ends), axis=2)[:, :, 0] / 2, axis=0))


def other_sizes(good: Callable[[float], bool], rows: int, epsilon: float, delta: float) -> list[Size]:
    """Simulate other sizes: more rows, a larger epsilon, then most of both; a direction ends where one is good.

    `good` says whether collections with noise so many times as large, beside the sums of these rows, are.
    """
    here, found = gaussian_mu(epsilon, delta), list[Size]()
    directions = ([(times, 1.0) for times in MORE_ROWS], [(1, factor) for factor in LARGER_EPSILONS])
    for cells in (*directions, [(MORE_ROWS[-1], LARGER_EPSILONS[-1])]):
        if len(cells) == 1 and any(size.good for size in found):
            break
        for times, factor in cells:
            # Sums grow with the rows and their noise does not: only the ratio of the two matters.
            louder = here / gaussian_mu(epsilon * factor, delta) / times
            found.append(Size(rows * times, epsilon * factor, good(louder)))
            if found[-1].good:
                break
    return found
