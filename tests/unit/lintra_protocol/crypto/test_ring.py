"""The ring Z_{2^64}."""

import numpy as np
from numpy.testing import assert_array_equal

from lintra_protocol.crypto.ring import RING_BITS, from_ring, ring_bytes, ring_from_bytes, to_ring

EXTREMES = np.array([0, 1, -1, -5, 2**63 - 1, -(2**63)], np.int64)


def test_lifting_undoes_entering() -> None:
    assert_array_equal(from_ring(to_ring(EXTREMES)), EXTREMES)


def test_a_negative_integer_enters_as_its_residue() -> None:
    assert [int(word) for word in to_ring(EXTREMES)] == [int(value) % 2**64 for value in EXTREMES]


def test_half_of_the_ring_lifts_to_the_smallest_integer() -> None:
    assert int(from_ring(np.array([1 << (RING_BITS - 1)], np.uint64))[0]) == -(1 << (RING_BITS - 1))


def test_sums_wrap_silently_and_exactly() -> None:
    words = to_ring(EXTREMES)
    assert int(words.sum(dtype=np.uint64)) == sum(int(word) for word in words) % 2**64


def test_words_are_little_endian_and_in_row_order() -> None:
    words = np.array([[1, 2], [2**63, 4]], np.uint64)
    data = ring_bytes(words)
    assert data[:9] == b"\x01" + bytes(7) + b"\x02"
    assert_array_equal(ring_from_bytes(data), words.ravel())


def test_a_transposed_array_is_written_in_its_own_row_order() -> None:
    words = np.arange(6, dtype=np.uint64).reshape(2, 3)
    assert_array_equal(ring_from_bytes(ring_bytes(words.T)), words.T.ravel())
