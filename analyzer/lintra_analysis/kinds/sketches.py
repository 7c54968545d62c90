"""What both sketches share: how many rows they have, their error, and how their rows are read."""

import math
from dataclasses import replace

import numpy as np

from lintra_analysis.kinds.clip_count import clip_count_deviation
from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.options import MechanismSpecification
from lintra_analysis.kinds.prediction import Expected, predict_moments
from lintra_analysis.kinds.released_parts import Earlier, clipped_rows, scaled_columns
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.sketch import Sketch
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.mechanisms import Osnap, OsnapPublished
from lintra_protocol.mechanisms.floor import NO_FLOOR
from lintra_protocol.mechanisms.layout import CLIPPED
from lintra_protocol.mechanisms.noise_law import summed_deviation
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.task import Task

AnySketch = Osnap | OsnapPublished


def sketch_error(clients: int, columns: int, row_norm: float, rows: float, variance: float) -> float:
    """Return the expected squared Frobenius error of the Gram matrix from a sketch without its bias.

    ((tr M)^2 + |M|_F^2 - 2 sum |x|^4)/m + 2 v (d+1) tr M + m v^2 d (d+1), v the `variance` of the noise in an entry,
    with n rows of equal norm r that fill all d directions alike, and m rows of the sketch. The first term is the
    matrix's own, the others are the noise's.
    """
    trace = clients * row_norm**2
    sampling = (trace**2 * (1 + 1 / columns) - 2 * trace * row_norm**2) / rows
    return max(sampling, 0.0) + 2 * variance * (columns + 1) * trace + rows * variance**2 * columns * (columns + 1)


def entry_variance(mechanism: AnySketch, setting: Setting, clients: int) -> float:
    """Return the variance of the noise in an entry, n sigma^2/m, or N sigma^2/s of servers' noise; no smoothing.

    A floor is N v / s more.
    """
    layout = mechanism.layout(1, setting)
    of_floor = float(layout.deviation("row", 0)) ** 2
    layout = replace(layout, floor=NO_FLOOR)
    if setting.noising_servers:
        return float(layout.deviation("row", setting.noising_servers)) ** 2
    return float(layout.deviation("row", clients)) ** 2 * mechanism.sparsity / mechanism.rows + of_floor


def predict_sketch(
    context: CalibrationContext[MechanismSpecification], mechanism: AnySketch, leverage: float | None
) -> Expected:
    """Predict the error of an entry and of the Gram matrix."""
    clients, d, step = context.claim.min_clients, context.num_columns(), 2.0**-mechanism.fraction_bits
    variance = entry_variance(mechanism, context.setting, clients)
    smoothing = context.num_servers * (context.measured(mechanism).smoothing * step) ** 2 / mechanism.sparsity
    deviations = {"entry": math.sqrt(variance + smoothing)}
    deviations |= clip_count_deviation(context.measured(mechanism), clients, context.num_servers)
    error = sketch_error(clients, d, context.row_norm, mechanism.rows, variance)
    return Expected(mechanism.sigma * step, deviations, predict_moments(context, error), leverage)


def read_sketch(
    task: Task,
    mechanism: AnySketch,
    sketch: IntArray,
    row_counts: IntArray,
    earlier: Earlier,
    *,
    shrunk_only: bool = True,
) -> Release:
    """Return the sketch, shape `(m, w)`, in normalised units, with the variance of its noise row by row, shape `(m,)`.

    With `shrunk_only` rows within their columns' bounds are shrunk to the row bound and not changed otherwise.
    """
    del earlier
    sparsity = mechanism.sparsity
    moments = Sketch(
        columns=scaled_columns(task),
        values=task.measurement.decode(sketch),
        row_counts=row_counts,
        noise_variance=variance_in_rows(task, row_counts),
        num_clients=int(row_counts.sum()) // sparsity,
        row_bound=float(fraction(mechanism.row_bound)),
        clipped=clipped_rows(task, sketch, row_counts, rows_of_a_report=sparsity, shrunk_only=shrunk_only),
    )
    return Release(moments=moments)


def variance_in_rows(task: Task, row_counts: IntArray) -> FloatArray:
    """Return the variance of the noise in an entry of each row, shape `(m,)`, from the reports in it."""
    smoothing = task.num_servers * task.measurement.smoothing**2
    counts, places = np.unique(row_counts, return_inverse=True)
    draws = [task.setting.draws(int(count)) for count in counts]
    deviations = [float(task.measurement.layout.deviation("row", number, smoothing)) for number in draws]
    return np.square(deviations)[places]


def rows_of_a_report(mechanism: AnySketch) -> int:
    """Return s, how many rows of the public matrix a report enters."""
    return mechanism.sparsity


def band_of_signed_rows(task: Task, mechanism: AnySketch, row_counts: IntArray, deviations: float) -> FloatArray:
    """Return how large an entry of a sketch may plausibly be, shape `(m, w/c)`.

    It is a sum of c entries, none above B, under independent fair signs, plus noise: sub-Gaussian with variance proxy
    c (B^2 + sigma^2), and the servers' smoothing on top (Hoeffding 1963). B stands for the largest entry of a report. A
    clip counter's total has no signs: in its row 0 it is at most n g and n clients' noise, elsewhere nothing. Where
    servers add the noise it is N sigma^2 everywhere.
    """
    counts, sigma = row_counts.astype(np.float64), mechanism.sigma
    noise = variance_in_rows(task, row_counts) / float(task.measurement.layout["row"].steps) ** 2
    of_servers = task.num_servers * task.measurement.servers_deviation**2
    band: FloatArray = np.repeat(
        deviations * np.sqrt(counts * float(mechanism.largest_entry) ** 2 + noise)[:, np.newaxis],
        task.sketch_words,
        axis=1,
    )
    if CLIPPED in task.measurement.layout:
        num_clients = int(row_counts.sum()) // mechanism.sparsity
        beside = summed_deviation(sigma, task.setting.noising_servers, of_servers)
        total = summed_deviation(sigma, task.setting.draws(num_clients), of_servers)
        band[:, -1] = deviations * beside
        band[0, -1] = num_clients * task.measurement.layout[CLIPPED].bound + deviations * total
    return band
