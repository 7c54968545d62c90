"""Analyze Gauss: the second moment plus weighted symmetric Gaussian noise, in exact integers by default.

Off the diagonal the noise has deviation sigma, on it sqrt(2) sigma: then it is isotropic in the Frobenius norm, in
which two neighbours are at most sqrt(2) B^2 apart (Dwork, Talwar, Thakurta, Zhang 2014, with the weights of
docs/proofs/moments.md#second-moments).
"""

import math
from dataclasses import dataclass

import numpy as np

from lintra_analysis.releases.sampling import FLOATING_POINT_LAW, gaussians
from lintra_curator.claims.claim import CalibrationError
from lintra_curator.second_moment.bounded_table import BoundedTable
from lintra_curator.second_moment.calibration import gaussian_sigma
from lintra_curator.second_moment.central_second_moment import INTEGER_LAW, CentralSecondMoment, NoiseRecord
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.noise.clipping import quantise
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA, discrete_gaussian
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.discrete import discrete_delta, discrete_mu, row_slack
from lintra_protocol.privacy.statement import MAX_SLACK, SMOOTHING, Claim

GRID_BITS = 14
"""A row's length is counted in 2^-14 of the bound, or more coarsely where the noise would not fit the sampler."""

_COARSEST_BITS = 2
_BLOCK_ROWS = 1 << 18


@dataclass(frozen=True)
class GaussianNoise:
    """S + N with symmetric Gaussian noise N, in integers throughout.

    Attributes:
        trace_tight: lower the noise of the trace by sqrt(d + 1), at no cost, for "replace-one" only. Its law is
            continuous, in floating point; without this option everything happens in integers.

    >>> from lintra_curator import BoundedTable, curator_claim, plain_columns
    >>> import numpy as np
    >>> from lintra_protocol.crypto.randomness import bulk_system_randomness
    >>> generator = np.random.default_rng(0)
    >>> rows = generator.normal(0, 0.5, size=(4000, 2))
    >>> table = BoundedTable.of(rows, plain_columns(["left", "right"], 2.0), row_bound=2.0)
    >>> release = GaussianNoise().release(table, curator_claim(1.0, 1e-6), bulk_system_randomness())
    >>> release.values.shape, release.noise.delta_at(1.0) <= 1e-6
    ((2, 2), True)
    """

    trace_tight: bool = False

    def release(self, table: BoundedTable, claim: Claim, random_bytes: RandomBytes) -> CentralSecondMoment:
        """Release the second moment of a table.

        Args:
            table: the curator's rows.
            claim: to calibrate to.
            random_bytes: a cryptographic source.

        Raises:
            CalibrationError: no noise that the sampler draws keeps the claim.
            ValueError: the options do not go together.
        """
        draw = _trace_tight if self.trace_tight else _integers
        return draw(table, claim, random_bytes)

    def price(self, claim: Claim, num_columns: int) -> Spending:
        """Return what a release of so many columns spends, known before anything is drawn.

        Raises:
            CalibrationError: no noise that the sampler draws keeps the claim.
        """
        if self.trace_tight:
            return Spending.gaussian(1 / gaussian_sigma(claim))
        _, _, mu, slack = integer_plan(claim, num_columns)
        return Spending.gaussian(mu, slack)


