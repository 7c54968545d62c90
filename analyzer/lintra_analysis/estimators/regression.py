"""Linear regression of any column on any others: least squares or ridge, with the table that statisticians expect.

Every regression on a release is post-processing of it. The coefficients are drawn towards 0 as far as the noise is
large (point.py); intervals and tests are those of the released matrix as it is (concentrated/). Where the law of the
noise has no closed form, errors are linearised about a repaired matrix instead (solve.py).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from lintra_analysis.estimators.coefficients import (
    Coefficient,
    ErrorParts,
    LinearErrors,
    coefficients_of,
)
from lintra_analysis.estimators.concentrated.regressions import Regression, penalty_beside
from lintra_analysis.estimators.design import INTERCEPT, Design, check_regularization, design
from lintra_analysis.estimators.estimates import (
    Clipping,
    Interval,
    Of,
    Residuals,
    check_confidence,
    check_of,
    check_residuals,
    quantile,
)
from lintra_analysis.estimators.notes import (
    ANY_VARIANCE,
    CONCENTRATED_LAW,
    LINEAR_LAW,
    NOISELESS_LAW,
    R2_ABOUT_MEAN_NOTE,
    R2_NOTE,
    SHRUNK_NOTE,
    SKETCH_LAW,
    named,
    one_variance,
    warnings_of,
)
from lintra_analysis.estimators.point import Point, with_point
from lintra_analysis.estimators.regression_estimate import Penalised, RegressionEstimate, Simultaneous, Weighting
from lintra_analysis.estimators.solve import Fit, solve
from lintra_analysis.estimators.spectral import eigenvalues_reach
from lintra_analysis.releases.gram_error import HasSecondMoment
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

FTest = tuple[float | None, float | None, float | None]
"""The statistic, its second degrees of freedom (None for a chi-square over the first), and p."""

EVERYTHING = (0.0, 1.0)


def regression(
    release: HasSecondMoment,
    target: str,
    features: Sequence[str] | None = None,
    regularization: float = 0.0,
    *,
    intercept: bool | None = None,
    of: Of = "population",
    simultaneous: bool = False,
    confidence: float = 0.95,
    residuals: Residuals = "alike",
) -> RegressionEstimate:
    """Minimise |Z b - y|^2 + lambda |b|^2 over the cohort's normalised rows, and test the coefficients.

    >>> from lintra_analysis import open_release, regression
    >>> estimate = regression(open_release("flights.npz"), target="delay", features=["hour", "distance"])
    >>> estimate.features, estimate.num_clients
    (('hour', 'distance'), 240)
    >>> estimate.coefficients[0].value > 0  # later flights are later
    True

    Args:
        release: a sketch or a second moment.
        target: the column to explain; or a formula such as `delay ~ hour + C(origin)`, which says all three
            (docs/explanation/estimators.md#formulas).
        features: the columns that explain it; all others by default.
        regularization: lambda, at least 0, in normalised units: it stands beside a sum over all clients.
        intercept: whether to fit one; by default if the release holds a constant column.
        of: whom errors, intervals and tests are about: the "population" that the clients are a sample of, or the
            "cohort", that is the coefficients that the collected rows themselves would give.
        simultaneous: whether to add bounds that hold for all regressions on this release at once.
        confidence: of the intervals.
        residuals: what is assumed of their variances where errors are about the population: that they are "alike", or
            nothing ("any"). Then the sampling part of an error is the largest that rows of this norm can have.

    Returns:
        Coefficients in the columns' own units with errors, intervals and tests, and R2; `summary()` prints them.

    Raises:
        InvalidAnalysisError: the release holds no second moments, or an argument does not fit it.
    """
    check_residuals(residuals)
    check_confidence(confidence)
    check_regularization(regularization)
    check_of(of)
    chosen = design(release, target, features, intercept)
    fit = solve(chosen, regularization)
    to_units = chosen.to_units
    offsets = np.append(np.zeros(len(chosen.features)), chosen.target.center)
    sets = Regression.of_design(chosen, float(regularization), of, float(confidence), to_units, offsets, residuals)
    if residuals == "any" and (sets is None or of == "cohort"):
        raise InvalidAnalysisError(
            'residuals="any" is about the population, and about releases whose noise is Gaussian with a known law'
        )
    asked = _Options(to_units, offsets, float(regularization), of, float(confidence), sets)
    bounds = None
    if simultaneous:
        # Loaded only where somebody asks for them.
        from lintra_analysis.estimators.simultaneous import simultaneous_intervals

        bounds = Simultaneous(*simultaneous_intervals(chosen, fit, to_units, offsets, confidence))
    point = Point.of(chosen, float(regularization), fit)
    told = _linearised(chosen, fit, asked, point) if sets is None else _by_distance(sets, fit, point)
    told = _beside_clipping(told, chosen, fit, to_units)
    return _report(chosen, point, told, bounds, asked)


@dataclass(frozen=True, eq=False)
class _Options:
    """What was asked for, and the map to own units."""

    to_units: FloatArray
    offsets: FloatArray
    regularization: float
    of: Of
    confidence: float
    sets: Regression | None

    def linear(self, parts: ErrorParts | None) -> LinearErrors | None:
        """Return the errors of what is reported, if those of the normalised coefficients are known."""
        return None if parts is None else LinearErrors(parts, self.to_units, self.confidence, self.of)


@dataclass(frozen=True, eq=False)
class _Results:
    """What is said about the coefficients, in own units, and about the fit, in normalised ones."""

    coefficients: tuple[Coefficient, ...]
    law: str
    warnings: tuple[str, ...]
    f_test: FTest
    bounded: bool = True
    undetermined: tuple[str, ...] = ()
    penalised: Penalised | None = None
    covariance: FloatArray | None = None
    residual: float | None = None
    variance: float | None = None
    r2: float | None = None
    r2_interval: Interval | None = None
    r2_sd: float | None = None
    clipping: Clipping | None = None


def _linearised(chosen: Design, fit: Fit, asked: _Options, point: Point) -> _Results:
    """Return what follows from the repaired matrix, to first order."""
    values = asked.to_units @ fit.solution + asked.offsets
    own = coefficients_of(_names(chosen), values, asked.linear(fit.parts))
    covariance = None if fit.parts is None else fit.parts.total(asked.to_units, asked.of)
    errors = chosen.gram.errors
    warnings = list(warnings_of(chosen.gram, fit, known=False, raised=point))
    r2 = fit.r2
    if fit.regularised and r2 is not None:
        r2 = None
        warnings.append("no r2: eigenvalues were raised, and its error would leave that out")
    r2_sd = None if r2 is None else fit.r2_sd
    return _Results(
        coefficients=own,
        law=NOISELESS_LAW if errors.spectral_sigma == 0 else SKETCH_LAW if errors.measured else LINEAR_LAW,
        warnings=tuple(warnings),
        f_test=_wald(own, covariance, fit),
        bounded=fit.parts is not None,
        covariance=covariance,
        residual=fit.residual,
        variance=fit.variance,
        r2=r2,
        r2_interval=None if r2 is None else fit.r2_interval(quantile(asked.confidence)),
        r2_sd=r2_sd,
    )


def _by_distance(sets: Regression, fit: Fit, point: Point) -> _Results:
    """Return what follows from the noise's own distance; errors are linearised about the raw matrix."""
    names, gram = _names(sets.design), sets.design.gram
    warnings = list(warnings_of(gram, fit, known=True, raised=point))
    value, p_value = sets.subspace_test(sets.design.names)
    raw = raw_fit(sets)
    told = _Results(
        coefficients=sets.coefficients(names, None if raw is None else raw.parts),
        law=CONCENTRATED_LAW,
        warnings=(),
        f_test=(value / len(sets.design.names), None, p_value),
        bounded=raw is not None,
        undetermined=() if raw is not None else sets.undetermined,
        penalised=_penalised(sets) if raw is None and sets.regularization == 0 else None,
    )
    if raw is not None:
        told = replace(
            told,
            covariance=None if raw.parts is None else raw.parts.total(sets.rows, sets.of),
            residual=raw.residual,
            variance=raw.variance,
            r2=raw.r2,
            r2_interval=raw.r2_interval(quantile(sets.confidence)),
            r2_sd=raw.r2_sd,
        )
    else:
        warnings.append(
            f"the coefficients cannot be told at this epsilon: along {named(sets.undetermined)} the features may be "
            "dependent for all that the noise shows; name fewer features, or read the penalised coefficients"
        )
    if raw is None or raw.r2 is None or fit.regularised or not sets.nearly_linear:
        told, remark = _fit_from_sums(told, sets)
        warnings += remark
    return replace(told, warnings=tuple(warnings))


def _beside_clipping(told: _Results, chosen: Design, fit: Fit, to_units: FloatArray) -> _Results:
    """Return what is told with the words about clipped rows, and without p values where too many were clipped."""
    clipped, names = chosen.gram.clipped, _names(chosen)
    if clipped is None:
        return told
    # Loaded only where somebody counted.
    from lintra_analysis.estimators.shrinking import clipping, coefficient_limits, shrinking_warnings, square_warning

    limits = coefficient_limits(chosen.gram, fit, to_units, names if chosen.constant else names[:-1])
    told = replace(
        told,
        clipping=clipping(clipped, limits),
        warnings=(
            *told.warnings,
            *shrinking_warnings(clipped, "coefficients", limits),
            *square_warning(clipped, chosen.gram),
        ),
    )
    if clipped.tests_hold:
        return told
    penalised = told.penalised
    if penalised is not None:
        *own, last = _without_tests((*penalised.coefficients, penalised.intercept))
        penalised = replace(penalised, coefficients=tuple(own), intercept=last)
    f_test = (told.f_test[0], told.f_test[1], None)
    return replace(told, coefficients=_without_tests(told.coefficients), f_test=f_test, penalised=penalised)


def _without_tests(coefficients: tuple[Coefficient, ...]) -> tuple[Coefficient, ...]:
    """Return coefficients without p values."""
    return tuple(replace(one, p_value=None) for one in coefficients)


def _fit_from_sums(told: _Results, sets: Regression) -> tuple[_Results, list[str]]:
    """Return what is told with r2 and residual from the intervals of their sums of squares, without small errors."""
    interval, residual = (sets.r2(), sets.residual) if sets.regularization == 0 else (EVERYTHING, EVERYTHING)
    if interval == EVERYTHING or not math.isfinite(residual[1]):
        nothing = replace(told, residual=None, variance=None, r2=None, r2_interval=None, r2_sd=None)
        return nothing, ["r2 and the residual deviation cannot be told at this epsilon"]
    r2 = sum(interval) / 2 if told.r2 is None else min(max(told.r2, interval[0]), interval[1])
    middle = sum(residual) / 2 if told.residual is None else told.residual
    variance = max(middle, 0.0) / sets.design.gram.residual_weight(sets.design.fitted)
    return replace(told, residual=middle, variance=variance, r2=r2, r2_interval=interval, r2_sd=None), []


def raw_fit(sets: Regression) -> Fit | None:
    """Return the solution of the released matrix as it is, or None where its confidence sets are not bounded."""
    chosen = sets.design
    block = chosen.gram.matrix[:-1, :-1] + np.diag(chosen.penalty(sets.regularization))
    if not sets.bounded or not eigenvalues_reach(block, 0.0):
        return None
    fit = solve(chosen, sets.regularization, repaired=False)
    if sets.residuals == "alike" or fit.parts is None:
        return fit
    return replace(
        fit, parts=replace(fit.parts, sampling=fit.variance * sets.widest_spread * fit.inverse @ fit.inverse)
    )


def _penalised(sets: Regression) -> Penalised | None:
    """Return the coefficients under the penalty that was fixed before looking."""
    beside = replace(sets, regularization=penalty_beside(sets.sigma, sets.design.fitted))
    raw = raw_fit(beside)
    if raw is None:
        return None
    own = beside.coefficients(_names(sets.design), raw.parts)
    return Penalised(beside.regularization, own[:-1], own[-1])


def _report(
    chosen: Design, point: Point, told: _Results, bounds: Simultaneous | None, asked: _Options
) -> RegressionEstimate:
    """Put everything into own units and into words."""
    target, freedom = chosen.target, _freedom(chosen)
    square = target.scale**2
    coefficients = told.coefficients
    if chosen.gram.errors.spectral_sigma:
        coefficients = with_point(coefficients, point, asked.to_units, asked.offsets)
    gram, weighted = chosen.gram, None
    if gram.weighted is not None:
        weighted = Weighting(gram.weighted.name(gram.clipped), gram.weighted.about, gram.weighted.average)
    warnings = [*gram.bound_notes, *told.warnings, *gram.count_notes]
    if asked.regularization > 0:
        warnings.append(SHRUNK_NOTE)
    if bounds is not None and None in bounds.intervals:
        warnings.append(
            f"no simultaneous bounds: noise of norm {bounds.noise_norm:.4g} may swallow a direction of the features"
        )
    return RegressionEstimate(
        target=target.name,
        features=chosen.names,
        num_clients=gram.num_clients,
        of=asked.of,
        regularization=asked.regularization,
        confidence=asked.confidence,
        coefficients=coefficients[:-1],
        intercept=coefficients[-1],
        intercept_fitted=chosen.constant is not None,
        bounded=told.bounded,
        undetermined=told.undetermined,
        penalised=told.penalised,
        covariance=told.covariance,
        residual_freedom=freedom,
        residual_sum_of_squares=None if told.residual is None else told.residual * square,
        residual_sd=None if told.variance is None else math.sqrt(told.variance) * target.scale,
        r2=told.r2,
        adjusted_r2=None if told.r2 is None else _adjusted(told.r2, chosen, freedom),
        r2_interval=told.r2_interval,
        r2_standard_error=told.r2_sd,
        r2_note=R2_NOTE if chosen.constant is None else R2_ABOUT_MEAN_NOTE,
        f_statistic=told.f_test[0],
        f_freedom=told.f_test[1],
        f_p_value=told.f_test[2],
        floor=point.floor,
        regularised=point.regularised,
        law=told.law + _about_residuals(told, asked),
        simultaneous=bounds,
        warnings=tuple(warnings),
        sets=asked.sets,
        clipping=told.clipping,
        weighted=weighted,
        scaled_columns=(*chosen.features, chosen.target),
    )


def _about_residuals(told: _Results, asked: _Options) -> str:
    """Return what is assumed of the residuals' variances."""
    if asked.of == "cohort" or told.law == SKETCH_LAW:
        return ""
    if asked.sets is not None and asked.sets.residuals == "any":
        return ANY_VARIANCE
    known = asked.sets is not None and told.covariance is not None
    return one_variance(asked.sets.most_sampling() if known and asked.sets is not None else None)


def _names(chosen: Design) -> tuple[str, ...]:
    return (*chosen.names, INTERCEPT)


def _freedom(chosen: Design) -> int:
    return chosen.gram.num_rows - chosen.fitted


def _adjusted(r2: float, chosen: Design, freedom: int) -> float:
    """Return r2 with the degrees of freedom that the coefficients took."""
    whole = chosen.gram.num_rows - (0 if chosen.constant is None else 1)
    return 1 - (1 - r2) * whole / freedom


def _wald(told: tuple[Coefficient, ...], covariance: FloatArray | None, fit: Fit) -> FTest:
    """Return Wald's statistic of all slopes over their number, its second degrees of freedom, and p."""
    if covariance is None or fit.parts is None:
        return None, None, None
    slopes, block = np.array([one.value for one in told[:-1]]), covariance[:-1, :-1]
    if np.linalg.matrix_rank(block, hermitian=True) < slopes.size or np.linalg.eigvalsh(block)[0] <= 0:
        return None, None, None
    statistic = float(slopes @ np.linalg.solve(block, slopes)) / slopes.size
    freedom = min(fit.parts.law_freedom, fit.parts.residual_freedom)
    return statistic, freedom, float(special.fdtrc(slopes.size, freedom, statistic))
