"""One solver for every regression: the coefficients that minimise |Z b - y|^2 + b^T diag(penalty) b, and their errors.

The solution is a function of Z^T Z alone, so with b solving (G + L) b = c, L the penalty, and theta = (-b, 1), an error
N of the Gram matrix moves b by H^-1 (N theta), H = G + L. All standard errors follow from that one line. What is
special to a mechanism is how an indefinite Gram matrix is repaired.
"""

import math
from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.coefficients import ErrorParts
from lintra_analysis.estimators.design import Design
from lintra_analysis.estimators.estimates import Interval
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError


@dataclass(frozen=True, eq=False)
class Fit:
    """A solved regression in normalised units, p coefficients, with the target last.

    Attributes:
        solution: b, shape `(p,)`.
        inverse: (G + L)^-1 of the repaired Gram matrix, shape `(p, p)`.
        floor: the eigenvalue below which the Gram matrix counts as noise.
        regularised: whether an eigenvalue lay below it and was raised.
        blurred: names of the columns that lie most in raised directions, most first.
        residual: rss of the cohort at the best b.
        cost: rss of the cohort at this b, which noise has moved away from the best one.
        total: the target's sum of squares about what the intercept alone explains.
        r2: None if `total` is lost in noise.
        r2_sd: its standard error, the curvature of a squared length included.
        explained: the share of `total` that the fit explains before what it owes to noise is taken off.
        linear: the first-order part of `r2_sd`.
        parts: covariances of b by cause; None if none can be given.
    """

    solution: FloatArray
    inverse: FloatArray
    floor: float
    regularised: bool
    blurred: tuple[str, ...]
    residual: float
    cost: float
    variance: float
    total: float
    r2: float | None
    r2_sd: float | None
    explained: float
    linear: float
    parts: ErrorParts | None

    def r2_interval(self, reach: float) -> Interval | None:
        """Return between which values r2 lies, inside [0, 1], or None if that is all of it or there is no r2.

        A share t is accepted where r2 is at most `reach` deviations off, with the variance that it would have at t:
        the first-order part grows in proportion to what is explained (Wilson 1927 does so for a proportion). Taken at
        the estimate alone it vanishes where noise happens to hide a small effect, and the interval misses it. `reach`
        is the quantile of the normal law.
        """
        if self.r2 is None or self.r2_sd is None:
            return None
        below, above = self.r2 - reach * self.r2_sd, self.r2 + reach * self.r2_sd
        growth = (reach * self.linear) ** 2 / self.explained if self.explained > 0 else 0.0
        # The larger solution of (t - r2)^2 = growth t + (reach * curved)^2.
        middle, curved = self.r2 + growth / 2, reach * math.sqrt(max(self.r2_sd**2 - self.linear**2, 0.0))
        grown = middle + math.sqrt(max(middle**2 - self.r2**2 + curved**2, 0.0))
        interval = max(below, 0.0), min(max(above, grown), 1.0)
        return None if interval == (0.0, 1.0) else interval


def solve(design: Design, regularization: float = 0.0, *, repaired: bool = True) -> Fit:
    """Solve the regression and propagate the error of the Gram matrix through it.

    `regularization` is lambda; `repaired` says whether eigenvalues that noise explains are raised first.
    """
    gram, penalty = design.gram, design.penalty(regularization)
    joint, floor, regularised = _repair(gram) if repaired else (gram.matrix, 0.0, False)
    features = joint[:-1, :-1]
    inverse = _inverse(features + np.diag(penalty))
    solution = inverse @ joint[:-1, -1]
    theta = np.append(-solution, 1.0)
    covariance = gram.errors.product_covariance(theta)[:-1, :-1]
    bias = np.zeros_like(solution)
    if not regularised:
        # E[(S + N)^-1] > S^-1: to second order, noise inflates the solution by this much, and its penalty with it.
        bias = inverse @ gram.errors.restrict(np.arange(solution.size)).inflation(inverse) @ solution
    # A fit adapts to the noise, so its residual is too small by what the noise of b explains.
    moved = inverse @ covariance @ inverse
    optimism = float(np.trace(inverse @ covariance))
    shrunk = float(penalty @ (np.diagonal(moved) + 2 * solution * bias))
    in_sample = float(theta @ joint @ theta)
    residual = in_sample + optimism + shrunk
    residual_sd = gram.errors.functional_sd(np.outer(theta, theta))
    freedom = gram.num_rows - solution.size
    variance = max(residual, residual_sd, 0.0) / gram.residual_weight(solution.size)
    parts = None
    if not (gram.errors.measured and regularised):
        parts = _parts(gram, theta, covariance, inverse, variance * inverse @ features @ inverse, freedom)
    total, r2, linear = _explained(design, theta, residual)
    # To second order noise moves the residual by a quadratic form of mean `optimism`, uncorrelated with the first.
    turned = inverse @ covariance
    curved = math.sqrt(max(2 * float(np.sum(turned * turned.T)), 0.0)) / total if r2 is not None else 0.0
    return Fit(
        solution=solution,
        inverse=inverse,
        floor=floor,
        regularised=regularised,
        blurred=_blurred(gram, floor) if regularised else (),
        residual=residual,
        cost=in_sample + 2 * optimism,
        variance=variance,
        total=total,
        r2=r2,
        r2_sd=None if r2 is None else math.hypot(linear, curved),
        explained=1 - in_sample / total if r2 is not None else 0.0,
        linear=linear,
        parts=parts,
    )


