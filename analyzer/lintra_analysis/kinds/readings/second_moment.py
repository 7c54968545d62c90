"""From the integers of `second_moment` to a sum of products; an intercept becomes its first column, 1 for everybody."""

import math

import numpy as np

from lintra_analysis.kinds.plausibility import of_second_moment
from lintra_analysis.kinds.reading import (
    Earlier,
    Reading,
    clipped_rows,
    counted_rows,
    norm_of_rows,
    number_of_rows,
    scaled_columns,
)
from lintra_analysis.releases.columns import INTERCEPT, ScaledColumn
from lintra_analysis.releases.directions import Directions
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.mechanisms import SecondMoment
from lintra_protocol.mechanisms.directions import BASIS_BITS, directions
from lintra_protocol.task import Task


def _read(task: Task, mechanism: SecondMoment, sketch: IntArray, row_counts: IntArray, earlier: Earlier) -> Release:
    del earlier
    columns, num_reports = scaled_columns(task), int(row_counts.sum())
    num_rows = number_of_rows(mechanism, sketch, row_counts)
    values = mechanism.decode(sketch, task.num_columns)
    row_bound, exact = norm_of_rows(mechanism), ""
    along = _directions(mechanism, columns)
    if along is not None:
        names = [ScaledColumn(name, 0.0, 1.0, -row_bound, row_bound) for name in along.names]
        columns = (*names, *(columns[place] for place in mechanism.targets))
    trace_columns = len(columns) if mechanism.trace else 0
    # Products are counted in squared steps. The diagonal's noise is sqrt(2) times this, rounded up to an integer.
    noise_sd = math.sqrt(mechanism.draws(num_reports)) * mechanism.sigma * 4.0**-mechanism.fraction_bits
    if mechanism.intercept_steps:
        constant = mechanism.intercept_steps * 2.0**-mechanism.fraction_bits
        row_bound = math.hypot(row_bound, constant)
        if not mechanism.count_words:
            values[0, 0], exact = mechanism.intercept_square(num_rows), INTERCEPT
        columns = (ScaledColumn(INTERCEPT, 0.0, 1 / constant, 1.0, 1.0), *columns)
    held = SecondMomentSum(
        columns=columns,
        values=values,
        noise_sd=noise_sd,
        num_clients=num_rows,
        row_bound=row_bound,
        trace_columns=trace_columns,
        exact=exact,
        clipped=clipped_rows(task, sketch, row_counts),
        counted=counted_rows(mechanism, sketch, row_counts, math.sqrt(2)),
    )
    return Release(moments=held, directions=along)


def _directions(mechanism: SecondMoment, columns: tuple[ScaledColumn, ...]) -> Directions | None:
    """Return what the products of a second round are about; None for products of columns."""
    if mechanism.basis is None:
        return None
    basis = directions(mechanism.basis, len(columns)).astype(np.float64) * 2.0**-BASIS_BITS
    return Directions(columns, basis, tuple(f"(direction {i})" for i in range(1, basis.shape[1] + 1)))


READING = Reading(_read, totals=of_second_moment)
