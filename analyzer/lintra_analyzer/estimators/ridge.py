"""Ridge regression of one column on others, from any release that holds second moments.

The solution is a function of Z^T Z alone, so with b solving (G + lambda I) b = c and theta = (-b, 1) an error
N of the Gram matrix moves b by H^-1 (N theta), H = G + lambda I. All standard errors follow from that one
line. What is special to a mechanism is how an indefinite Gram matrix is repaired.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lintra_analyzer.columns import positions
from lintra_analyzer.estimators.coefficients import Coefficient, coefficients_of, shifted, unit_map
from lintra_analyzer.estimators.estimates import Estimate, check_confidence, quantile
from lintra_analyzer.estimators.spectral import floor_eigenvalues, smallest_eigenvalue
from lintra_analyzer.gram import ExchangeableRows, GramEstimate, SymmetricNoise
from lintra_analyzer.releases import Release
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.ring import FloatArray

R2_NOTE = (
    "r2 is predicted from this release, not measured on rows: the share of the target's second moment about "
    "its public center, not about its mean, that the fit explains on the cohort's clipped rows"
)


@dataclass(frozen=True, eq=False)
class RidgeEstimate(Estimate):
    """The regression of one column on others.

    Attributes:
        coefficients: one for each feature, in the columns' own units.
        intercept: implied by the public centers, in the target's unit.
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
        return rows @ self.coef + self.intercept.value


