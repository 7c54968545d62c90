"""The orders behind the balanced matrix: bijections for every cohort, and columns that are computed by themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_protocol.crypto.randomness import derive_seed, expand, keystream, keystream_blocks
from lintra_protocol.transforms import permutation
from lintra_protocol.transforms.osnap import BalancedOsnap
from lintra_protocol.transforms.permutation import FeistelOrder, SortedOrder
from support import SEED, few

SIZES = [*range(1, 60), 97, 101, 255, 256, 257, 1009, 4095, 4096, 4097, 65_521, 65_536, 65_537, 1 << 17]


def network(size: int, rounds: int = permutation.ROUNDS) -> FeistelOrder:
    return FeistelOrder(size, expand(SEED, f"network {size}"), rounds)


@pytest.mark.parametrize("rounds", [1, 2, permutation.ROUNDS])
def test_a_network_is_a_bijection_for_tiny_odd_prime_and_square_cohorts(rounds: int) -> None:
    for size in SIZES:
        np.testing.assert_array_equal(np.sort(network(size, rounds).positions(np.arange(size))), np.arange(size))


@few
@given(st.integers(1, 5000), st.binary(min_size=32, max_size=32), st.data())
def test_a_rank_alone_and_in_any_company_stands_at_the_same_position(
    size: int, seed: bytes, data: st.DataObject
) -> None:
    order = FeistelOrder(size, expand(seed, "network"))
    ranks = np.array(data.draw(st.lists(st.integers(0, size - 1), max_size=9)), np.int64)
    np.testing.assert_array_equal(order.positions(np.arange(size))[ranks], order.positions(ranks))


def test_a_network_takes_every_cohort_of_32_bits_and_no_larger_one() -> None:
    largest = FeistelOrder(1 << 32, keystream(SEED))
    ranks = np.array([0, 1, (1 << 32) - 1, 1 << 31, 123_456_789])
    found = largest.positions(ranks)
    assert len(set(found.tolist())) == len(ranks)
    assert found.min() >= 0
    assert found.max() < 1 << 32
    with pytest.raises(ValueError, match="at most 4294967296 ranks"):
        FeistelOrder((1 << 32) + 1, keystream(SEED))


@few
@given(st.lists(st.integers(0, 2**64 - 1), max_size=60), st.integers(0, 63))
def test_a_sorted_order_is_the_stable_one_whatever_bits_keys_share(words: list[int], low_bits: int) -> None:
    keys = np.array(words, np.uint64) >> np.uint64(low_bits) << np.uint64(low_bits)
    order = np.argsort(keys >> np.uint64(1), kind="stable")
    np.testing.assert_array_equal(SortedOrder(keys).positions(order), np.arange(len(keys)))


def test_keys_that_differ_in_their_last_bits_only_are_ordered_too() -> None:
    # More keys than the packed word has room to tell apart: all of the order comes from the ties.
    keys = np.arange(600, dtype=np.uint64)[::-1].copy() * np.uint64(2)
    np.testing.assert_array_equal(SortedOrder(keys).positions(np.arange(600)), np.arange(600)[::-1])


def test_a_block_of_keystream_is_the_same_wherever_the_reading_began() -> None:
    whole = np.frombuffer(keystream(SEED)(16 * 50), np.uint8).reshape(50, 16)
    numbers = np.array([49, 0, 7, 7, 30])
    np.testing.assert_array_equal(keystream_blocks(SEED, numbers), whole[numbers])


@few
@given(st.integers(1, 5), st.integers(1, 400), st.binary(min_size=32, max_size=32))
def test_rows_of_a_network_are_as_even_as_those_of_a_sort(sparsity: int, clients: int, seed: bytes) -> None:
    matrix = BalancedOsnap(11, clients, seed, sparsity, largest_sorted=0)
    row_numbers, signs = matrix.entries(np.arange(clients))
    np.testing.assert_array_equal(np.bincount(row_numbers.ravel(), minlength=11), matrix.row_counts())
    assert set(np.unique(signs)) <= {-1, 1}
    ranks = np.arange(clients)[::-3]
    for all_entries, entries in zip((row_numbers, signs), matrix.entries(ranks), strict=True):
        np.testing.assert_array_equal(all_entries[ranks], entries)


def test_the_network_begins_above_2_to_the_20() -> None:
    seeds = [derive_seed(SEED, "border", bytes([number])) for number in range(2)]
    ranks = np.arange(5)
    for clients, sorts in ((1 << 20, True), ((1 << 20) + 1, False)):
        plain = BalancedOsnap(8, clients, seeds[0]).entries(ranks)[0]
        other = BalancedOsnap(8, clients, seeds[0], largest_sorted=clients if sorts else 0).entries(ranks)[0]
        np.testing.assert_array_equal(plain, other)


def test_signs_of_a_network_are_fair_and_differ_between_blocks() -> None:
    _, signs = BalancedOsnap(20, 40_000, SEED, 10, largest_sorted=0).entries(np.arange(40_000))
    products = signs.T @ signs / 40_000
    # Ten means and 45 correlations of deviation 1/200 each: beyond 6 of them once in 10^7 choices of seeds.
    assert np.abs(signs.mean(axis=0)).max() < 6 / 200
    assert np.abs(products - np.eye(10)).max() < 6 / 200
