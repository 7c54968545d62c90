"""A linear sketch with the noise of one honest server, audited exactly from its public matrix.

Every released word has noise of its own, so the other clients do not matter. A row moves the release by the norm of its
column, as it was drawn, times the distance of two encoded rows (docs/proofs/servers.md#noise-by-servers).
"""

from dataclasses import replace
from math import hypot, sqrt

import numpy as np

from lintra_audit.exact.task_audit import TaskAudit
from lintra_audit.gaussian.verdict import audit_pair
from lintra_curator.ndis.gaussian_pair import GaussianPair
from lintra_curator.ndis.linear import SketchCertificate, SparseSketch
from lintra_curator.ndis.profile_evaluation import delta
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.mechanisms.layout import CLIPPED
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix


def squared_norms(sketch: SparseSketch) -> IntArray:
    """Return the squared norm of every column, shape `(n,)`; its entries stand in different rows, or none is made."""
    result: IntArray = np.square(sketch.signs.astype(np.int64)).sum(axis=1)
    return result


def audit_server_release(task: Task, matrix: PublicMatrix, sketch: SparseSketch) -> TaskAudit:
    """Audit what a release under a matrix that was really drawn tells of one client, all others being corrupt.

    `task` is one whose servers add the noise.
    """
    mechanism, claim = task.mechanism, task.noise_claim
    measurement = task.measurement
    stated = measurement.release_privacy(matrix)
    beside = measurement.layout[CLIPPED].bound if matrix.totals else 0
    null = claim.model_copy(update={"neighbours": "zero-out"})
    distance, norm = (sqrt(replace(measurement, claim=each).squared_distance - beside**2) for each in (claim, null))
    norms = squared_norms(sketch)
    worst, epsilon, sigma = int(np.argmax(norms)), claim.float_epsilon, float(mechanism.sigma)

    def shifted(length: float) -> GaussianPair:
        return GaussianPair([0.0], [1.0], [(hypot(sqrt(norms[worst]) * length, beside) / sigma) ** 2])

    pair = shifted(distance)
    mu = sqrt(float(pair.tsq.sum()))
    recomputed = SketchCertificate(
        adjacency="replacement",
        layout=sketch.layout,
        sparsity=sketch.sparsity,
        rows=sketch.rows,
        clients=sketch.clients,
        corrupt=sketch.clients - 1,
        smallest_row=int(sketch.counts().min()),
        worst_client=worst,
        leverage=float(norms[worst]),
        sigma=sigma,
        distance=distance,
        mu=mu,
        epsilon=epsilon,
        delta=delta(pair, epsilon),
        digest=sketch.digest(),
    )
    promised = (epsilon, claim.float_delta - float(fraction(claim.delta_coalition)))
    audit = audit_pair(pair, [promised], neighbour=f"client {worst}")
    # A client that stays away removes no noise.
    return TaskAudit(stated, recomputed, mu, sketch.clients - 1, audit, delta(shifted(norm), epsilon))