def ridge(
    release: Release,
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
    if not (math.isfinite(regularization) and regularization >= 0):
        raise InvalidAnalysisError(f"regularization must be finite and at least 0, got {regularization}")
    positions(release.columns, [target])
    if features is None:
        features = [column.name for column in release.columns if column.name != target]
    if not features:
        raise InvalidAnalysisError(f"there is no column besides the target {target!r} to explain it with")
    positions(release.columns, features)
    if target in features:
        raise InvalidAnalysisError(f"the target {target!r} cannot be one of its own features")
    gram = release.second_moment().restrict([*features, target])
    if gram.num_clients <= len(features):
        raise InvalidAnalysisError(
            f"{len(features)} features need more than {gram.num_clients} clients; name fewer features"
        )
    fit = _fit(gram, regularization)
    return _report(gram, fit, regularization, confidence)


@dataclass(frozen=True, eq=False)
class _Fit:
    """A solved regression in normalised units, p features, with the target last.

    Attributes:
        solution: b after the second-order correction, shape `(p,)`.
        residual: rss of the cohort; `residual_sd` the sd of that number.
        parts: covariances of b, shape `(p, p)` each, by cause; None if none can be given.
    """

    solution: FloatArray
    floor: float
    regularised: bool
    residual: float
    variance: float
    total: float
    r2: float | None
    r2_sd: float | None
    parts: dict[str, FloatArray] | None


def _repair(gram: GramEstimate) -> tuple[FloatArray, float, bool]:
    """Return the Gram matrix with its noise eigenvalues raised, the floor, and whether it was needed.

    Sums are repaired jointly with the target (the decision rests on all the columns in use, not on those in
    the release, so that restricting the release first changes nothing). A sketch is repaired in its features
    only.
    """
    size = gram.matrix.shape[0]
    block = size if isinstance(gram.errors, SymmetricNoise) else size - 1
    floor = gram.errors.floor(block)
    part = gram.matrix[:block, :block]
    if smallest_eigenvalue(part) >= floor:
        return gram.matrix, floor, False
    joint = gram.matrix.copy()
    joint[:block, :block] = floor_eigenvalues(part, floor)
    return joint, floor, True


def _fit(gram: GramEstimate, regularization: float) -> _Fit:
    """Solve the regression and propagate the error of the Gram matrix through it."""
    joint, floor, regularised = _repair(gram)
    features = joint[:-1, :-1]
    inverse = _inverse(features + regularization * np.eye(features.shape[0]))
    solution = inverse @ joint[:-1, -1]
    theta = np.append(-solution, 1.0)
    covariance = gram.errors.product_covariance(theta)[:-1, :-1]
    bias = np.zeros_like(solution)
    if isinstance(gram.errors, SymmetricNoise) and not regularised:
        # E[(S + N)^-1] > S^-1: to second order, noise inflates the solution by this much.
        bias = gram.errors.sigma**2 * inverse @ (np.trace(inverse) * solution + inverse @ solution)
    # A fit adapts to the noise, so its residual is too small by what the noise of b explains.
    moved = inverse @ covariance @ inverse
    optimism = np.trace(inverse @ covariance) + regularization * (np.trace(moved) + 2 * float(solution @ bias))
    residual = float(theta @ joint @ theta + optimism)
    residual_sd = gram.errors.functional_sd(np.outer(theta, theta))
    variance = max(residual, residual_sd, 0.0) / (gram.num_clients - solution.size)
    parts = None
    if isinstance(gram.errors, SymmetricNoise) or not regularised:
        parts = _parts(gram, theta, covariance, inverse, features, variance)
    total = float(gram.matrix[-1, -1])
    r2, r2_sd = _explained(gram, theta, residual, total)
    return _Fit(solution - bias, floor, regularised, residual, variance, total, r2, r2_sd, parts)


def _inverse(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a symmetric positive definite matrix, or say that it has none."""
    values, vectors = np.linalg.eigh(matrix)
    if values[0] <= values.size * np.finfo(np.float64).eps * max(values[-1], 0.0):
        raise InvalidAnalysisError(
            "the features are linearly dependent in this release; name fewer features or choose a "
            "regularization above 0"
        )
    inverse: FloatArray = (vectors / values) @ vectors.T
    return inverse


def _parts(
    gram: GramEstimate,
    theta: FloatArray,
    covariance: FloatArray,
    inverse: FloatArray,
    features: FloatArray,
    variance: float,
) -> dict[str, FloatArray] | None:
    """Return the covariance of b by cause, each of shape `(p, p)`.

    "cohort" is privacy and sketching together; "privacy" is known from the noise level. The sandwich of a sketch
    holds sampling as well, since rows that hold different clients differ by it, so it is taken out of "cohort".
    """
    fitted = inverse.shape[0]
    freedom = gram.errors.degrees_of_freedom(fitted)
    if freedom <= 1:
        return None
    privacy = gram.errors.privacy_covariance(theta, gram.matrix)[:-1, :-1]
    sampling = variance * inverse @ features @ inverse
    cohort = inverse @ covariance @ inverse
    if isinstance(gram.errors, ExchangeableRows):
        # The fit made the rows' terms smaller, as a regression does its residuals (MacKinnon, White 1985).
        cohort = cohort * (freedom + fitted - 1) / freedom - sampling
    return {"cohort": cohort, "privacy": inverse @ privacy @ inverse, "sampling": sampling}


def _explained(
    gram: GramEstimate, theta: FloatArray, residual: float, total: float
) -> tuple[float | None, float | None]:
    """Return r2 and its standard error, or None if the target's second moment is within two sd of zero."""
    target = np.zeros_like(gram.matrix)
    target[-1, -1] = 1.0
    if total <= 2 * gram.errors.functional_sd(target):
        return None, None
    weights = np.outer(theta, theta) / total - residual / total**2 * target
    return min(max(1 - residual / total, 0.0), 1.0), gram.errors.functional_sd(weights)


def _report(gram: GramEstimate, fit: _Fit, regularization: float, confidence: float) -> RidgeEstimate:
    """Map the fit to the columns' own units and put it into words."""
    *feature_columns, target = gram.columns
    names = tuple(column.name for column in feature_columns)
    size = len(names)
    quantiles = quantile(confidence, gram.errors.degrees_of_freedom(size)) if fit.parts else 0.0
    to_units = unit_map(feature_columns, target)
    own = coefficients_of((*names, "(intercept)"), to_units @ fit.solution, to_units, fit.parts, quantiles)
    offset = target.center
    intercept = shifted(own[-1], offset)
    return RidgeEstimate(
        target=target.name,
        features=names,
        num_clients=gram.num_clients,
        regularization=float(regularization),
        confidence=float(confidence),
        coefficients=own[:-1],
        intercept=intercept,
        normalised=coefficients_of(names, fit.solution, np.eye(size), fit.parts, quantiles),
        floor=fit.floor,
        regularised=fit.regularised,
        residual_sum_of_squares=fit.residual * target.scale**2,
        residual_sd=math.sqrt(fit.variance) * target.scale,
        r2=fit.r2,
        r2_standard_error=fit.r2_sd,
        r2_note=R2_NOTE,
        warnings=_warnings(gram, fit),
    )


def _warnings(gram: GramEstimate, fit: _Fit) -> tuple[str, ...]:
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
        found.append(
            f"noise dominates some directions of the features: eigenvalues below {fit.floor:.4g} were raised "
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
