"""From the integers of `sum` to the totals of the columns."""

import math

from lintra_analysis.kinds.plausibility import of_sum
from lintra_analysis.kinds.reading import (
    Earlier,
    Reading,
    clipped_rows,
    counted_rows,
    norm_of_rows,
    number_of_rows,
    scaled_columns,
)
from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.mechanisms import Sum
from lintra_protocol.task import Task


def _read(task: Task, mechanism: Sum, sketch: IntArray, row_counts: IntArray, earlier: Earlier) -> Release:
    del earlier
    num_rows = number_of_rows(mechanism, sketch, row_counts)
    noise_sd = math.sqrt(mechanism.draws(int(row_counts.sum()))) * mechanism.sigma * 2.0**-mechanism.fraction_bits
    values = mechanism.decode(sketch, task.num_columns)
    clipped, row_bound = clipped_rows(task, sketch, row_counts), norm_of_rows(mechanism)
    counted = counted_rows(mechanism, sketch, row_counts)
    return Release(totals=Totals(scaled_columns(task), values, noise_sd, num_rows, row_bound, clipped, counted))


READING = Reading(_read, totals=of_sum)
