"""What a server answers when somebody asks whether a report was counted: a proof that it was, or that it was not."""

from collections.abc import Sequence
from typing import Literal, Protocol

from lintra_protocol.cohort.merkle import InclusionProof, verify_absence, verify_inclusion
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.encoding.documents import Count, Frozen, Key, omitted
from lintra_protocol.errors import InventoryMismatchError
from lintra_protocol.messages.documents import Cohort, Packed
from lintra_protocol.messages.verification import Verdict


class NamedCohort(Protocol):
    """What a proof leads to: root and size of a cohort, as a signed cohort, a certificate or a proof names them."""

    @property
    def root(self) -> str:
        """The Merkle root, in base64url."""

    @property
    def count(self) -> int:
        """How many reports it has."""


class ShownLeaf(Frozen):
    """A leaf of a list and the way from it to the root (see `manifest.InclusionProof`)."""

    leaf: Count
    leaf_ids: Packed
    siblings: tuple[Key, ...]

    @property
    def proof(self) -> InclusionProof:
        """Return it as bytes."""
        return InclusionProof(self.leaf, parse_base64url(self.leaf_ids), tuple(map(parse_base64url, self.siblings)))

    @classmethod
    def of_proof(cls, proof: InclusionProof) -> "ShownLeaf":
        """Return bytes as a leaf."""
        siblings = tuple(map(base64url, proof.siblings))
        return ShownLeaf(leaf=proof.leaf, leaf_ids=base64url(proof.leaf_ids), siblings=siblings)


class Inclusion(ShownLeaf):
    """A proof that a report is in the frozen cohort; the cohort is signed elsewhere."""

    kind: Literal["inclusion"] = "inclusion"
    root: Key
    count: Count

    @classmethod
    def of(cls, cohort: Cohort, proof: InclusionProof) -> "Inclusion":
        """Say that a report is in a cohort."""
        return cls(root=cohort.root, count=cohort.count, **dict(ShownLeaf.of_proof(proof)))

    def verify(self, cohort: NamedCohort, report_id: bytes) -> None:
        """Check that a report is in a cohort.

        Raises InvalidMessageError if it is not spelled as it must be; InventoryMismatchError if this does not show it.
        """
        _require_of(self, cohort)
        verify_inclusion(parse_base64url(cohort.root), cohort.count, report_id, self.proof)


class Absence(Frozen):
    """A proof that a report is not in the frozen cohort: the leaf where it would stand, two at a border.

    For a report that the server's inventory does not list either, `lost` is the largest number of reports that it says
    are lost; left out if none is. Whoever has a receipt of this server for the report knows then that it is one of
    them.
    """

    kind: Literal["absence"] = "absence"
    root: Key
    count: Count
    leaves: tuple[ShownLeaf, ...]
    lost: Count = omitted(0)

    @classmethod
    def of(cls, cohort: Cohort, proofs: Sequence[InclusionProof], lost: int = 0) -> "Absence":
        """Say that a report is not in a cohort; `lost` as the attribute."""
        return cls(root=cohort.root, count=cohort.count, leaves=tuple(map(ShownLeaf.of_proof, proofs)), lost=lost)

    def verify(self, cohort: NamedCohort, report_id: bytes) -> None:
        """Check that a report is not in a cohort.

        Raises InvalidMessageError if it is not spelled as it must be; InventoryMismatchError if this does not show it.
        """
        _require_of(self, cohort)
        proofs = [leaf.proof for leaf in self.leaves]
        verify_absence(parse_base64url(cohort.root), cohort.count, report_id, proofs)


class Judged(Frozen):
    """What became of a report of a verified task's cohort: it is in it, and was accepted or rejected.

    `accepted` says that it is among those that the verdict accepted; or `rejected`, that it is not.
    """

    kind: Literal["judged"] = "judged"
    frozen: Inclusion
    accepted: Inclusion | None
    rejected: Absence | None

    def verify(self, cohort: Cohort, verdict: Verdict, report_id: bytes) -> bool:
        """Return whether the report was accepted.

        Raises InvalidMessageError if it is not spelled as it must be; InventoryMismatchError if this shows neither.
        """
        self.frozen.verify(cohort, report_id)
        judged = cohort.model_copy(update={"root": verdict.root, "count": verdict.count})
        if (self.accepted is None) == (self.rejected is None):
            raise InventoryMismatchError("a report was either accepted or rejected")
        if self.accepted is not None:
            self.accepted.verify(judged, report_id)
        if self.rejected is not None:
            self.rejected.verify(judged, report_id)
        return self.accepted is not None


def _require_of(shown: Inclusion | Absence, cohort: NamedCohort) -> None:
    if (shown.root, shown.count) != (cohort.root, cohort.count):
        raise InventoryMismatchError("the proof is of another cohort")
