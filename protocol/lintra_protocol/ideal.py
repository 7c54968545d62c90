"""The whole protocol in one process, on one page.

The services compute the same bits; they add which party runs which line, and the failures in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray, RingArray, from_ring, to_ring
from lintra_protocol.crypto.sharing import combine
from lintra_protocol.fields.schema import Row
from lintra_protocol.mechanisms.stream_noise import stream_noise
from lintra_protocol.messages.documents import BATCH
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.report.report import Report, checks_of, make_report, share_words
from lintra_protocol.report.wire import BLIND_BYTES
from lintra_protocol.rules.release import check_cohort, check_seed, draw_matrix
from lintra_protocol.rules.verification import check_accepted, parameters_of
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix
from lintra_protocol.verification.checks import accepted
from lintra_protocol.verification.points import Points, check_points


@dataclass(frozen=True)
class IdealRelease:
    """What the analyzer ends up with: the decoded release, its privacy, and the seed of the public matrix."""

    values: FloatArray  #: the released numbers in normalised units, in the mechanism's own shape
    sketch: IntArray  #: the same as integers, shape `(m, w/c)`
    row_counts: IntArray  #: reports in each row, shape `(m,)`
    privacy: PrivacyStatement  #: under the matrix that was drawn
    seed: bytes  #: of that matrix
    rejected: tuple[bytes, ...] = ()  #: identifiers of reports that a verified task left out


def run(
    task: Task,
    rows: Sequence[tuple[Row, RandomBytes]],
    nonces: Sequence[bytes],
    time: int | None = None,
    smoothing: Sequence[RandomBytes] | None = None,
    matrix_nonces: Sequence[bytes] = (),
) -> IdealRelease:
    """Release `rows`, each with the randomness of its client.

    Args:
        task: the public parameters.
        rows: one row per client, and that client's own source of randomness.
        nonces: 32 bytes from each server.
        time: when the clients report, in the task's units; the task's first unit if not given.
        smoothing: each server's own source of randomness; read only where servers add noise, of smoothing or all.
        matrix_nonces: 32 bytes more from each server, in a verified task only.

    Raises:
        ValueError: servers add noise and there is no source of it, or second nonces are missing.
    """
    task.check()

    # Every client, alone: check the row; clip, round and noise it; share it; commit to the shares.
    when = task.not_before if time is None else time
    reports = [client_report(task, row, when, random_bytes) for row, random_bytes in rows]
    return release(task, reports, nonces, smoothing, batch=task.batch_of(when), matrix_nonces=matrix_nonces)


def release(
    task: Task,
    reports: Sequence[Report],
    nonces: Sequence[bytes],
    smoothing: Sequence[RandomBytes] | None = None,
    *,
    batch: int = BATCH,
    first: int | None = None,
    matrix_nonces: Sequence[bytes] = (),
    memories: Sequence[dict[int, IntArray]] | None = None,
) -> IdealRelease:
    """Do what servers and analyzer do with the clients' reports of a batch (see `run` for the rest).

    With `first` they are those of the windows from there to `batch`, merged. In a stream `memories` are what each
    server remembers, by window, each of shape `(w,)`; that of this one is added. Raises ValueError if a server has no
    source of noise, or of a verified task no second nonce.
    """
    if task.measurement.servers_add_noise and (smoothing is None or len(smoothing) != task.num_servers):
        raise ValueError(f"each of the {task.num_servers} servers needs a source of noise")
    if task.verified is not None and len(matrix_nonces) != task.num_servers:
        raise ValueError(f"each of the {task.num_servers} servers needs a second nonce: reports are verified")

    # All servers: freeze the cohort, and only then draw the public matrix.
    reports = sorted(reports, key=lambda report: report.report_id)
    check_cohort(task, len(reports), len(reports))
    root = ReportIds.of(report.report_id for report in reports).root

    # All servers of a verified task: check every report, and go on with those that are short enough.
    rejected: tuple[bytes, ...] = ()
    if task.verified is not None:
        passed = verdict(task, reports, check_points(check_seed(task, batch, root, nonces, first)))
        rejected = tuple(report.report_id for report, short in zip(reports, passed, strict=True) if not short)
        check_accepted(task, len(reports), len(rejected))
        reports = [report for report, short in zip(reports, passed, strict=True) if short]
        root, nonces = ReportIds.of(report.report_id for report in reports).root, matrix_nonces

    drawn = draw_matrix(task, batch, root, nonces, len(reports), first)
    sketch_shares = [server_sketch_share(task, server, reports, drawn.matrix) for server in range(task.num_servers)]
    for server, random_bytes in enumerate(smoothing or ()):
        if task.stream is None:
            task.measurement.add_server_noise(sketch_shares[server], random_bytes)
        else:
            memory = {} if memories is None else memories[server]
            noise, memory[batch] = stream_noise(task.measurement, batch, memory, random_bytes)
            sketch_shares[server] += to_ring(noise)

    # The analyzer: add up, lift, decode.
    sketch = from_ring(combine(np.stack(sketch_shares)))
    values = task.measurement.decode(sketch)
    return IdealRelease(values, sketch, drawn.matrix.row_counts(), drawn.privacy, drawn.seed, rejected)


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


def verdict(task: Task, reports: Sequence[Report], points: Points) -> NDArray[np.bool_]:
    """Do what all servers of a verified task do with the sorted cohort: say of each report whether it is short enough.

    Returns:
        One truth value for each report, shape `(n,)`.

    Raises:
        ValueError: the task's reports are not verified.
    """
    servers = range(task.num_servers)
    payloads = [b"".join(report.shares[server][BLIND_BYTES + 1 :] for report in reports) for server in servers]
    checks = [checks_of(task, server, payloads[server], points) for server in servers]
    return accepted(parameters_of(task), checks, points)


def server_sketch_share(task: Task, server: int, reports: Sequence[Report], matrix: PublicMatrix) -> RingArray:
    """Do what one server does with its shares of the sorted cohort, before its noise; shape `(m, w/c)`."""
    payloads = [report.shares[server][BLIND_BYTES + 1 :] for report in reports]
    shares = np.stack([share_words(task, server, payload) for payload in payloads])
    sketch_share = np.zeros((matrix.rows, task.sketch_words), np.uint64)
    matrix.add_reports(sketch_share, np.arange(len(reports)), shares)
    return sketch_share
