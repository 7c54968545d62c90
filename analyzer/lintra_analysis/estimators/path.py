"""The ridge path: the same regression under many penalties, and which of them the release itself speaks for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.coefficients import unit_map
from lintra_analysis.estimators.concentrated.optimism import stein_costs
from lintra_analysis.estimators.design import Design, check_regularization, design
from lintra_analysis.estimators.estimates import check_confidence, checked_rows, diagonal_sd
from lintra_analysis.estimators.remarks import warnings_of
from lintra_analysis.estimators.solve import Fit, solve
from lintra_analysis.estimators.tables import Tabular, closing, csv_text, facts, number, table, title
from lintra_analysis.releases.gram import HasSecondMoment
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.ring import FloatArray

MOST_PENALTIES = 200
_STEPS = 25
_FAR_BELOW_FLOOR = 1e-3

STEIN_NOTE = (
    "cost estimates the cohort's sum of squared residuals at each solution, read on the released matrix as it is less "
    "Stein's estimate of what the fit adapts to (Stein 1981), by 40 solutions of perturbed matrices"
)
COST_NOTE = (
    "cost estimates the cohort's sum of squared residuals at each solution, with what the noise makes the fit adapt to "
    "added back (Mallows 1973, with the noise of the release in the place of the residuals')"
)


@dataclass(frozen=True, eq=False, repr=False)
class RegressionPath(Tabular):
    """One regression under k penalties, in the columns' own units.

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

    def __repr__(self) -> str:
        return f"RegressionPath({self.target!r} on {len(self.features)} features, {self.costs.size} penalties)"

    @property
    def best_regularization(self) -> float:
        """The penalty of the smallest cost."""
        return float(self.regularizations[self.best])

    def predict(self, rows: FloatArray, position: int | None = None) -> FloatArray:
        """Return the target, shape `(k,)`, for rows of shape `(k, p)`, at one penalty; by default at the best.

        Raises:
            ValueError: the rows do not have one column for each feature, or are not finite.
        """
        chosen = self.best if position is None else position
        predicted: FloatArray = checked_rows(rows, self.features) @ self.coefficients[chosen] + self.intercepts[chosen]
        return predicted

    def to_csv(self) -> str:
        """Return one line for each penalty."""
        errors = self.standard_errors
        header = ["regularization", "cost", "intercept", *self.features]
        columns = [self.regularizations, self.costs, self.intercepts, *self.coefficients.T]
        if errors is not None:
            header += [f"standard_error {name}" for name in self.features]
            columns += list(errors.T)
        return csv_text(header, np.column_stack(columns).tolist())

    def summary(self, privacy: str | None = None) -> str:
        """Return a text for people; the best penalty carries a star."""
        lines = title(f"Ridge path of {self.target} from a private second moment")
        lines += facts(
            [("Clients", str(self.num_clients)), ("Best penalty", number(self.best_regularization))],
        )
        rows = [
            [("* " if i == self.best else "  ") + number(penalty), number(cost, 6), *map(number, coefficients)]
            for i, (penalty, cost, coefficients) in enumerate(
                zip(self.regularizations.tolist(), self.costs.tolist(), self.coefficients.tolist(), strict=True)
            )
        ]
        lines += table(["  penalty", "cost", *self.features], rows)
        return "\n".join([*lines, *closing(privacy, self.warnings, [self.cost_note])]) + "\n"


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

    Args:
        release: a sketch or a second moment.
        target: the column to explain.
        features: the columns that explain it; all others by default.
        regularizations: the penalties, each at least 0, in normalised units; by default 25 from far below what
            noise makes matter to where every coefficient is halved at least.
        intercept: whether to fit one; by default if the release holds a constant column.
        confidence: as for `regression`; a path has no intervals.

    Raises:
        InvalidAnalysisError: the release holds no second moments, or an argument does not fit it.
    """
    check_confidence(confidence)
    chosen = design(release, target, features, intercept)
    penalties = _default(chosen) if regularizations is None else _checked(regularizations)
    fits = [solve(chosen, penalty) for penalty in penalties.tolist()]
    return _report(chosen, penalties, fits)


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
    to_units = unit_map(chosen.gram.columns[:-1], chosen.target)
    values = np.array([to_units @ fit.solution for fit in fits])
    errors = [diagonal_sd(fit.parts.total(to_units, "population"))[:-1] for fit in fits if fit.parts]
    stein = stein_costs(chosen, penalties)
    costs = (np.array([fit.cost for fit in fits]) if stein is None else stein) * chosen.target.scale**2
    warnings = list(dict.fromkeys(warning for fit in fits for warning in warnings_of(chosen.gram, fit, known=False)))
    best = int(costs.argmin())
    if fits[0].regularised and stein is None:
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
        cost_note=COST_NOTE if stein is None else STEIN_NOTE,
        best=best,
        floor=fits[0].floor,
        regularised=fits[0].regularised,
        warnings=tuple(warnings),
    )
