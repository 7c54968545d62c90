"""What became of a report of a window: it was accepted or it was rejected, and one of the two is proven."""

import pytest

from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import InventoryMismatchError
from lintra_protocol.messages.documents import Cohort, Verdict
from lintra_protocol.messages.inclusion import Absence, Inclusion, Judged

IDS = [bytes([number]) * 32 for number in range(1, 9)]
FROZEN, ACCEPTED = ReportIds.of(IDS), ReportIds.of(IDS[:5])
KEPT, TURNED_DOWN = IDS[0], IDS[6]
NONE = base64url(bytes(32))
COHORT = Cohort(
    task_id=NONE, batch=0, server=0, root=base64url(FROZEN.root), count=8, nonce=NONE, inventories=NONE, start=1
)  # fmt: skip
VERDICT = Verdict(
    task_id=NONE, batch=0, server=0, root=base64url(ACCEPTED.root), count=5, rejected=3, nonce=NONE, checks=NONE
)  # fmt: skip
JUDGED = COHORT.model_copy(update={"root": VERDICT.root, "count": VERDICT.count})


def inclusion(cohort: Cohort, ids: ReportIds, report_id: bytes) -> Inclusion:
    (proof,) = ids.prove(report_id, ids.tree)
    return Inclusion.of(cohort, proof)


def accepted(report_id: bytes) -> Inclusion:
    return inclusion(JUDGED, ACCEPTED, report_id)


def rejected(report_id: bytes) -> Absence:
    return Absence.of(JUDGED, ACCEPTED.prove(report_id, ACCEPTED.tree))


def test_a_report_is_proven_accepted_or_rejected() -> None:
    frozen = inclusion(COHORT, FROZEN, KEPT)
    assert Judged(frozen=frozen, accepted=accepted(KEPT), rejected=None).verify(COHORT, VERDICT, KEPT)
    frozen = inclusion(COHORT, FROZEN, TURNED_DOWN)
    shown = Judged(frozen=frozen, accepted=None, rejected=rejected(TURNED_DOWN))
    assert not shown.verify(COHORT, VERDICT, TURNED_DOWN)


@pytest.mark.parametrize("both", [True, False])
def test_a_proof_has_exactly_one_of_accepted_and_rejected(both: bool) -> None:
    # A proof of absence shows nothing of a report that is there, so the two that are right are of two reports.
    for wanted in (KEPT, TURNED_DOWN):
        shown = Judged(
            frozen=inclusion(COHORT, FROZEN, wanted),
            accepted=accepted(KEPT) if both else None,
            rejected=rejected(TURNED_DOWN) if both else None,
        )
        with pytest.raises(InventoryMismatchError, match="either accepted or rejected"):
            shown.verify(COHORT, VERDICT, wanted)


@pytest.mark.parametrize("wanted", [KEPT, TURNED_DOWN])
def test_neither_is_shown_by_a_proof_of_another_report_or_of_the_frozen_cohort(wanted: bytes) -> None:
    frozen = inclusion(COHORT, FROZEN, wanted)
    other = TURNED_DOWN if wanted == KEPT else KEPT
    of_other = {"accepted": accepted(KEPT), "rejected": None} if other == KEPT else {
        "accepted": None, "rejected": rejected(TURNED_DOWN),
    }  # fmt: skip
    for fields in (of_other, {"accepted": frozen, "rejected": None}):
        with pytest.raises(InventoryMismatchError):
            Judged(frozen=frozen, **fields).verify(COHORT, VERDICT, wanted)  # type: ignore[arg-type]
