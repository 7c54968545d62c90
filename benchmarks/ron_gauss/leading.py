"""DP-PCA as we read it: normal rows along the leading directions of a noised second moment (Analyze Gauss, exact).

Dwork, Talwar, Thakurta, Zhang (2014) release the second moment; how the paper of RON-Gauss made rows of it is not in
the text at hand. Here a row's class, or its target and a one for the means, are further columns of the same moment, so
that one release tells of everything, and the promise is the one that ours has: whoever's row is replaced.
"""

import math
from dataclasses import dataclass

import numpy as np
from bench_ron_gauss import DELTA, SYNTHETIC, Split
from showing import FloatArray

from lintra_analysis.synthetic.comparison import logistic_accuracy, ridge_error
from lintra_protocol.privacy.gaussian import gaussian_mu


def noised_moment(rows: FloatArray, bound: float, epsilon: float, seed: list[int]) -> FloatArray:
    """Return the sum of the rows' products with noise, divided by their number; no row is longer than `bound`."""
    rng, size = np.random.default_rng(seed), rows.shape[1]
    upper = np.triu(rng.normal(size=(size, size)), 1)
    noise = upper + upper.T + np.diag(rng.normal(size=size) * math.sqrt(2))
    return np.asarray((rows.T @ rows + bound**2 / gaussian_mu(epsilon, DELTA) * noise) / len(rows))


def leading(moment: FloatArray, rank: int) -> tuple[FloatArray, FloatArray]:
    """Return the roots of the largest eigenvalues, none below 0, and their directions in columns."""
    values, vectors = np.linalg.eigh(moment)
    return np.sqrt(np.maximum(values[-rank:], 0)), vectors[:, -rank:]


def normal_rows(covariance: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Return centred normal rows; negative eigenvalues, which only noise makes, count as 0."""
    scales, vectors = leading(covariance, len(covariance))
    return np.asarray(rng.normal(size=(count, len(scales))) * scales @ vectors.T)


@dataclass(frozen=True)
class Leading:
    """A noised moment of some columns and others, in the leading directions of the first."""

    directions: FloatArray
    products: FloatArray
    crosses: FloatArray
    others: FloatArray

    @classmethod
    def of(cls, split: Split, others: FloatArray, longest: float, epsilon: float) -> "Leading":
        """Release the rows to learn from, with other columns of which no row is longer than `longest`."""
        rows = split.rows.values[split.train]
        size = rows.shape[1]
        bound = math.sqrt(size + longest**2)
        moment = noised_moment(np.column_stack([rows, others]), bound, epsilon, [11, split.seed, round(epsilon)])
        _, directions = leading(moment[:size, :size], split.rows.dimension)
        products = directions.T @ moment[:size, :size] @ directions
        return cls(directions, products, directions.T @ moment[:size, size:], moment[size:, size:])


def cluster_rows(split: Split, epsilon: float) -> FloatArray:
    """Return rows in the original columns, about the origin, without labels."""
    rows = split.rows.values[split.train]
    moment = noised_moment(rows, math.sqrt(rows.shape[1]), epsilon, [9, split.seed, round(epsilon)])
    scales, directions = leading(moment, split.rows.dimension)
    rng = np.random.default_rng([10, split.seed, round(epsilon)])
    return np.asarray(rng.normal(size=(SYNTHETIC, len(scales))) * scales @ directions.T)


def classified(split: Split, epsilon: float) -> float:
    """Return the accuracy on real rows of a classifier that learnt from rows with a mean for each class."""
    own, rng = split.rows, np.random.default_rng([12, split.seed, round(epsilon)])
    number = len(own.levels)
    found = Leading.of(split, np.eye(number)[own.classes[split.train]], 1.0, epsilon)
    shares = np.maximum(np.diag(found.others), 1 / len(split.train))
    means, shares = found.crosses / shares, shares / shares.sum()
    classes = rng.choice(number, SYNTHETIC, p=shares)
    rows = means.T[classes] + normal_rows(found.products - (means * shares) @ means.T, SYNTHETIC, rng)
    test = own.values[split.test] @ found.directions
    return logistic_accuracy((rows, classes), (test, own.classes[split.test]), number)


def regressed(split: Split, epsilon: float) -> float:
    """Return the error on real rows of a regression that learnt from rows with a target."""
    own, rng = split.rows, np.random.default_rng([13, split.seed, round(epsilon)])
    others = np.column_stack([own.target[split.train], np.ones(len(split.train))])
    found = Leading.of(split, others, math.sqrt(2), epsilon)
    joint = np.block([[found.products, found.crosses[:, :1]], [found.crosses[:, :1].T, found.others[:1, :1]]])
    mean = np.append(found.crosses[:, 1], found.others[0, 1])
    rows = mean + normal_rows(joint - np.outer(mean, mean), SYNTHETIC, rng)
    test = own.values[split.test] @ found.directions
    return ridge_error((rows[:, :-1], rows[:, -1]), (test, own.target[split.test]))
