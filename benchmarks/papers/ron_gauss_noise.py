"""The noise of the paper's own pipeline: calibrated to what one row really changes, or with the published constants.

A mean and a second moment are released one after the other, and with classes their counts before them. Units are steps
of 1/T, in which a normalised row is an integer vector of norm at most T.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from lintra_curator.claims.claim import CalibrationError
from lintra_curator.ron_gauss.laplace import MAX_SCALE, discrete_laplace, laplace_sd
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA, discrete_gaussian
from lintra_protocol.privacy.discrete import discrete_epsilon, discrete_mu, row_slack
from lintra_protocol.privacy.statement import MAX_SLACK, SMOOTHING, Claim, PrivacyStatement
from papers.ron_gauss_sensitivity import triangle_distance

MEAN_SHARE = 0.3
"""Part of epsilon, or of mu, that goes to the mean; the published split is not known."""

COUNT_SHARE = 0.05
_ROUNDED_UP = 1 + 1e-12


@dataclass(frozen=True)
class Sizes:
    """What the sensitivities depend on.

    Attributes:
        features: m.
        dimension: p.
        classes: K; with one nothing is counted.
        unit: T, steps of 1.
        label: Y, steps of the largest numeric label; 0 without one.
    """

    features: int
    dimension: int
    classes: int
    unit: int
    label: int

    @property
    def coordinates(self) -> int:
        """Return P, p and one more for a numeric label."""
        return self.dimension + (self.label > 0)

    @property
    def squared_length(self) -> int:
        """Return the largest squared norm of projected row and label."""
        return self.unit**2 + self.label**2

    @property
    def words(self) -> int:
        """Return how many numbers are released."""
        counted = self.classes if self.classes > 1 else 0
        return counted + self.classes * (self.features + self.coordinates * (self.coordinates + 1) // 2)

    @property
    def mean_distance(self) -> float:
        """Return how far one row moves the sums of normalised rows in L1: 2 sqrt(m) T, also if its class changes."""
        return 2 * math.sqrt(self.features) * self.unit * _ROUNDED_UP

    @property
    def product_distance(self) -> float:
        """Return how far one row moves the triangles of products in L1: in two classes, each by (P + 1)/2 at most."""
        if self.classes > 1:
            return (self.coordinates + 1) * self.squared_length * _ROUNDED_UP
        return triangle_distance(self.coordinates) * self.squared_length * _ROUNDED_UP


@dataclass(frozen=True)
class PaperNoise:
    """Scales (Laplace) or deviations (Gaussian) in integer steps, and what they promise.

    Attributes:
        law: of every number.
        counts: 0 if classes are not counted, or their sizes taken as public.
        sums: of the sums of normalised rows.
        products: off the diagonal.
        squares: on the diagonal.
        promise: to the people behind the rows.
    """

    law: Literal["discrete Gaussian", "discrete Laplace"]
    counts: Fraction
    sums: Fraction
    products: Fraction
    squares: Fraction
    promise: PrivacyStatement

    def draw(self, scale: Fraction, count: int, random_bytes: RandomBytes) -> IntArray:
        """Return integers of one of the scales, shape `(count,)`."""
        if not scale:
            return np.zeros(count, np.int64)
        if self.law == "discrete Laplace":
            return discrete_laplace(count, scale, random_bytes)
        return discrete_gaussian(count, int(scale), random_bytes)

    def triangle(self, size: int, random_bytes: RandomBytes) -> IntArray:
        """Return symmetric noise of shape `(size, size)`, the upper triangle mirrored.

        In integers: beyond 2^53 a double would drop last digits, before they have hidden those of the sum.
        """
        noise = np.zeros((size, size), np.int64)
        noise[np.triu_indices(size, 1)] = self.draw(self.products, size * (size - 1) // 2, random_bytes)
        noise += noise.T
        noise[np.diag_indices(size)] = self.draw(self.squares, size, random_bytes)
        return noise

    def deviation(self, scale: Fraction) -> float:
        """Return the standard deviation that goes with one of the scales."""
        return laplace_sd(scale) if self.law == "discrete Laplace" else float(scale)


def laplace_noise(sizes: Sizes, epsilon: float) -> PaperNoise:
    """Return discrete Laplace noise that is epsilon-differentially private, replacing one row."""
    shares = _shares(sizes, epsilon)
    scales = {
        "counts": _up(2 * sizes.unit / shares[0]) if shares[0] else Fraction(0),
        "sums": _up(sizes.mean_distance / shares[1]),
        "products": _up(sizes.product_distance / shares[2]),
    }
    _require_scales(scales)
    promise = PrivacyStatement(
        "replace-one", epsilon, 0.0, mechanism="the paper's pipeline, corrected", note="pure differential privacy"
    )
    return PaperNoise("discrete Laplace", squares=scales["products"], promise=promise, **scales)


def gaussian_noise(sizes: Sizes, claim: Claim) -> PaperNoise:
    """Return discrete Gaussian noise that keeps a claim; the diagonal of products has sqrt(2) times the deviation.

    Raises:
        CalibrationError: a deviation is larger than the sampler draws; a coarser grid may do.
    """
    mu = discrete_mu(claim.float_epsilon, claim.float_delta, MAX_SLACK)
    weights = _shares(sizes, 1.0)
    deviations = [
        math.isqrt(math.ceil(((distance * math.hypot(*weights) / (weight * mu)) ** 2 + SMOOTHING) * (1 + 1e-11))) + 1
        if weight
        else 0
        for weight, distance in zip(weights, _distances(sizes, claim), strict=True)
    ]
    squares = math.isqrt(2 * deviations[2] ** 2 - 1) + 1
    if max(*deviations, squares) > MAX_SIGMA:
        raise CalibrationError(f"epsilon {claim.float_epsilon:g} needs a coarser grid than {sizes.unit} steps")
    spent = math.sqrt(
        sum(
            distance**2 / (deviation**2 - SMOOTHING)
            for distance, deviation in zip(_distances(sizes, claim), deviations, strict=True)
            if deviation
        )
    )
    least = min(deviation for deviation in deviations if deviation)
    slack = row_slack(1, sizes.words, float(least) ** 2, SMOOTHING)
    promise = PrivacyStatement(
        epsilon=discrete_epsilon(spent * _ROUNDED_UP, claim.float_delta, slack),
        delta=claim.float_delta,
        neighbours=claim.neighbours,
        mechanism="the paper's pipeline, corrected",
        note="exact Gaussian differential privacy",
        mu=spent * _ROUNDED_UP,
        slack=slack,
    )
    counts, sums, products = (Fraction(deviation) for deviation in deviations)
    return PaperNoise("discrete Gaussian", counts, sums, products, Fraction(squares), promise)


def _distances(sizes: Sizes, claim: Claim) -> tuple[float, float, float]:
    """Return how far one row moves counts, sums and products in L2, the latter in deviations off the diagonal.

    A row whose class changes moves two counts by T, two sums by T each (in one class one sum by 2T) and two products
    by q in the Frobenius norm, which counts every entry off the diagonal twice.
    """
    unit, squared = sizes.unit, sizes.squared_length
    if claim.neighbours == "zero-out":
        return unit, unit, squared / math.sqrt(2) * _ROUNDED_UP
    return math.sqrt(2) * unit * _ROUNDED_UP, 2 * unit, squared


def published_noise(sizes: Sizes, epsilon: float) -> PaperNoise:
    """Return Laplace noise with the constants of the paper (Lemmas 2, 4 and 5), and its true epsilon as the promise."""
    mean, covariance = MEAN_SHARE * epsilon, (1 - MEAN_SHARE) * epsilon
    root, label = math.sqrt(sizes.dimension), sizes.label / sizes.unit
    constant = (2 * root + (4 * label * root + label**2)) * sizes.unit**2
    scales = {"sums": _up(sizes.mean_distance / mean), "products": _up(constant / covariance)}
    _require_scales(scales)
    distance = _published_distance(sizes)
    exact = mean + distance / float(scales["products"]) * _ROUNDED_UP
    classes = sizes.classes > 1
    public = "; only for neighbours of the same class, class sizes are taken as public" if classes else ""
    promise = PrivacyStatement(
        epsilon=exact,
        delta=0.0,
        neighbours="replace-one within its class" if classes else "replace-one",
        mechanism="the paper's pipeline, published constants",
        note=f"published calibration, for comparison: claimed epsilon {epsilon:g}, in truth up to {exact:.4g}{public}",
    )
    return PaperNoise("discrete Laplace", Fraction(0), squares=scales["products"], promise=promise, **scales)


def _published_distance(sizes: Sizes) -> float:
    """Return the L1 change of one triangle of products, for a row that stays in its class."""
    unit, p = sizes.unit, sizes.dimension
    if not sizes.label:
        return triangle_distance(p) * unit**2
    # The three blocks by themselves: at least as large as together.
    blocks = triangle_distance(p) * unit**2 + 2 * math.sqrt(p) * unit * sizes.label + sizes.label**2
    return min(blocks, triangle_distance(p + 1) * sizes.squared_length)


def _shares(sizes: Sizes, whole: float) -> tuple[float, float, float]:
    """Split a budget over counts, mean and second moment."""
    counted = COUNT_SHARE if sizes.classes > 1 else 0.0
    rest = whole * (1 - counted)
    return whole * counted, rest * MEAN_SHARE, rest * (1 - MEAN_SHARE)


def _up(value: float) -> Fraction:
    return Fraction(math.ceil(value * _ROUNDED_UP))


def _require_scales(scales: dict[str, Fraction]) -> None:
    if not max(scales.values()) <= MAX_SCALE:
        raise CalibrationError("this epsilon needs more noise than 64-bit sums hold")
