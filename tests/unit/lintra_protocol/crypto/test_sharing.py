"""Additive shares."""

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol.crypto.ring import ring_bytes, to_ring
from lintra_protocol.crypto.sharing import (
    combine,
    expand_share,
    expand_spread,
    part_of,
    split,
    split_seeded,
    split_spread,
    spread_parts,
)
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


@pytest.mark.parametrize(("num_servers", "words"), [(2, 5), (3, 5), (3, 9), (7, 5), (4, 0)])
def test_spread_shares_sum_to_the_secret_and_each_server_holds_one_part_of_the_words(
    num_servers: int, words: int
) -> None:
    secret = np.arange(words, dtype=np.uint64) * np.uint64(2**60 + 7)
    seeds, parts = split_spread(secret, num_servers, source("spread"))
    payloads = [seed + ring_bytes(part) for seed, part in zip(seeds, parts, strict=True)]
    shares = [expand_spread(payload, j, num_servers, words) for j, payload in enumerate(payloads)]
    assert_array_equal(combine(np.stack(shares)), secret)
    assert sum(part.size for part in parts) == words
    assert max(part.size for part in parts) - min(part.size for part in parts) <= 1
    covered = np.concatenate([np.arange(words)[part_of(j, num_servers, words)] for j in range(num_servers)])
    assert covered.tolist() == list(range(words))


@pytest.mark.parametrize("honest", [0, 1, 2])
def test_all_but_one_server_see_the_same_whatever_the_secret_in_the_spread_form(honest: int) -> None:
    # All masks and secrets of three words modulo 2, to which the ring maps: the others' view has the same law for each.
    masks = (np.arange(512)[:, np.newaxis] >> np.arange(9) & 1).astype(np.uint64).reshape(512, 3, 3)
    others = [server for server in range(3) if server != honest]
    laws = []
    for secret in (np.arange(8)[:, np.newaxis] >> np.arange(3) & 1).astype(np.uint64):
        views = []
        for each in masks:
            parts = [part % np.uint64(2) for part in spread_parts(secret, each)]
            views.append(tuple(np.concatenate([each[others].ravel(), *(parts[server] for server in others)]).tolist()))
        laws.append(Counter(views))
    assert all(law == laws[0] for law in laws)
    assert len(laws[0]) > 64


def test_a_longer_expansion_continues_a_shorter_one() -> None:
    assert_array_equal(expand_share(bytes(32), 9)[:4], expand_share(bytes(32), 4))


@pytest.mark.parametrize("num_servers", [-1, 0, 1])
def test_one_server_would_hold_the_secret(num_servers: int) -> None:
    for share in (split, split_seeded, split_spread):
        with pytest.raises(ValueError, match="at least 2 servers"):
            share(SECRET, num_servers, source("shares"))
