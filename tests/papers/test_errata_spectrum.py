"""Counterexamples to statements of Wei et al. 2023, versions 3 and 4 (docs/explanation/errata.md)."""

import math

import numpy as np
import pytest
from papers.inherent_privacy import inherent_privacy

from lintra_curator.ndis.closed_form import rp_pstar
from lintra_curator.ndis.gaussian_pair import pair_from_gaussians
from lintra_curator.ndis.profile_evaluation import delta
from lintra_curator.projection.random_projection import rp_sigma

CANCER, FLIGHT, SONG = 2809, 327_346, 515_345
FLIGHT_BOUND = 0.07320812693


def test_the_row_counts_of_flight_and_song_are_swapped_in_the_tables() -> None:
    noise = {rows: FLIGHT_BOUND / math.sqrt(rp_pstar(1, 1 / rows, 1200)) for rows in (FLIGHT, SONG)}
    assert noise[FLIGHT] == pytest.approx(0.7452001525, rel=2e-7)  # as printed
    assert noise[SONG] != pytest.approx(0.7452001525, rel=1e-2)


def test_a_correlation_of_1_123_is_one_with_two_divisors() -> None:
    # As the authors' program has it: a covariance over n - 1 by deviations over n, for the nine entries of two grams.
    generator = np.random.default_rng(5)
    truth, found = (rows.T @ rows for rows in generator.normal(size=(2, 40, 3)))
    mixed = np.cov(truth.ravel(), found.ravel())[0, 1] / (np.std(truth) * np.std(found))
    assert mixed == pytest.approx(9 / 8 * np.corrcoef(truth.ravel(), found.ravel())[0, 1])
    assert pytest.approx(0.998, abs=5e-4) == 1.123 / (9 / 8)


def least_singular_value(epsilon: float, delta_: float, sketch_rows: int, bound: float) -> float:
    log = math.log(4 / delta_)
    return 2 * bound * math.sqrt((math.sqrt(2 * sketch_rows * log) + log) / epsilon)


def test_the_printed_distortions_of_cancer_are_farther_apart_than_their_noises() -> None:
    bound, rows, sketch_rows = 1.107512718, CANCER, 300
    ratio = least_singular_value(1, 1 / rows, sketch_rows, bound) / rp_sigma(1, 1 / rows, sketch_rows, bound)
    assert ratio == pytest.approx(3.01, abs=0.01)
    assert ratio < 56.031 / 18.106
    assert [round(printed, 2) for printed in (56.031 / 18.106, 7.342 / 2.149)] == [3.09, 3.42]
    assert ratio > 56.0 / 18.9


def test_noise_chosen_relative_to_the_private_table_tells_it_from_its_neighbour() -> None:
    # One row fewer, and the largest leverage passes p*: from no noise to that for all data.
    epsilon, claimed, sketch_rows = 1.0, 1e-6, 10
    private = rp_pstar(epsilon, claimed, sketch_rows)
    count = math.ceil(1 / private)
    rows = np.ones((count, 1))
    whole, smaller = (inherent_privacy([each], epsilon, claimed, sketch_rows, 1.0) for each in (rows, rows[:-1]))
    assert whole.published_sigma == 0.0
    assert smaller.published_sigma > 1.0
    bare, noised = count, count - 1 + smaller.published_sigma**2
    laws = [np.eye(sketch_rows) * variance for variance in (bare, noised)]
    null = np.zeros(sketch_rows)
    worst = max(delta(pair_from_gaussians(null, one, null, two), epsilon).lo for one, two in (laws, laws[::-1]))
    assert worst > 100 * claimed


def test_noise_from_the_longest_row_of_the_data_shows_that_row() -> None:
    rows = np.array([[1.0, 0.0], [0.6, 0.0], [0.0, 0.6]])
    with_row, without = (float(np.linalg.norm(each, axis=1).max()) for each in (rows, rows[1:]))
    claimed, sketch_rows = 1e-6, 30
    grams = [rows.T @ rows, rows[1:].T @ rows[1:]]
    ridges = [rp_sigma(1.0, claimed, sketch_rows, bound) ** 2 for bound in (with_row, without)]
    blocks = [np.kron(np.eye(sketch_rows), g + s * np.eye(2)) for g, s in zip(grams, ridges, strict=True)]
    null = np.zeros(2 * sketch_rows)
    assert delta(pair_from_gaussians(null, blocks[0], null, blocks[1]), 1.0).lo > 0.5
