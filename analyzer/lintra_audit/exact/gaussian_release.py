"""A linear sketch with independent Gaussian noise of every client, audited exactly from its public matrix.

The matrix is factorised here, where the service inverts its Gram matrix, and the profile is that of `ndis`. Only the
largest distance of two encoded rows and the price of integers are taken from the protocol
(docs/explanation/privacy.md).
"""

from dataclasses import replace
from math import hypot, sqrt

import numpy as np

from lintra_audit.exact.task_audit import TaskAudit
from lintra_audit.gaussian.verdict import audit_pair
from lintra_curator.ndis.gaussian_pair import GaussianPair
from lintra_curator.ndis.linear import SketchCertificate, SparseSketch, absence_pair, ltm_certificate
from lintra_curator.ndis.profile_evaluation import delta
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.mechanisms.layout import CLIPPED
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix


def sketch_of(matrix: PublicMatrix) -> SparseSketch:
    """Return the columns of a public matrix; with copies the noise is one block for each entry."""
    row_numbers, signs = matrix.entries(np.arange(matrix.num_clients))
    return SparseSketch(matrix.rows, row_numbers, signs, "block" if matrix.copies > 1 else "single")


def audit_gaussian_release(task: Task, matrix: PublicMatrix) -> TaskAudit:
    """Audit what a release under a matrix that was really drawn tells."""
    if task.setting.noising_servers:
        return audit_server_release(task, matrix, sketch_of(matrix))
    mechanism, measurement, claim = task.mechanism, task.measurement, task.noise_claim
    stated = measurement.release_privacy(matrix)
    sketch = sketch_of(matrix)
    corrupt = min(measurement.quota, claim.max_corrupt_clients)
    exact = sketch.layout == "block" or sketch.sparsity == 1
    audited = sketch if exact else sketch.without(worst_coalition(sketch, corrupt))
    # Totals bypass the matrix and have a pair of their own; several copies of a row are farther apart than one.
    null = claim.model_copy(update={"neighbours": "zero-out"})
    beside = measurement.layout[CLIPPED].bound if matrix.totals else 0
    distance, norm = (
        sqrt((replace(measurement, claim=each).squared_distance - beside**2) / matrix.copies) for each in (claim, null)
    )
    epsilon, behind = claim.float_epsilon, matrix.num_clients - claim.max_corrupt_clients
    recomputed = ltm_certificate(
        audited, sigma=float(mechanism.sigma), distance=distance, epsilon=epsilon, corrupt=corrupt if exact else 0
    )
    mu = hypot(recomputed.mu or 0.0, beside / (sqrt(behind) * mechanism.sigma))
    promised = (epsilon, claim.float_delta - float(fraction(claim.delta_coalition)))
    audit = audit_pair(GaussianPair([0.0], [1.0], [mu**2]), [promised], neighbour=f"client {recomputed.worst_client}")
    if task.contributors is not None:
        # The participation of an organisation is public, and nothing is promised about its own sums.
        return TaskAudit(stated, recomputed, mu, corrupt, audit, None)
    absence = ltm_certificate(
        audited,
        sigma=float(mechanism.sigma),
        distance=norm,
        epsilon=epsilon,
        adjacency="absence",
        columns=task.sketch_words - matrix.totals,
        corrupt=corrupt if exact else 0,
    )
    if matrix.totals:
        absent = absence_pair(
            audited, absence.worst_client, task.num_columns, norm, float(mechanism.sigma), corrupt if exact else 0
        ).compose(total_without_one(behind, beside / mechanism.sigma))
        found = max((delta(pair, epsilon) for pair in (absent, absent.reverse())), key=lambda one: one.hi)
    else:
        found = absence.delta
    return TaskAudit(stated, recomputed, mu, corrupt, audit, found)


def total_without_one(honest: int, shift: float) -> GaussianPair:
    """Return the pair of a total of so many clients' noise, and of one less with its `shift` in deviations of one."""
    if honest < 2:
        return GaussianPair([], [], [], disjoint=True)
    return GaussianPair([1 / (honest - 1)], [1.0], [shift**2 / honest])


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