def exact_products(steps: IntArray, squared_bound: int) -> IntArray:
    """Return the exact sum of products of integer rows, shape `(d, d)`, for rows of shape `(n, d)`.

    Squared norms are at most R = `squared_bound`, which is at most 2^52. By Cauchy and Schwarz no partial sum of
    products exceeds n R, so blocks whose n R stays below 2^53 are exact in floating point, where matrix products are
    fast. Raises ValueError if the squared bound is above 2^52; CalibrationError if these are too many rows for 64-bit
    sums.
    """
    if not 0 < squared_bound <= 2**52:
        raise ValueError(f"products are exact up to a squared bound of 2^52, got {squared_bound}")
    count, size = steps.shape
    if count * squared_bound >= 2**62:
        raise CalibrationError(f"{count} rows do not fit 64-bit sums; use fewer rows")
    # At least one row, since the squared bound is at most 2^52.
    block = min(_BLOCK_ROWS, 2**53 // squared_bound - 1)
    total = np.zeros((size, size), np.int64)
    for start in range(0, count, block):
        part = steps[start : start + block].astype(np.float64)
        total += np.rint(part.T @ part).astype(np.int64)
    return total


def integer_plan(claim: Claim, num_columns: int) -> tuple[int, int, float, float]:
    """Return the grid's bits g, sigma in squared steps, mu and the slack K of Theorem D1 for one party.

    A row is counted in steps of B 2^-g, so that its squared norm is at most 4^g and neighbours are 4^g (or 4^g /
    sqrt(2)) apart in units of sigma. Raises CalibrationError if not even the coarsest grid fits the sampler.
    """
    words = num_columns * (num_columns + 1) // 2
    if claim.float_epsilon <= 4 * MAX_SLACK:
        raise CalibrationError(f"epsilon {claim.float_epsilon} leaves nothing after the slack for integers")
    planned = discrete_mu(claim.float_epsilon, claim.float_delta, MAX_SLACK)
    for bits in range(GRID_BITS, _COARSEST_BITS - 1, -1):
        squared = 16**bits if claim.neighbours == "replace-one" else 16**bits // 2
        # Rounded up twice: by more than floating point may lose, and to the next integer.
        sigma = math.isqrt(math.ceil((squared / planned**2 + SMOOTHING) * (1 + 1e-11))) + 1
        if _diagonal(sigma) > MAX_SIGMA:
            continue
        mu = math.sqrt(squared / (sigma * sigma - SMOOTHING)) * (1 + 1e-12)
        slack = row_slack(1, words, float(sigma) ** 2, SMOOTHING)
        if slack <= MAX_SLACK and discrete_delta(claim.float_epsilon, mu, slack) <= claim.float_delta:
            return bits, sigma, mu, slack
    raise CalibrationError(f"{claim} needs more noise than can be drawn in integers")


def _diagonal(sigma: int) -> int:
    """Return the smallest integer that is at least sqrt(2) sigma."""
    return math.isqrt(2 * sigma * sigma - 1) + 1


def _integers(table: BoundedTable, claim: Claim, random_bytes: RandomBytes) -> CentralSecondMoment:
    """Quantise, sum and noise in integers, so that the promise does not rest on floating point."""
    size = table.rows.shape[1]
    bits, sigma, mu, slack = integer_plan(claim, size)
    squared_bound = 4**bits
    steps = quantise(table.rows * (2.0**bits / table.row_bound), squared_bound)
    noise = np.zeros((size, size), np.int64)
    upper = np.triu_indices(size, 1)
    noise[upper] = discrete_gaussian(upper[0].size, sigma, random_bytes)
    noise += noise.T
    np.fill_diagonal(noise, discrete_gaussian(size, _diagonal(sigma), random_bytes))
    unit = (table.row_bound * 2.0**-bits) ** 2
    values = (exact_products(steps, squared_bound) + noise).astype(np.float64) * unit
    stated = NoiseRecord("gaussian", claim, "exact", INTEGER_LAW, sigma * unit, size, mu=mu, slack=slack)
    return CentralSecondMoment(table.columns, values, values, stated, table.rows.shape[0], table.row_bound)


def symmetric_noise(size: int, diagonal: float, random_bytes: RandomBytes) -> FloatArray:
    """Return symmetric Gaussian noise, shape `(size, size)`, of deviation 1 off the diagonal and `diagonal` on it."""
    drawn = np.triu(gaussians((size, size), random_bytes))
    noise = np.triu(drawn, 1) + np.triu(drawn, 1).T
    np.fill_diagonal(noise, diagonal * np.diagonal(drawn))
    return noise


def weighted_noise(size: int, random_bytes: RandomBytes) -> FloatArray:
    """Return symmetric Gaussian noise of deviation 1 off and sqrt(2) on the diagonal, shape `(d, d)`."""
    return symmetric_noise(size, math.sqrt(2), random_bytes)


def _trace_tight(table: BoundedTable, claim: Claim, random_bytes: RandomBytes) -> CentralSecondMoment:
    """Add N - (tr N / d) (1 - 1 / sqrt(d + 1)) I, in floating point."""
    if claim.neighbours != "replace-one":
        raise ValueError("trace-tight noise protects against 'replace-one' only")
    size = table.rows.shape[1]
    sigma = gaussian_sigma(claim) * table.squared_bound
    noise = sigma * weighted_noise(size, random_bytes)
    # The trace of what is left is that of N over sqrt(d + 1); nothing else of N changes.
    noise -= np.trace(noise) / size * (1 - 1 / math.sqrt(size + 1)) * np.eye(size)
    mu = table.squared_bound / sigma
    stated = NoiseRecord("gaussian", claim, "exact", FLOATING_POINT_LAW, sigma, size, mu=mu, trace_tight=True)
    values = table.products() + noise
    return CentralSecondMoment(table.columns, values, values, stated, table.rows.shape[0], table.row_bound)
