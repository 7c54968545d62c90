"""Lists of report identifiers: their roots, what they share, and what is left out of them."""

import hashlib

import numpy as np
import pytest

from lintra_protocol.cohort import row_order
from lintra_protocol.cohort.report_ids import ReportIds, apply_difference, decode_positions, difference, intersection
from lintra_protocol.encoding.canonical import domain_hash
from lintra_protocol.errors import InvalidMessageError, InventoryMismatchError, MessageTooLargeError

IDS = ReportIds.of(hashlib.sha256(bytes([index])).digest() for index in range(200))


def listed(start: int, stop: int) -> ReportIds:
    return ReportIds(IDS.array[start:stop])


def test_the_root_of_nothing_has_its_own_label() -> None:
    assert ReportIds.of([]).root == domain_hash("merkle empty")


def test_identifiers_are_sorted_and_none_stands_twice() -> None:
    assert ReportIds.of(reversed(IDS)) == IDS
    with pytest.raises(InvalidMessageError, match="twice"):
        ReportIds.of([IDS[1], IDS[0], IDS[1]])
    with pytest.raises(InvalidMessageError, match="32 bytes"):
        ReportIds.of([b"short"])


def test_a_list_survives_the_round_trip_and_a_long_or_broken_one_is_refused() -> None:
    assert ReportIds.parse(IDS.encode(), 200) == IDS
    assert ReportIds.parse(b"", 0) == []
    with pytest.raises(MessageTooLargeError, match="at most 2"):
        ReportIds.parse(bytes(96), 2)
    with pytest.raises(InvalidMessageError, match="95 bytes"):
        ReportIds.parse(bytes(95), 9)
    with pytest.raises(InvalidMessageError, match="not sorted"):
        ReportIds.parse(IDS[5] + IDS[4], 9)


@pytest.mark.parametrize(("missing", "extra"), [([6], []), ([], [0]), ([0], [0])])
def test_a_difference_that_does_not_fit_is_refused(missing: list[int], extra: list[int]) -> None:
    with pytest.raises(InventoryMismatchError, match="does not fit"):
        apply_difference(listed(0, 6), np.array(missing, np.int64), ReportIds.of(IDS[each] for each in extra))


@pytest.mark.parametrize("data", [b"\x80", b"\x01\x80\x00", b"\x80" * 5 + b"\x01"])
def test_positions_that_are_cut_off_too_long_or_padded_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidMessageError, match="a position is"):
        decode_positions(data)


def test_the_intersection_is_what_every_server_holds() -> None:
    assert intersection([IDS, listed(0, 190), listed(10, 200)]) == listed(10, 190)
    assert intersection([listed(0, 3), listed(3, 9)]) == []
    assert intersection([IDS]) == IDS


def test_identifiers_that_begin_alike_are_told_apart_by_all_of_their_bytes() -> None:
    ground = [bytes(8) + report_id[8:] for report_id in IDS]
    whole, part = ReportIds.of(ground), ReportIds.of(ground[::3])
    assert list(whole) == sorted(ground)
    assert intersection([whole, part]) == part
    assert apply_difference(part, *difference(part, whole)) == whole


def test_a_slice_that_ends_before_it_begins_is_empty_in_a_list_that_was_edited_too() -> None:
    edited = apply_difference(ReportIds.of([]), np.zeros(0, np.int64), ReportIds.of([bytes(32)]))
    assert edited.rows[1:0].shape == (0, 32)


def test_a_list_is_sorted_without_moving_an_identifier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_order, "_SLICE", 37)
    ids = np.random.default_rng(2).integers(0, 256, (300, 32)).astype(np.uint8)
    rows = ids.copy()
    found, order = ReportIds.sort(rows)
    assert list(found) == sorted(map(bytes, ids))
    assert found == ReportIds.sorted(ids)
    assert np.array_equal(rows, ids)
    assert np.array_equal(ids[order], found.array)
    assert [found.position(own.tobytes()) for own in ids[order]] == list(range(300))
    for place in (36, 37, 298):  # the two stand on either side of a slice's end, or in one
        twice = ids.copy()
        twice[order[place + 1]] = ids[order[place]]
        with pytest.raises(InvalidMessageError, match="listed twice"):
            ReportIds.sort(twice)
