"""The ridge path: the same regression under many penalties, and the penalty that the release supports best."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import numpy as np

from lintra_analysis.estimators.design import INTERCEPT, Design, check_regularization, design
from lintra_analysis.estimators.estimates import check_confidence, diagonal_sd
from lintra_analysis.estimators.figures import Figure, draw_path
from lintra_analysis.estimators.notes import clients, listed, warnings_of
from lintra_analysis.estimators.point import Point, drawn_to_zero, released_means, with_intercept
from lintra_analysis.estimators.rows import Rows, rows_by_name
from lintra_analysis.estimators.solve import Fit, solve
from lintra_analysis.estimators.spectral import floor_eigenvalues
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.estimators.tabular import number
from lintra_analysis.releases.columns import ScaledColumn, scales
from lintra_analysis.releases.gram_error import HasSecondMoment
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.canonical import domain_hash
from lintra_protocol.errors import InvalidAnalysisError

MOST_PENALTIES = 200
_STEPS = 25
_FAR_BELOW_FLOOR = 1e-3

REDRAWN_NOTE = (
    "cost is the mean sum of squared residuals of the fit under each penalty, were the released matrix (eigenvalues "
    "below 0 set to 0) the truth and its noise drawn again, 40 times"
)
COST_NOTE = (
    "cost estimates the cohort's sum of squared residuals at each solution, with what the noise makes the fit adapt to "
    "added back (Mallows 1973, with the noise of the release in the place of the residuals')"
)


@dataclass(frozen=True, eq=False, repr=False)
class RegressionPath(Estimate):
    """One regression under k penalties, in the columns' own units.

    >>> from lintra_analysis import open_release, regression_path
    >>> path = regression_path(open_release("flights.npz"), "delay")
    >>> path.coefficients.shape, path.alpha_ in path.regularizations
    ((25, 2), True)

    Attributes:
        regularizations: lambda in normalised units, ascending, shape `(k,)`.
        coefficients: shape `(k, p)`.
        standard_errors: of the coefficients, all causes together, shape `(k, p)`; None if not available.
        intercepts: shape `(k,)`.
        costs: estimates of the cohort's sum of squared residuals at each solution, shape `(k,)`.
        cost_note: how they were estimated.
        best: position of the smallest cost.
        regularised: whether an eigenvalue lay below `floor` and was raised, before any penalty.
        warnings: in plain words, what the analyst must know before using the numbers.
        scaled_columns: features and target as the release has them; not part of `to_dict`.
    """

    target: str
    features: tuple[str, ...]
    num_clients: int
    regularizations: FloatArray
    coefficients: FloatArray
    standard_errors: FloatArray | None
    intercepts: FloatArray
    intercept_fitted: bool
    costs: FloatArray
    cost_note: str
    best: int
    floor: float
    regularised: bool
    warnings: tuple[str, ...]
    scaled_columns: tuple[ScaledColumn, ...] = field(default=(), metadata={"plain": False})

    def __repr__(self) -> str:
        return f"RegressionPath({self.target!r} on {len(self.features)} features, {self.costs.size} penalties)"

    @property
    def params(self) -> dict[str, float]:
        """The coefficients at the best penalty by name, the intercept last, as statsmodels names them."""
        return dict(zip((*self.features, INTERCEPT), [*self.coef_.tolist(), self.intercept_], strict=True))

    @property
    def alpha_(self) -> float:
        """The best penalty, as scikit-learn names it."""
        return self.best_regularization

    @property
    def coef_(self) -> FloatArray:
        """The coefficients at the best penalty, shape `(p,)`, as scikit-learn names them."""
        found: FloatArray = self.coefficients[self.best]
        return found

    @property
    def intercept_(self) -> float:
        """The intercept at the best penalty, in the target's unit."""
        return float(self.intercepts[self.best])

    @property
    def feature_names_in_(self) -> tuple[str, ...]:
        """The features in the order that `predict` expects of an array."""
        return self.features

    @property
    def best_regularization(self) -> float:
        """The penalty of the smallest cost."""
        return float(self.regularizations[self.best])

    def predict(self, rows: Rows, position: int | None = None) -> FloatArray:
        """Return the target, shape `(k,)`, at one penalty; by default at the best.

        Args:
            rows: as for the regression's `predict`.
            position: of the penalty.

        Raises:
            ValueError: a feature is missing, the shape does not fit, a number is not finite, or a level is unknown.
        """
        chosen = self.best if position is None else position
        held = rows_by_name(rows, self.features, self.scaled_columns)
        predicted: FloatArray = held @ self.coefficients[chosen] + self.intercepts[chosen]
        return predicted

    def table(self) -> Table:
        """Return one line for each penalty; in the text the best one carries a star."""
        errors = [] if self.standard_errors is None else [f"standard_error {name}" for name in self.features]
        numbers = [] if self.standard_errors is None else list(self.standard_errors.T)
        lines = np.column_stack([self.regularizations, self.costs, self.intercepts, *self.coefficients.T, *numbers])
        columns = zip(self.regularizations.tolist(), self.costs.tolist(), self.coefficients.tolist(), strict=True)
        rows = (
            [("* " if i == self.best else "  ") + number(penalty), number(cost, 6), *map(number, coefficients)]
            for i, (penalty, cost, coefficients) in enumerate(columns)
        )
        return Table(
            title=f"Ridge path of {self.target} from a private second moment",
            columns=["regularization", "cost", "intercept", *self.features, *errors],
            rows=lines.tolist(),
            index=("regularization",),
            facts=[("Clients", str(self.num_clients)), ("Best penalty", number(self.best_regularization))],
            shown=[(["  penalty", "cost", *self.features], rows)],
            notes=(self.cost_note,),
            warnings=self.warnings,
            figures={"": self._figure},
        )

    def _figure(self) -> Figure:
        """Return each coefficient, times the public scale of its feature, over the penalties."""
        curves = self.coefficients * scales(self.scaled_columns[:-1])
        draw = partial(
            draw_path,
            penalties=self.regularizations,
            curves=list(zip(self.features, curves.T, strict=True)),
            best=self.best_regularization,
            title=f"Ridge path of {self.target}",
            up=f"change of {self.target} for one scale of a feature",
        )
        return Figure(8, draw)

    def in_words(self) -> str:
        """Return the penalty of the smallest cost, and the coefficients there."""
        said = [f"{name} {number(value)}" for name, value in zip(self.features, self.coef_.tolist(), strict=True)]
        rows = clients(self.num_clients)
        return (
            f"Regression of {self.target} under {self.costs.size} penalties, {rows}. The cost is smallest at a penalty "
            f"of {number(self.best_regularization)}, where the coefficients are {listed(said)}."
        )


