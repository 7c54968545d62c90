"""What a sketch would tell of rows like a sample's, by the rule of its planning; nothing is drawn."""

import math
from dataclasses import dataclass
from typing import cast

import numpy as np

from lintra_analysis.kinds.sketches import AnySketch, entry_variance, sketch_error
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.task import Task


@dataclass(frozen=True)
class SketchForesight:
    """What to expect of a sketch; all in normalised units.

    Which rows of the sketch a report enters is drawn after the last report, so errors are known on the average of that
    draw only, and not column by column.

    Attributes:
        rows: m of the sketch.
        entry: root mean square of an entry that rows like these give.
        entry_noise: deviation of the noise in it.
        spectrum_error: root mean square error of all eigenvalues of the second moments together, as a part of their
            sum: the expected Frobenius error over the trace bounds it (Hoffman and Wielandt 1953).
        sketching_error: the same without noise: what so few rows cost.
    """

    rows: int
    entry: float
    entry_noise: float
    spectrum_error: float
    sketching_error: float


def foresee_sketch(task: Task, rows: FloatArray) -> SketchForesight | None:
    """Return what to expect of a task's smallest cohort; None if it makes no sketch.

    `task` says whose rows of the sketch are taken to be filled evenly. `rows` has shape `(n, d)`, in users' units; of
    them the mean squared norm after clipping enters.
    """
    mechanism, claim = task.mechanism, task.claim
    m = mechanism.num_rows
    if m == 1:
        return None
    bound = float(fraction(mechanism.row_bound))
    lengths = np.minimum(np.linalg.norm(task.schema_arrays.normalise(rows), axis=1), bound)
    length = math.sqrt(float(np.square(lengths).mean()))
    # A sample of nothing but centres would have no length at all.
    length = max(length, bound * 1e-9)
    clients, d = claim.min_clients, task.num_columns
    variance = entry_variance(cast("AnySketch", mechanism), clients)
    trace = clients * length**2
    return SketchForesight(
        rows=m,
        entry=math.sqrt(trace / (m * d)),
        entry_noise=math.sqrt(variance),
        spectrum_error=math.sqrt(sketch_error(clients, d, length, m, variance)) / trace,
        sketching_error=math.sqrt(sketch_error(clients, d, length, m, 0.0)) / trace,
    )
