"""Everything that is said about one regression on a release with known Gaussian noise, without a repaired matrix.

Intervals, tests and residuals are minima of Q (equations.py). Standard errors are linearised about the raw matrix and
belong to the answer only where the confidence sets are bounded.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import special

from lintra_analysis.estimators.coefficients import Coefficient, ErrorParts, LinearErrors
from lintra_analysis.estimators.concentrated.equations import Equations, NoiseKernel
from lintra_analysis.estimators.concentrated.hyperplanes import Statements
from lintra_analysis.estimators.concentrated.minimise import Hyperplanes, Planes, minimise
from lintra_analysis.estimators.concentrated.profile_interval import accepted
from lintra_analysis.estimators.concentrated.starts import smallest_directions
from lintra_analysis.estimators.design import Design
from lintra_analysis.estimators.estimates import Interval, Of, Residuals
from lintra_analysis.estimators.spectral import eigenvalues_reach
from lintra_protocol.crypto.ring import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Residual:
    """The residual sums of squares of B regressions.

    Attributes:
        equations: all q equations of each.
        point: theta at the solutions of the first q - 1, of length 1, in the eigenbasis, shape `(B, q)`.
        values: rss there, which noise may have made negative, shape `(B,)`.
        errors: their standard errors to first order, shape `(B,)`.
    """

    equations: Equations
    point: FloatArray
    values: FloatArray
    errors: FloatArray

    @classmethod
    def about(cls, equations: Equations) -> "Residual":
        """Solve the equations."""
        theta = equations.points()
        every = np.arange(len(theta))
        inside = equations.inward(theta, every)
        errors = np.sqrt(equations.of(every).at(inside).variance(inside[:, np.newaxis])[:, 0])
        values = -np.sum(equations.matrix[..., -1, :] * theta, axis=1)
        return cls(equations, inside / np.linalg.norm(inside, axis=1, keepdims=True), values, errors)

    def distances(self, index: IntArray, steps: FloatArray, near: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the minimum of Q for rho = value + step, step in standard errors, and where (shapes as `Profile`)."""
        squares = self.values[index] + self.errors[index] * steps
        moved = replace(self.equations.of(index), squares=squares)
        every = np.arange(index.size)[:, np.newaxis]
        starts = np.stack([smallest_directions(moved.of(one), self.point[index[one]]) for one in every])
        return minimise(moved, Hyperplanes(), np.concatenate([near[:, np.newaxis], starts], axis=1))

    def at(self, sums: FloatArray) -> FloatArray:
        """Return the smallest Q of each regression at a given sum, shape `(B,)`."""
        return self.distances(np.arange(sums.size), (sums - self.values) / self.errors, self.point)[0]

    def intervals(self, limit: float) -> FloatArray:
        """Return the accepted values around the one of each regression, shape `(B, 2)`.

        `limit` is the quantile of chi-square.
        """
        below, above = accepted(self, self.values.size, limit)
        return np.column_stack([self.values - self.errors * below, self.values + self.errors * above])

    def interval(self, limit: float, most: float = np.inf) -> Interval:
        """Return the accepted values around that of a single regression.

        `most` is what the sum of squares may be at most; if it and 0 are accepted, nothing between is looked for.
        """
        if np.isfinite(most):
            both = np.zeros(2, np.int64)
            steps = (np.array([0.0, most]) - self.values) / self.errors
            if (self.distances(both, steps, self.point[both])[0] <= limit).all():
                return 0.0, most
        below, above = self.intervals(limit)[0].tolist()
        return below, min(above, most)


def explained_share(residual: Interval, total: Interval) -> Interval:
    """Return what 1 - rss/tss may be, inside [0, 1], if both lie in their intervals."""
    if not total[0] > 0:
        return 0.0, 1.0
    smallest = 1 - residual[1] / total[0]
    largest = 1 - residual[0] / (total[1] if residual[0] > 0 else total[0])
    return min(max(smallest, 0.0), 1.0), min(max(largest, 0.0), 1.0)


_TWO_SIDED = 1.96
_RESIDUAL_LEVEL = 0.96
_TOTAL_LEVEL = 0.99
_DIRECTIONS = 4
_NEARLY_LINEAR = 4.0


def penalty_beside(sigma: float, fitted: int) -> float:
    """Return sigma (2 sqrt p + 4), the penalty of the coefficients that are told where others cannot be.

    Noise alone reaches 2 sqrt p sigma in some direction of p features, and is below it by 4 sigma with certainty. The
    penalty is public and fixed before looking, as intervals at a given penalty need it.
    """
    return sigma * (2 * float(np.sqrt(fitted)) + 4)


