"""What both sketches read alike: rows with signs, s of them for every report, and the servers' smoothing noise."""

import numpy as np

from lintra_analysis.readings.reading import Earlier, scaled_columns
from lintra_analysis.releases.sketch import Sketch
from lintra_protocol.documents import fraction
from lintra_protocol.mechanisms import Osnap, OsnapPublished
from lintra_protocol.ring import FloatArray, IntArray
from lintra_protocol.task import Task

AnySketch = Osnap | OsnapPublished


def read_sketch(task: Task, mechanism: AnySketch, sketch: IntArray, row_counts: IntArray, earlier: Earlier) -> Sketch:
    """Return the sketch in normalised units, with the variance of its noise row by row."""
    del earlier
    step, sparsity = 2.0**-mechanism.fraction_bits, mechanism.sparsity
    smoothing = task.num_servers * float(mechanism.smoothing * step) ** 2
    return Sketch(
        columns=scaled_columns(task),
        values=mechanism.decode(sketch, task.num_columns),
        row_counts=row_counts,
        noise_variance=(row_counts * np.float64(mechanism.sigma * step) ** 2 + smoothing) / sparsity,
        num_clients=int(row_counts.sum()) // sparsity,
        row_bound=float(fraction(mechanism.row_bound)),
    )


def rows_of_a_report(mechanism: AnySketch) -> int:
    """Return s, how many rows of the public matrix a report enters."""
    return mechanism.sparsity


def band_of_signed_rows(task: Task, mechanism: AnySketch, row_counts: IntArray, deviations: float) -> FloatArray:
    """Return how large an entry of a sketch may plausibly be, shape `(m, w/c)`.

    It is a sum of c entries, none above B, under independent fair signs, plus noise: sub-Gaussian with variance proxy
    c (B^2 + sigma^2), and the servers' smoothing on top (Hoeffding 1963). B stands for the largest word of a report.
    """
    counts = row_counts[:, np.newaxis].astype(np.float64)
    sigmas = mechanism.sigmas(task.num_columns)[: task.sketch_words].astype(np.float64)
    smoothing = task.num_servers * float(mechanism.smoothing) ** 2
    band: FloatArray = deviations * np.sqrt(counts * (float(mechanism.largest_word()) ** 2 + sigmas**2) + smoothing)
    return band
