"""From the integers of a second round to products about class means, beside the release of the first if it is there."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lintra_analysis.kinds.projected_columns import frame_of, label_of, promise_of
from lintra_analysis.kinds.reading import Earlier, Reading, clipped_rows, number_of_rows
from lintra_analysis.releases.centred_products import CentredProducts
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms import RonGaussCentred
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.task import Task


def centred_products(
    mechanism: RonGaussCentred,
    columns: Sequence[Column],
    total: IntArray,
    num_rows: int,
    promise: PrivacyStatement,
    num_draws: int | None = None,
) -> CentredProducts:
    """Return a noisy sum of a second round's reports in the units of mapped rows.

    `mechanism` says whose vector was added up; `columns` are those of the task, the label among them. `total` is the
    noisy sum, shape `(1, w)`, in ring units; `num_rows` is n, how many rows were added. `num_draws` says how often one
    client's noise is in the sum; n if not given.
    """
    products = mechanism.unpack(mechanism.decode(total, len(columns)))
    no_cells = (0,) * len(columns)
    units = np.full(mechanism.num_coordinates, 2.0**-mechanism.fraction_bits)
    if mechanism.has_numeric_label:
        units[-1] = 1 / mechanism.label_bound
    return CentredProducts(
        names=tuple(column.name for number, column in enumerate(columns) if number != mechanism.label),
        label=label_of(mechanism, columns, no_cells),
        frame=frame_of(mechanism),
        centers=mechanism.steps_of_centers() * units,
        products=products if mechanism.covariance == "per_class" else products[0],
        product_sd=math.sqrt(num_draws or num_rows) * mechanism.sigma * 4.0**-mechanism.fraction_bits,
        num_clients=num_rows,
        radius=float(fraction(mechanism.row_bound)),
        first_task=mechanism.after,
        promise=promise,
        grid=float(units.max()),
    )


def _read(task: Task, mechanism: RonGaussCentred, sketch: IntArray, row_counts: IntArray, earlier: Earlier) -> Release:
    num_reports = int(row_counts.sum())
    num_rows = number_of_rows(mechanism, sketch, row_counts)
    promise = promise_of(task.privacy(num_reports), mechanism.kind, num_rows)
    second = centred_products(mechanism, task.columns, sketch, num_rows, promise, num_reports)
    second = replace(second, clipped=clipped_rows(task, sketch, row_counts, shrunk_only=False))
    first = earlier(mechanism.after)
    return Release(joint_sums=None if first is None else first.need("joint_sums"), centred=second)


READING = Reading(_read)
