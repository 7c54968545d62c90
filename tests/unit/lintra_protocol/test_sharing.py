"""Additive shares."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol.ring import to_ring
from lintra_protocol.sharing import combine, expand_share, split, split_seeded
from support import source

SECRET = to_ring(np.array([0, 1, -1, 2**63 - 1, -(2**63)], np.int64))


@pytest.mark.parametrize("num_servers", [2, 3, 7])
def test_all_shares_sum_to_the_secret(num_servers: int) -> None:
    shares = split(SECRET, num_servers, source("shares"))
    assert shares.shape == (num_servers, *SECRET.shape)
    assert_array_equal(combine(shares), SECRET)


def test_a_matrix_is_shared_like_a_vector() -> None:
    secret = np.arange(6, dtype=np.uint64).reshape(2, 3)
    assert_array_equal(combine(split(secret, 3, source("shares"))), secret)


def test_all_but_the_last_share_are_the_sources_words_whatever_the_secret() -> None:
    first, second = split(SECRET, 4, source("same")), split(SECRET + np.uint64(9), 4, source("same"))
    assert_array_equal(first[:-1], second[:-1])
    assert not np.array_equal(first[-1], second[-1])


def test_a_seed_stands_for_the_words_it_expands_to() -> None:
    seeds, last = split_seeded(SECRET, 3, source("seeds"))
    masks = np.stack([expand_share(seed, SECRET.size) for seed in seeds])
    assert [len(seed) for seed in seeds] == [32, 32]
    assert_array_equal(combine(np.concatenate([masks, last[np.newaxis]])), SECRET)


def test_a_longer_expansion_continues_a_shorter_one() -> None:
    assert_array_equal(expand_share(bytes(32), 9)[:4], expand_share(bytes(32), 4))


@pytest.mark.parametrize("num_servers", [-1, 0, 1])
def test_one_server_would_hold_the_secret(num_servers: int) -> None:
    for share in (split, split_seeded):
        with pytest.raises(ValueError, match="at least 2 servers"):
            share(SECRET, num_servers, source("shares"))
