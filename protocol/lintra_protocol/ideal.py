"""The whole protocol in one process, on one page.

The services do exactly this, bit for bit; they add who runs which line, and what may go wrong between.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lintra_protocol.messages import BATCH
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.randomness import RandomBytes
from lintra_protocol.report import Report, make_report, share_words
from lintra_protocol.report_ids import ReportIds
from lintra_protocol.ring import FloatArray, IntArray, RingArray, from_ring
from lintra_protocol.rules import check_cohort, draw_matrix
from lintra_protocol.schema import Row
from lintra_protocol.sharing import combine
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix
from lintra_protocol.wire import BLIND_BYTES


@dataclass(frozen=True)
class IdealRelease:
    """What the analyzer ends up with: the decoded release, its privacy, and the seed of the public matrix.

    Attributes:
        values: the released numbers in normalised units, in the mechanism's own shape.
        sketch: the same as integers, shape `(m, w/c)`.
        row_counts: reports in each row, shape `(m,)`.
        privacy: under the matrix that was drawn.
        seed: of that matrix.
    """

    values: FloatArray
    sketch: IntArray
    row_counts: IntArray
    privacy: PrivacyStatement
    seed: bytes


def run(
    task: Task,
    rows: Sequence[tuple[Row, RandomBytes]],
    nonces: Sequence[bytes],
    time: int | None = None,
    smoothing: Sequence[RandomBytes] | None = None,
) -> IdealRelease:
    """Release `rows`, each with the randomness of its client.

    Args:
        task: the public parameters.
        rows: one row per client, and that client's own source of randomness.
        nonces: 32 bytes from each server.
        time: when the clients report, in the task's units; the task's first unit if not given.
        smoothing: each server's own source of randomness; read only where the mechanism needs smoothing noise.

    Raises:
        ValueError: the mechanism needs smoothing noise and there is no source of it.
    """
    task.check()

    # Every client, alone: check the row; clip, round and noise it; share it; commit to the shares.
    when = task.not_before if time is None else time
    reports = [client_report(task, row, when, random_bytes) for row, random_bytes in rows]
    return release(task, reports, nonces, smoothing, batch=task.batch_of(when))


def release(
    task: Task,
    reports: Sequence[Report],
    nonces: Sequence[bytes],
    smoothing: Sequence[RandomBytes] | None = None,
    *,
    batch: int = BATCH,
    first: int | None = None,
) -> IdealRelease:
    """Do what servers and analyzer do with the clients' reports of a batch (see `run` for the rest).

    With `first` they are those of the windows from there to `batch`, merged.
    """
    if task.mechanism.smoothing and (smoothing is None or len(smoothing) != task.num_servers):
        raise ValueError(f"each of the {task.num_servers} servers needs a source of smoothing noise")

    # All servers: freeze the cohort, and only then draw the public matrix.
    reports = sorted(reports, key=lambda report: report.report_id)
    check_cohort(task, len(reports), len(reports))
    root = ReportIds.of(report.report_id for report in reports).root
    drawn = draw_matrix(task, batch, root, nonces, len(reports), first)
    sketch_shares = [server_sketch_share(task, server, reports, drawn.matrix) for server in range(task.num_servers)]
    for sketch_share, random_bytes in zip(sketch_shares, smoothing or (), strict=False):
        task.mechanism.smooth(sketch_share, random_bytes)

    # The analyzer: add up, lift, decode.
    sketch = from_ring(combine(np.stack(sketch_shares)))
    values = task.mechanism.decode(sketch, task.num_columns)
    return IdealRelease(values, sketch, drawn.matrix.row_counts(), drawn.privacy, drawn.seed)


def client_report(task: Task, row: Row, time: int, random_bytes: RandomBytes) -> Report:
    """Do what one client does with its row before sealing."""
    values = task.schema_arrays.row(row)
    noised = task.encode(values[np.newaxis], random_bytes)
    return make_report(task, noised[0], time, random_bytes)


def organisation_report(
    task: Task, rows: FloatArray, persons: IntArray, time: int, random_bytes: RandomBytes
) -> Report:
    """Do what an organisation does with all its rows, shape `(n, d)`, of numbered persons, before sealing."""
    noised = task.encode_contribution(task.schema_arrays.rows(rows), persons, random_bytes)
    return make_report(task, noised, time, random_bytes)


def server_sketch_share(task: Task, server: int, reports: Sequence[Report], matrix: PublicMatrix) -> RingArray:
    """Do what one server does with its shares of the sorted cohort, before smoothing; shape `(m, w/c)`."""
    payloads = [report.shares[server][BLIND_BYTES + 1 :] for report in reports]
    shares = np.stack([share_words(task, server, payload) for payload in payloads])
    sketch_share = np.zeros((matrix.rows, task.sketch_words), np.uint64)
    matrix.add_reports(sketch_share, np.arange(len(reports)), shares)
    return sketch_share
