"""The result of an exact audit of a task's release."""

from dataclasses import dataclass

from lintra_audit.gaussian.verdict import GaussianAudit, GaussianVerdict
from lintra_curator.ndis.certified_value import CertifiedValue
from lintra_curator.ndis.linear import SketchCertificate
from lintra_protocol.privacy.statement import PrivacyStatement

MU_TOLERANCE = 1e-9
"""How far below the recomputed mu a stated one may lie: the rounding of both computations."""


@dataclass(frozen=True)
class TaskAudit:
    """A release's privacy by two routes."""

    stated: PrivacyStatement  #: what the service says about this matrix
    recomputed: SketchCertificate  #: the same from the matrix, by another route, for continuous Gaussian noise
    mu: float  #: recomputed, against the corrupt clients that were found to hurt most
    corrupt: int  #: how many they are
    claim: GaussianAudit  #: recomputed delta at the task's epsilon, without the coalition's share of the task's delta
    #: delta at the task's epsilon if the worst client had stayed away together with its noise, which no task promises
    #: to hide; None where that is not known
    absence: CertifiedValue | None

    @property
    def consistent(self) -> bool:
        """Whether the stated mu is at least the recomputed one."""
        return self.mu <= self.stated.mu * (1 + MU_TOLERANCE)

    @property
    def passed(self) -> bool:
        """Whether the statement is consistent and nothing contradicts the task's claim."""
        return self.consistent and self.claim.verdict == "WITHIN"

    @property
    def findings(self) -> tuple[GaussianVerdict, ...]:
        """The claim in the worse direction."""
        return self.claim.worst_findings
