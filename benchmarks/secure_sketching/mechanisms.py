"""What every mechanism leaves of a table's second moments, by the exact law of what it releases.

A public matrix with one entry a column that fills m rows alike, applied to U: row r is a sum of c = n/m rows with
signs. So S U = G W^(-1/2) with G of m normal rows of variance c, and W = G^T G + a Wishart matrix of n - m degrees,
the rest of the rows (Cochran 1934). Noise in every row of Z: Z^T N and N^T N follow from a k x D normal matrix and a
Wishart matrix of n - k degrees in the same way. Noise is continuous here; the discrete noise of a task is 1e-6 larger.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from showing import FloatArray

from lintra_analysis.estimators.spectral import floor_eigenvalues
from lintra_analysis.estimators.wide import wide_ridge
from lintra_analysis.estimators.wide_core import core_between, leading
from lintra_analysis.kinds.range_finder import usual_projected_bound
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.range_sums import RangeSums, TargetProducts
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_analysis.releases.sketch import Sketch
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.privacy.calibration import published_sigma
from lintra_protocol.privacy.gaussian import gaussian_mu
from secure_sketching.designs import Table

DELTA = 1e-6
ROWS = 100
"""m of the paper's tables."""

Rng = np.random.Generator


@dataclass(frozen=True)
class Claim:
    """What is promised to everybody whose row may be replaced."""

    epsilon: float
    delta: float = DELTA

    @property
    def mu(self) -> float:
        """Return mu of the exact Gaussian mechanism."""
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def experiment(self) -> float:
        """Return c, so that the paper's experiments add noise of variance c n^-p: 2 ln(1.25/delta) / epsilon^2."""
        return 2 * math.log(1.25 / self.delta) / self.epsilon**2


@dataclass(frozen=True)
class Seen:
    """What an analyst makes of a release.

    Attributes:
        gram: the estimate of Z^T Z, shape `(D, D)`, which need not be positive.
        floor: where its eigenvalues are lost in noise; 0 where nobody knows.
        wide: for a regression, the release of the wide mechanism; its `gram` is then no estimate.
    """

    gram: FloatArray
    floor: float = 0.0
    wide: RangeSums | None = None


Mechanism = Callable[[Table, Claim, Rng], Seen | None]


def wishart(degrees: int, size: int, rng: Rng) -> FloatArray:
    """Return G^T G for G of shape `(degrees, size)`, normal (Bartlett 1933)."""
    if degrees <= size:
        factor = rng.normal(size=(max(degrees, 0), size))
        return factor.T @ factor
    lower = np.tril(rng.normal(size=(size, size)), -1)
    lower[np.diag_indices(size)] = np.sqrt(rng.chisquare(degrees - np.arange(size)))
    return np.asarray(lower @ lower.T)


def noised_rows(table: Table, variance: float, rng: Rng) -> FloatArray:
    """Return (Z + N)^T (Z + N), N of independent entries of a variance."""
    rank, size = table.root.shape
    moved = table.root + math.sqrt(variance) * rng.normal(size=(rank, size))
    return moved.T @ moved + variance * wishart(table.count - rank, size, rng)


def sketched(table: Table, rows: int, rng: Rng) -> FloatArray:
    """Return S Z, shape `(m, D)`."""
    rank = len(table.root)
    share = math.sqrt(table.count / rows) * rng.normal(size=(rows, rank))
    whole = share.T @ share * (rows / table.count) + wishart(table.count - rows, rank, rng)
    values, vectors = np.linalg.eigh(whole)
    return np.asarray(share @ (vectors / np.sqrt(values)) @ vectors.T @ table.root)


def columns(size: int, bound: float) -> tuple[ScaledColumn, ...]:
    """Return columns that have no unit."""
    return tuple(ScaledColumn(f"c{i}", 0.0, 1.0, -bound, bound) for i in range(size))


