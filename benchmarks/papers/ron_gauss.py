"""RON-Gauss as its authors describe it (Chanyaswad, Liu, Mittal 2019, Algorithms 1 to 5), its noise recalibrated.

Rows are normalised, centred at a noisy mean, normalised again and projected; rows are drawn from their noisy second
moment. For comparison: `release_ron_gauss` is more accurate. Noise is discrete and added to exact integers. With the
published constants the promise is not what the paper says; what it is instead is computed and said.
"""

import hashlib
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lintra_analysis.releases.features import ColumnArray
from lintra_analysis.releases.sampling import gaussians
from lintra_analysis.synthetic.model import split_by_largest_remainder
from lintra_analysis.synthetic.repair import repair, symmetric_root
from lintra_analysis.synthetic.rows import SyntheticRows
from lintra_analysis.synthetic.sampling import seed_bytes
from lintra_curator.claims.claim import CalibrationError, curator_claim
from lintra_curator.second_moment.gaussian_noise import exact_products
from lintra_protocol.crypto.randomness import RandomBytes, derive_seed, keystream
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import InvalidRowError
from lintra_protocol.noise.clipping import quantise
from lintra_protocol.privacy.statement import Claim, PrivacyStatement
from lintra_protocol.transforms.orthonormal import FRAME_BITS, frame
from papers.ron_gauss_noise import PaperNoise, Sizes, gaussian_noise, laplace_noise, published_noise

Algorithm = Literal["unsupervised", "regression", "mixture"]

GRID_BITS = 12
"""A normalised row is counted in steps of 2^-12, or more coarsely where the noise would not fit the sampler."""

_COARSEST_BITS = 4
_MAX_SQUARED = 2**52
_MAX_TOTAL = 2**9  # times the former: no sum of n squares reaches 2^61, and noise has room
_MIN_COUNT = 5.0


@dataclass(frozen=True)
class PaperQuestion:
    """What is released, by public choices alone.

    Attributes:
        algorithm: Algorithm 3, 4 (with a numeric label) or 5 (a Gaussian for each class).
        dimension: p.
        frame_seed: 32 public bytes, of the one frame for all classes.
        levels: names of the classes, for "mixture".
        label_bound: a, the largest absolute value of a label, for "regression".
    """

    algorithm: Algorithm
    dimension: int
    frame_seed: bytes
    levels: tuple[str, ...] = ()
    label_bound: float = 0.0

    def __post_init__(self) -> None:
        if self.algorithm not in ("unsupervised", "regression", "mixture"):
            raise ValueError(f"the algorithm is unsupervised, regression or mixture, got {self.algorithm!r}")
        if (self.algorithm == "mixture") != (len(self.levels) >= 2) or len(set(self.levels)) < len(self.levels):
            raise ValueError("a mixture has at least two different class levels, nothing else has any")
        if (self.algorithm == "regression") != (0 < self.label_bound < math.inf):
            raise ValueError("a regression has a positive and finite label bound, nothing else has one")


@dataclass(frozen=True, eq=False, repr=False)
class PaperRelease:
    """Noisy class sizes, projected means and second moments, and rows from them in the projected space.

    Attributes:
        counts: shape `(K,)`.
        means: shape `(K, P)`, what rows are centred at: 0 except for a mixture.
        moments: K matrices of shape `(P, P)`, covariances that a Gaussian can have.
        num_rows: n.
        promise: to the people behind the rows.
    """

    question: PaperQuestion
    counts: FloatArray
    means: FloatArray
    moments: tuple[FloatArray, ...]
    num_rows: int
    promise: PrivacyStatement

    def __repr__(self) -> str:
        return f"PaperRelease({self.question.algorithm}, dimension={self.question.dimension}, rows={self.num_rows})"

    def synthesize(self, num_rows: int, seed: int) -> SyntheticRows:
        """Draw rows h1..hp with their label, classes by largest remainder; the same seed gives the same rows."""
        sizes = split_by_largest_remainder(num_rows, self.counts / self.counts.sum())
        stream = keystream(derive_seed(seed_bytes(seed), "paper rows"))
        classes = np.repeat(np.arange(sizes.size), sizes)
        rows = gaussians((num_rows, self.means.shape[1]), stream)
        for number, moment in enumerate(self.moments):
            chosen = classes == number
            rows[chosen] = rows[chosen] @ symmetric_root(moment) + self.means[number]
        columns: dict[str, ColumnArray] = {f"h{i + 1}": rows[:, i] for i in range(self.question.dimension)}
        if self.question.algorithm == "regression":
            columns["label"] = rows[:, -1]
        elif self.question.levels:
            columns["label"] = np.array(self.question.levels)[classes]
        digest = hashlib.sha256(b"".join(a.tobytes() for a in (self.counts, self.means, *self.moments))).digest()
        return SyntheticRows(
            columns=columns,
            label="label" if "label" in columns else None,
            features=(),
            promise=self.promise,
            num_clients=self.num_rows,
            seed=int(seed),
            model_digest=base64url(digest),
            space="projected",
            label_levels=self.question.levels,
        )


