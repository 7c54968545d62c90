"""What one row really changes, in deviations or scales of the noise: searched in exact integers, in many units."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from papers.ron_gauss_noise import MEAN_SHARE, PaperNoise, Sizes, gaussian_noise, laplace_noise, published_noise

from lintra_analysis.kinds.joint_question import JointQuestion, plan_ron_gauss
from lintra_curator.claims.claim import curator_claim
from lintra_curator.ron_gauss.pure import PureShares, pure_scales
from lintra_curator.ron_gauss.ron_gauss import category_column, mapped_column
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.fields.schema import Column, Schema
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.noise.clipping import quantise
from lintra_protocol.privacy.statement import SMOOTHING, Claim
from support.measured import calibrated_for, document_of, measurement_of, noise_sigmas, setting_of, words_of_steps

UNITS = [(1.0, 0.0, None), (1e-6, 0.0, Fraction(1, 1000)), (1e6, -1e7, Fraction(1, 20)), (1e-3, 500.0, Fraction(2))]
QUESTIONS = [
    JointQuestion(),
    JointQuestion(label="k"),
    JointQuestion(label="k", covariance="per_class", bins=0),
    JointQuestion(label="a"),
    JointQuestion(label="a", dimension=1),
    JointQuestion(dimension=2, bins=3),
]


def columns_of(half: float, middle: float) -> tuple[Column, ...]:
    return (
        mapped_column("a", middle - half, middle + half),
        mapped_column("b", middle - 3 * half, middle + half),
        mapped_column("c", 0, 9, "integer"),
        mapped_column("d", 0, 1, "boolean"),
        category_column("k", ("x", "y", "z")),
    )


def vectors_of(mechanism: RonGauss, columns: tuple[Column, ...]) -> IntArray:
    """Return the noiseless vectors of corners of the bounds and of rows inside them."""
    rng = np.random.default_rng(5)
    lower, upper = (np.array([float(getattr(column, end)) for column in columns]) for end in ("lower", "upper"))
    part = np.vstack([rng.integers(0, 2, (50, 5)), rng.random((50, 5))])
    rows = lower + part * (upper - lower)
    rows[:, 2:] = np.rint(rows[:, 2:])
    return words_of_steps(
        mechanism, document_of(mechanism).clip(Schema(columns).normalise(rows), setting_of(mechanism))
    )


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(("half", "middle", "radius"), UNITS)
@pytest.mark.grid(3)
@pytest.mark.slow
def test_no_two_rows_are_farther_apart_than_a_curators_release_promises(
    half: float, middle: float, radius: Fraction | None, question: JointQuestion
) -> None:
    columns, question = columns_of(half, middle), replace(question, radius=radius)
    claim = Claim(epsilon="1", delta="0.000001", min_clients=300, max_corrupt_clients=299)
    planned = plan_ron_gauss(claim, columns, question, bytes(32))
    mechanism = calibrated_for(planned, 5, claim, 300)
    vectors = vectors_of(mechanism, columns) / np.sqrt(np.square(noise_sigmas(mechanism, 5).astype(float)) - SMOOTHING)
    farthest = max(float(np.square(vectors - vector).sum(axis=1).max()) for vector in vectors) ** 0.5
    mu = measurement_of(mechanism, 5, claim).privacy(300).mu
    assert 0.5 * mu < farthest <= mu

    pure = planned.model_copy(update={"fraction_bits": 12})
    scales = pure_scales(pure, Fraction(1), PureShares())
    integers, loss = vectors_of(pure, columns), np.zeros((100, 100))
    each = (scales.counts, scales.sums, scales.products, scales.histograms)
    for (start, stop), scale in zip(pairwise((0, *pure.joint.ends)), each, strict=True):
        if stop > start:
            part = integers[:, np.newaxis, start:stop] - integers[np.newaxis, :, start:stop]
            loss += np.abs(part).sum(axis=2) / float(scale)
    assert 0.3 < loss.max() <= 1


def paper_rows(sizes: Sizes) -> IntArray:
    """Return integer rows inside the bounds with their labels: random ones, corners, and flat ones with signs."""
    rng = np.random.default_rng(7)
    p = sizes.dimension
    directions = np.vstack([rng.normal(0, 1, (60, p)), rng.choice([-1.0, 1.0], (60, p)), np.eye(p), np.zeros((1, p))])
    directions /= np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1)
    rows = quantise(directions * sizes.unit, sizes.unit**2)
    if not sizes.label:
        return rows
    return np.vstack([np.column_stack([rows, np.full(len(rows), y)]) for y in (-sizes.label, 0, sizes.label)])


def product_loss(sizes: Sizes, noise: PaperNoise) -> FloatArray:
    """Return, for each pair of rows, how far apart their triangles are in the products' noise."""
    rows = paper_rows(sizes)
    first, second = np.triu_indices(rows.shape[1])
    triangles = (rows[:, first] * rows[:, second]).astype(float)
    if noise.law == "discrete Laplace":
        return np.stack([np.abs(triangles - one).sum(axis=1) for one in triangles]) / float(noise.products)
    triangles /= np.where(first == second, float(noise.squares), float(noise.products))
    return np.stack([np.sqrt(np.square(triangles - one).sum(axis=1)) for one in triangles])


@pytest.mark.parametrize("label", [0, 1, 300, 4096, 3 * 4096, 200 * 4096])
@pytest.mark.parametrize("dimension", [1, 3, 10, 20])
@pytest.mark.grid(3)
@pytest.mark.slow
def test_no_two_rows_lose_more_than_the_papers_pipeline_says(dimension: int, label: int) -> None:
    sizes = Sizes(features=30, dimension=dimension, classes=1, unit=4096, label=label)
    for noise in (laplace_noise(sizes, 2.0), published_noise(sizes, 2.0)):
        mean = 2 * math.sqrt(30) * 4096 / float(noise.sums)
        assert mean == pytest.approx(2 * MEAN_SHARE, rel=1e-4)
        assert mean + product_loss(sizes, noise).max() <= noise.promise.epsilon * (1 + 1e-9)
    normal = gaussian_noise(replace(sizes, label=min(label, 4096)), curator_claim(2.0, 1e-6))
    lost = product_loss(replace(sizes, label=min(label, 4096)), normal).max()
    assert math.hypot(2 * 4096 / float(normal.sums), lost) <= normal.promise.mu


def test_the_published_noise_of_many_dimensions_loses_more_than_it_claims() -> None:
    sizes = Sizes(features=30, dimension=20, classes=1, unit=4096, label=0)
    noise = published_noise(sizes, 2.0)
    angles = np.repeat([math.pi / 8, -3 * math.pi / 8], 10)
    pair = np.stack([np.cos(angles), np.sin(angles)]) * math.sqrt(1 / 10) * 4096
    first, second = np.triu_indices(20)
    one, other = (row[first] * row[second] for row in quantise(pair, 4096**2))
    lost = float(np.abs(one - other).sum()) / float(noise.products)
    assert 2 < 2 * MEAN_SHARE + lost <= noise.promise.epsilon
