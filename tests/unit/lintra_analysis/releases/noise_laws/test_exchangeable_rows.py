"""The law of a sketch."""

import itertools

import numpy as np
import pytest

from lintra_analysis.releases.noise_laws.exchangeable_rows import ExchangeableRows

SIZE = 4


def test_the_law_of_a_sketch_answers_for_any_basis_as_for_single_functionals() -> None:
    generator = np.random.default_rng(3)
    law = ExchangeableRows(generator.normal(size=(30, SIZE)), generator.uniform(0.1, 2.0, 30))
    basis = generator.normal(size=(SIZE, 3))
    found = law.entry_variance(basis)
    for a, b in itertools.product(range(3), repeat=2):
        weights = np.outer(basis[:, a], basis[:, b])
        assert found[a, b] == pytest.approx(law.functional_sd((weights + weights.T) / 2) ** 2)