def release_paper(
    rows: FloatArray,
    question: PaperQuestion,
    random_bytes: RandomBytes,
    *,
    epsilon: float,
    delta: float = 0.0,
    labels: FloatArray | IntArray | None = None,
    calibration: Literal["exact", "published"] = "exact",
    accept_published_loss: bool = False,
) -> PaperRelease:
    """Run the paper's pipeline.

    `rows` are finite, shape `(n, m)`; a row of zeros stays one. `question` is algorithm and public choices. `epsilon`
    is what the noise is calibrated to; 30 % of it go to the mean. `delta` is 0 for discrete Laplace noise and pure
    privacy, else discrete Gaussian noise. `labels` has shape `(n,)`: numbers for a regression, which are clipped;
    positions of class levels for a mixture. `calibration` is "published" for the constants of the paper, with which the
    promise of the release is a larger epsilon than was asked for. `accept_published_loss` must be True for "published".

    Raises:
        InvalidRowError: rows or labels do not fit.
        CalibrationError: no noise for this promise.
        ValueError: "published" without acceptance or with a delta, or a dimension above m.
    """
    noise_of = _calibration(epsilon, delta, calibration, accept_published_loss=accept_published_loss)
    values, classes, targets = _checked(rows, labels, question)
    noise, unit = _fitting_noise(noise_of, values.shape, question)
    num_classes = max(1, len(question.levels))
    counts, means = _means(_normalised(values), classes, num_classes, noise, unit, random_bytes)
    shape = frame(question.frame_seed, values.shape[1], question.dimension) * 2.0**-FRAME_BITS
    centred = _normalised(_normalised(values) - means[classes]) * values.any(axis=1, keepdims=True)
    vectors = quantise((centred @ shape) * unit, unit**2)
    squared = unit**2
    if question.algorithm == "regression":
        limit = _label_steps(question, unit)
        vectors = np.column_stack([vectors, _in_steps(targets, limit, unit)])
        squared += limit**2
    moments = []
    for number in range(num_classes):
        exact = exact_products(vectors[classes == number], squared)
        noisy = exact + noise.triangle(vectors.shape[1], random_bytes)
        moments.append(_usable(noisy / counts[number] / unit**2, counts[number], noise, unit, calibration))
    middles = means @ shape if question.algorithm == "mixture" else np.zeros((num_classes, vectors.shape[1]))
    return PaperRelease(question, counts, middles, tuple(moments), len(values), noise.promise)


@dataclass(frozen=True)
class _Calibrated:
    """Which noise is asked for; how much follows from the sizes."""

    epsilon: float
    claim: Claim | None
    published: bool

    def noise(self, sizes: Sizes) -> PaperNoise:
        """Return the noise for these sizes."""
        if self.published:
            return published_noise(sizes, self.epsilon)
        return laplace_noise(sizes, self.epsilon) if self.claim is None else gaussian_noise(sizes, self.claim)


def _calibration(
    epsilon: float, delta: float, calibration: Literal["exact", "published"], *, accept_published_loss: bool
) -> _Calibrated:
    if not 0 < epsilon < math.inf:
        raise CalibrationError(f"epsilon must be positive and finite, got {epsilon}")
    if calibration == "published":
        if delta:
            raise ValueError("the published noise is Laplace; it has no delta")
        if not accept_published_loss:
            raise ValueError(
                "the published noise need not be as private as it says; give accept_published_loss=True to use it for "
                "comparison, and read the epsilon of the release"
            )
        return _Calibrated(epsilon, None, published=True)
    if calibration != "exact":
        raise ValueError(f"the calibration is 'exact' or 'published', got {calibration!r}")
    return _Calibrated(epsilon, curator_claim(epsilon, delta) if delta else None, published=False)


