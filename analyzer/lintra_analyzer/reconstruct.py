"""From the servers' answers to a release: everything is checked again from the stored bytes, then summed and decoded.

What reaches `reconstruct` may come from servers that lie or from a disk that failed; what leaves it is a release that
an auditor can replay, or an `InvalidReleaseError`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lintra_analyzer import releases
from lintra_analyzer.columns import Column
from lintra_analyzer.synthetic.unpacking import centred_products, noise_law, projected_sums, promise_of
from lintra_protocol import wire
from lintra_protocol.canonical import base64url, domain_hash, parse_base64url
from lintra_protocol.documents import fraction
from lintra_protocol.errors import CohortConflictError, InvalidReleaseError, LintraError
from lintra_protocol.manifest import intersection, merkle_root
from lintra_protocol.mechanisms import (
    Osnap,
    OsnapPublished,
    RonGauss,
    RonGaussCentred,
    SecondMoment,
    WishartSecondMoment,
)
from lintra_protocol.mechanisms.second_moment import INTERCEPT
from lintra_protocol.messages import BATCH, Cohort, Inventory, Signed, SketchShareRecord
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.ring import FloatArray, IntArray, RingArray, from_ring, ring_from_bytes
from lintra_protocol.rules import (
    aggregate_context,
    check_cohort,
    draw_matrix,
    verify_cohorts,
    verify_inventories,
    verify_list,
)
from lintra_protocol.sealing import SealingKey
from lintra_protocol.sharing import combine
from lintra_protocol.task import Task

FALSE_ALARM = 1e-9
"""How likely it may be that an honest cohort has any row outside the plausible band."""


@dataclass(frozen=True)
class FrozenCohort:
    """What the servers agreed on: the reports, and the seed of the public matrix.

    Attributes:
        report_ids: sorted.
        root: 32 bytes.
        seed: 32 bytes.
        privacy: of the release of exactly these reports.
        row_counts: shape `(m,)`, of the public matrix that the seed gives.
    """

    report_ids: list[bytes] = field(repr=False)
    root: bytes
    seed: bytes
    privacy: PrivacyStatement
    row_counts: IntArray = field(repr=False)

    @property
    def num_clients(self) -> int:
        """Return n."""
        return len(self.report_ids)


@dataclass(frozen=True)
class Reconstruction:
    """The released integers of shape `(m, w/c)`, and what they rest on."""

    cohort: FrozenCohort
    records: tuple[SketchShareRecord, ...]
    sketch: IntArray = field(repr=False)


def common_reports(task: Task, inventories: Sequence[Inventory], lists: Sequence[list[bytes]]) -> list[bytes]:
    """Compute the cohort as every server will, and refuse what they would refuse (R7, R9).

    Raises:
        InventoryMismatchError: a list is not the one its server signed.
        CohortTooSmallError: and the other refusals of `rules.check_cohort`, for any of the servers.
    """
    for inventory, report_ids in zip(inventories, lists, strict=True):
        verify_list(inventory, report_ids)
    cohort = intersection(lists)
    for inventory in inventories:
        check_cohort(task, len(cohort), inventory.count)
    return cohort


def verify_frozen(
    task: Task,
    inventories: Sequence[Signed[Inventory]],
    lists: Sequence[list[bytes]],
    cohorts: Sequence[Signed[Cohort]],
) -> FrozenCohort:
    """Check that what the servers froze is what follows from their own inventories, and derive the seed (R7 to R9).

    Raises:
        CohortConflictError: the servers agree with each other but not with their inventories.
        LintraError: any refusal of `rules`.
    """
    report_ids = common_reports(task, verify_inventories(task, inventories), lists)
    agreed = verify_cohorts(task, cohorts, inventories)
    root = merkle_root(report_ids)
    if (agreed.root, agreed.count) != (base64url(root), len(report_ids)):
        raise CohortConflictError("the servers froze another cohort than their inventories have in common")
    nonces = [parse_base64url(signed.message.nonce) for signed in cohorts]
    drawn = draw_matrix(task, root, nonces, len(report_ids))
    return FrozenCohort(report_ids, root, drawn.seed, drawn.privacy, drawn.matrix.row_counts())


def open_sketch_share(
    task: Task, server: int, answer: bytes, cohort: FrozenCohort, sealing_key: SealingKey
) -> tuple[SketchShareRecord, RingArray]:
    """Check one server's answer against the cohort, and open it (R11).

    Returns:
        The server's record, and its share of shape `(m, w/c)`.

    Raises:
        InvalidReleaseError: of another task, cohort, seed or shape, or not the bytes that the server signed for.
    """
    try:
        document, sealed = wire.decode_sealed_document(answer)
        signed = Signed[SketchShareRecord].from_canonical(document)
        record = signed.verified(task.servers[server].identity_key)
        _require_record(task, server, record, cohort, sealed)
        plaintext = sealing_key.open(sealed, aggregate_context(task, server, cohort.root, cohort.seed))
    except InvalidReleaseError:
        raise
    except LintraError as error:
        raise InvalidReleaseError(f"the sketch share of server {server}: {error}") from None
    if len(plaintext) != 8 * record.rows * record.words:
        raise InvalidReleaseError(f"the sketch share of server {server} has {len(plaintext)} bytes")
    return record, ring_from_bytes(plaintext).reshape(record.rows, record.words)


def _require_record(task: Task, server: int, record: SketchShareRecord, cohort: FrozenCohort, sealed: bytes) -> None:
    expected = SketchShareRecord(
        task_id=task.task_id,
        batch=BATCH,
        server=server,
        cohort_root=base64url(cohort.root),
        num_clients=cohort.num_clients,
        seed=base64url(cohort.seed),
        rows=task.mechanism.num_rows,
        words=task.sketch_words,
        sealed=base64url(domain_hash("sealed sketch share", sealed)),
    )
    if record == expected:
        return
    differing = [name for name, value in expected if getattr(record, name) != value]
    raise InvalidReleaseError(f"the sketch share of server {server} differs in {', '.join(differing)}")


def reconstruct(task: Task, answers: Sequence[bytes], cohort: FrozenCohort, sealing_key: SealingKey) -> Reconstruction:
    """Open all N sketch shares and add them up.

    Args:
        task: the task.
        answers: one of each server, in server order.
        cohort: of `verify_frozen`.
        sealing_key: the analyzer's, of the task's suite.

    Raises:
        InvalidReleaseError: a share is missing or not what it must be.
    """
    if len(answers) != task.num_servers:
        raise InvalidReleaseError(f"{len(answers)} of {task.num_servers} sketch shares")
    opened = [open_sketch_share(task, index, answer, cohort, sealing_key) for index, answer in enumerate(answers)]
    sketch = from_ring(combine(np.stack([share for _, share in opened])))
    return Reconstruction(cohort, tuple(record for record, _ in opened), sketch)


def implausible_rows(task: Task, sketch: IntArray, row_counts: IntArray) -> tuple[float, list[int]]:
    """Find the rows that clients within their bounds would hardly ever give.

    An entry of a sketch is a sum of c entries, none above B, under independent fair signs, plus noise: sub-Gaussian
    with variance proxy c (B^2 + sigma^2), and the servers' smoothing on top (Hoeffding 1963). In a plain sum nothing
    cancels: c B, and the noise on top.
    B stands for the largest word of a report.

    Args:
        task: the task.
        sketch: shape `(m, w/c)`, in ring units.
        row_counts: shape `(m,)`.

    Returns:
        The threshold z in deviations, at which honest rows are flagged with probability `FALSE_ALARM` at most, and the
        numbers of the rows with an entry beyond it.
    """
    mechanism = task.mechanism
    z = math.sqrt(2 * math.log(2 * sketch.size / FALSE_ALARM))
    largest = float(mechanism.largest_word())
    sigmas = mechanism.sigmas(task.num_columns)[: task.sketch_words].astype(np.float64)
    counts = row_counts[:, np.newaxis].astype(np.float64)
    if isinstance(mechanism, Osnap | OsnapPublished):
        smoothing = task.num_servers * float(mechanism.smoothing) ** 2
        band = z * np.sqrt(counts * (largest**2 + sigmas**2) + smoothing)
    else:
        band = counts * largest + z * np.sqrt(counts) * sigmas
    outside = (np.abs(sketch.astype(np.float64)) > band).any(axis=1)
    return z, [int(row) for row in np.flatnonzero(outside)]


def sparsity_of(task: Task) -> int:
    """Return s, how many rows of the public matrix a report enters."""
    return task.mechanism.sparsity if isinstance(task.mechanism, Osnap | OsnapPublished) else 1


def as_release(task: Task, sketch: IntArray, row_counts: IntArray) -> releases.Release:
    """Decode the released integers of shape `(m, w/c)` into what the estimators read."""
    mechanism = task.mechanism
    num_clients = int(row_counts.sum()) // sparsity_of(task)
    columns = tuple(
        Column(c.name, float(c.center), float(c.scale), float(c.lower), float(c.upper), c.unit) for c in task.columns
    )
    if isinstance(mechanism, RonGauss):
        promise = promise_of(task.privacy(num_clients), mechanism.kind)
        return projected_sums(mechanism, task.columns, sketch, num_clients, noise_law(mechanism, num_clients), promise)
    if isinstance(mechanism, RonGaussCentred):
        promise = promise_of(task.privacy(num_clients), mechanism.kind)
        return centred_products(mechanism, task.columns, sketch, num_clients, promise)
    values = mechanism.decode(sketch, task.num_columns)
    row_bound = float(fraction(mechanism.row_bound))
    step = 2.0**-mechanism.fraction_bits
    if isinstance(mechanism, Osnap | OsnapPublished):
        smoothing = task.num_servers * float(mechanism.smoothing * step) ** 2
        noise_variance = (row_counts * np.float64(mechanism.sigma * step) ** 2 + smoothing) / sparsity_of(task)
        return releases.Sketch(columns, values, row_counts, noise_variance, num_clients, row_bound)
    if mechanism.kind == "sum":
        return releases.Sum(columns, values, math.sqrt(num_clients) * mechanism.sigma * step, num_clients, row_bound)
    if isinstance(mechanism, WishartSecondMoment):
        # The clients have taken the mean off their examples' products, so that nothing is left to debias.
        product_sd = math.hypot(mechanism.variance, mechanism.rounding) * step**2
        noise_sd = math.sqrt(num_clients) * product_sd
        return releases.SecondMoment(columns, values, noise_sd, num_clients, row_bound, gaussian=False)
    return _second_moment(mechanism, columns, values, num_clients)


def _second_moment(
    mechanism: SecondMoment, columns: tuple[Column, ...], values: FloatArray, num_clients: int
) -> releases.SecondMoment:
    """Return decoded second moments as a release; an intercept becomes its first column, equal to 1 for everybody."""
    row_bound, exact = float(fraction(mechanism.row_bound)), ""
    trace_columns = len(columns) if mechanism.trace else 0
    # Products are counted in squared steps. The diagonal's noise is sqrt(2) times this, rounded up to an integer.
    noise_sd = math.sqrt(num_clients) * mechanism.sigma * 4.0**-mechanism.fraction_bits
    if mechanism.intercept_steps:
        constant = mechanism.intercept_steps * 2.0**-mechanism.fraction_bits
        values[0, 0] = mechanism.intercept_square(num_clients)
        row_bound, exact = math.hypot(row_bound, constant), INTERCEPT
        columns = (Column(INTERCEPT, 0.0, 1 / constant, 1.0, 1.0), *columns)
    return releases.SecondMoment(columns, values, noise_sd, num_clients, row_bound, trace_columns, exact)
