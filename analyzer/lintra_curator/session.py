"""A session on one's own table: private releases under one budget, charged before each of them.

Every release is Gaussian up to a stated slack, so that what several spend together is exact (`composition.Spending`),
also when a release is chosen after seeing the results of earlier ones (docs/proofs/together.md#composition).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from lintra_analysis.kinds.joint_question import JointQuestion
from lintra_analysis.releases.columns import INTERCEPT, ScaledColumn
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_curator.claims.claim import curator_claim
from lintra_curator.ron_gauss.ron_gauss import category_column, mapped_column, prepare_ron_gauss
from lintra_curator.second_moment.bounded_table import BoundedTable
from lintra_curator.second_moment.central_second_moment import CentralSecondMoment
from lintra_curator.second_moment.gaussian_noise import GaussianNoise
from lintra_protocol.crypto.randomness import RandomBytes, bulk_system_randomness
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidRowError
from lintra_protocol.fields.schema import Column
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.statement import Claim, Neighbours


class BudgetExceededError(ValueError):
    """A release would spend more than is left of a session's budget; nothing was drawn and nothing charged.

    >>> raise BudgetExceededError("nothing is left")
    Traceback (most recent call last):
    ...
    lintra_curator.session.BudgetExceededError: nothing is left
    """


class NamedColumns(Protocol):
    """A table by column names: a pandas data frame, or a mapping from names to sequences of one length."""

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""

    def __getitem__(self, name: str, /) -> ArrayLike:
        """Return one column."""


class BudgetSession:
    """A table whose holder may release from it until a budget is spent.

    The number of rows, the names, bounds and levels are public, and must be chosen without a look at the rows.

    Args:
        frame: the table; columns that have neither bounds nor levels are left alone.
        epsilon: of everything that is ever released from this session, together.
        delta: likewise; of every single release too.
        bounds: lowest and highest value of numeric columns; values beyond are moved to the nearer bound.
        levels: the levels of categories.
        neighbours: "replace-one" if one row may change, "zero-out" if one row may become the null row.
        random_bytes: a cryptographic source; the operating system's by default.

    Raises:
        ValueError: bounds, levels or budget are out of range.
        InvalidRowError: a value is not a finite number, or not one of its levels, or the columns differ in length.

    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> hours = generator.uniform(0, 10, 4000)
    >>> frame = {"hours": hours, "grade": 1 + 0.4 * hours + generator.normal(0, 0.3, 4000)}
    >>> session = BudgetSession(frame, epsilon=1.0, delta=1e-6, bounds={"hours": (0, 10), "grade": (0, 6)})
    >>> release = session.second_moment(["hours", "grade"], epsilon=0.8)
    >>> release.num_clients
    4000
    >>> round(session.epsilon_spent, 2)
    0.8
    >>> session.second_moment(["hours", "grade"], epsilon=0.8)
    Traceback (most recent call last):
    ...
    lintra_curator.session.BudgetExceededError: this release would bring the session to epsilon 1.16 at delta 1e-06, \
