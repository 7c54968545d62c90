"""Lists of reports: differences rebuild, proofs show members and nobody else, whatever the identifiers begin with."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_protocol import sorted_rows
from lintra_protocol.errors import InvalidMessageError, InventoryMismatchError
from lintra_protocol.manifest import InclusionProof, prove_inclusion, verify_inclusion
from lintra_protocol.report_ids import (
    ComparedLists,
    ReportIds,
    apply_difference,
    decode_positions,
    difference,
    encode_positions,
    intersection,
    num_distinct,
)
from support import few

# Few different bytes at the front, so that lists overlap often and identifiers begin alike.
POOL = [
    bytes([a]) * 8 + bytes(8) + bytes([b]) * 8 + bytes([c]) * 8 for a, b, c in product((0, 7, 255), (0, 9), range(5))
]
sets = st.sets(st.sampled_from(POOL))


@pytest.fixture(params=[2, 5, 1 << 18], autouse=True)
def slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same lists in slices of two, of five, and whole."""
    monkeypatch.setattr(sorted_rows, "_SLICE", request.param)
    return


@few
@given(sets, sets, sets)
def test_lists_do_what_sets_of_identifiers_do(first: set[bytes], second: set[bytes], third: set[bytes]) -> None:
    one, two, three = (ReportIds.of(each) for each in (first, second, third))
    assert list(one) == sorted(first)
    assert list(intersection([one, two, three])) == sorted(first & second & third)
    assert num_distinct([one, two, three]) == len(first | second | third)
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
@given(st.integers(1, 300), st.data())
def test_a_proof_shows_its_members_and_nothing_that_was_changed_shows_anything(count: int, data: st.DataObject) -> None:
    ids = ReportIds.of(index.to_bytes(32, "big") for index in range(count))
    position = data.draw(st.integers(0, count - 1))
    proof = prove_inclusion(ids.array, position)
    verify_inclusion(ids.root, count, ids[position], proof)
    outside = (position + 64) % count
    wrong: list[tuple[bytes, int, InclusionProof]] = [
        (count.to_bytes(32, "big"), count, proof),
        (ids[position], count, proof._replace(leaf=proof.leaf + 1)),
        (ids[position], count, proof._replace(siblings=(*proof.siblings, bytes(32)))),
        (ids[position], count, proof._replace(leaf_ids=b"\x01" + proof.leaf_ids[1:])),
    ]
    if outside // 64 != position // 64:
        wrong.append((ids[outside], count, proof))
    if proof.siblings:
        step = data.draw(st.integers(0, len(proof.siblings) - 1))
        before, after = proof.siblings[:step], proof.siblings[step + 1 :]
        wrong.append((ids[position], count, proof._replace(siblings=(*before, bytes(32), *after))))
        wrong.append((ids[position], count, proof._replace(siblings=(*before, *after))))
    for report_id, length, changed in wrong:
        with pytest.raises(InventoryMismatchError):
            verify_inclusion(ids.root, length, report_id, changed)


@few
@given(st.lists(sets, min_size=1, max_size=5), st.data())
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
