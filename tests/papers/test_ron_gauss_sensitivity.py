"""What one row changes: the vectors, searches that try to beat the bounds, and the loss of the published constants."""

import math

import numpy as np
import pytest
from papers.ron_gauss_sensitivity import (
    attained_product_distance,
    attained_triangle_distance,
    product_distance,
    published_delta,
    published_factor,
    published_label_factor,
    triangle_distance,
    worst_pair,
)


def test_the_vectors_of_the_distances_hold() -> None:
    found = [attained_product_distance(p) for p in (2, 3, 4, 5, 7, 10)]
    expected = [2.8284271247, 4.1231056256, 5.6568542495, 7, 9.8488578018, 14.1421356237]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    triangles = [(attained_triangle_distance(p), triangle_distance(p)) for p in (3, 5, 10)]
    expected_triangles = [(2.8722813233, 3), (4.2720018727, 4.4721359550), (7.8102496759, 8.0622577483)]
    np.testing.assert_allclose(triangles, expected_triangles, atol=1e-9)


def test_the_vectors_of_the_published_loss_hold() -> None:
    full = [attained_product_distance(p) / (2 * math.sqrt(p)) for p in (3, 10, 50)]
    np.testing.assert_allclose(full, [1.190238071, 2.236067977, 5], atol=1e-8)
    mirrored = [attained_triangle_distance(p) / (2 * math.sqrt(p)) for p in (5, 6, 10)]
    np.testing.assert_allclose(mirrored, [0.955248659, 1.020620726, 1.234908904], atol=1e-8)
    assert published_factor(10, mirrored=False) == pytest.approx(2.236067977)
    assert published_factor(10, mirrored=True) >= 1.234908904
    assert published_factor(2, mirrored=False) == pytest.approx(1)


@pytest.mark.parametrize("dimension", range(1, 40))
def test_what_is_attained_is_never_above_what_is_promised(dimension: int) -> None:
    assert attained_product_distance(dimension) <= product_distance(dimension) * (1 + 1e-12)
    assert attained_triangle_distance(dimension) <= triangle_distance(dimension) * (1 + 1e-12)


@pytest.mark.parametrize("dimension", [2, 4, 10, 50])
def test_the_worst_pair_attains_the_bound_in_every_entry(dimension: int) -> None:
    one, other = worst_pair(dimension)
    change = np.abs(np.outer(one, one) - np.outer(other, other))
    np.testing.assert_allclose(change, math.sqrt(2) / dimension, atol=1e-12)
    assert change.sum() == pytest.approx(product_distance(dimension))
    np.testing.assert_allclose([one @ one, other @ other, one @ other], [1, 1, 0], atol=1e-12)


def test_the_witness_in_two_dimensions_is_the_vector() -> None:
    one, other = worst_pair(2)
    np.testing.assert_allclose(one, [math.cos(math.pi / 8), math.cos(3 * math.pi / 8)])
    np.testing.assert_allclose(other, [math.sin(math.pi / 8), -math.sin(3 * math.pi / 8)])


def climbed(dimension: int, triangle: bool, rng: np.random.Generator) -> float:
    """Return the largest L1 distance found by alternating signs and eigenvectors from random starts."""
    weights = np.triu(np.ones((dimension, dimension))) if triangle else np.ones((dimension, dimension))
    symmetric = (weights + weights.T) / 2
    best = 0.0
    for _ in range(60):
        one, other = (vector / np.linalg.norm(vector) for vector in rng.normal(0, 1, (2, dimension)))
        for _ in range(30):
            signs = np.sign(np.outer(one, one) - np.outer(other, other)) * symmetric
            _, vectors = np.linalg.eigh(signs)
            one, other = vectors[:, -1], vectors[:, 0]
            best = max(best, float((np.abs(np.outer(one, one) - np.outer(other, other)) * weights).sum()))
    return best


@pytest.mark.parametrize("dimension", [2, 3, 4, 5, 6, 10])
@pytest.mark.grid(2)
@pytest.mark.slow
def test_a_search_for_bad_pairs_beats_the_published_bound_and_never_ours(dimension: int) -> None:
    rng = np.random.default_rng(dimension)
    full, triangle = climbed(dimension, False, rng), climbed(dimension, True, rng)
    assert full <= product_distance(dimension) * (1 + 1e-9)
    assert triangle <= triangle_distance(dimension) * (1 + 1e-9)
    assert full > 0.97 * attained_product_distance(dimension)
    assert triangle > 0.97 * attained_triangle_distance(dimension)
    if dimension > 2:
        # Lemma 4 of the paper allows 2 sqrt(p) and no more.
        assert full > 2 * math.sqrt(dimension)
    if dimension >= 6:
        assert triangle > 2 * math.sqrt(dimension)


@pytest.mark.parametrize(
    ("dimension", "low", "high"),
    [
        (4, 2.245e-4, 2.248e-4),
        pytest.param(6, 1.868e-5, 1.871e-5, marks=pytest.mark.slow),
        pytest.param(10, 1.819e-7, 1.822e-7, marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_the_published_noise_claims_epsilon_1_and_has_a_delta_there(dimension: int, low: float, high: float) -> None:
    found_low, found_high = published_delta(dimension, 1.0)
    # Two intervals of one number overlap; ours is as narrow as the grid allows.
    assert found_low <= high
    assert found_high >= low
    assert found_high < 1.015 * found_low
    assert published_delta(dimension, published_factor(dimension, mirrored=False))[0] == 0


def test_a_numeric_label_makes_the_published_loss_smaller_and_never_hides_it() -> None:
    assert published_label_factor(50, 1.0) > 2
    assert published_label_factor(10, 0.0) == pytest.approx(published_factor(10, mirrored=False))
    assert 1 < published_label_factor(10, 3.0) < published_label_factor(10, 0.25)


@pytest.mark.parametrize(
    "call",
    [
        lambda: product_distance(0),
        lambda: triangle_distance(-1),
        lambda: worst_pair(3),
        lambda: published_delta(5, 1.0),
        lambda: published_label_factor(3, -1.0),
        lambda: published_label_factor(3, math.nan),
    ],
)
def test_sizes_out_of_range_are_refused(call: object) -> None:
    with pytest.raises(ValueError, match=r"dimension|label bound"):
        call()  # type: ignore[operator]
