"""Laws of leverage scores, on sketches small enough to try every coalition."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import RowUnderfilledError
from lintra_protocol.privacy.leverage import LeverageBounds, gram_inverse, gram_matrix
from lintra_protocol.transforms.osnap import BalancedOsnap
from support import few

Entries = tuple[IntArray, IntArray]
seeds = st.binary(min_size=32, max_size=32)


@st.composite
def sketches(draw: st.DrawFn) -> tuple[int, Entries]:
    """Draw a sketch with distinct rows in each column: balanced, or any at all."""
    rows = draw(st.integers(1, 4))
    sparsity, clients = draw(st.integers(1, rows)), draw(st.integers(2, 12))
    if draw(st.booleans()):
        return rows, BalancedOsnap(rows, clients, draw(seeds), sparsity).entries(np.arange(clients))
    numbers = [draw(st.permutations(range(rows)))[:sparsity] for _ in range(clients)]
    signs = [[draw(st.sampled_from([-1, 1])) for _ in range(sparsity)] for _ in range(clients)]
    return rows, (np.array(numbers), np.array(signs))


def dense(rows: int, entries: Entries) -> FloatArray:
    matrix = np.zeros((rows, len(entries[0])))
    for numbers, signs in zip(entries[0].T, entries[1].T, strict=True):
        matrix[numbers, np.arange(len(numbers))] = signs
    return matrix


def leverages(rows: int, entries: Entries) -> FloatArray:
    """Return leverage scores from a pseudo-inverse of the dense matrix."""
    matrix = dense(rows, entries)
    return np.einsum("ri,rq,qi->i", matrix, np.linalg.pinv(matrix @ matrix.T, hermitian=True), matrix)


def without(entries: Entries, left_out: tuple[int, ...]) -> Entries:
    keep = np.setdiff1d(np.arange(len(entries[0])), left_out)
    return entries[0][keep], entries[1][keep]


@few
@given(sketches())
def test_the_gram_matrix_is_exact(sketch: tuple[int, Entries]) -> None:
    rows, entries = sketch
    matrix = dense(rows, entries).astype(np.int64)
    np.testing.assert_array_equal(gram_matrix(rows, *entries), matrix @ matrix.T)


@few
@given(sketches())
def test_leverages_are_those_of_the_dense_matrix_never_below_and_add_up_to_the_rank(
    sketch: tuple[int, Entries],
) -> None:
    rows, entries = sketch
    try:
        found = gram_inverse(rows, *entries).leverages(*entries)
    except RowUnderfilledError:
        # Only dependent rows are refused.
        filled = dense(rows, entries)[np.unique(entries[0])]
        assert np.linalg.matrix_rank(filled) < len(filled)
        return
    np.testing.assert_allclose(found, leverages(rows, entries), rtol=1e-9)
    assert np.all(found > leverages(rows, entries) - 1e-14)
    assert abs(found.sum() - np.linalg.matrix_rank(dense(rows, entries))) < 1e-9


@few
@given(sketches(), st.data())
def test_removing_clients_never_lowers_anybodys_leverage(sketch: tuple[int, Entries], data: st.DataObject) -> None:
    rows, entries = sketch
    clients = len(entries[0])
    left_out = tuple(data.draw(st.sets(st.integers(0, clients - 1), min_size=1, max_size=clients - 1)))
    before = np.delete(leverages(rows, entries), left_out)
    assert np.all(leverages(rows, without(entries, left_out)) >= before - 1e-9)


@few
@given(sketches(), st.integers(1, 2))
@pytest.mark.slow
def test_the_coalition_bound_holds_for_every_coalition(sketch: tuple[int, Entries], corrupt: int) -> None:
    rows, entries = sketch
    try:
        bound = LeverageBounds.of(rows, *entries).against(corrupt, corrupt)
    except RowUnderfilledError:
        assume(False)
    for size in range(corrupt + 1):
        for left_out in combinations(range(len(entries[0])), size):
            assert leverages(rows, without(entries, left_out)).max() <= bound + 1e-9


@few
@given(sketches(), st.integers(1, 3))
def test_a_coalition_that_no_row_holds_more_than_a_quota_of_obeys_the_tighter_bound(
    sketch: tuple[int, Entries], quota: int
) -> None:
    rows, entries = sketch
    try:
        bound = LeverageBounds.of(rows, *entries).against(3, min(quota, 3))
    except RowUnderfilledError:
        assume(False)
    for left_out in combinations(range(len(entries[0])), min(3, len(entries[0]) - 1)):
        if np.bincount(entries[0][list(left_out)].ravel()).max() <= quota:
            assert leverages(rows, without(entries, left_out)).max() <= bound + 1e-9
