"""Lists of reports."""

import hashlib

import pytest

from lintra_protocol.cohort.merkle import verify_inclusion
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.encoding.canonical import domain_hash
from lintra_protocol.errors import InventoryMismatchError

IDS = ReportIds.of(hashlib.sha256(bytes([index])).digest() for index in range(200))


def listed(start: int, stop: int) -> ReportIds:
    return ReportIds(IDS.array[start:stop])


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


def test_a_list_cannot_be_written_to_and_does_not_show_itself() -> None:
    with pytest.raises(ValueError, match="read-only"):
        IDS.array[0, 0] = 0
    assert repr(IDS) == "ReportIds(200 identifiers)"


def test_what_stands_across_two_identifiers_of_a_leaf_is_not_in_the_list() -> None:
    (proof,) = IDS.prove(IDS[70], IDS.tree)
    verify_inclusion(IDS.root, 200, IDS[70], proof)
    for begins, length in ((16, 32), (32, 16), (33, 31), (0, 64), (32 * 63 + 16, 16)):
        with pytest.raises(InventoryMismatchError, match="not of this identifier"):
            verify_inclusion(IDS.root, 200, proof.leaf_ids[begins : begins + length], proof)
