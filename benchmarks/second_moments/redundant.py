"""Figures 5 and 6, and the remark on the Lasso: how many redundant columns a regression has, and which ones vanish.

One release of 20 independent features, an intercept, nine mixtures of the features and the target answers all of them:
a regression takes the features and the first k mixtures, whose true coefficients are 0. The lines are the six of the
paper's Section 6, with published noise, and two with exact noise and a floor under the eigenvalues.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from bench_second_moment_regression import (
    FEATURES,
    MULTI,
    REDUNDANT,
    SQUARED_BOUND,
    SummedTable,
    gaussian,
    published_gaussian,
    published_look,
    published_wishart,
    raw,
)
from papers.second_moment import PublishedWishartNoise
from showing import FloatArray, IntArray, Shown, spread

from lintra_analysis.estimators.regression import regression
from lintra_curator.claims.claim import curator_claim
from lintra_curator.second_moment import calibration
from lintra_curator.second_moment.central_second_moment import CentralSecondMoment
from lintra_curator.second_moment.wishart_noise import WishartNoise
from lintra_protocol.crypto.randomness import RandomBytes, expand
from lintra_protocol.privacy.statement import Claim
from papers import published

DELTA, EPSILON = math.exp(-9), 0.1
TAKEN = (0, 1, 2, 4, 9)
"""Numbers of redundant columns in a regression."""


def shifted(matrix: FloatArray, deviation: float) -> FloatArray:
    """Return the "scaled" matrix of the paper: moved by what noise can do at most, only if it is not positive."""
    if np.linalg.eigvalsh(matrix)[0] > 0:
        return matrix
    return matrix + 2 * math.sqrt(len(matrix)) * deviation * np.eye(len(matrix))


def published_lines(
    table: SummedTable, source: RandomBytes, generator: np.random.Generator, claim: Claim
) -> dict[str, FloatArray]:
    """Return the released matrix of each of the paper's six lines, and that of the data."""
    analyze_gauss = published_gaussian(table, generator, claim)
    deviation = published.gaussian_sigma(claim) * SQUARED_BOUND
    return {
        "no privacy": table.gram,
        "1. Analyze Gauss": analyze_gauss,
        "2. Algorithm 2": published_look(table, False, source, generator, claim),
        "3. Algorithm 3": PublishedWishartNoise().release(table, claim, source).raw,
        "4. Analyze Gauss, scaled": shifted(analyze_gauss, deviation),
        "5. Algorithm 5": published_look(table, True, source, generator, claim),
        "6. Algorithm 3, scaled": published_wishart(table, source, claim),
    }


def exact_lines(table: SummedTable, source: RandomBytes, claim: Claim) -> dict[str, CentralSecondMoment]:
    """Return releases with exact noise of the same promise."""
    return {
        "gaussian exact, floor": gaussian(table, source, claim),
        "wishart exact, floor": WishartNoise().release(table, claim, source),
    }


def columns(taken: int) -> IntArray:
    """Return the places of features, intercept, the first redundant columns, and the target."""
    return np.array([*range(FEATURES + 1 + taken), FEATURES + 1 + REDUNDANT])


def without_intercept(solution: FloatArray) -> FloatArray:
    """Return the coefficients of features and redundant columns."""
    return np.delete(solution, FEATURES)


