"""Proofs over a sorted list: they show its members and what is absent, and nothing that was changed shows anything."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_protocol.cohort.merkle import (
    InclusionProof,
    Tree,
    merkle_root,
    prove_inclusion,
    verify_absence,
    verify_inclusion,
)
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.errors import InventoryMismatchError
from support import few


def of_numbers(numbers: Iterable[int]) -> ReportIds:
    return ReportIds.of(number.to_bytes(32, "big") for number in numbers)


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
@given(st.integers(0, 300), st.data())
def test_a_list_shows_of_every_identifier_that_it_holds_it_or_does_not_and_never_both(
    count: int, data: st.DataObject
) -> None:
    ids = of_numbers(range(1, 2 * count, 2))
    wanted = data.draw(st.integers(0, 2 * count + 1))
    report_id = wanted.to_bytes(32, "big")
    proofs = ids.prove(report_id, ids.tree)
    assert len(proofs) <= 2
    if report_id in ids:
        (proof,) = proofs
        verify_inclusion(ids.root, count, report_id, proof)
    else:
        verify_absence(ids.root, count, report_id, proofs)
        assert all(len(ids) > 64 * proof.leaf for proof in proofs)
    other = data.draw(st.integers(0, 2 * count + 1)).to_bytes(32, "big")
    if other in ids:
        with pytest.raises(InventoryMismatchError):
            verify_absence(ids.root, count, other, proofs)
    else:
        for proof in proofs:
            with pytest.raises(InventoryMismatchError):
                verify_inclusion(ids.root, count, other, proof)


@few
@given(st.integers(1, 300), st.data())
def test_a_proof_of_absence_that_was_changed_shows_nothing(count: int, data: st.DataObject) -> None:
    ids = of_numbers(range(1, 2 * count, 2))
    report_id = (2 * data.draw(st.integers(0, count))).to_bytes(32, "big")
    proofs = ids.prove(report_id, ids.tree)
    step = data.draw(st.integers(0, len(proofs) - 1))
    proof, before, after = proofs[step], proofs[:step], proofs[step + 1 :]
    wrong: list[tuple[bytes, int, tuple[InclusionProof, ...]]] = [
        (report_id, count, ()),
        (report_id, 0, proofs),
        (report_id, 0, ()),
        (report_id, count, (*proofs, proofs[-1])),
        (report_id, count, (*before, proof._replace(leaf=proof.leaf + 1), *after)),
        (report_id, count, (*before, proof._replace(leaf=-1), *after)),
        (
            report_id,
            count,
            (*before, proof._replace(leaf_ids=proof.leaf_ids[:-1] + bytes([proof.leaf_ids[-1] ^ 1])), *after),
        ),
        (report_id, count, (*before, proof._replace(leaf_ids=proof.leaf_ids[32:]), *after)),
        (report_id, count, (*before, proof._replace(siblings=(*proof.siblings, bytes(32))), *after)),
        (proof.leaf_ids[:32], count, proofs),
    ]
    if proof.siblings:
        wrong.append((report_id, count, (*before, proof._replace(siblings=proof.siblings[1:]), *after)))
    if len(proofs) == 2:
        wrong += [(report_id, count, proofs[:1]), (report_id, count, proofs[1:]), (report_id, count, proofs[::-1])]
    for wanted, length, changed in wrong:
        with pytest.raises(InventoryMismatchError):
            verify_absence(ids.root, length, wanted, changed)


def test_of_a_list_that_is_not_sorted_no_leaf_shows_that_its_member_is_absent() -> None:
    rows = of_numbers(range(64)).array.copy()
    rows[[10, 50]] = rows[[50, 10]]
    proof = prove_inclusion(rows, 0)
    with pytest.raises(InventoryMismatchError, match="not sorted"):
        verify_absence(merkle_root(rows), 64, (100).to_bytes(32, "big"), [proof])


@few
@given(st.integers(0, 700))
def test_a_tree_that_was_stored_proves_as_the_one_that_was_built(count: int) -> None:
    ids = of_numbers(range(count))
    stored = Tree(count, bytes(ids.tree.nodes))
    assert len(ids.tree.nodes) <= count + 512
    for leaf in range(-(-count // 64)):
        assert stored.prove(leaf, b"") == ids.tree.prove(leaf, b"")
    for wrong in (ids.tree.nodes[:-1], bytes(ids.tree.nodes) + bytes(32)):
        with pytest.raises(InventoryMismatchError):
            Tree(count if len(wrong) else 1, wrong)