@dataclass(frozen=True, eq=False)
class Regression:
    """One regression on a release whose noise is Gaussian with the closed form of `ErrorLaw.kernel`.

    Attributes:
        design: the columns, p of them fitted.
        sigma: of the noise; positive.
        kernel: K, shape `(p + 1, p + 1)`.
        regularization: lambda.
        of: whom the intervals are about.
        rows: linear statements about the normalised coefficients, shape `(k, p)`; one may be 0.
        offsets: what is added to them, shape `(k,)`.
        residuals: what is assumed of their variances, for the population.
    """

    design: Design
    sigma: float
    kernel: FloatArray
    regularization: float
    of: Of
    confidence: float
    rows: FloatArray = field(repr=False)
    offsets: FloatArray = field(repr=False)
    residuals: Residuals = "alike"

    @classmethod
    def of_design(
        cls,
        design: Design,
        regularization: float,
        of: Of,
        confidence: float,
        rows: FloatArray,
        offsets: FloatArray,
        residuals: Residuals = "alike",
    ) -> "Regression | None":
        """Return the regression, or None if the noise has no such form or there is none.

        It is asked about `rows`, shape `(k, d)`, times the coefficients plus `offsets`, shape `(k,)`.
        """
        law = design.gram.errors
        kernel, sigma = law.kernel(design.gram.matrix.shape[0]), law.spectral_sigma
        if kernel is None or not sigma:
            return None
        return cls(design, sigma, kernel, regularization, of, confidence, rows, offsets, residuals)

    @property
    def limit(self) -> float:
        """The quantile of chi-square with one degree of freedom."""
        return float(special.chdtri(1, 1 - self.confidence))

    @cached_property
    def equations(self) -> Equations:
        """The p equations of least squares in p coefficients."""
        values, vectors = self.design.gram.eigenvectors
        kept = [i for i, each in enumerate(self.design.penalty(1.0).tolist()) if not each]
        equations = Equations(
            self.design.gram.matrix,
            values,
            vectors,
            self.sigma,
            NoiseKernel.of(self.kernel),
            penalty=self.regularization,
            unpenalised=tuple(kept),
        )
        if self.of == "cohort":
            return equations
        clipped = np.maximum(values, 0)
        weight = self.design.gram.residual_weight(self.design.fitted)
        spread = clipped if self.residuals == "alike" else np.full(values.size, self.widest_spread)
        return replace(equations, residual=clipped / weight, spread=spread)

    @property
    def widest_spread(self) -> float:
        """The largest n R^2 I beside X^T X, R the norm that no row exceeds: sum e^2 x x^T is at most RSS R^2 I.

        Of weighted rows n is the weights together, since that is what RSS is divided by.
        """
        gram = self.design.gram
        if self.design.turn is not None:
            return gram.total_weight * gram.row_bound**2
        corner = sum(column.farthest**2 for column in gram.columns[:-1])
        return gram.total_weight * min(gram.row_bound**2, corner)

    @cached_property
    def told(self) -> NDArray[np.bool_]:
        """Which of the rows depend on the coefficients at all, shape `(k,)`."""
        return np.asarray(np.abs(self.rows).max(axis=1) > 0)

    @cached_property
    def statements(self) -> Statements:
        """The rows as statements about the solution."""
        return Statements.about(self.equations, self.rows[self.told])

    @cached_property
    def _infinity(self) -> tuple[float, FloatArray]:
        value, direction = self.statements.at_infinity()
        return float(value[0]), direction[0]

    @property
    def bounded(self) -> bool:
        """Whether the confidence sets are bounded: the features are told apart from dependent ones."""
        return self._infinity[0] > self.limit

    @property
    def nearly_linear(self) -> bool:
        """Whether sums of squared residuals may be linearised about the released matrix.

        The noise of p features hardly ever exceeds 2 sigma sqrt(p) in norm, so from twice that on it changes what they
        explain by at most half of itself; below, a residual that noise made smaller or larger would look certain.
        """
        if self.regularization > 0:
            return True
        level = _NEARLY_LINEAR * self.sigma * float(np.sqrt(self.design.fitted))
        return eigenvalues_reach(self.design.gram.matrix[:-1, :-1], level)

    @property
    def undetermined(self) -> tuple[str, ...]:
        """The features that make up the direction that is told least, most first."""
        columns = self.design.gram.columns[:-1]
        direction = np.abs(self.design.of_features(self._infinity[1][: len(columns), np.newaxis])[:, 0])
        direction = np.where([column.constant is None for column in columns], direction, 0.0)
        order = np.argsort(-direction, kind="stable")
        return tuple(columns[i].name for i in order if direction[i] >= direction.max() / 2 > 0)

    def values(self) -> FloatArray:
        """Return the rows at the solution of the raw equations, with their offsets, shape `(k,)`."""
        found = self.offsets.astype(np.float64).copy()
        found[self.told] += self.statements.values
        return found

    def coefficients(self, names: tuple[str, ...], parts: ErrorParts | None) -> tuple[Coefficient, ...]:
        """Return the rows as coefficients.

        `names` are those of the k rows. `parts` are errors linearised about the raw matrix; None where sets are not
        bounded, and no errors and intervals are given. There are p values always.
        """
        values = self.values()
        ends = np.column_stack([values, values])
        p_values = np.where(values == 0, 1.0, 0.0)
        p_values[self.told] = special.chdtrc(1, self.statements.at(-self.offsets[self.told]))
        if parts is None:
            pairs = zip(names, values.tolist(), p_values.tolist(), strict=True)
            return tuple(Coefficient(name, value, p_value=p_value) for name, value, p_value in pairs)
        ends[self.told] = self.statements.intervals(self.limit) + self.offsets[self.told, np.newaxis]
        linear = LinearErrors(parts, self.rows, self.confidence, self.of).around(names, values)
        return tuple(
            Coefficient(
                name=one.name,
                value=one.value,
                standard_error=one.standard_error,
                interval=_finite(low, high),
                statistic=one.statistic,
                p_value=p_value,
            )
            for one, (low, high), p_value in zip(linear, ends.tolist(), p_values.tolist(), strict=True)
        )

    def intervals(self, confidence: float) -> list[Interval | None]:
        """Return the accepted values of the rows at another confidence; None where the sets are not bounded."""
        beside = replace(self, confidence=confidence)
        if not beside.bounded:
            return [None] * len(self.rows)
        ends = np.column_stack([self.offsets, self.offsets])
        ends[self.told] += self.statements.intervals(beside.limit)
        return [_finite(low, high) for low, high in ends.tolist()]

    def at_rows(self, rows: FloatArray) -> FloatArray:
        """Return intervals of linear functions of what is reported, shape `(j, 2)`.

        `rows` has shape `(j, k)`, k the number of the regression's own rows.
        """
        statements = Statements.about(self.equations, rows @ self.rows)
        return np.asarray(statements.intervals(self.limit) + (rows @ self.offsets)[:, np.newaxis])

    def most_sampling(self) -> float | None:
        """Return how many times the sampling part of an error may be the one stated, over all reported coefficients.

        The sum of e^2 x x^T over the rows is at most R^2 RSS I, R the norm that no row exceeds, whatever the variance
        of each residual e; stated is RSS / (n - p) X^T X. None where noise leaves no such ratio.
        """
        gram = self.design.gram
        block = gram.matrix[:-1, :-1]
        penalised = block + np.diag(self.design.penalty(self.regularization))
        solved = np.linalg.solve(penalised, self.rows[self.told].T)
        stated = np.sum(solved * (block @ solved), axis=0)
        if not (stated > 0).all():
            return None
        most: FloatArray = self.widest_spread * np.sum(solved**2, axis=0) / stated
        return float(np.sqrt(most.max()))

    def subspace_test(self, dropped: Collection[str]) -> tuple[float, float]:
        """Return the minimum of Q over the directions without the features `dropped`, and its p value.

        The law is chi-square with as many degrees of freedom as features are dropped.
        """
        equations, columns = self.equations, self.design.gram.columns
        kept = [i for i in range(equations.size - 1) if columns[i].name not in dropped]
        basis = equations.vectors[np.newaxis, [*kept, equations.size - 1]]
        local = equations.at(self.statements.solutions)
        image = local.image(basis)
        directions = np.linalg.eigh(image[0] @ local.solve(image)[0].T)[1].T
        value = float(minimise(equations, Planes(basis), (directions @ basis)[:, :_DIRECTIONS])[0][0])
        return value, float(special.chdtrc(len(dropped), value))

    @cached_property
    def residual(self) -> Interval:
        """The interval of the cohort's residual sum of squares without a penalty, at 96 % and within the total.

        Its upper end is at least 1.96 deviations, so that noise which happens to hide all residuals claims no R2 of 1.
        """
        values, vectors = self.design.gram.eigenvectors
        kernel = NoiseKernel.of(self.kernel)
        equations = Equations(self.design.gram.matrix, values, vectors, self.sigma, kernel, sums=True)
        found = Residual.about(equations)
        low, high = found.interval(float(special.chdtri(1, 1 - _RESIDUAL_LEVEL)), max(self.total[1], 0))
        return low, max(high, _TWO_SIDED * float(found.errors[0]))

    @cached_property
    def total(self) -> Interval:
        """The interval of the target's sum of squares about what the intercept explains, at 99 %."""
        columns = self.design.gram.columns
        kept = [i for i in range(len(columns) - 1) if columns[i].constant is not None] + [len(columns) - 1]
        block = np.ix_(kept, kept)
        equations = Equations.of_matrix(self.design.gram.matrix[block], self.sigma, self.kernel[block], sums=True)
        return Residual.about(equations).interval(float(special.chdtri(1, 1 - _TOTAL_LEVEL)))

    def r2(self) -> Interval:
        """Return what the share explained may be for the cohort, at 95 %, from both sums of squares."""
        return explained_share(self.residual, self.total)


def _finite(low: float, high: float) -> Interval | None:
    """Return an interval, or None if an end is not finite."""
    return (low, high) if np.isfinite(low) and np.isfinite(high) else None
