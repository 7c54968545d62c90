"""RON-Gauss by a trusted curator with discrete Laplace noise: pure differential privacy.

The vector and its parts are those of `ron_gauss`; each part is released by itself, and their epsilons add up.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from lintra_analysis.kinds.joint_question import JointQuestion, plan_ron_gauss
from lintra_analysis.kinds.ron_gauss import projected_sums
from lintra_analysis.releases.joint_sums import NoiseDeviations, ProjectedSums
from lintra_curator.claims.claim import CalibrationError, curator_claim
from lintra_curator.ron_gauss.laplace import MAX_SCALE, discrete_laplace, laplace_sd
from lintra_curator.ron_gauss.ron_gauss import checked_values, claim_of_rows, exact_sum, planned_mechanism
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import real
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column, Row
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.privacy.statement import PrivacyStatement

PURE_BITS = 12
"""Projected rows are counted in steps of 2^-12 where the noise is discrete Laplace."""

_MAX_SQUARED, _MAX_TOTAL = 2**52, 2**61
"""Largest q and n q of a pure release: products are exact, and noise has room besides."""

_PLANNING_DELTA = "0.000001"


@dataclass(frozen=True)
class PureShares:
    """How a pure epsilon is split over the parts of the vector; parts that are not there get nothing."""

    counts: float = 0.1  #: class counts
    sums: float = 0.25  #: class sums
    products: float = 0.45
    histograms: float = 0.2  #: all of them together

    def __post_init__(self) -> None:
        if not all(0 < share < math.inf for share in (self.counts, self.sums, self.products, self.histograms)):
            raise ValueError("every share of epsilon must be positive and finite; they are scaled to sum to one")


def release_ron_gauss_pure(
    rows: FloatArray | Sequence[Row],
    columns: Sequence[Column],
    epsilon: float,
    random_bytes: RandomBytes,
    *,
    question: JointQuestion | None = None,
    shares: PureShares | None = None,
    frame_seed: bytes | None = None,
) -> ProjectedSums:
    """Release the same vector with discrete Laplace noise: pure epsilon-differential privacy, replacing one row.

    The parts are released by themselves and their epsilons add up. One row changes counts by 2U in L1, sums by
    2 sqrt(P q), the pooled triangle of products by (P / sqrt(2) + 1) q (by class: (P + 1) q), each histogram by 2U,
    with P coordinates of squared norm at most q.

    Args:
        rows: as in `release_ron_gauss`, an array of shape `(n, d)` among others.
        columns: as there.
        epsilon: positive and finite.
        random_bytes: a cryptographic source.
        question: as there.
        shares: of epsilon.
        frame_seed: as there.

    Returns:
        The noisy sums of projected rows, as `release_ron_gauss` returns them.

    Raises:
        InvalidRowError: a row does not fit the columns.
        InvalidTaskError: the columns or the question do not fit the mechanism.
        CalibrationError: epsilon is out of range, or fewer than two rows.

    >>> from lintra_curator import category_column, mapped_column
    >>> from lintra_protocol.crypto.randomness import bulk_system_randomness
    >>> generator = np.random.default_rng(0)
    >>> rows = np.column_stack([generator.uniform(0, 10, 2000), generator.integers(0, 2, 2000)])
    >>> columns = [mapped_column("hours", 0, 10), category_column("passed", ["no", "yes"])]
    >>> release = release_ron_gauss_pure(rows, columns, 1.0, bulk_system_randomness())
    >>> release.num_clients, release.promise.delta
    (2000, 0.0)
    """
    if not 0 < epsilon < math.inf:
        raise CalibrationError(f"epsilon must be positive and finite, got {epsilon}")
    values = checked_values(rows, columns)
    planning = curator_claim(epsilon, float(_PLANNING_DELTA))
    asked = question or JointQuestion()
    if asked.dimension is None:
        most = plan_ron_gauss(claim_of_rows(planning, len(values), 0), columns, replace(asked, dimension=1), bytes(32))
        asked = replace(asked, dimension=_pure_dimension(len(values), most.num_features, epsilon))
    claim = claim_of_rows(planning, len(values), 0)
    mechanism = planned_mechanism(len(values), columns, claim, asked, frame_seed, random_bytes)
    mechanism = mechanism.model_copy(update={"fraction_bits": PURE_BITS})
    largest = min(_MAX_SQUARED, _MAX_TOTAL // len(values))
    if not 0 < mechanism.squared_vector_bound <= largest:
        raise InvalidTaskError(
            f"rows of norm {mechanism.row_bound} in steps of 2^-{PURE_BITS}: less than one step, or more than 64-bit "
            f"sums of {len(values)} products hold; ask for another radius"
        )
    mechanism.check_columns(columns)
    scales = pure_scales(mechanism, Fraction(real(epsilon)), shares or PureShares())
    total = exact_sum(mechanism, columns, values) + _laplace_noise(mechanism, scales, random_bytes)
    promise = PrivacyStatement(
        epsilon=float(epsilon),
        delta=0.0,
        neighbours="replace-one",
        mechanism="ron_gauss by a trusted curator, pure",
        note=f"pure differential privacy of {len(values)} rows; added up by a curator who sees them",
    )
    return projected_sums(mechanism, columns, total, len(values), _laplace_law(mechanism, scales), promise)


@dataclass(frozen=True)
class PureScales:
    """Scales of the discrete Laplace noise in ring units, by what a word is; 0 where there is none."""

    counts: Fraction
    sums: Fraction
    products: Fraction
    histograms: Fraction


def pure_scales(mechanism: RonGauss, epsilon: Fraction, shares: PureShares) -> PureScales:
    """Return each part's L1 sensitivity, rounded up to an integer, over its share of epsilon, rounded down.

    Raises CalibrationError if a scale is larger than the sampler draws.
    """
    layout, indicator = mechanism.joint, mechanism.indicator
    size, squared, histograms = layout.num_coordinates, mechanism.squared_vector_bound, len(layout.bins)
    weights = {
        "counts": Fraction(shares.counts if layout.num_counts else 0),
        "sums": Fraction(shares.sums),
        "products": Fraction(shares.products),
        "histograms": Fraction(shares.histograms if histograms else 0),
    }
    distances = {
        "counts": 2 * indicator,
        "sums": math.isqrt(4 * size * squared - 1) + 1,
        "products": _triangle_steps(size, squared, mechanism.num_classes if layout.per_class else 1),
        "histograms": 2 * indicator * histograms,
    }
    total = sum(weights.values())
    parts = {name: _floor(epsilon * weight / total) for name, weight in weights.items()}
    if any(weights[name] and not part for name, part in parts.items()):
        raise CalibrationError(f"epsilon {float(epsilon):g} needs more noise than 64-bit sums hold")
    scales = {name: Fraction(distances[name]) / part if part else Fraction(0) for name, part in parts.items()}
    if max(scales.values()) > MAX_SCALE:
        raise CalibrationError(f"epsilon {float(epsilon):g} needs more noise than 64-bit sums hold")
    return PureScales(**scales)


def _triangle_steps(size: int, squared: int, classes: int) -> int:
    """Return an integer above the L1 distance of two triangles of products, in squared steps."""
    if classes > 1:
        return (size + 1) * squared
    return math.isqrt(size**2 * squared**2 // 2) + 1 + squared


def _floor(value: Fraction) -> Fraction:
    """Return a value rounded down to a multiple of 10^-12, so that scales stay short."""
    return Fraction(math.floor(value * 10**12), 10**12)


def _pure_dimension(num_rows: int, num_features: int, epsilon: float) -> int:
    """Return the dimension at which the Laplace noise of the products reaches their mean eigenvalue."""
    dimension = 1
    while dimension < min(num_features, 512):
        size = dimension + 1
        # One product's deviation, counted like that of the Gaussian plan: 1.5 / mu in units of the squared norm.
        equal_mu = 1.5 * PureShares().products * epsilon / (math.sqrt(2) * (size / math.sqrt(2) + 1))
        if size**1.5 > num_rows * equal_mu / math.sqrt(2):
            break
        dimension = size
    return dimension


def _laplace_noise(mechanism: RonGauss, scales: PureScales, random_bytes: RandomBytes) -> IntArray:
    ends = (0, *mechanism.joint.ends)
    order = (scales.counts, scales.sums, scales.products, scales.histograms)
    parts = [
        discrete_laplace(stop - start, scale, random_bytes) if stop > start else np.empty(0, np.int64)
        for (start, stop), scale in zip(pairwise(ends), order, strict=True)
    ]
    return np.concatenate(parts)[np.newaxis]


def _laplace_law(mechanism: RonGauss, scales: PureScales) -> NoiseDeviations:
    step, unit = 2.0**-mechanism.fraction_bits, 1 / mechanism.indicator
    product = laplace_sd(scales.products) * step**2
    return NoiseDeviations(
        count=laplace_sd(scales.counts) * unit,
        sum=laplace_sd(scales.sums) * step,
        product=product,
        diagonal=product,
        cell=laplace_sd(scales.histograms) * unit,
        law="discrete Laplace",
    )