def _fitting_noise(calibrated: _Calibrated, shape: tuple[int, ...], question: PaperQuestion) -> tuple[PaperNoise, int]:
    """Return the noise on the finest grid that the samplers reach and on which products are exact, and T."""
    num_rows, features = shape
    if not 1 <= question.dimension <= features:
        raise ValueError(f"the dimension must lie in 1..{features}, got {question.dimension}")
    for bits in range(GRID_BITS, _COARSEST_BITS - 1, -1):
        unit = 1 << bits
        label = _label_steps(question, unit) if question.algorithm == "regression" else 0
        sizes = Sizes(features, question.dimension, max(1, len(question.levels)), unit, label)
        try:
            if max(sizes.squared_length, num_rows * sizes.squared_length // _MAX_TOTAL) > _MAX_SQUARED:
                raise CalibrationError(f"{num_rows} labels up to {question.label_bound:g} do not fit 64-bit sums")
            return calibrated.noise(sizes), unit
        except CalibrationError:
            if bits == _COARSEST_BITS:
                raise
    raise AssertionError("the coarsest grid returns or raises")  # pragma: no cover


def _label_steps(question: PaperQuestion, unit: int) -> int:
    return max(1, math.floor(question.label_bound * unit))


def _in_steps(targets: FloatArray, limit: int, unit: int) -> IntArray:
    """Return numeric labels in integer steps, at most `limit` of them; clipped first, so that none overflows."""
    inside = np.clip(targets, -(limit + 1) / unit, (limit + 1) / unit)
    return np.clip(np.rint(inside * unit), -limit, limit).astype(np.int64)


def _checked(
    rows: FloatArray, labels: FloatArray | IntArray | None, question: PaperQuestion
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return rows, classes and numeric labels, the two latter 0 where there are none."""
    values = np.asarray(rows, np.float64)
    if values.ndim != 2 or values.shape[0] < 2 or values.shape[1] < 1:
        raise InvalidRowError(f"expected shape (n, m) with at least 2 rows, got {values.shape}")
    if not np.isfinite(values).all():
        raise InvalidRowError("a row holds a value that is not a finite number")
    given = np.zeros(len(values)) if labels is None else np.asarray(labels, np.float64)
    if (labels is None) != (question.algorithm == "unsupervised") or given.shape != (len(values),):
        raise InvalidRowError(f"{question.algorithm}: one label for each row, or none if it is unsupervised")
    if not np.isfinite(given).all():
        raise InvalidRowError("a label is not a finite number")
    if question.algorithm != "mixture":
        return values, np.zeros(len(values), np.int64), given
    classes = given.astype(np.int64)
    if (classes != given).any() or not 0 <= classes.min() <= classes.max() < len(question.levels):
        raise InvalidRowError(f"a class is the position of one of {len(question.levels)} levels")
    return values, classes, np.zeros(len(values))


def _normalised(rows: FloatArray) -> FloatArray:
    """Return rows of norm 1; a row of zeros stays one, where the published algorithm divides by zero."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    scaled = rows / np.where(largest > 0, largest, 1.0)
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    unit: FloatArray = scaled / np.where(norms > 0, norms, 1.0)
    return unit


def _means(
    unit_rows: FloatArray, classes: IntArray, num_classes: int, noise: PaperNoise, unit: int, random_bytes: RandomBytes
) -> tuple[FloatArray, FloatArray]:
    """Return noisy class sizes, shape `(K,)`, and noisy means of normalised rows, shape `(K, m)`."""
    steps = quantise(unit_rows * unit, unit**2)
    counted = np.bincount(classes, minlength=num_classes).astype(np.int64) * unit
    # Added in integers, as everything: doubles round, and what they round to depends on the rows.
    counts = (counted + noise.draw(noise.counts, num_classes, random_bytes)) / unit
    if num_classes > 1:
        counts = np.maximum(counts, _MIN_COUNT)
    sums = np.zeros((num_classes, steps.shape[1]), np.int64)
    np.add.at(sums, classes, steps)
    noised = sums + noise.draw(noise.sums, sums.size, random_bytes).reshape(sums.shape)
    return counts, noised / counts[:, np.newaxis] / unit


def _usable(
    moment: FloatArray, count: float, noise: PaperNoise, unit: int, calibration: Literal["exact", "published"]
) -> FloatArray:
    """Return a covariance: repaired, or with the absolute eigenvalues that the published sampler uses unknowingly."""
    if calibration == "published":
        values, vectors = np.linalg.eigh(moment)
        return np.asarray((vectors * np.abs(values)) @ vectors.T)
    size = moment.shape[0]
    squares, products = noise.deviation(noise.squares), noise.deviation(noise.products)
    error = (size * squares**2 + size * (size - 1) * products**2) / (count * unit**2) ** 2
    return repair(moment, error).matrix
