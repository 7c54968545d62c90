"""A task's own release as a Gaussian release: its privacy recomputed from the public matrix, and set against the claim.

The matrix is factorised here, where the service inverts its Gram matrix, and the profile is that of `ndis`. Only the
largest distance of two encoded rows and the price of integers are taken from the protocol (docs/privacy.md).
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from lintra_audit.gaussian.gaussian import Claim, Finding, GaussianAudit, audit_pair
from lintra_audit.release.pipeline import request_release
from lintra_curator.ndis.certified import Certified
from lintra_curator.ndis.linear import SketchCertificate, SparseSketch, ltm_certificate
from lintra_curator.ndis.pair import Pair
from lintra_protocol.documents import fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms import Osnap, OsnapPublished
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.ring import IntArray
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix

KINDS = frozenset({"osnap", "osnap_published", "ron_gauss", "ron_gauss_centred", "second_moment", "sum"})
"""The mechanisms whose release is a linear sketch with independent Gaussian noise of every client."""

MU_TOLERANCE = 1e-9
"""How far below the recomputed mu a stated one may lie: the rounding of both computations."""


@dataclass(frozen=True)
class TaskAudit:
    """A release's privacy by two routes.

    Attributes:
        stated: what the service says about this matrix.
        recomputed: the same from the matrix, by another route, for continuous noise.
        mu: recomputed, against the corrupt clients that were found to hurt most.
        corrupt: how many they are.
        claim: recomputed delta at the task's epsilon, without the coalition's share of the task's delta.
        absence: delta at the task's epsilon if the worst client had stayed away together with its noise, which
            no task promises to hide.
    """

    stated: PrivacyStatement
    recomputed: SketchCertificate
    mu: float
    corrupt: int
    claim: GaussianAudit
    absence: Certified

    @property
    def consistent(self) -> bool:
        """Whether the stated mu is at least the recomputed one."""
        return self.mu <= self.stated.mu * (1 + MU_TOLERANCE)

    @property
    def passed(self) -> bool:
        """Whether the statement is consistent and nothing contradicts the task's claim."""
        return self.consistent and self.claim.verdict == "WITHIN"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The claim in the worse direction."""
        return self.claim.worst_findings


def sketch_of(matrix: PublicMatrix) -> SparseSketch:
    """Return the columns of a public matrix; with copies the noise is one block for each entry."""
    row_numbers, signs = matrix.entries(np.arange(matrix.num_clients))
    return SparseSketch(matrix.rows, row_numbers, signs, "block" if matrix.copies > 1 else "single")


def audit_task(task: Task, num_clients: int, seed: bytes) -> TaskAudit:
    """Draw the matrix of a cohort as servers do, and audit what a release under it would tell.

    Args:
        task: a task; it is checked.
        num_clients: of the cohort.
        seed: 32 bytes for made-up identifiers and nonces.

    Raises:
        LintraError: a rule refuses the task or the cohort.
        ValueError: the matrix is too large to be factorised.
    """
    task.check()
    return audit_matrix(task, request_release(task, np.arange(num_clients), set(), seed).matrix)


def audit_matrix(task: Task, matrix: PublicMatrix) -> TaskAudit:
    """Audit what a release under a matrix that was really drawn tells.

    Args:
        task: the task.
        matrix: of a cohort.

    Raises:
        InvalidTaskError: the mechanism is none of `KINDS`.
        LintraError: the service itself refuses this matrix.
        ValueError: the matrix is too large to be factorised.
    """
    mechanism, claim = task.mechanism, task.claim
    if mechanism.kind not in KINDS:
        raise InvalidTaskError(f"this audit does not know the mechanism {mechanism.kind!r}")
    stated = mechanism.release_privacy(claim, task.num_columns, matrix)
    sketch = sketch_of(matrix)
    corrupt = _quota(task, matrix)
    exact = sketch.layout == "block" or sketch.sparsity == 1
    audited = sketch if exact else sketch.without(worst_coalition(sketch, corrupt))
    # Several copies of a row are farther apart than one.
    null = claim.model_copy(update={"neighbours": "zero-out"})
    distance, norm = (
        sqrt(mechanism.squared_distance(each, task.num_columns) / mechanism.copies) for each in (claim, null)
    )
    epsilon = float(fraction(claim.epsilon))
    recomputed = ltm_certificate(
        audited,
        sigma=float(mechanism.sigma),
        distance=distance,
        epsilon=epsilon,
        corrupt=corrupt if exact else 0,
    )
    mu = float(recomputed.mu or 0.0)
    absence = ltm_certificate(
        audited,
        sigma=float(mechanism.sigma),
        distance=norm,
        epsilon=epsilon,
        adjacency="absence",
        columns=task.sketch_words,
        corrupt=corrupt if exact else 0,
    )
    promised = Claim(epsilon, float(fraction(claim.delta)) - float(fraction(claim.delta_coalition)))
    audit = audit_pair(Pair([0.0], [1.0], [mu**2]), [promised], neighbour=f"client {recomputed.worst_client}")
    return TaskAudit(stated, recomputed, mu, corrupt, audit, absence.delta)


def _quota(task: Task, matrix: PublicMatrix) -> int:
    """Return how many corrupt clients one row must be assumed to hold."""
    mechanism, claim = task.mechanism, task.claim
    if isinstance(mechanism, Osnap | OsnapPublished):
        return min(mechanism.quota(claim), claim.max_corrupt_clients)
    return min(claim.quota(matrix.rows), claim.max_corrupt_clients)


def worst_coalition(sketch: SparseSketch, corrupt: int) -> IntArray:
    """Return clients whose noise protects the most exposed client best, found one by one; shape `(corrupt,)`.

    Greedy, so the leverage that it leaves is a lower bound of the worst; the service states an upper one.
    """
    columns = np.zeros((sketch.rows, sketch.clients))
    np.put_along_axis(columns.T, sketch.row_numbers, sketch.signs.astype(np.float64), axis=1)
    victim = int(np.argmax(sketch.leverages()))
    honest = np.arange(sketch.clients)
    for _ in range(corrupt):
        inverse = np.linalg.pinv(columns[:, honest] @ columns[:, honest].T, hermitian=True)
        cross = columns[:, victim] @ inverse @ columns[:, honest]
        own = np.einsum("rc,rq,qc->c", columns[:, honest], inverse, columns[:, honest])
        # Without client j the victim's leverage grows by cross_j^2 / (1 - leverage_j).
        gains = np.where(honest == victim, -1.0, cross**2 / np.maximum(1 - own, 1e-9))
        honest = np.delete(honest, int(np.argmax(gains)))
    return np.setdiff1d(np.arange(sketch.clients), honest)
