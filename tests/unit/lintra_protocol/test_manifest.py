"""Lists of reports."""

import hashlib

import pytest

from lintra_protocol.canonical import domain_hash
from lintra_protocol.errors import InvalidMessageError, InventoryMismatchError
from lintra_protocol.manifest import (
    apply_difference,
    difference,
    intersection,
    merkle_path,
    merkle_root,
    sorted_ids,
    verify_merkle_path,
)

IDS = sorted(hashlib.sha256(bytes([index])).digest() for index in range(9))


def test_the_root_of_nothing_has_its_own_label() -> None:
    assert merkle_root([]) == domain_hash("merkle empty")


def test_an_odd_node_moves_up_unchanged() -> None:
    leaves = [domain_hash("merkle leaf", report_id) for report_id in IDS[:3]]
    assert merkle_root(IDS[:3]) == domain_hash(
        "merkle node", domain_hash("merkle node", leaves[0] + leaves[1]) + leaves[2]
    )


def test_every_list_has_its_own_root() -> None:
    roots = {merkle_root(IDS[:size]) for size in range(10)} | {merkle_root(IDS[::-1]), merkle_root(IDS[1:])}
    assert len(roots) == 12


def test_a_path_leads_from_every_member_to_the_root_and_from_nobody_else() -> None:
    root = merkle_root(IDS)
    for position, report_id in enumerate(IDS):
        path = merkle_path(IDS, position)
        verify_merkle_path(root, report_id, path)
        for other in (*IDS[:position], *IDS[position + 1 :], bytes(32)):
            with pytest.raises(InventoryMismatchError):
                verify_merkle_path(root, other, path)


def test_identifiers_are_sorted_and_none_stands_twice() -> None:
    assert sorted_ids(reversed(IDS)) == IDS
    with pytest.raises(InvalidMessageError, match="twice"):
        sorted_ids([IDS[1], IDS[0], IDS[1]])
    with pytest.raises(InvalidMessageError, match="32 bytes"):
        sorted_ids([b"short"])


def test_a_difference_rebuilds_the_other_list() -> None:
    missing, extra = difference(IDS[:6], IDS[3:])
    assert (missing, extra) == (IDS[:3], IDS[6:])
    assert apply_difference(IDS[:6], missing, extra) == IDS[3:]


@pytest.mark.parametrize(("missing", "extra"), [([IDS[8]], []), ([], [IDS[0]]), ([IDS[0]], [IDS[0]])])
def test_a_difference_that_does_not_fit_is_refused(missing: list[bytes], extra: list[bytes]) -> None:
    with pytest.raises(InventoryMismatchError, match="does not fit"):
        apply_difference(IDS[:6], missing, extra)


def test_the_intersection_is_what_every_server_holds() -> None:
    assert intersection([IDS, IDS[::-1][2:], IDS[1:]]) == IDS[1:7]
    assert intersection([IDS[:3], IDS[3:]]) == []
    assert intersection([IDS]) == IDS