def by_redundant(log2ns: Sequence[int], runs: int) -> Shown:
    """Return the error by rows and by the number of redundant columns in the regression."""
    claim, found = curator_claim(EPSILON, DELTA), {}
    for log2n in log2ns:
        generator, source = np.random.default_rng([6, log2n]), expand(bytes(32), f"redundant {log2n}")
        for _ in range(runs):
            table, truth = MULTI.draw(2**log2n, generator)
            matrices = published_lines(table, source, generator, claim)
            releases = exact_lines(table, source, claim)
            for taken in TAKEN:
                places = columns(taken)
                names = [MULTI.names[place] for place in places]
                solved = {name: raw(matrix[np.ix_(places, places)]) for name, matrix in matrices.items()}
                solved |= {name: regression(release.restrict(names), "y").coef_ for name, release in releases.items()}
                wanted = np.append(truth, np.zeros(taken))
                for name, solution in solved.items():
                    error = float(np.linalg.norm(without_intercept(solution) - wanted))
                    found.setdefault((log2n, taken), {}).setdefault(name, []).append(error)
    rows = tuple((2**log2n, taken, *map(spread, cells.values())) for (log2n, taken), cells in found.items())
    heads = next(iter(found.values()))
    return Shown(
        "redundant-by-n", "Second moments, redundant columns varied, epsilon 0.1: error of the coefficients",
        ("n", "redundant", *heads), rows,
        "Delta is e^-9. |b_hat - b| over 20 features, |b| = 1, and the redundant columns of the regression, whose "
        "coefficients are truly 0. One release holds nine of them, and each regression takes the first ones. 'Scaled' "
        "moves the matrix by a multiple of the identity only if it is not positive definite. Lines 1 to 6 have "
        "published noise. "
        f"Median and 10 % and 90 % points of {runs} runs.",
    )  # fmt: skip


def lasso_zeroes(log2ns: Sequence[int], runs: int, lasso: Callable[[FloatArray, float], FloatArray]) -> Shown:
    """Return which coefficients the Lasso sets to 0: of the features that matter, and of redundant columns."""
    claim, rows = curator_claim(EPSILON, DELTA), []
    heads: list[str] = []
    for log2n in log2ns:
        found: dict[str, list[tuple[float, float]]] = {}
        for name, zeroes in _zeroes(log2n, runs, claim, lasso):
            found.setdefault(name, []).append(zeroes)
        heads = [f"{name}: {which}" for name in found for which in ("features", "redundant")]
        shares = [spread(pair[which] for pair in pairs) for pairs in found.values() for which in (0, 1)]
        rows.append((2**log2n, *shares))
    return Shown(
        "lasso-zeroes", "Second moments, the Lasso: share of coefficients that it sets to 0, epsilon 0.1",
        ("n", *heads), tuple(tuple(row) for row in rows),
        "Delta is e^-9. Twenty features matter and nine redundant columns do not; all are in the regression. The "
        "penalty is sqrt(2 ln 20) deviations of an entry of X^T e. The noise's is in it, as of Gaussian noise. "
        f"Without privacy there is no noise in it. Median and 10 % and 90 % points of {runs} runs.",
    )  # fmt: skip


def _zeroes(
    log2n: int, runs: int, claim: Claim, lasso: Callable[[FloatArray, float], FloatArray]
) -> Iterator[tuple[str, tuple[float, float]]]:
    generator, source = np.random.default_rng([62, log2n]), expand(bytes(32), f"lasso zeroes {log2n}")
    for _ in range(runs):
        table, _ = MULTI.draw(2**log2n, generator)
        exact = exact_lines(table, source, claim)
        lines = published_lines(table, source, generator, claim)
        reach = math.sqrt(1 + MULTI.norm**2) * SQUARED_BOUND
        theirs, ours = published.gaussian_sigma(claim) * reach, calibration.gaussian_sigma(claim) * reach
        releases: dict[str, tuple[FloatArray, float]] = {
            "no privacy": (table.gram, 0.0),
            "gaussian exact": (exact["gaussian exact, floor"].values, ours),
            "gaussian published": (lines["1. Analyze Gauss"], theirs),
            "wishart exact": (exact["wishart exact, floor"].values, ours),
            "wishart published": (lines["6. Algorithm 3, scaled"], theirs),
        }
        for name, (matrix, noise) in releases.items():
            penalty = math.sqrt(2 * math.log(FEATURES) * (2**log2n * MULTI.residual + noise**2))
            zero = without_intercept(lasso(matrix, penalty)) == 0
            yield name, (float(zero[:FEATURES].mean()), float(zero[FEATURES:].mean()))
