"""Who takes part in the race of regressions: each fits rows within public bounds, and returns coefficients.

Features are within a ball, the target within an interval. A fit returns one coefficient a feature and, where it has
one, the intercept behind them; None where it gives no answer.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from showing import FloatArray

from lintra_analysis.estimators.point import drawn_to_zero, released_means
from lintra_analysis.trial.row_weights import row_weighting
from lintra_curator.claims.claim import curator_claim
from lintra_curator.second_moment.bounded_table import BoundedTable, plain_columns
from lintra_curator.second_moment.calibration import gaussian_sigma
from lintra_curator.second_moment.gaussian_noise import GaussianNoise
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.noise.clipping import clip_norms
from lintra_protocol.privacy.gaussian import gaussian_mu
from peers.mixing import hessian_mixing, linear_mixing
from peers.tukey import tukey_em

RIDGE_PROBABILITY = 0.05
"""rho of AdaSSP, as its author took it."""


@dataclass(frozen=True)
class Setting:
    """What is public about a race: the promise, and the bounds of rows.

    Attributes:
        epsilon: of the promise.
        delta: of the promise; peers without one promise pure epsilon.
        feature_bound: no row of features is longer.
        target_bound: no target is larger.
        row_bound: no row is longer, target included.
        entry_bound: no feature is larger.
    """

    epsilon: float
    delta: float
    feature_bound: float
    target_bound: float
    row_bound: float
    entry_bound: float


def bounded(rows: FloatArray, setting: Setting) -> tuple[FloatArray, FloatArray]:
    """Return features of norm at most 1 and a target in [-1, 1], as the peers' papers have them."""
    features = clip_norms(rows[:, :-1], setting.feature_bound) / setting.feature_bound
    return features, np.clip(rows[:, -1] / setting.target_bound, -1, 1)


def least_squares(rows: FloatArray, _: Setting, _seed: int) -> FloatArray:
    """Return the coefficients without privacy."""
    return np.asarray(np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=None)[0])


def symmetric(size: int, rng: np.random.Generator) -> FloatArray:
    """Return symmetric noise of deviation 1 off the diagonal and the root of 2 on it."""
    drawn = rng.normal(size=(size, size))
    return np.asarray((drawn + drawn.T) / math.sqrt(2))


def slopes(matrix: FloatArray, sigma: float) -> FloatArray:
    """Return the point that a regression on a release prints: eigenvalues floored, and drawn towards 0."""
    return np.asarray(drawn_to_zero(matrix, sigma, None, np.zeros(1))[0][0])


def ours(rows: FloatArray, setting: Setting, seed: int) -> FloatArray:
    """Return what the sum over servers gives: the products of rows and Gaussian noise, whoever's row is replaced."""
    bound, rng = setting.row_bound, np.random.default_rng([seed, 2])
    kept = clip_norms(rows, bound)
    sigma = bound**2 / gaussian_mu(setting.epsilon, setting.delta)
    return slopes(kept.T @ kept + sigma * symmetric(rows.shape[1], rng), sigma)


def ours_curator(rows: FloatArray, setting: Setting, seed: int) -> FloatArray:
    """Return what a curator releases, in exact integers; whoever's row may become the null row, as for the peers."""
    names = [f"c{i}" for i in range(rows.shape[1])]
    table = BoundedTable.of(rows, plain_columns(names, setting.row_bound), setting.row_bound)
    claim = curator_claim(setting.epsilon, float(f"{setting.delta:.6g}"), "zero-out")
    release = GaussianNoise().release(table, claim, expand(seed.to_bytes(32, "big"), "race"))
    return slopes(release.values, gaussian_sigma(claim) * setting.row_bound**2)


def ours_weighted(rows: FloatArray, setting: Setting, seed: int) -> FloatArray:
    """Return the sum over servers by the rule of row weights, whose quantiles of the rows count as public here."""
    rng, mu = np.random.default_rng([seed, 5]), gaussian_mu(setting.epsilon, setting.delta)
    two_valued = len(np.unique(rows[:, -1])) == 2
    weighting = row_weighting(rows, len(rows), mu, two_valued=two_valued)
    vectors, root = weighting.vectors(rows)
    kept, sigma = vectors * root[:, np.newaxis], weighting.row_bound**2 / mu
    matrix = kept.T @ kept + sigma * symmetric(vectors.shape[1], rng)
    means = released_means(matrix, sigma)
    found = drawn_to_zero(matrix, sigma, means, np.zeros(1))[0][0]
    constant = (means[-1] - means[:-1] @ found) * vectors[0, 0]
    return np.asarray(np.append(found, constant) / weighting.target_factor)


def adassp(rows: FloatArray, setting: Setting, seed: int) -> FloatArray:
    """Return the coefficients of AdaSSP (Wang 2018, Algorithm 2), its three noises calibrated exactly.

    Its author takes the classical Gaussian mechanism, which needs more noise; the authors of Iterative Hessian Mixing
    run it with the exact one, and so it runs here.
    """
    rng, (features, target) = np.random.default_rng([seed, 3]), bounded(rows, setting)
    size, sigma = features.shape[1], 1 / gaussian_mu(setting.epsilon / 3, setting.delta / 3)
    gram = features.T @ features
    least = float(np.linalg.eigvalsh(gram)[0]) + sigma * float(rng.normal())
    least = max(0.0, least - sigma * math.sqrt(math.log(6 / setting.delta)))
    ridge = max(0.0, sigma * math.sqrt(size * math.log(2 * size**2 / RIDGE_PROBABILITY)) - least)
    upper = np.triu(rng.normal(size=(size, size)))
    noised = gram + sigma * (upper + np.triu(upper, 1).T)
    products = features.T @ target + sigma * rng.normal(size=size)
    found = np.linalg.solve(noised + ridge * np.eye(size), products)
    return np.asarray(found * setting.target_bound / setting.feature_bound)


def _mixing(method: Callable[..., FloatArray], place: int) -> "Fit":
    def fit(rows: FloatArray, setting: Setting, seed: int) -> FloatArray:
        rng = np.random.default_rng([seed, place])
        found = method(*bounded(rows, setting), setting.epsilon, setting.delta, rng)
        return found * setting.target_bound / setting.feature_bound

    return fit


def _tukey(rows: FloatArray, setting: Setting, seed: int) -> FloatArray | None:
    return tukey_em(rows, setting.epsilon, setting.delta, seed)


Fit = Callable[[FloatArray, Setting, int], FloatArray | None]
NO_PRIVACY, OURS, CURATOR, WEIGHTED = "no privacy", "Lintra", "Lintra, curator", "Lintra, row weights"
HESSIAN = "Iterative Hessian Mixing"
CONTESTANTS: dict[str, Fit] = {
    NO_PRIVACY: least_squares, OURS: ours, CURATOR: ours_curator, WEIGHTED: ours_weighted,
    HESSIAN: _mixing(hessian_mixing, 6), "Linear Mixing": _mixing(linear_mixing, 7), "AdaSSP": adassp,
    "TukeyEM": _tukey,
}  # fmt: skip
PEERS = {"ibm_regression": "diffprivlib", "opendp_regression": "OpenDP"}
"""Those who run in an environment of their own, by the name of their fit in fits.py."""
