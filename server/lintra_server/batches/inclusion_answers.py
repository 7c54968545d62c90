"""Proves to anybody whether a report was frozen, accepted or rejected."""

from dataclasses import replace

from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.messages.documents import Cohort, Inventory, Signed
from lintra_protocol.messages.inclusion import Absence, Inclusion, Judged
from lintra_protocol.messages.verification import Verdict
from lintra_server.batches.batch_step import BatchSteps
from lintra_server.batches.id_lists import BatchLists, FrozenList, shows
from lintra_server.batches.reasons import not_yet
from lintra_server.batches.registry import RegisteredBatch
from lintra_server.storage.store import Store
from lintra_server.storage.transition_log import Stepper


class Prover(BatchSteps):
    """Proves what it says; changes nothing."""

    def __init__(self, store: Store, stepper: Stepper, lists: BatchLists) -> None:
        """Prove from the lists of one store."""
        super().__init__(store, stepper)
        self._lists = lists

    def inclusion(self, held: RegisteredBatch, report_id: bytes) -> Inclusion | Absence | Judged:
        """Prove that a report is in the frozen cohort, or that it is not; after a verdict also what became of it."""
        batch = self._batch(held)
        cohort = Signed[Cohort].from_canonical(batch.cohort or not_yet(batch, "cohort")).message
        inventory = Signed[Inventory].from_canonical(batch.inventory or not_yet(batch, "inventory")).message
        lists = parse_base64url(inventory.root), inventory.count, parse_base64url(cohort.root)
        frozen = FrozenList(held.number, *lists, cohort.count)
        found = self._shown(frozen, cohort, report_id)
        if isinstance(found, Absence) and inventory.lost:
            own = self._lists.inventory(held.number, lists[0], lists[1])
            return found if report_id in own else found.model_copy(update={"lost": inventory.lost})
        if batch.verdict is None or isinstance(found, Absence):
            return found
        verdict = Signed[Verdict].from_canonical(batch.verdict).message
        left = replace(frozen, root=parse_base64url(verdict.root), count=verdict.count, judged=True)
        shown = self._shown(left, cohort.model_copy(update={"root": verdict.root, "count": verdict.count}), report_id)
        if isinstance(shown, Absence):
            return Judged(frozen=found, accepted=None, rejected=shown)
        return Judged(frozen=found, accepted=shown, rejected=None)

    def _shown(self, frozen: FrozenList, cohort: Cohort, report_id: bytes) -> Inclusion | Absence:
        proofs = self._lists.prove(frozen, report_id)
        return Inclusion.of(cohort, proofs[0]) if shows(proofs, report_id) else Absence.of(cohort, proofs)