def read_sketch(table: Table, values: FloatArray, variance: float) -> Seen:
    """Return what the library reads in a sketch with noise of a variance in every entry: debiased, with its floor."""
    rows, size = values.shape
    counts, variances = np.full(rows, max(1, table.count // rows)), np.full(rows, variance)
    named = columns(size, table.row_bound)
    gram = Sketch(named, values, counts, variances, table.count, table.row_bound).second_moment()
    return Seen(gram.matrix, gram.errors.floor(size))


def as_run(power: float) -> Mechanism:
    """Return what the paper's experiments do: N(0, c n^-p) on the table itself, nothing sketched, nothing clipped."""

    def run(table: Table, claim: Claim, rng: Rng) -> Seen:
        return Seen(noised_rows(table, claim.experiment * table.count**-power, rng))

    return run


def equation_4(table: Table, claim: Claim, rng: Rng) -> Seen | None:
    """Return the mechanism as printed, s = 1 and m = 100: sigma of equation (4); None where it has no value."""
    bound = table.entry_bound
    try:
        sigma = published_sigma(claim.epsilon, claim.delta, table.count, ROWS, 1, table.root.shape[1], bound, 0)
    except ValueError:
        return None
    variance = sigma**2 * table.count / ROWS
    values = sketched(table, ROWS, rng)
    return read_sketch(table, values + math.sqrt(variance) * rng.normal(size=values.shape), variance)


def best_rows(table: Table, claim: Claim) -> int:
    """Return m of the plan's rule: m* ~ trace / (v d), from the row bound alone, within [3 D, n / 30]."""
    size = table.root.shape[1]
    deviation = 2 * table.row_bound / claim.mu
    # Rows of squared norm B^2 / 2: what a plan takes for want of more.
    ideal = table.count * table.row_bound**2 / 2 / (deviation**2 * size)
    return int(max(2, min(max(ideal, 3 * size), table.count / 30)))


def our_sketch(table: Table, claim: Claim, rng: Rng) -> Seen:
    """Return the sketch with noise from leverage scores and as many rows as the rule asks for."""
    rows = best_rows(table, claim)
    variance = (2 * table.row_bound / claim.mu) ** 2
    values = sketched(table, rows, rng)
    return read_sketch(table, values + math.sqrt(variance) * rng.normal(size=values.shape), variance)


def second_moments(table: Table, claim: Claim, rng: Rng) -> Seen:
    """Return the products of the rows with exact symmetric noise."""
    size, sd = table.root.shape[1], table.row_bound**2 / claim.mu
    upper = np.triu(rng.normal(size=(size, size)), 1) * sd
    noise = upper + upper.T + np.diag(rng.normal(size=size) * math.sqrt(2) * sd)
    values = table.gram + noise
    release = SecondMomentSum(columns(size, table.row_bound), values, sd, table.count, table.row_bound)
    gram = release.second_moment()
    return Seen(gram.matrix, gram.errors.floor(size))


def wide(*, target: bool) -> Mechanism:
    """Return the products with one side projected, r = D/2 at most 32; None for fewer than 8 columns.

    Args:
        target: whether the last column is an anchor of its own, which takes sqrt 2 more noise.
    """

    def run(table: Table, claim: Claim, rng: Rng) -> Seen | None:
        size = table.root.shape[1]
        rank = min(32, size // 2)
        if rank < 4:
            return None
        bound = float(usual_projected_bound(f"{table.row_bound:.9f}", size, rank))
        projection = rng.choice([-1.0, 1.0], (size, rank)) / math.sqrt(rank)
        own = 2 * table.row_bound * bound * math.sqrt(1 + target) / claim.mu
        values = table.gram @ projection + own * rng.normal(size=(size, rank))
        if not target:
            try:
                core = core_between(leading(values, own, rank // 2), values, projection)
            except InvalidAnalysisError:
                return Seen(np.zeros((size, size)))  # nothing stands above the noise: any directions
            gram = core.directions @ core.core @ core.directions.T
            return Seen((gram + gram.T) / 2)
        products = table.gram[:, -1] + own / bound * rng.normal(size=size)
        release = RangeSums(
            columns=columns(size, table.row_bound),
            values=values,
            projection=projection,
            noise_sd=own,
            num_clients=table.count,
            row_bound=table.row_bound,
            projected_bound=bound,
            targets=(TargetProducts(size - 1, bound, products, own / bound),),
        )
        return Seen(values, wide=release)

    return run


def central(table: Table, claim: Claim, rng: Rng) -> Seen:
    """Return a curator's products as published (Analyze Gauss): one deviation everywhere, made for rows that leave."""
    size = table.root.shape[1]
    sd = table.row_bound**2 * math.sqrt(claim.experiment)
    upper = np.triu(rng.normal(size=(size, size))) * sd
    return Seen(table.gram + upper + np.triu(upper, 1).T)


def local(table: Table, claim: Claim, rng: Rng) -> Seen:
    """Return what rows give that every client makes private by itself, debiased, with the floor of its noise."""
    size, variance = table.root.shape[1], (2 * table.row_bound / claim.mu) ** 2
    gram = noised_rows(table, variance, rng) - table.count * variance * np.eye(size)
    return Seen(gram, variance * (2 * math.sqrt(table.count * size) + size))


def compared(*, target: bool) -> dict[str, Mechanism]:
    """Return the mechanisms of a comparison, by the names of their columns."""
    return {
        "as run, p = 1": as_run(1.0),
        "equation (4)": equation_4,
        "our sketch": our_sketch,
        "second moments": second_moments,
        "wide data": wide(target=target),
        "central, published": central,
        "local": local,
    }


def low_rank_excess(table: Table, seen: Seen, rank: int) -> float:
    """Return psi: how much more of the table the released k directions miss than the best k, divided by n."""
    best = np.linalg.eigvalsh(table.gram)[-rank:].sum()
    vectors = np.linalg.eigh(seen.gram)[1][:, -rank:]
    return float(max(best - np.trace(vectors.T @ table.gram @ vectors), 0.0) / table.count)


def ridge_ratio(table: Table, seen: Seen, ridge: float) -> float:
    """Return phi: the ridge cost of the released coefficients over that of the best ones."""
    features = table.root.shape[1] - 1
    if seen.wide is not None:
        found = _wide_coefficients(seen.wide, ridge)
    else:
        gram = floor_eigenvalues(seen.gram[:features, :features], seen.floor)
        solved = np.linalg.lstsq(gram + ridge * np.eye(features), seen.gram[:features, -1], rcond=None)[0]
        found = np.asarray(solved, np.float64)
    exact = table.gram[:features, :features] + ridge * np.eye(features)
    best: FloatArray = np.asarray(np.linalg.solve(exact, table.gram[:features, -1]), np.float64)
    return ridge_cost(table, found, ridge) / ridge_cost(table, best, ridge)


def ridge_cost(table: Table, coefficients: FloatArray, ridge: float) -> float:
    """Return |A b - y|^2 + lambda |b|^2."""
    miss = table.root[:, :-1] @ coefficients - table.root[:, -1]
    return float(miss @ miss + ridge * coefficients @ coefficients)


def _wide_coefficients(release: RangeSums, ridge: float) -> FloatArray:
    try:
        answer = wide_ridge(Release(range_sums=release), release.columns[-1].name, ridge, about="centers")
    except InvalidAnalysisError:
        return np.zeros(len(release.columns) - 1)  # nothing stands above the noise
    return answer.coefficients
