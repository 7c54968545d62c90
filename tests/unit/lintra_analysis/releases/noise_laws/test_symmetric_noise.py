"""The law of symmetric noise, against noise that is drawn."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_protocol.crypto.ring import FloatArray

SIZE = 4
LAWS = [
    SymmetricNoise(1.5),
    SymmetricNoise(1.5, trace_tight=True, num_columns=SIZE),
    SymmetricNoise(1.5, exact=2),
    SymmetricNoise(1.5, trace_tight=True, num_columns=SIZE - 1, exact=2),
]
BLOCK = np.array([2, 0, 3])


def covariance(law: SymmetricNoise) -> FloatArray:
    """Return Cov(N_ij, N_kl), shape (4, 4, 4, 4), by applying the definition to the plain law."""
    size = SIZE
    table = np.zeros((size,) * 4)
    eye = np.eye(size)
    for i, j, k, m in itertools.product(range(size), repeat=4):
        table[i, j, k, m] = law.sigma**2 * (eye[i, k] * eye[j, m] + eye[i, m] * eye[j, k])
    noised = [i for i in range(size) if i != law.exact]
    shape = np.zeros((size, size))
    shape[noised, noised] = 1.0
    if law.trace_tight:
        count = len(noised)
        shape[np.ix_(noised, noised)] -= (1 - 1 / np.sqrt(count + 1)) / count
    diagonal = 2 * law.sigma**2 * shape @ shape.T
    for i, k in itertools.product(range(size), repeat=2):
        table[i, i, k, k] = diagonal[i, k]
    return table


def functional_variance(table: FloatArray, weights: FloatArray) -> float:
    return float(np.einsum("ij,ijkl,kl->", weights, table, weights))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_every_question_is_answered_from_the_covariance_of_the_entries(law: SymmetricNoise) -> None:
    for index in (np.arange(SIZE), BLOCK):
        table = covariance(law)[np.ix_(index, index, index, index)]
        block = law.restrict(index)
        size = index.size
        generator = np.random.default_rng(1)
        theta, weights = generator.normal(size=size), generator.normal(size=(size, size))
        weights = weights + weights.T
        expected = np.einsum("ijkl,j,l->ik", table, theta, theta)
        assert_allclose(block.product_covariance(theta), expected, atol=1e-12)
        assert_allclose(block.privacy_covariance(theta, weights), expected, atol=1e-12)
        assert_allclose(block.functional_sd(weights), np.sqrt(functional_variance(table, weights)), rtol=1e-12)
        assert_allclose(block.inflation(weights), np.einsum("ijkl,jk->il", table, weights), atol=1e-12)
        basis = generator.normal(size=(size, 2))
        entries = np.einsum("ijkl,ia,jb,ka,lb->ab", table, basis, basis, basis, basis)
        assert_allclose(block.entry_variance(basis), entries, atol=1e-12)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_variance_of_a_correlation_is_that_of_its_gradient(law: SymmetricNoise) -> None:
    generator = np.random.default_rng(2)
    factor = generator.normal(size=(SIZE, SIZE)) + 2 * np.eye(SIZE)
    matrix = factor @ factor.T
    diagonal = np.diagonal(matrix)
    correlation = matrix / np.sqrt(np.outer(diagonal, diagonal))
    found = law.correlation_variance(correlation, diagonal)
    basis = generator.normal(size=(SIZE, 3))
    pairs = law.pair_variance(correlation[:3, :3], basis)
    for i, j in itertools.combinations(range(3), 2):
        ends = np.outer(basis[:, i], basis[:, i]) + np.outer(basis[:, j], basis[:, j])
        mixed = np.outer(basis[:, i], basis[:, j])
        weights = (mixed + mixed.T) / 2 - correlation[i, j] * ends / 2
        assert pairs[i, j] == pytest.approx(functional_variance(covariance(law), weights))
    for i, j in itertools.combinations(range(SIZE), 2):
        gradient = np.zeros((SIZE, SIZE))
        gradient[i, j] = gradient[j, i] = 0.5 / np.sqrt(diagonal[i] * diagonal[j])
        gradient[i, i] = -correlation[i, j] / (2 * diagonal[i])
        gradient[j, j] = -correlation[i, j] / (2 * diagonal[j])
        assert found[i, j] == pytest.approx(functional_variance(covariance(law), gradient))


def test_trace_tight_noise_has_the_stated_trace_and_kappa() -> None:
    law, size = SymmetricNoise(2.0, trace_tight=True, num_columns=7), 7
    assert law.functional_sd(np.eye(size)) == pytest.approx(np.sqrt(2 * size / (size + 1)) * 2.0)
    theta = np.arange(7.0)
    kappa = 1 - 2 / (size + 1)
    expected = 4.0 * (theta @ theta * np.eye(7) + kappa * np.outer(theta, theta))
    assert_allclose(law.product_covariance(theta), expected)
    assert SymmetricNoise(2.0).functional_sd(np.eye(size)) == pytest.approx(np.sqrt(2 * size) * 2.0)


def test_the_law_of_a_block_remembers_the_columns_of_the_whole_release() -> None:
    law = SymmetricNoise(1.0, trace_tight=True, num_columns=7, exact=3)
    assert law.restrict(np.array([5, 3])) == SymmetricNoise(1.0, True, 7, 1)
    assert law.restrict(np.array([5, 0])) == SymmetricNoise(1.0, True, 7, None)


def test_trace_tight_noise_without_its_number_of_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="num_columns"):
        SymmetricNoise(1.0, trace_tight=True)
