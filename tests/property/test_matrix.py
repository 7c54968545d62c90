"""The balanced matrix: even rows, fair signs, and unbiased second moments."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lintra_protocol.crypto.randomness import derive_seed, expand
from lintra_protocol.transforms.osnap import BalancedOsnap
from support import SEED, few


def seed(index: int) -> bytes:
    return derive_seed(SEED, "matrix", index.to_bytes(4, "big"))


@few
@given(st.integers(1, 40), st.integers(0, 300), st.binary(min_size=32, max_size=32))
def test_rows_are_even_and_signs_are_plus_or_minus_one(rows: int, clients: int, late_seed: bytes) -> None:
    matrix = BalancedOsnap(rows, clients, late_seed)
    row_numbers, signs = matrix.entries(np.arange(clients))
    counts = np.bincount(row_numbers[:, 0], minlength=rows)
    np.testing.assert_array_equal(matrix.row_counts(), counts)
    assert counts.max() - counts.min() <= 1
    assert set(np.unique(signs)) <= {-1, 1}


@few
@given(st.integers(1, 10), st.integers(1, 60), st.binary(min_size=32, max_size=32), st.data())
def test_columns_can_be_asked_for_in_any_order(rows: int, clients: int, late_seed: bytes, data: st.DataObject) -> None:
    matrix = BalancedOsnap(rows, clients, late_seed)
    ranks = np.array(data.draw(st.lists(st.integers(0, clients - 1), max_size=9)), np.int64)
    whole, some = matrix.entries(np.arange(clients)), matrix.entries(ranks)
    for all_entries, entries in zip(whole, some, strict=True):
        np.testing.assert_array_equal(all_entries[ranks], entries)


def mean_gram(rows: int, clients: int, draws: int, flipped: float = 0.0) -> NDArray[np.float64]:
    """Return the mean of S^T S over seeds; a part `flipped` of all signs is made positive, for comparison."""
    total = np.zeros((clients, clients))
    spoil = np.frombuffer(expand(SEED, "spoil")(8 * draws * clients), np.uint64).reshape(draws, clients) / 2.0**64
    for index in range(draws):
        row_numbers, signs = BalancedOsnap(rows, clients, seed(index)).entries(np.arange(clients))
        dense = np.zeros((rows, clients))
        dense[row_numbers[:, 0], np.arange(clients)] = np.where(spoil[index] < flipped, 1, signs[:, 0])
        total += dense.T @ dense
    return total / draws


@pytest.mark.slow
def test_over_seeds_the_matrix_keeps_inner_products_and_this_test_would_notice_unfair_signs() -> None:
    draws = 4000
    mean = mean_gram(3, 6, draws)
    pairs = mean[np.triu_indices(6, 1)]
    # Two of six columns share one of three rows with probability 1/5, and then their product is a fair sign: deviation
    # sqrt(0.2/4000). Six deviations and fifteen pairs: a false alarm for one in 3e7 choices of seeds.
    np.testing.assert_array_equal(np.diag(mean), 1.0)
    assert np.abs(pairs).max() < 6 * sqrt(0.2 / draws)
    # Three pairs share a row in every draw: the sum has deviation sqrt(3/4000). With two thirds of the signs positive
    # instead of half it would be 3/9, twelve deviations off.
    assert abs(pairs.sum()) < 6 * sqrt(3 / draws)
    assert mean_gram(3, 6, draws, flipped=1 / 3)[np.triu_indices(6, 1)].sum() > 6 * sqrt(3 / draws)


def test_every_report_is_as_likely_in_every_row_and_with_either_sign() -> None:
    rows, clients, draws = 4, 8, 4000
    counts, positive = np.zeros((clients, rows)), np.zeros(clients)
    for index in range(draws):
        row_numbers, signs = BalancedOsnap(rows, clients, seed(index)).entries(np.arange(clients))
        counts[np.arange(clients), row_numbers[:, 0]] += 1
        positive += signs[:, 0] > 0
    # Six deviations of a frequency, forty frequencies: a false alarm once in 10^7 choices of seeds.
    assert np.abs(counts / draws - 1 / rows).max() < 6 * sqrt(0.25 * 0.75 / draws)
    assert np.abs(positive / draws - 0.5).max() < 6 * sqrt(0.25 / draws)
