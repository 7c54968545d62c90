"""RON-Gauss by a trusted curator: one exact vector of counts, sums, products and histograms, and noise added once.

The same vector as the mechanism `ron_gauss` of many clients, with all noise from one party; its release is the same
object, so models, rows and reports are the same too (after Chanyaswad, Liu, Mittal 2019;
docs/mechanisms/central_ron_gauss.md).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from lintra_analysis.planning.ron_gauss import JointQuestion, plan_ron_gauss
from lintra_analysis.readings.ron_gauss import noise_law, projected_sums
from lintra_analysis.releases.joint_sums import NoiseLaw, ProjectedSums
from lintra_analysis.releases.promise import Promise
from lintra_curator.promise.claim import CalibrationError, CentralClaim
from lintra_curator.ron_gauss.laplace import MAX_SCALE, discrete_laplace
from lintra_curator.second_moment.gaussian_noise import exact_products
from lintra_protocol.documents import fraction, real
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.privacy.statement import Claim, PrivacyStatement
from lintra_protocol.randomness import RandomBytes
from lintra_protocol.ring import FloatArray, IntArray
from lintra_protocol.schema import Column, Kind, Row, Schema

PURE_BITS = 12
"""Projected rows are counted in steps of 2^-12 where the noise is discrete Laplace."""

SEED_BYTES = 32
_BLOCK_ROWS = 8192
_MAX_SQUARED, _MAX_TOTAL = 2**52, 2**61
"""Largest q and n q of a pure release: products are exact, and noise has room besides."""

_PLANNING_DELTA = "0.000001"


@dataclass(frozen=True)
class PureShares:
    """How a pure epsilon is split over the parts of the vector; parts that are not there get nothing.

    Attributes:
        counts: class counts.
        sums: class sums.
        products: of coordinates.
        histograms: all of them together.
    """

    counts: float = 0.1
    sums: float = 0.25
    products: float = 0.45
    histograms: float = 0.2

    def __post_init__(self) -> None:
        if not all(0 < share < math.inf for share in (self.counts, self.sums, self.products, self.histograms)):
            raise ValueError("every share of epsilon must be positive and finite; they are scaled to sum to one")


def mapped_column(name: str, lower: float, upper: float, kind: Kind = "real", unit: str = "") -> Column:
    """Return a column whose public bounds are mapped to -1 and 1, as `ron_gauss` wants it.

    Raises:
        ValueError: bounds, kind and name do not fit together.

    >>> mapped_column("hours", 0, 10).center
    '5'
    """
    low, high = fraction(real(lower)), fraction(real(upper))
    return Column(
        name=name,
        lower=real(lower),
        upper=real(upper),
        center=_decimal((low + high) / 2),
        scale=_decimal((high - low) / 2) if high > low else "1",
        unit=unit,
        kind=kind,
    )


def category_column(name: str, levels: Sequence[str]) -> Column:
    """Return a category with public levels; in an array of rows it is the number of its level, from 0.

    Raises:
        ValueError: fewer than two levels, or two alike.

    >>> category_column("passed", ["no", "yes"]).levels
    ('no', 'yes')
    """
    return Column(name=name, lower="0", upper=str(max(1, len(levels) - 1)), kind="category", levels=tuple(levels))


def release_ron_gauss(
    rows: FloatArray | Sequence[Row],
    columns: Sequence[Column],
    claim: CentralClaim,
    random_bytes: RandomBytes,
    *,
    question: JointQuestion | None = None,
    frame_seed: bytes | None = None,
) -> ProjectedSums:
    """Release counts, sums, products and histograms with discrete Gaussian noise, in exact integers throughout.

    Args:
        rows: shape `(n, d)` with categories as level numbers, or rows by name; n >= 2 is public.
        columns: with public bounds and levels (see `mapped_column`, `category_column`).
        claim: of both neighbour notions; delta above 0.
        random_bytes: a cryptographic source.
        question: label, dimension, radius, bins and covariance; by default no label and all of it planned.
        frame_seed: 32 public bytes for the projection; drawn if not given.

    Raises:
        InvalidRowError: a row does not fit the columns.
        InvalidTaskError: the columns or the question do not fit the mechanism.
        CalibrationError: fewer than two rows.

    >>> from lintra_protocol.randomness import bulk_system_randomness
    >>> generator = np.random.default_rng(0)
    >>> rows = np.column_stack([generator.uniform(0, 10, 2000), generator.integers(0, 2, 2000)])
    >>> columns = [mapped_column("hours", 0, 10), category_column("passed", ["no", "yes"])]
    >>> release = release_ron_gauss(rows, columns, CentralClaim(1.0, 1e-6), bulk_system_randomness())
    >>> release.num_clients, release.promise.delta
    (2000, 1e-06)
    """
    return prepare_ron_gauss(rows, columns, claim, random_bytes, question=question, frame_seed=frame_seed).draw(
        random_bytes
    )


@dataclass(frozen=True, eq=False, repr=False)
class PreparedRonGauss:
    """A release that is planned and whose rows are checked, but of which nothing is drawn yet.

    Attributes:
        mechanism: calibrated.
        columns: with their public bounds and levels.
        values: the checked rows, shape `(n, d)`.
        statement: what the release will spend.
    """

    mechanism: RonGauss
    columns: tuple[Column, ...]
    values: FloatArray
    statement: PrivacyStatement

    def draw(self, random_bytes: RandomBytes) -> ProjectedSums:
        """Add the noise; once, since another draw is another release."""
        mechanism, statement, count = self.mechanism, self.statement, len(self.values)
        total = exact_sum(mechanism, self.columns, self.values)
        total = total + mechanism.noise(1, len(self.columns), random_bytes)
        promise = Promise(
            epsilon=statement.epsilon,
            delta=statement.delta,
            neighbours=statement.neighbours,
            mechanism="ron_gauss by a trusted curator",
            note=f"exact Gaussian differential privacy of {count} rows; added up by a curator who sees them",
            mu=statement.mu,
        )
        return projected_sums(mechanism, self.columns, total, count, noise_law(mechanism, 1), promise)


def prepare_ron_gauss(
    rows: FloatArray | Sequence[Row],
    columns: Sequence[Column],
    claim: CentralClaim,
    random_bytes: RandomBytes,
    *,
    question: JointQuestion | None = None,
    frame_seed: bytes | None = None,
) -> PreparedRonGauss:
    """Check, plan and calibrate as `release_ron_gauss` does, so that its price is known before anything is drawn.

    Args, and what is raised, as there; `random_bytes` gives the seed of the frame if none is given.
    """
    values = _checked(rows, columns)
    planned_for = _protocol_claim(claim, len(values), 0)
    mechanism = _planned(len(values), columns, planned_for, question, frame_seed, random_bytes)
    # One party's noise is all there is: as if all others were corrupt and added none.
    alone = _protocol_claim(claim, len(values), len(values) - 1)
    mechanism.check_columns(columns)
    mechanism = mechanism.calibrated(alone, len(columns), len(values))
    statement = mechanism.privacy(alone, len(columns), len(values))
    statement.require(alone)
    return PreparedRonGauss(mechanism, tuple(columns), values, statement)


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
        rows: as in `release_ron_gauss`.
        columns: as there.
        epsilon: positive and finite.
        random_bytes: a cryptographic source.
        question: as there.
        shares: of epsilon.
        frame_seed: as there.

    Raises:
        InvalidRowError: a row does not fit the columns.
        InvalidTaskError: the columns or the question do not fit the mechanism.
        CalibrationError: epsilon is out of range, or fewer than two rows.

    >>> from lintra_protocol.randomness import bulk_system_randomness
    >>> generator = np.random.default_rng(0)
    >>> rows = np.column_stack([generator.uniform(0, 10, 2000), generator.integers(0, 2, 2000)])
    >>> columns = [mapped_column("hours", 0, 10), category_column("passed", ["no", "yes"])]
    >>> release = release_ron_gauss_pure(rows, columns, 1.0, bulk_system_randomness())
    >>> release.num_clients, release.promise.delta
    (2000, 0.0)
    """
    if not 0 < epsilon < math.inf:
        raise CalibrationError(f"epsilon must be positive and finite, got {epsilon}")
    values = _checked(rows, columns)
    planning = CentralClaim(epsilon, float(_PLANNING_DELTA))
    asked = question or JointQuestion()
    if asked.dimension is None:
        most = plan_ron_gauss(
            _protocol_claim(planning, len(values), 0), columns, replace(asked, dimension=1), bytes(32)
        )
        asked = replace(asked, dimension=_pure_dimension(len(values), most.num_features, epsilon))
    claim = _protocol_claim(planning, len(values), 0)
    mechanism = _planned(len(values), columns, claim, asked, frame_seed, random_bytes)
    mechanism = mechanism.model_copy(update={"fraction_bits": PURE_BITS})
    largest = min(_MAX_SQUARED, _MAX_TOTAL // len(values))
    if not 0 < mechanism.squared_length <= largest:
        raise InvalidTaskError(
            f"rows of norm {mechanism.row_bound} in steps of 2^-{PURE_BITS}: less than one step, or more than 64-bit "
            f"sums of {len(values)} products hold; ask for another radius"
        )
    mechanism.check_columns(columns)
    scales = pure_scales(mechanism, Fraction(real(epsilon)), shares or PureShares())
    total = exact_sum(mechanism, columns, values) + _laplace_noise(mechanism, scales, random_bytes)
    promise = Promise(
        epsilon=float(epsilon),
        delta=0.0,
        neighbours="replace-one",
        mechanism="ron_gauss by a trusted curator, pure",
        note=f"pure differential privacy of {len(values)} rows; added up by a curator who sees them",
    )
    return projected_sums(mechanism, columns, total, len(values), _laplace_law(mechanism, scales), promise)


def exact_sum(mechanism: RonGauss, columns: Sequence[Column], values: FloatArray) -> IntArray:
    """Return the exact sum of the noiseless vectors of checked rows of shape `(n, d)`, shape `(1, w)`.

    The same integers as encoding row by row, without the memory of n vectors.
    """
    layout, schema = mechanism.layout, Schema(columns)
    end = 1 + layout.num_coordinates
    total = np.zeros((1, layout.ends[3]), np.int64)
    counts, sums, products, cells = (total[0, start:stop] for start, stop in pairwise((0, *layout.ends)))
    upper = np.triu_indices(layout.num_coordinates)
    starts = np.concatenate([[0], np.cumsum(layout.bins)[:-1]]).astype(np.int64) if layout.bins else None
    for start in range(0, len(values), _BLOCK_ROWS):
        steps = mechanism.round_rows(schema.normalise(values[start : start + _BLOCK_ROWS]))
        classes, vectors = steps[:, 0], steps[:, 1:end]
        if layout.num_counts:
            counts += mechanism.indicator * np.bincount(classes, minlength=layout.num_classes)
        blocks = sums.reshape(layout.num_classes, layout.num_coordinates)
        np.add.at(blocks, classes, vectors)
        for number in range(layout.num_blocks):
            chosen = vectors[classes == number] if layout.per_class else vectors
            triangle = exact_products(chosen, max(1, mechanism.squared_length))[upper]
            products[number * layout.triangle : (number + 1) * layout.triangle] += triangle
        if starts is not None:
            np.add.at(cells, (steps[:, end:] + starts).ravel(), mechanism.indicator)
    return total


@dataclass(frozen=True)
class PureScales:
    """Scales of the discrete Laplace noise in ring units, by what a word is; 0 where there is none."""

    counts: Fraction
    sums: Fraction
    products: Fraction
    histograms: Fraction


def pure_scales(mechanism: RonGauss, epsilon: Fraction, shares: PureShares) -> PureScales:
    """Return each part's L1 sensitivity, rounded up to an integer, over its share of epsilon, rounded down.

    Raises:
        CalibrationError: a scale is larger than the sampler draws.
    """
    layout, indicator = mechanism.layout, mechanism.indicator
    size, squared, histograms = layout.num_coordinates, mechanism.squared_length, len(layout.bins)
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


def _planned(
    num_rows: int,
    columns: Sequence[Column],
    claim: Claim,
    question: JointQuestion | None,
    frame_seed: bytes | None,
    random_bytes: RandomBytes,
) -> RonGauss:
    if frame_seed is not None and len(frame_seed) != SEED_BYTES:
        raise ValueError(f"a frame seed has {SEED_BYTES} bytes, got {len(frame_seed)}")
    return plan_ron_gauss(claim, columns, question or JointQuestion(), frame_seed or random_bytes(SEED_BYTES))


def _protocol_claim(claim: CentralClaim, num_rows: int, silent: int) -> Claim:
    if num_rows < 2:
        raise CalibrationError(f"a release needs at least 2 rows, got {num_rows}")
    return Claim(
        epsilon=real(claim.epsilon),
        delta=real(claim.delta),
        neighbours=claim.neighbours,
        min_clients=num_rows,
        max_corrupt_clients=silent,
    )


def _checked(rows: FloatArray | Sequence[Row], columns: Sequence[Column]) -> FloatArray:
    schema = Schema(columns)
    if isinstance(rows, np.ndarray):
        return schema.rows(rows)
    return np.array([schema.row(row) for row in rows]).reshape(len(rows), len(columns))


def _laplace_noise(mechanism: RonGauss, scales: PureScales, random_bytes: RandomBytes) -> IntArray:
    ends = (0, *mechanism.layout.ends)
    order = (scales.counts, scales.sums, scales.products, scales.histograms)
    parts = [
        discrete_laplace(stop - start, scale, random_bytes) if stop > start else np.empty(0, np.int64)
        for (start, stop), scale in zip(pairwise(ends), order, strict=True)
    ]
    return np.concatenate(parts)[np.newaxis]


def _laplace_law(mechanism: RonGauss, scales: PureScales) -> NoiseLaw:
    step, unit = 2.0**-mechanism.fraction_bits, 1 / mechanism.indicator
    product = laplace_sd(scales.products) * step**2
    return NoiseLaw(
        count=laplace_sd(scales.counts) * unit,
        sum=laplace_sd(scales.sums) * step,
        product=product,
        diagonal=product,
        cell=laplace_sd(scales.histograms) * unit,
        law="discrete Laplace",
    )


def laplace_sd(scale: Fraction) -> float:
    """Return the standard deviation of a discrete Laplace variable, 1 / (sqrt(2) sinh(1 / (2 scale))); 0 for none."""
    if not scale:
        return 0.0
    half = 1 / (2 * float(scale))
    return 0.0 if half > 700 else 1 / (math.sqrt(2) * math.sinh(half))


def _decimal(value: Fraction) -> str:
    return real(float(value))
