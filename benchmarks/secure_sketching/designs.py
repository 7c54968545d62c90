"""The synthetic tables of the paper's experiments, and what is public about their rows.

A table is Z = U R with U uniform among the n x k matrices with orthonormal columns and R of shape (k, D). Nothing else
of U enters any mechanism here but its products with a public matrix and with noise, whose laws are known exactly
(`mechanisms.py`); so that a table of a million rows costs what a small matrix costs, and nothing is approximated.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats
from showing import FloatArray

UNCLIPPED = 1e-3
"""The chance that a table has a row longer than its public bound: bounds come from the law, and nothing is clipped."""


@dataclass(frozen=True)
class Table:
    """Z = U R.

    Attributes:
        name: in tables.
        count: n.
        root: R, shape `(k, D)`; R^T R are the second moments.
        row_bound: no row is longer; public.
        entry_bound: eta, no entry is larger; public.
    """

    name: str
    count: int
    root: FloatArray
    row_bound: float
    entry_bound: float

    @property
    def gram(self) -> FloatArray:
        """Return the second moments, shape `(D, D)`."""
        return self.root.T @ self.root


def frame(columns: int, rng: np.random.Generator) -> FloatArray:
    """Return a uniform orthogonal matrix."""
    q, r = np.linalg.qr(rng.normal(size=(columns, columns)))
    return np.asarray(q * np.sign(np.diag(r)))


def low_rank_table(count: int, columns: int, rank: int, rng: np.random.Generator) -> Table:
    """Return the table of the low-rank experiments: k singular values sqrt(n/k), the others 1/n."""
    singular = np.concatenate([np.full(rank, math.sqrt(count / rank)), np.full(columns - rank, 1 / count)])
    # Squared norms follow chi-square of k degrees over k, up to 1/n^3; entries are normal of variance 1/d.
    longest = math.sqrt(stats.chi2.isf(UNCLIPPED / count, rank) / rank) + columns / count
    # A column keeps a Beta share of the k directions, over the choice of V; then its entries are normal.
    share = stats.beta.isf(UNCLIPPED / columns / 2, rank / 2, (columns - rank) / 2)
    largest = min(longest, math.sqrt(share / rank) * stats.norm.isf(UNCLIPPED / count / columns / 4))
    root = singular[:, np.newaxis] * frame(columns, rng).T
    return Table(f"low rank {count} x {columns}", count, root, longest, largest)


def regression_table(count: int, features: int, size: float, rng: np.random.Generator) -> Table:
    """Return the table of the ridge experiments, the target b = A x last: all singular values mu, |x| = 1.

    Args:
        count: n.
        features: d.
        size: mu^2.
        rng: draws A and x.
    """
    truth = rng.normal(size=features)
    truth /= np.linalg.norm(truth)
    turned = math.sqrt(size) * frame(features, rng).T
    scale = math.sqrt(size / count)
    share = UNCLIPPED / count / 2
    longest = scale * math.sqrt(stats.chi2.isf(share, features) + stats.chi2.isf(share, 1))
    largest = scale * stats.norm.isf(share / (features + 1))
    return Table(f"ridge {count} x {features}", count, np.column_stack([turned, turned @ truth]), longest, largest)


def real_table(name: str, rows: FloatArray, count: int, quantile: float = 0.999) -> Table:
    """Return a real table, standardised and clipped at a quantile of its norms, as if it had `count` rows like these.

    Means, deviations and the quantile are taken as public. The second moments are scaled where only a part is here.
    """
    standard = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    norms = np.linalg.norm(standard, axis=1)
    bound = float(np.quantile(norms, quantile))
    kept = standard * np.minimum(1, bound / np.maximum(norms, 1e-300))[:, np.newaxis]
    gram = kept.T @ kept * (count / len(rows))
    return Table(name, count, np.linalg.cholesky(gram).T, bound, min(bound, float(np.abs(kept).max())))
