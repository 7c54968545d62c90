"""Simulates chains of logistic rounds on rows that are at hand, and fits the same rows without noise.

A simulated chain has the exact sums of the rows at its own parameters, with noise that is drawn anew in each round and
has the deviations of rounds that really ran. Rounding at random is left out: by the rule for residual bits it adds at
most 1 % to a deviation. The noise follows from the rows, so that the same table has the same chains.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from lintra_analysis.estimators.newton import next_parameter, stops
from lintra_analysis.releases.newton_sums import NewtonSums
from lintra_analysis.releases.sampling import gaussians
from lintra_protocol.crypto.randomness import RandomBytes, expand
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.canonical import domain_hash

_AT_ONCE = 1 << 22
_MOST_STEPS = 50
_CLOSE = 1e-12
_SEPARATED = 1e-7
"""Rows are separable where the Hessian's least eigenvalue falls below this part of what it is at the parameter 0."""


@dataclass(frozen=True, eq=False, repr=False)
class LogisticRows:
    """Rows of a logistic regression.

    Attributes:
        vectors: the constant, then the features, shape `(n, p)`.
        ones: whether the target is 1, as numbers, shape `(n,)`.
        weights: how much each row counts, shape `(n,)`.
    """

    vectors: FloatArray
    ones: FloatArray
    weights: FloatArray

    def sums(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return gradients, shape `(b, p)`, and Hessians, shape `(b, p, p)`, at parameters of shape `(b, p)`."""
        count, size = parameters.shape
        rows, columns = np.triu_indices(size)
        gradients, triangles = np.zeros((count, size)), np.zeros((count, len(rows)))
        together = max(1, _AT_ONCE // (len(rows) + count))
        for first in range(0, len(self.vectors), together):
            part, own = self.vectors[first : first + together], self.weights[first : first + together]
            chances = special.expit(parameters @ part.T)
            gradients += (own * (self.ones[first : first + together] - chances)) @ part
            triangles += (own * chances * (1 - chances)) @ (part[:, rows] * part[:, columns])
        hessians = np.empty((count, size, size))
        hessians[:, rows, columns] = hessians[:, columns, rows] = triangles
        return gradients, hessians

    def deviance(self, parameters: FloatArray) -> FloatArray:
        """Return twice the negative log-likelihood of parameters of shape `(b, p)`, shape `(b,)`."""
        total, together = np.zeros(len(parameters)), max(1, _AT_ONCE // len(parameters))
        for first in range(0, len(self.vectors), together):
            part, ones = self.vectors[first : first + together], self.ones[first : first + together]
            losses = np.logaddexp(0, (1 - 2 * ones) * (parameters @ part.T))
            total += 2 * losses @ self.weights[first : first + together]
        return total

    def explained(self, parameters: FloatArray) -> FloatArray:
        """Return the share of the deviance that parameters of shape `(b, p)` explain, shape `(b,)`; 1 - D / D_0."""
        share = float(np.average(self.ones, weights=self.weights))
        none = -2 * float(self.weights.sum()) * float(special.xlogy(share, share) + special.xlogy(1 - share, 1 - share))
        return np.asarray(1 - self.deviance(parameters) / none) if none > 0 else np.zeros(len(parameters))

    def fit(self) -> FloatArray | None:
        """Return the parameter of the largest likelihood, shape `(p,)`; None if the rows do not determine it."""
        parameter = np.zeros(self.vectors.shape[1])
        loss, at_zero = float(self.deviance(parameter[np.newaxis])[0]), 0.0
        for number in range(_MOST_STEPS):
            (gradient,), (hessian,) = self.sums(parameter[np.newaxis])
            values, turned = np.linalg.eigh(hessian)
            at_zero = at_zero if number else float(values[0])
            if at_zero <= _CLOSE * values[-1] or values[0] < _SEPARATED * at_zero:
                return None
            step = turned @ (turned.T @ gradient / values)
            if float(gradient @ step) < _CLOSE * float(self.weights.sum()):
                return parameter
            # A whole step may overshoot where the likelihood is far from quadratic.
            tried = parameter + step * 0.5 ** np.arange(30.0)[:, np.newaxis]
            losses = self.deviance(tried)
            best = int(np.argmax(losses < loss)) if np.any(losses < loss) else 0
            if losses[best] >= loss:
                return parameter
            parameter, loss = tried[best], float(losses[best])
        return None


def simulated_chains(
    rows: LogisticRows, ran: Sequence[NewtonSums], count: int, louder: float = 1.0
) -> list[NewtonSums]:
    """Return the last rounds of `count` chains on these rows, each with the rounds before it.

    `ran` is the chain that really ran, at least two rounds: columns, deviations and K are its own. `louder` is how many
    times as large the noise is.
    """
    stream = expand(domain_hash("chains of a trial", np.ascontiguousarray(rows.vectors).tobytes()), "noise")
    size, first = rows.vectors.shape[1], ran[0]
    running = [replace(first, parameter=np.zeros(size), before=None) for _ in range(count)]
    finished: list[NewtonSums] = []
    for number in range(first.rounds):
        shape = ran[min(number, 1)]
        parameters = np.array([each.parameter for each in running])
        gradients, hessians = rows.sums(parameters[:1]) if not number else rows.sums(parameters)
        left, further = gaussians((len(running), size), stream), _symmetric(len(running), size, stream)
        following = []
        for place, each in enumerate(running):
            exact = 0 if not number else place
            sums = replace(
                each,
                gradient=gradients[exact] + louder * shape.gradient_sd * left[place],
                hessian=hessians[exact] + louder * shape.hessian_sd * further[place],
                gradient_sd=louder * shape.gradient_sd,
                hessian_sd=louder * shape.hessian_sd,
            )
            if stops(sums.chain):
                finished.append(sums)
            else:
                following.append(replace(sums, parameter=next_parameter(sums), before=sums))
        if not following:
            break
        running = following
    return finished


def _symmetric(count: int, size: int, random_bytes: RandomBytes) -> FloatArray:
    """Return noise of Hessians, of deviation 1 off the diagonal and sqrt(2) on it, shape `(b, p, p)`."""
    rows, columns = np.triu_indices(size)
    upper = gaussians((count, len(rows)), random_bytes) * np.where(rows == columns, 2**0.5, 1.0)
    found = np.empty((count, size, size))
    found[:, rows, columns] = found[:, columns, rows] = upper
    return found