def _repair(gram: GramEstimate) -> tuple[FloatArray, float, bool]:
    """Return the Gram matrix with its noise eigenvalues raised, the floor, and whether it was needed.

    Sums are repaired jointly with the target (the decision rests on all the columns in use, not on those in
    the release, so that restricting the release first changes nothing). A sketch is repaired in its features
    only.
    """
    size = gram.matrix.shape[0]
    block = size - 1 if gram.errors.measured else size
    floor = gram.errors.floor(block)
    values, vectors = _eigenvectors(gram, block)
    if values[0] >= floor:
        return gram.matrix, floor, False
    joint = gram.matrix.copy()
    repaired = (vectors * np.maximum(values, floor)) @ vectors.T
    joint[:block, :block] = (repaired + repaired.T) / 2
    return joint, floor, True


def _eigenvectors(gram: GramEstimate, block: int) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues and eigenvectors of the first `block` columns."""
    if block == gram.matrix.shape[0]:
        return gram.eigenvectors
    values, vectors = np.linalg.eigh(gram.matrix[:block, :block])
    return values, vectors


def _blurred(gram: GramEstimate, floor: float) -> tuple[str, ...]:
    """Return the columns, without a constant, that lie in directions below the floor at least half as much as any."""
    block = gram.matrix.shape[0] - gram.errors.measured
    values, vectors = _eigenvectors(gram, block)
    share = np.sum(vectors[:, values < floor] ** 2, axis=1)
    share[[i for i in range(block) if gram.columns[i].constant]] = 0.0
    order = np.argsort(-share, kind="stable")
    return tuple(gram.columns[i].name for i in order if share[i] >= share.max() / 2 > 0)


def _inverse(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a symmetric positive definite matrix, or say that it has none.

    Whether it has one is decided with ones on the diagonal, so that neither the columns' scales nor a large penalty
    beside an intercept without one make features look dependent.
    """
    diagonal = np.diagonal(matrix)
    root = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(matrix / root / root[:, np.newaxis])
    if values[0] <= values.size * np.finfo(np.float64).eps * max(values[-1], 0.0):
        raise InvalidAnalysisError(
            "the features are linearly dependent in this release; name fewer features or choose a larger regularization"
        )
    inverse: FloatArray = (vectors / values) @ vectors.T / root / root[:, np.newaxis]
    return inverse


def _parts(
    gram: GramEstimate,
    theta: FloatArray,
    covariance: FloatArray,
    inverse: FloatArray,
    sampling: FloatArray,
    residual_freedom: int,
) -> ErrorParts | None:
    """Return the covariance of b by cause.

    The sandwich of a sketch holds sampling as well, since rows that hold different clients differ by it, so it is
    taken out of the cohort's part.
    """
    fitted = inverse.shape[0]
    freedom = gram.errors.degrees_of_freedom(fitted)
    if freedom <= 1:
        return None
    privacy = gram.errors.privacy_covariance(theta, gram.matrix)[:-1, :-1]
    cohort = inverse @ covariance @ inverse
    if gram.errors.measured:
        # The fit made the rows' terms smaller, as a regression does its residuals (MacKinnon, White 1985).
        cohort = cohort * (freedom + fitted - 1) / freedom - sampling
    return ErrorParts(cohort, inverse @ privacy @ inverse, sampling, freedom, float(residual_freedom))


def _explained(design: Design, theta: FloatArray, residual: float) -> tuple[float, float | None, float]:
    """Return the total sum of squares, r2 and its first-order error; no r2 if the total is within two sd of zero."""
    gram = design.gram
    about = np.zeros(theta.size)
    about[-1] = 1.0
    adapted = 0.0
    if design.constant is not None and gram.matrix[0, 0] > 0:
        about[0] = -gram.matrix[0, -1] / gram.matrix[0, 0]
        adapted = float(gram.errors.product_covariance(about)[0, 0] / gram.matrix[0, 0])
    total = float(about @ gram.matrix @ about) + adapted
    target = np.outer(about, about)
    if total <= 2 * gram.errors.functional_sd(target):
        return total, None, 0.0
    weights = np.outer(theta, theta) / total - residual / total**2 * target
    return total, min(max(1 - residual / total, 0.0), 1.0), gram.errors.functional_sd(weights)