def regression_path(
    release: HasSecondMoment,
    target: str,
    features: Sequence[str] | None = None,
    regularizations: Sequence[float] | None = None,
    *,
    intercept: bool | None = None,
    confidence: float = 0.95,
) -> RegressionPath:
    """Solve one regression under many penalties.

    >>> from lintra_analysis import open_release, regression_path
    >>> path = regression_path(open_release("flights.npz"), "delay", regularizations=[1, 10, 100])
    >>> path.regularizations
    array([  1.,  10., 100.])

    Args:
        release: a sketch or a second moment.
        target: the column to explain; or a formula such as `delay ~ hour + C(origin)`, which says all three
            (docs/explanation/estimators.md#formulas).
        features: the columns that explain it; all others by default.
        regularizations: the penalties, each at least 0, in normalised units; by default 25 from far below what
            noise makes matter to where every coefficient is halved at least.
        intercept: whether to fit one; by default if the release holds a constant column.
        confidence: as for `regression`; a path has no intervals.

    Returns:
        The coefficients under every penalty, in the order of `regularizations`.

    Raises:
        InvalidAnalysisError: the release holds no second moments, or an argument does not fit it.
    """
    check_confidence(confidence)
    chosen = design(release, target, features, intercept)
    penalties = _default(chosen) if regularizations is None else _checked(regularizations)
    return _report(chosen, penalties, [solve(chosen, penalty) for penalty in penalties.tolist()])


def _checked(regularizations: Sequence[float]) -> FloatArray:
    """Return the penalties in ascending order, or refuse them."""
    if not 1 <= len(regularizations) <= MOST_PENALTIES:
        raise InvalidAnalysisError(f"a path has 1 to {MOST_PENALTIES} penalties, got {len(regularizations)}")
    for penalty in regularizations:
        check_regularization(penalty)
    return np.unique(np.asarray(regularizations, np.float64))


