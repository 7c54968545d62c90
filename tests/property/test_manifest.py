"""Lists: differences rebuild, paths prove members and nobody else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_protocol.errors import InventoryMismatchError
from lintra_protocol.manifest import (
    apply_difference,
    difference,
    intersection,
    merkle_path,
    merkle_root,
    sorted_ids,
    verify_merkle_path,
)
from support import few

# Few different bytes, so that lists overlap often.
ids = st.integers(0, 40).map(lambda index: bytes([index]) * 32)
lists = st.sets(ids, max_size=25).map(sorted)


@few
@given(lists, lists)
def test_a_difference_rebuilds_the_other_list(own: list[bytes], other: list[bytes]) -> None:
    assert apply_difference(own, *difference(own, other)) == other


@few
@given(lists, lists, lists)
def test_a_difference_applied_to_another_list_never_gives_an_unsorted_one(
    own: list[bytes], other: list[bytes], third: list[bytes]
) -> None:
    try:
        rebuilt = apply_difference(third, *difference(own, other))
    except InventoryMismatchError:
        return
    assert rebuilt == sorted_ids(rebuilt)


@few
@given(lists.filter(bool), st.data())
def test_a_path_proves_its_member(members: list[bytes], data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(members) - 1))
    verify_merkle_path(merkle_root(members), members[position], merkle_path(members, position))


@few
@given(lists.filter(bool), ids, st.data())
def test_a_path_proves_nobody_else(members: list[bytes], other: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(members) - 1))
    path = merkle_path(members, position)
    if other != members[position]:
        with pytest.raises(InventoryMismatchError):
            verify_merkle_path(merkle_root(members), other, path)


@few
@given(lists, lists)
def test_roots_are_equal_only_for_equal_lists(first: list[bytes], second: list[bytes]) -> None:
    assert (merkle_root(first) == merkle_root(second)) == (first == second)


@few
@given(lists.filter(lambda members: len(members) > 1), st.data())
def test_a_changed_path_proves_nothing(members: list[bytes], data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(members) - 1))
    path = merkle_path(members, position)
    step = data.draw(st.integers(0, len(path) - 1))
    left, sibling = path[step]
    for wrong in ((not left, sibling), (left, bytes(31) + b"\x01")):
        with pytest.raises(InventoryMismatchError):
            verify_merkle_path(merkle_root(members), members[position], [*path[:step], wrong, *path[step + 1 :]])


@few
@given(st.lists(lists, min_size=1, max_size=4))
def test_the_intersection_is_sorted_and_in_every_list(many: list[list[bytes]]) -> None:
    common = intersection(many)
    assert common == sorted(set(many[0]).intersection(*many[1:]))
