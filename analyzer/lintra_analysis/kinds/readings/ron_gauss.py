"""From the integers that `ron_gauss` added up to joint sums, for clients and curators alike."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lintra_analysis.kinds.projected_columns import features_of, frame_of, label_of, promise_of
from lintra_analysis.kinds.reading import Earlier, Reading, clipped_rows, number_of_rows
from lintra_analysis.releases.joint_sums import NoiseDeviations, PairTable, ProjectedSums
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms import RonGauss
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.task import Task


def projected_sums(
    mechanism: RonGauss,
    columns: Sequence[Column],
    total: IntArray,
    num_rows: int,
    noise: NoiseDeviations,
    promise: PrivacyStatement,
) -> ProjectedSums:
    """Return a noisy sum of reports in the units of mapped rows.

    `mechanism` says whose vector was added up; `columns` are those of the task, the label among them. `total` is the
    noisy sum, shape `(1, w)`, in ring units; `num_rows` is n, how many rows were added. `noise` holds deviations of the
    whole noise (see `noise_law`); `promise` is to the people behind the rows.
    """
    parts = mechanism.unpack(mechanism.decode(total, len(columns)))
    own = iter(parts.histograms)
    by_column = [next(own) if cells else np.empty(0) for cells in mechanism.bins]
    order = [number for number in range(len(columns)) if number != mechanism.label]
    if mechanism.has_numeric_label:
        order.append(mechanism.label)
    names = [column.name for column in columns]
    tables = tuple(
        PairTable(names[one], names[two], cells.reshape(mechanism.pair_bins[one], mechanism.pair_bins[two]))
        for (one, two), cells in zip(mechanism.pairs, parts.tables, strict=True)
    )
    return ProjectedSums(
        features=features_of(mechanism, columns, mechanism.bins, mechanism.edges),
        label=label_of(mechanism, columns, mechanism.bins, mechanism.edges),
        frame=frame_of(mechanism),
        counts=np.array([float(num_rows)]) if parts.counts is None else parts.counts,
        sums=parts.sums,
        products=parts.products if mechanism.covariance == "per_class" else parts.products[0],
        histograms=tuple(by_column[number] for number in order),
        num_clients=num_rows,
        radius=float(fraction(mechanism.row_bound)),
        noise=noise,
        promise=promise,
        tables=tables,
    )


def noise_law(mechanism: RonGauss, num_draws: int) -> NoiseDeviations:
    """Return the deviations of `num_draws` times one client's discrete Gaussian noise, in the units of mapped rows."""
    own, root = mechanism.deviations, math.sqrt(num_draws)
    step = 2.0**-mechanism.fraction_bits
    return NoiseDeviations(
        count=root * own.counts / mechanism.indicator if mechanism.num_classes > 1 else 0.0,
        sum=root * own.sums * step,
        product=root * own.products * step**2,
        diagonal=root * own.squares * step**2,
        cell=root * own.histograms / mechanism.indicator if any(mechanism.bins) else 0.0,
        law="discrete Gaussian",
        table=root * own.tables / mechanism.indicator if mechanism.pairs else 0.0,
    )


def _read(task: Task, mechanism: RonGauss, sketch: IntArray, row_counts: IntArray, earlier: Earlier) -> Release:
    del earlier
    num_reports = int(row_counts.sum())
    num_rows = number_of_rows(mechanism, sketch, row_counts)
    promise = promise_of(task.privacy(num_reports), mechanism.kind, num_rows)
    noise = noise_law(mechanism, num_reports)
    sums = projected_sums(mechanism, task.columns, sketch, num_rows, noise, promise)
    return Release(joint_sums=replace(sums, clipped=clipped_rows(task, sketch, row_counts, shrunk_only=False)))


READING = Reading(_read)
