"""Lists of reports: differences rebuild, proofs show members and nobody else, whatever the identifiers begin with."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_protocol.cohort import row_order, sorted_rows
from lintra_protocol.cohort.report_ids import (
    ComparedLists,
    ListBuilder,
    ReportIds,
    apply_difference,
    decode_positions,
    difference,
    encode_positions,
    intersection,
)
from lintra_protocol.errors import InvalidMessageError, InventoryMismatchError
from support import few

# Few different bytes at the front, so that lists overlap often and identifiers begin alike.
POOL = [
    bytes([a]) * 8 + bytes(8) + bytes([b]) * 8 + bytes([c]) * 8 for a, b, c in product((0, 7, 255), (0, 9), range(5))
]
sets = st.sets(st.sampled_from(POOL))


@pytest.fixture(params=[3, 1 << 16], autouse=True)
def slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same lists in slices of three, and whole."""
    monkeypatch.setattr(sorted_rows, "_SLICE", request.param)
    monkeypatch.setattr(row_order, "_SLICE", request.param)
    return


@few
@given(sets, sets, sets)
def test_lists_do_what_sets_of_identifiers_do(first: set[bytes], second: set[bytes], third: set[bytes]) -> None:
    one, two, three = (ReportIds.of(each) for each in (first, second, third))
    assert list(one) == sorted(first)
    assert list(intersection([one, two, three])) == sorted(first & second & third)
    assert len(ComparedLists.of([one, two, three]).union) == len(first | second | third)
    assert [each in one for each in POOL] == [each in first for each in POOL]
    assert [one.position(each) for each in one] == list(range(len(one)))
    assert (one == two) == (first == second) == (one.root == two.root)
    assert ReportIds.parse(one.encode(), len(one)) == one


@few
@given(sets, sets)
def test_a_difference_rebuilds_the_other_list(first: set[bytes], second: set[bytes]) -> None:
    own, other = ReportIds.of(first), ReportIds.of(second)
    missing, extra = difference(own, other)
    assert [own[place] for place in missing] == sorted(first - second)
    assert list(extra) == sorted(second - first)
    assert apply_difference(own, missing, extra) == other


@few
@given(sets, sets, sets)
def test_a_difference_applied_to_another_list_never_gives_an_unsorted_one(
    first: set[bytes], second: set[bytes], third: set[bytes]
) -> None:
    try:
        rebuilt = apply_difference(ReportIds.of(third), *difference(ReportIds.of(first), ReportIds.of(second)))
    except InventoryMismatchError:
        return
    assert ReportIds.parse(rebuilt.encode(), len(rebuilt)) == rebuilt


@few
@given(st.lists(st.sampled_from(POOL), min_size=2, max_size=12))
def test_a_list_is_parsed_only_if_it_is_sorted_and_without_repetition(ids: list[bytes]) -> None:
    if ids == sorted(set(ids)):
        assert list(ReportIds.parse(b"".join(ids), 12)) == ids
    else:
        with pytest.raises(InvalidMessageError, match=r"not sorted|twice"):
            ReportIds.parse(b"".join(ids), 12)


@few
@given(st.sets(st.integers(0, 2**35 - 1)))
def test_positions_survive_the_round_trip(chosen: set[int]) -> None:
    positions = np.array(sorted(chosen), np.int64)
    np.testing.assert_array_equal(decode_positions(encode_positions(positions)), positions)


@few
@given(st.binary(max_size=12))
def test_positions_have_one_spelling(data: bytes) -> None:
    try:
        positions = decode_positions(data)
    except InvalidMessageError:
        return
    assert encode_positions(positions) == data
    assert (np.diff(positions) > 0).all()


@few
@given(sets, sets, sets, st.data())
@pytest.mark.slow
def test_a_list_seen_through_a_difference_is_the_other_list_in_every_slice(
    first: set[bytes], second: set[bytes], third: set[bytes], data: st.DataObject
) -> None:
    own, other = ReportIds.of(first), ReportIds.of(second)
    seen = apply_difference(own, *difference(own, other))
    start, stop = (data.draw(st.integers(-2, len(POOL) + 2)) for _ in range(2))
    assert seen.rows[start:stop].tobytes() == other.array[start:stop].tobytes()
    assert b"".join(seen.pieces()) == other.encode()
    assert seen.root == other.root
    assert [each in seen for each in POOL] == [each in second for each in POOL]
    places = sorted(data.draw(st.sets(st.integers(0, len(second) - 1)))) if second else []
    assert list(seen.at(np.array(places, np.int64))) == [other[place] for place in places]
    last = ReportIds.of(third)
    assert apply_difference(seen, *difference(seen, last)) == last


@few
@given(sets, st.lists(st.integers(1, 100)), st.booleans())
def test_a_list_that_arrives_in_chunks_has_the_tree_of_the_whole_one(
    ids: set[bytes], lengths: list[int], is_cut: bool
) -> None:
    whole = ReportIds.of(ids)
    data = whole.encode()[: -1 if is_cut else None]
    builder, start = ListBuilder(), 0
    for length in [*lengths, len(data)]:
        builder.add(data[start : start + length])
        start += length
    if is_cut and ids:
        with pytest.raises(InvalidMessageError, match="32 bytes each"):
            builder.tree()
    else:
        assert (builder.tree().root, builder.num_bytes) == (whole.root, len(data))


@few
@given(st.lists(st.sampled_from(POOL), min_size=2, max_size=12), st.integers(1, 100))
def test_a_list_that_arrives_in_chunks_must_be_sorted_over_their_borders_too(ids: list[bytes], length: int) -> None:
    builder, data = ListBuilder(), b"".join(ids)

    def take() -> None:
        for start in range(0, len(data), length):
            builder.add(data[start : start + length])

    if ids == sorted(set(ids)):
        take()
    else:
        with pytest.raises(InvalidMessageError, match=r"not sorted|twice"):
            take()


@few
@given(st.lists(sets, min_size=1, max_size=5), st.data())
@pytest.mark.slow
def test_lists_compared_once_each_give_every_difference_between_two(
    lists: list[set[bytes]], data: st.DataObject
) -> None:
    told = [ReportIds.of(each) for each in lists]
    told.append(data.draw(st.sampled_from(told)))
    compared = ComparedLists.of(told)
    assert list(compared.union) == sorted(set().union(*told))
    assert list(compared.common()) == sorted(set(told[0]).intersection(*told[1:]))
    for own, mine in enumerate(told):
        for other, theirs in enumerate(told):
            missing, extra = compared.difference(own, other)
            assert apply_difference(mine, missing, extra) == theirs
            assert [mine[place] for place in missing] == sorted(set(mine) - set(theirs))
    last = ReportIds.of(data.draw(sets))
    compared.add(last)  # after differences were asked for
    assert compared.difference(0, len(told))[1] == sorted(set(last) - set(told[0]))
