"""Lower bounds, at a stated confidence, on how well an adversary tells two worlds apart.

For a mu-Gaussian private mechanism no test reaches Phi^-1(1 - FP) + Phi^-1(1 - FN) above mu (Dong, Roth, Su 2022,
Definition 3). So any test refutes a claim once the bounds on its errors are small enough; a better test needs fewer
runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import beta

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.privacy.gaussian import gaussian_epsilon

CONFIDENCE = 0.999
"""Of each one-sided bound on an error rate; both hold together with 99.8 %."""

_RIDGE = 1e-10
_GRID = np.linspace(0.005, 0.995, 199)


@dataclass(frozen=True)
class Bound:
    """The result of one test of the two worlds."""

    trials: int  #: how many runs of each world it was tested on
    false_positives: int  #: how often world 0 was taken for world 1
    false_negatives: int  #: how often world 1 was taken for world 0
    mu: float  #: -Phi^-1(FP) - Phi^-1(FN) at the observed rates, half a count away from 0 and 1
    mu_lower: float  #: the same at the upper confidence bounds, at least 0

    def epsilon_lower(self, delta: float, *, pure: bool = False) -> float:
        """Return the epsilon at `delta` of a Gaussian mechanism with `mu_lower`; of a pure one what the errors prove.

        Pure epsilon allows no error rate below e^-epsilon times how often the other world is recognised.
        """
        if not pure:
            return gaussian_epsilon(self.mu_lower, delta)
        first, second = (
            clopper_pearson_upper(errors, self.trials) for errors in (self.false_positives, self.false_negatives)
        )
        return max(
            0.0, log((1 - second) / first) if second < 1 else 0.0, log((1 - first) / second) if first < 1 else 0.0
        )


def clopper_pearson_upper(errors: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """Return an upper bound on an error rate, exact for any rate (Clopper and Pearson 1934).

    `trials` are at least 1; `confidence` is one-sided. Raises ValueError if there are no trials, or more errors than
    trials.
    """
    if not 0 <= errors <= trials or trials < 1:
        raise ValueError(f"{errors} errors in {trials} trials")
    return 1.0 if errors == trials else float(beta.ppf(confidence, errors + 1, trials - errors))


def bound_of(false_positives: int, false_negatives: int, trials: int) -> Bound:
    """Return the bound that a test with these errors in `trials` runs of each world shows."""
    # Of no error, or of nothing but errors, the quantile would be infinite.
    rates = [np.clip(errors, 0.5, trials - 0.5) / trials for errors in (false_positives, false_negatives)]
    upper = [clopper_pearson_upper(errors, trials) for errors in (false_positives, false_negatives)]
    return Bound(
        trials=trials,
        false_positives=false_positives,
        false_negatives=false_negatives,
        mu=-float(ndtri(rates).sum()),
        mu_lower=max(0.0, -float(ndtri(upper).sum())),
    )


def threshold_bound(scores: tuple[FloatArray, FloatArray], threshold: float) -> Bound:
    """Test "world 1 if the score exceeds the threshold", a threshold chosen without looking at these scores.

    `scores` are those of world 0 and world 1, both of shape `(trials,)`; `threshold` is in the scores' units.
    """
    positives, negatives = int((scores[0] > threshold).sum()), int((scores[1] <= threshold).sum())
    return bound_of(positives, negatives, scores[0].size)


class OptimalTest(Protocol):
    """The likelihood ratio of the claimed mechanism; positive means world 1."""

    @property
    def mu(self) -> float | None:
        """That of this pair of rows under this matrix, where the noise is Gaussian."""

    def scores(self, released: IntArray) -> FloatArray:
        """Return the log-likelihood ratio of releases of shape `(trials, rows, words)`; shape `(trials,)`."""


@dataclass(frozen=True)
class LikelihoodRatio:
    """The optimal test of two worlds that differ in one report (Theorem 1, docs/proofs/sketch.md#sketch).

    The release has mean s u^T plus what is known, and covariance sigma_w^2 S_H S_H^T in word w. With the pseudo-inverse
    of the Gram matrix the log-likelihood ratio is linear, and its distance between the worlds is mu.
    """

    weights: FloatArray  #: shape `(rows, words)`
    midpoint: FloatArray  #: the mean release halfway between the worlds; same shape, in ring units
    mu: float  #: that of Theorem 1 for this matrix and this pair of rows

    def scores(self, released: IntArray) -> FloatArray:
        """Return the log-likelihood ratio of releases of shape `(trials, rows, words)`; shape `(trials,)`."""
        result: FloatArray = np.einsum("trw,rw->t", released - self.midpoint, self.weights)
        return result


def likelihood_ratio(
    honest: IntArray,
    victim: IntArray,
    encodings: tuple[IntArray, IntArray],
    midpoint: FloatArray,
    sigmas: IntArray,
    floors: FloatArray | None = None,
) -> LikelihoodRatio:
    """Form the optimal test for independent Gaussian words.

    `honest` is the honest clients' columns of the released matrices, stacked; shape `(rows, honest)`, or `(copies,
    rows, honest)` where every copy of a row has noise of its own. `victim` is the victim's column, one of them; shape
    `(rows,)` or `(copies, rows)`. `encodings` are the victim's noiseless report in world 0 and world 1, each of shape
    `(copies * words,)`. `sigmas` are the deviation of one client's noise in each word, shape `(copies * words,)`; alike
    in all copies. `floors` are the variance of a server's in each released word, shape `(words,)`, if there is one.
    """
    own = victim.reshape(-1, victim.shape[-1])
    difference = (encodings[1] - encodings[0]).astype(np.float64).reshape(len(own), -1)
    signal = np.einsum("cr,cw->rw", own, difference)
    variances = sigmas.astype(np.float64).reshape(len(own), -1)[0] ** 2
    if floors is None:
        # The Gram matrix is singular where rows of the public matrix depend on each other.
        weights: FloatArray = np.linalg.pinv(noise_gram(honest), hermitian=True) @ signal / variances
    else:
        # A server's noise is the same in all rows of a word, so that it has the Gram matrix's axes.
        shared, axes = np.linalg.eigh(noise_gram(honest))
        weights = axes @ ((axes.T @ signal) / (np.outer(np.maximum(shared, 0), variances) + floors))
    return LikelihoodRatio(weights, midpoint, float((weights * signal).sum()) ** 0.5)


def joined(tests: Sequence[LikelihoodRatio]) -> LikelihoodRatio:
    """Return the optimal test from all words of a release, given those from some of its words each, in their order.

    Noise is independent from word to word, so that the log-likelihood ratios add up, and the squares of mu.
    """
    return LikelihoodRatio(
        np.concatenate([test.weights for test in tests], axis=1),
        np.concatenate([test.midpoint for test in tests], axis=1),
        float(np.hypot.reduce([test.mu for test in tests])),
    )


def noise_gram(columns: IntArray | FloatArray) -> FloatArray:
    """Return how the rows of a release share noise: S S^T, added up over copies, which share none: shape `(m, m)`."""
    each = columns.reshape(-1, *columns.shape[-2:]).astype(np.float64)
    result: FloatArray = np.einsum("crh,cqh->rq", each, each)
    return result


def leverages(columns: IntArray, honest: IntArray) -> FloatArray:
    """Return s_i^T (S_H S_H^T)^+ s_i of the honest clients, in their order (docs/proofs/sketch.md#sketch).

    `columns` are all clients' columns, shape `(rows, clients)` or `(copies, rows, clients)`; `honest` is their numbers,
    shape `(honest,)`.
    """
    own = columns[..., honest].astype(np.float64)
    inverse = np.linalg.pinv(noise_gram(own), hermitian=True)
    whole = own.reshape(-1, *own.shape[-2:]).sum(axis=0)
    result: FloatArray = np.einsum("ri,rq,qi->i", whole, inverse, whole)
    return result


def black_box_bound(views: tuple[IntArray, IntArray]) -> Bound:
    """Learn a test on one half of the runs and measure it on the other; nothing is assumed about the mechanism.

    The test is Fisher's discriminant over the numbers of the view and their squares, with whatever threshold did best
    in training: it finds means, variances, and combinations in which noise cancels. `views` are those of world 0 and
    world 1, both of shape `(trials, numbers)`, at least 400 trials.
    """
    half = min(len(view) for view in views) // 2
    features = _standardised(views, half)
    train = [part[:half] for part in features]
    means = [part.mean(axis=0) for part in train]
    within = sum((part - mean).T @ (part - mean) for part, mean in zip(train, means, strict=True)) / (2 * half)
    # Numbers that are constant, or multiples of each other, have a singular covariance.
    direction = np.linalg.solve(within + _RIDGE * np.eye(len(within)), means[1] - means[0])
    scores = [part @ direction for part in features]
    threshold = _best_threshold((scores[0][:half], scores[1][:half]))
    return threshold_bound((scores[0][half : 2 * half], scores[1][half : 2 * half]), threshold)


def _standardised(views: tuple[IntArray, IntArray], half: int) -> list[FloatArray]:
    """Return numbers and squares of both worlds in units of the training halves' pooled deviation."""
    floats = [view.astype(np.float64) for view in views]
    pooled = np.concatenate([part[:half] for part in floats])
    center, scale = np.median(pooled, axis=0), pooled.std(axis=0)
    # A number that never changes tells nothing, and is left as it is.
    scale[scale == 0] = 1.0
    scaled = [(part - center) / scale for part in floats]
    # Beyond ten deviations a few squares would decide the covariance by themselves.
    return [np.hstack([part, np.minimum(part**2, 100.0)]) for part in scaled]


def _best_threshold(scores: tuple[FloatArray, FloatArray]) -> float:
    """Return the threshold with the largest lower bound on these scores, among quantiles of both worlds pooled."""
    candidates: NDArray[np.float64] = np.quantile(np.concatenate(scores), _GRID)
    bounds = [threshold_bound(scores, float(threshold)).mu_lower for threshold in candidates]
    return float(candidates[int(np.argmax(bounds))])
