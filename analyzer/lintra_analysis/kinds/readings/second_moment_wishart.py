"""From the integers of `second_moment_wishart` to a sum of products whose noise is not Gaussian."""

import math

from lintra_analysis.kinds.reading import Earlier, Reading, clipped_rows, scaled_columns
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.mechanisms import WishartSecondMoment
from lintra_protocol.task import Task


def _read(
    task: Task, mechanism: WishartSecondMoment, sketch: IntArray, row_counts: IntArray, earlier: Earlier
) -> Release:
    del earlier
    num_clients, step = int(row_counts.sum()), 2.0**-mechanism.fraction_bits
    # The clients have taken the mean off their examples' products, so that nothing is left to debias.
    noise_sd = math.sqrt(num_clients) * math.hypot(mechanism.variance, mechanism.rounding) * step**2
    values = mechanism.decode(sketch, task.num_columns)
    row_bound = float(fraction(mechanism.row_bound))
    clipped = clipped_rows(task, sketch, row_counts)
    columns = scaled_columns(task)
    held = SecondMomentSum(columns, values, noise_sd, num_clients, row_bound, gaussian=False, clipped=clipped)
    return Release(moments=held)


READING = Reading(_read)
