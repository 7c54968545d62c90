"""From the integers of `histogram` to the rows in each cell of each column."""

import math

import numpy as np

from lintra_analysis.kinds.plausibility import of_histogram
from lintra_analysis.kinds.reading import Earlier, Reading, number_of_rows, scaled_columns
from lintra_analysis.releases.cell_counts import CellCounts
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms import Histogram
from lintra_protocol.task import Task


def _read(task: Task, mechanism: Histogram, sketch: IntArray, row_counts: IntArray, earlier: Earlier) -> Release:
    del earlier
    num_reports = int(row_counts.sum())
    counts = mechanism.by_column(mechanism.decode(sketch, task.num_columns))
    return Release(
        cells=CellCounts(
            columns=scaled_columns(task),
            edges=tuple(np.array([float(fraction(end)) for end in ends]) for ends in mechanism.edges),
            levels=tuple(_levels(column) for column in task.columns),
            counts=tuple(own[:-1] for own in counts),
            missing=np.array([own[-1] for own in counts]),
            noise_sd=math.sqrt(num_reports) * mechanism.sigma / mechanism.indicator,
            num_clients=number_of_rows(mechanism, sketch, row_counts),
            counted=mechanism.counts_noisily,
        )
    )


def _levels(column: Column) -> tuple[str, ...]:
    return ("0", "1") if column.kind == "boolean" else column.levels


READING = Reading(_read, totals=of_histogram)
