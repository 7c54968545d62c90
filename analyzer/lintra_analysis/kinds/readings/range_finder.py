"""From the integers of `range_finder` to products of all columns with projected ones."""

import math

from lintra_analysis.kinds.plausibility import of_range
from lintra_analysis.kinds.reading import Earlier, Reading, clipped_rows, number_of_rows, scaled_columns
from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.range_sums import RangeSums, TargetProducts
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.mechanisms.range_finder import RangeFinder
from lintra_protocol.task import Task


def _read(task: Task, mechanism: RangeFinder, sketch: IntArray, row_counts: IntArray, earlier: Earlier) -> Release:
    del earlier
    columns, num_reports = scaled_columns(task), int(row_counts.sum())
    num_rows = number_of_rows(mechanism, sketch, row_counts)
    found = mechanism.unpack(mechanism.decode(sketch, task.num_columns))
    # Noise has the same deviation in every word; what a word is worth differs from block to block.
    deviations = math.sqrt(num_reports) * mechanism.sigma * mechanism.word_scales()
    own = deviations[int(mechanism.has_intercept) :]
    row_bound, clipped = float(fraction(mechanism.row_bound)), clipped_rows(task, sketch, row_counts, shrunk_only=False)
    sums = None
    if found.sums is not None:
        sums = Totals(columns, found.sums, float(deviations[0]), num_rows, row_bound, clipped)
    step = 2.0**-mechanism.fraction_bits
    held = RangeSums(
        columns=columns,
        values=found.projected,
        projection=mechanism.signs(task.num_columns) / math.sqrt(mechanism.rank),
        noise_sd=float(deviations[-1]),
        num_clients=num_rows,
        row_bound=row_bound,
        projected_bound=float(fraction(mechanism.projected_bound)),
        sums=sums,
        targets=tuple(
            TargetProducts(target.column, (bound >> target.bits) * step, values, float(sd))
            for target, bound, values, sd in zip(
                mechanism.targets, mechanism.anchor_bounds, found.targets.T, own, strict=False
            )
        ),
        trace=found.trace,
        trace_sd=math.sqrt(num_reports) * mechanism.sigma * step**2 if mechanism.trace else 0.0,
        clipped=clipped,
    )
    return Release(range_sums=held, totals=sums)


READING = Reading(_read, totals=of_range)
