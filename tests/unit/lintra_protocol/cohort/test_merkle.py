"""Lists of reports."""

import hashlib

import numpy as np
import pytest

from lintra_protocol.cohort.merkle import verify_inclusion
from lintra_protocol.cohort.report_ids import ReportIds, apply_difference, decode_positions, difference, intersection
from lintra_protocol.encoding.canonical import domain_hash
from lintra_protocol.errors import InvalidMessageError, InventoryMismatchError, MessageTooLargeError

IDS = ReportIds.of(hashlib.sha256(bytes([index])).digest() for index in range(200))


def listed(start: int, stop: int) -> ReportIds:
    return ReportIds(IDS.array[start:stop])


def test_the_root_of_nothing_has_its_own_label() -> None:
    assert ReportIds.of([]).root == domain_hash("merkle empty")


def test_a_leaf_holds_64_identifiers_and_an_odd_node_moves_up_unchanged() -> None:
    leaves = [
        domain_hash("merkle leaf", leaf.to_bytes(8, "big"), IDS.array[64 * leaf : 64 * leaf + 64].tobytes())
        for leaf in range(3)
    ]
    assert listed(0, 192).root == domain_hash(
        "merkle node", domain_hash("merkle node", leaves[0] + leaves[1]) + leaves[2]
    )


def test_every_list_has_its_own_root() -> None:
    roots = {listed(0, size).root for size in range(200)} | {listed(1, 200).root}
    assert len(roots) == 201


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


def test_a_list_cannot_be_written_to_and_does_not_show_itself() -> None:
    with pytest.raises(ValueError, match="read-only"):
        IDS.array[0, 0] = 0
    assert repr(IDS) == "ReportIds(200 identifiers)"


def test_a_difference_rebuilds_the_other_list() -> None:
    missing, extra = difference(listed(0, 6), listed(3, 9))
    assert (missing.tolist(), extra) == ([0, 1, 2], listed(6, 9))
    assert apply_difference(listed(0, 6), missing, extra) == listed(3, 9)


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


def test_what_stands_across_two_identifiers_of_a_leaf_is_not_in_the_list() -> None:
    (proof,) = IDS.prove(IDS[70], IDS.tree)
    verify_inclusion(IDS.root, 200, IDS[70], proof)
    for begins, length in ((16, 32), (32, 16), (33, 31), (0, 64), (32 * 63 + 16, 16)):
        with pytest.raises(InventoryMismatchError, match="not of this identifier"):
            verify_inclusion(IDS.root, 200, proof.leaf_ids[begins : begins + length], proof)