more than its budget of epsilon 1; it has spent epsilon 0.8
    """

    def __init__(
        self,
        frame: NamedColumns,
        *,
        epsilon: float,
        delta: float,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        levels: Mapping[str, Sequence[str]] | None = None,
        neighbours: Neighbours = "replace-one",
        random_bytes: RandomBytes | None = None,
    ) -> None:
        self._budget = curator_claim(epsilon, delta, neighbours)
        self._columns = _described(bounds or {}, levels or {})
        self._values = _values(frame, self._columns)
        self._random_bytes = random_bytes or bulk_system_randomness()
        self._spent = Spending.zero()
        self._lock = Lock()

    def __repr__(self) -> str:
        return (
            f"BudgetSession(columns={list(self._columns)}, rows={len(self._values)}, spent {self.epsilon_spent:.3g} of "
            f"epsilon {self._budget.float_epsilon:g} at delta {self._budget.float_delta:g}, {self._budget.neighbours})"
        )

    @property
    def spent(self) -> Spending:
        """What all releases so far spend together."""
        return self._spent

    @property
    def epsilon_spent(self) -> float:
        """The epsilon of all releases so far together, at the session's delta; 0 before the first."""
        return self._spent.epsilon_at(self._budget.float_delta)

    def second_moment(
        self, names: Sequence[str], *, epsilon: float, intercept: bool = True, row_bound: float | None = None
    ) -> CentralSecondMoment:
        """Release the second moment of columns, from which regressions, means and components follow.

        A category of K levels becomes K - 1 indicators such as `sex[female]`; its first level is the reference.

        Args:
            names: of columns with bounds or levels.
            epsilon: of this release alone, at the session's delta.
            intercept: count the constant 1 as a column, which means and regressions with an intercept need.
            row_bound: of a row whose bounds are mapped to -1 and 1, with 1 for an indicator; by default the longest
                that the bounds allow. Longer rows are shrunk.

        Raises:
            ValueError: a column is unknown or named twice, or there are fewer rows than columns.
            CalibrationError: no noise that can be drawn keeps the claim.
            BudgetExceededError: not enough is left.
        """
        claim = self._claim(epsilon)
        places = self._places(names)
        blocks = [
            _normalised(self._columns[name], self._values[:, place]) for name, place in zip(names, places, strict=True)
        ]
        columns = [column for scaled, _ in blocks for column in scaled]
        rows = np.column_stack([values for _, values in blocks])
        if intercept:
            columns = [ScaledColumn(INTERCEPT, 0.0, 1.0, 1.0, 1.0), *columns]
            rows = np.column_stack([np.ones(len(rows)), rows])
        # A number has at most 1, and of a category's indicators one is 1.
        longest = math.sqrt(len(names) + intercept)
        table = BoundedTable.of(rows, columns, longest if row_bound is None else row_bound)
        mechanism = GaussianNoise()
        self._charge(mechanism.price(claim, len(columns)))
        return mechanism.release(table, claim, self._random_bytes)

    def ron_gauss(
        self, names: Sequence[str], *, epsilon: float, question: JointQuestion | None = None
    ) -> ProjectedSums:
        """Release counts, sums, products and histograms, from which synthetic rows are drawn (RON-Gauss).

        Args:
            names: of columns with bounds or levels.
            epsilon: of this release alone, at the session's delta.
            question: label, dimension, radius, bins and covariance; by default no label and all of it planned.

        Raises:
            ValueError: a column is unknown or named twice.
            InvalidTaskError: the columns or the question do not fit the mechanism.
            CalibrationError: no noise that can be drawn keeps the claim.
            BudgetExceededError: not enough is left.
        """
        claim = self._claim(epsilon)
        rows = self._values[:, self._places(names)]
        columns = [self._columns[name] for name in names]
        prepared = prepare_ron_gauss(rows, columns, claim, self._random_bytes, question=question)
        self._charge(Spending.of(prepared.statement))
        return prepared.draw(self._random_bytes)

    def _claim(self, epsilon: float) -> Claim:
        return curator_claim(epsilon, self._budget.float_delta, self._budget.neighbours)

    def _charge(self, price: Spending) -> None:
        """Charge a release before it is drawn: what fails afterwards has been paid for."""
        epsilon, delta = self._budget.float_epsilon, self._budget.float_delta
        with self._lock:
            together = self._spent + price
            # Not `.. > delta`: a NaN must be refused too.
            if not together.delta_at(epsilon) <= delta:
                raise BudgetExceededError(
                    f"this release would bring the session to epsilon {together.epsilon_at(delta):.3g} at "
                    f"delta {delta:g}, more than its budget of epsilon {epsilon:g}; it has spent "
                    f"epsilon {self.epsilon_spent:.3g}"
                )
            self._spent = together

    def _places(self, names: Sequence[str]) -> list[int]:
        if not names or len(set(names)) < len(names):
            raise ValueError(f"a release needs columns that differ, got {list(names)}")
        return [self._place(name) for name in names]

    def _place(self, name: str) -> int:
        if name not in self._columns:
            raise ValueError(f"the session has no column {name!r} with bounds or levels; it has {list(self._columns)}")
        return list(self._columns).index(name)


def _described(bounds: Mapping[str, tuple[float, float]], levels: Mapping[str, Sequence[str]]) -> dict[str, Column]:
    if both := bounds.keys() & levels.keys():
        raise ValueError(f"columns have bounds or levels, not both: {sorted(both)}")
    if not bounds and not levels:
        raise ValueError("a session needs the public bounds or levels of the columns it may release")
    numeric = {name: mapped_column(name, *ends) for name, ends in bounds.items()}
    return numeric | {name: category_column(name, some) for name, some in levels.items()}


def _values(frame: NamedColumns, columns: Mapping[str, Column]) -> FloatArray:
    """Return the described columns as numbers within their bounds, shape `(n, d)`, categories by level number."""
    missing = columns.keys() - set(frame)
    if missing:
        raise ValueError(f"the table has no columns {sorted(missing)}")
    every = [_column_values(frame[name], column) for name, column in columns.items()]
    if len({len(values) for values in every}) > 1:
        raise InvalidRowError("the columns of the table differ in length")
    return np.column_stack(every)


def _column_values(given: ArrayLike, column: Column) -> FloatArray:
    if column.kind == "category":
        number = {level: place for place, level in enumerate(column.levels)}
        try:
            return np.array([number[str(value)] for value in np.asarray(given)], np.float64)
        except KeyError as error:
            raise InvalidRowError(f"column {column.name!r} holds a value that is none of its levels") from error
    try:
        values = np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidRowError(f"column {column.name!r} holds a value that is no number") from error
    if values.ndim != 1 or not np.isfinite(values).all():
        raise InvalidRowError(f"column {column.name!r} must be one finite number for each row; fill what is missing")
    return np.clip(values, float(fraction(column.lower)), float(fraction(column.upper)))


def _normalised(column: Column, values: FloatArray) -> tuple[list[ScaledColumn], FloatArray]:
    """Return what a column becomes in a second moment: its scaled columns, and their values, shape `(n, k)`."""
    if column.kind != "category":
        scaled = ScaledColumn(*_scale(column), column.unit)
        return [scaled], ((values - scaled.center) / scaled.scale)[:, np.newaxis]
    indicators = [
        ScaledColumn(
            f"{column.name}[{level}]", 0.0, 1.0, 0.0, 1.0, kind="boolean", category=column.name, levels=column.levels
        )
        for level in column.levels[1:]
    ]
    return indicators, (values[:, np.newaxis] == np.arange(1, len(column.levels))).astype(np.float64)


def _scale(column: Column) -> tuple[str, float, float, float, float]:
    center, scale, lower, upper = (
        float(fraction(real)) for real in (column.center, column.scale, column.lower, column.upper)
    )
    return column.name, center, scale, lower, upper
