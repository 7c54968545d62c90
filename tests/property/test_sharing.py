"""Shares sum to the secret, and sharing is linear."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from lintra_protocol.crypto.randomness import keystream
from lintra_protocol.crypto.ring import RingArray, from_ring, ring_bytes, ring_from_bytes, to_ring
from lintra_protocol.crypto.sharing import combine, expand_share, split, split_seeded
from lintra_protocol.report.report import make_report, share_words
from lintra_protocol.report.wire import BLIND_BYTES
from support import few, make_task

WORDS = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1])
vectors = st.integers(0, 40).flatmap(lambda size: arrays(np.uint64, size, elements=WORDS))
servers = st.integers(2, 7)
seeds = st.binary(min_size=32, max_size=32)
TASKS = {form: make_task(share_form=form, columns=4) for form in ("uniform", "seeded", "spread")}


@few
@given(vectors, servers, seeds)
def test_shares_sum_to_the_secret(secret: RingArray, num_servers: int, seed: bytes) -> None:
    assert_array_equal(combine(split(secret, num_servers, keystream(seed))), secret)


@few
@given(vectors.filter(len), servers, seeds)
def test_seeds_and_the_last_share_sum_to_the_secret(secret: RingArray, num_servers: int, seed: bytes) -> None:
    expanded, last = split_seeded(secret, num_servers, keystream(seed))
    shares = np.stack([*(expand_share(one, secret.size) for one in expanded), last])
    assert_array_equal(combine(shares), secret)


@few
@given(st.integers(1, 20).flatmap(lambda n: arrays(np.uint64, (2, n), elements=WORDS)), servers, seeds, seeds)
def test_adding_shares_shares_the_sum(secrets: RingArray, num_servers: int, first: bytes, second: bytes) -> None:
    added = split(secrets[0], num_servers, keystream(first)) + split(secrets[1], num_servers, keystream(second))
    assert_array_equal(combine(added), secrets[0] + secrets[1])


@few
@given(vectors, servers, seeds)
def test_all_but_one_share_do_not_depend_on_the_secret(secret: RingArray, num_servers: int, seed: bytes) -> None:
    shares = split(secret, num_servers, keystream(seed))
    assert_array_equal(shares[:-1], split(np.zeros_like(secret), num_servers, keystream(seed))[:-1])


@few
@given(vectors)
def test_words_survive_the_trip_through_bytes_and_integers(secret: RingArray) -> None:
    assert_array_equal(ring_from_bytes(ring_bytes(secret)), secret)
    assert_array_equal(to_ring(from_ring(secret)), secret)


@few
@given(arrays(np.uint64, 4, elements=WORDS), seeds, st.sampled_from(sorted(TASKS)))
def test_the_payloads_of_a_report_sum_to_the_row(secret: RingArray, seed: bytes, form: str) -> None:
    task = TASKS[form]
    report = make_report(task, from_ring(secret), 5, keystream(seed))
    words = [share_words(task, server, share[BLIND_BYTES + 1 :]) for server, share in enumerate(report.shares)]
    assert_array_equal(combine(np.stack(words)), secret)
