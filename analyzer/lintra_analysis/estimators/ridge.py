"""Ridge regression of one column on others, from any release that holds second moments.

`regression` (regression.py) is the same solver with a table of tests; this is the plain answer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.coefficients import (
    CSV_HEADER,
    PARTS_NOTE,
    Coefficient,
    coefficients_of,
    shifted,
    text_header,
    unit_map,
)
from lintra_analysis.estimators.design import INTERCEPT, Design, check_regularization, design
from lintra_analysis.estimators.estimates import check_confidence, checked_rows
from lintra_analysis.estimators.solve import Fit, solve
from lintra_analysis.estimators.tables import Tabular, closing, csv_text, facts, number, table, title
from lintra_analysis.noise_laws.exchangeable_rows import ExchangeableRows
from lintra_analysis.releases.gram import GramEstimate, HasSecondMoment
from lintra_protocol.ring import FloatArray

R2_NOTE = (
    "r2 is predicted from this release, not measured on rows: the share of the target's second moment about "
    "its public center, not about its mean, that the fit explains on the cohort's clipped rows"
)
R2_ABOUT_MEAN_NOTE = (
    "r2 is predicted from this release, not measured on rows: the share of the target's variance about its mean that "
    "the fit explains on the cohort's clipped rows"
)

_NAMED = 5


@dataclass(frozen=True, eq=False)
class RidgeEstimate(Tabular):
    """The regression of one column on others.

    Attributes:
        coefficients: one for each feature, in the columns' own units.
        intercept: fitted if the release holds a constant column, else implied by the public centers; in the
            target's unit.
        normalised: one for each feature, in normalised units.
        regularization: lambda, added to the diagonal of the normalised Gram matrix.
        floor: the eigenvalue below which the Gram matrix counts as noise.
        regularised: whether an eigenvalue lay below it and was raised.
        residual_sum_of_squares: over the cohort, in the target's unit squared; can be negative if noise
            dominates.
        residual_sd: of one client, in the target's unit.
        r2: see `r2_note`; None if the target's own second moment is lost in noise.
        warnings: in plain words, what the analyst must know before using the numbers.
    """

    target: str
    features: tuple[str, ...]
    num_clients: int
    regularization: float
    confidence: float
    coefficients: tuple[Coefficient, ...]
    intercept: Coefficient
    normalised: tuple[Coefficient, ...]
    floor: float
    regularised: bool
    residual_sum_of_squares: float
    residual_sd: float
    r2: float | None
    r2_standard_error: float | None
    r2_note: str
    warnings: tuple[str, ...]

    @property
    def coef(self) -> FloatArray:
        """The coefficients in the columns' own units, shape `(p,)`."""
        return np.array([coefficient.value for coefficient in self.coefficients])

    def predict(self, rows: FloatArray) -> FloatArray:
        """Return the target, shape `(k,)`, for rows of features, shape `(k, p)`, all in their own units."""
        return checked_rows(rows, self.features) @ self.coef + self.intercept.value

    def to_csv(self) -> str:
        """Return one line for each coefficient in own units, the intercept last."""
        return csv_text(CSV_HEADER, (one.csv_cells() for one in (*self.coefficients, self.intercept)))

    def summary(self, privacy: str | None = None) -> str:
        """Return a text for people."""
        lines = title(f"Ridge regression of {self.target} from a private second moment")
        lines += facts(
            [
                ("Clients", str(self.num_clients)),
                ("R2", number(self.r2)),
                ("Penalty", number(self.regularization)),
                ("Residual sd", number(self.residual_sd)),
            ]
        )
        lines += table(text_header(self.confidence), [c.text_cells() for c in (*self.coefficients, self.intercept)])
        return "\n".join([*lines, *closing(privacy, self.warnings, [PARTS_NOTE, self.r2_note])]) + "\n"


def ridge(
    release: HasSecondMoment,
    target: str,
    features: Sequence[str] | None = None,
    regularization: float = 1.0,
    confidence: float = 0.95,
) -> RidgeEstimate:
    """Minimise |Z b - y|^2 + lambda |b|^2 over the cohort's normalised rows.

    Args:
        release: a sketch or a second moment.
        target: the column to explain.
        features: the columns that explain it; all others by default.
        regularization: lambda, at least 0, in normalised units: it stands beside a sum over all clients.
        confidence: of the intervals.

    Raises:
        InvalidAnalysisError: the release holds no second moments, or an argument does not fit it.
    """
    check_confidence(confidence)
    check_regularization(regularization)
    chosen = design(release, target, features)
    return _report(chosen, solve(chosen, regularization), regularization, confidence)


def _report(chosen: Design, fit: Fit, regularization: float, confidence: float) -> RidgeEstimate:
    """Map the fit to the columns' own units and put it into words."""
    columns, target = chosen.gram.columns[:-1], chosen.target
    to_units = unit_map(columns, target)
    own = coefficients_of((*chosen.names, INTERCEPT), to_units @ fit.solution, to_units, fit.parts, confidence)
    names = [column.name for column in columns]
    return RidgeEstimate(
        target=target.name,
        features=chosen.names,
        num_clients=chosen.gram.num_clients,
        regularization=float(regularization),
        confidence=float(confidence),
        coefficients=own[:-1],
        intercept=shifted(own[-1], target.center),
        normalised=coefficients_of(names, fit.solution, np.eye(len(names)), fit.parts, confidence),
        floor=fit.floor,
        regularised=fit.regularised,
        residual_sum_of_squares=fit.residual * target.scale**2,
        residual_sd=math.sqrt(fit.variance) * target.scale,
        r2=fit.r2,
        r2_standard_error=fit.r2_sd,
        r2_note=R2_NOTE if chosen.constant is None else R2_ABOUT_MEAN_NOTE,
        warnings=warnings_of(chosen.gram, fit),
    )


def warnings_of(gram: GramEstimate, fit: Fit) -> tuple[str, ...]:
    """Return what the analyst must know, in plain words."""
    found = []
    size = gram.matrix.shape[0]
    if isinstance(gram.errors, ExchangeableRows):
        noise = float(gram.errors.noise_variance.mean())
        best_rows = float("inf") if noise == 0 else max(float(np.trace(gram.matrix)), 0.0) / (noise * size)
        if best_rows < 4 * size:
            found.append(
                f"sketch uninformative: this data and noise support {best_rows:.0f} sketch rows, fewer than "
                f"4 x {size} columns; release second moments instead"
            )
    if fit.regularised:
        named = ", ".join(fit.blurred[:_NAMED]) + (" and others" if len(fit.blurred) > _NAMED else "")
        where = f", mostly along {named}" if named else ""
        found.append(
            f"noise dominates some directions of the features{where}: eigenvalues below {fit.floor:.4g} were raised "
            "to it, which shrinks the coefficients along them"
        )
    if fit.regularised and fit.parts is not None:
        found.append("the intervals leave out the bias of that shrinkage; treat them as approximate")
    if fit.parts is None:
        found.append(
            "no standard errors: the sandwich formula for sketches holds only if no eigenvalue was raised "
            "and there are more sketch rows than features"
        )
    if fit.r2 is None:
        found.append(f"no r2: the second moment of {gram.columns[-1].name!r} cannot be told from noise")
    return tuple(found)