def _default(chosen: Design) -> FloatArray:
    """Return penalties between noise and the largest eigenvalue of the features."""
    gram = chosen.gram
    start = chosen.fitted - len(chosen.features)
    largest = float(np.linalg.eigvalsh(gram.matrix[start:-1, start:-1])[-1])
    if largest <= 0:
        raise InvalidAnalysisError("noise has swallowed the features; state the penalties of the path")
    smallest = min(max(_FAR_BELOW_FLOOR * gram.errors.floor(chosen.fitted), 1e-6 * largest), 0.1 * largest)
    return np.geomspace(smallest, largest, _STEPS)


def _report(chosen: Design, penalties: FloatArray, fits: list[Fit]) -> RegressionPath:
    """Put the fits into the columns' own units."""
    to_units = chosen.to_units
    points = [Point.of(chosen, penalty, fit) for penalty, fit in zip(penalties.tolist(), fits, strict=True)]
    values = np.array([to_units @ point.solution for point in points])
    errors = [diagonal_sd(fit.parts.total(to_units, "population"))[:-1] for fit in fits if fit.parts]
    redrawn = redrawn_costs(chosen, penalties)
    costs = (np.array([fit.cost for fit in fits]) if redrawn is None else redrawn) * chosen.target.scale**2
    pairs = zip(fits, points, strict=True)
    found = (warnings_of(chosen.gram, fit, known=False, raised=point) for fit, point in pairs)
    warnings = list(dict.fromkeys(chain.from_iterable(found)))
    warnings += chosen.gram.row_notes
    best = int(costs.argmin())
    if points[0].regularised and redrawn is None:
        warnings.append("costs and the best penalty leave out that eigenvalues were raised; treat them as a hint")
    elif len(fits) > 1 and best == len(fits) - 1:
        warnings.append("the largest penalty has the smallest cost; try larger ones")
    return RegressionPath(
        target=chosen.target.name,
        features=chosen.names,
        num_clients=chosen.gram.num_clients,
        regularizations=penalties,
        coefficients=values[:, :-1],
        standard_errors=np.array(errors) if len(errors) == len(fits) else None,
        intercepts=values[:, -1] + chosen.target.center,
        intercept_fitted=chosen.constant is not None,
        costs=costs,
        cost_note=COST_NOTE if redrawn is None else REDRAWN_NOTE,
        best=best,
        floor=points[0].floor,
        regularised=points[0].regularised,
        warnings=tuple(warnings),
        scaled_columns=(*chosen.features, chosen.target),
    )


PAIRS = 20


def redrawn_costs(design: Design, penalties: FloatArray) -> FloatArray | None:
    """Return the mean sum of squared residuals of the fit under each penalty, shape `(k,)`, over 20 pairs +-N of draws.

    The draws come from the release itself, so that the same release has the same answer. `penalties` holds lambda,
    shape `(k,)`.

    Returns:
        None if the noise has no known Gaussian law.
    """
    gram = design.gram
    size = gram.matrix.shape[0]
    random_bytes = expand(domain_hash("regression path", np.ascontiguousarray(gram.matrix).tobytes()), "perturbations")
    noise = gram.errors.draws(PAIRS, size, random_bytes)
    sigma = gram.errors.spectral_sigma
    if noise is None or sigma is None:
        return None
    truth = floor_eigenvalues(gram.matrix, 0.0)
    constant = design.constant is not None
    costs = np.zeros(penalties.size)
    for one in noise:
        for sign in (1, -1):
            theta = _fits(truth + sign * one, penalties, sigma, constant)
            costs += np.sum(theta @ truth * theta, axis=1) / (2 * PAIRS)
    return costs


def _fits(matrix: FloatArray, penalties: FloatArray, sigma: float, constant: bool) -> FloatArray:
    """Return theta = (-b, 1) under penalties of shape `(k,)`; theta has shape `(k, p + 1)`."""
    means = released_means(matrix, sigma) if constant else None
    solution = with_intercept(drawn_to_zero(matrix, sigma, means, penalties)[0], means)
    return np.column_stack([-solution, np.ones(len(penalties))])
