"""From the released integers of any mechanism to what estimators read, and which of them are implausible."""

import math

import numpy as np

from lintra_analysis.readings.joint import centred_products, noise_law, projected_sums, promise_of
from lintra_analysis.releases import linear
from lintra_analysis.releases.columns import Column
from lintra_protocol.documents import fraction
from lintra_protocol.mechanisms import (
    Osnap,
    OsnapPublished,
    RonGauss,
    RonGaussCentred,
    SecondMoment,
    WishartSecondMoment,
)
from lintra_protocol.mechanisms.second_moment import INTERCEPT
from lintra_protocol.ring import FloatArray, IntArray
from lintra_protocol.task import Task

FALSE_ALARM = 1e-9
"""How likely it may be that an honest cohort has any row outside the plausible band."""


def implausible_rows(task: Task, sketch: IntArray, row_counts: IntArray) -> tuple[float, list[int]]:
    """Find the rows that clients within their bounds would hardly ever give.

    An entry of a sketch is a sum of c entries, none above B, under independent fair signs, plus noise: sub-Gaussian
    with variance proxy c (B^2 + sigma^2), and the servers' smoothing on top (Hoeffding 1963). In a plain sum nothing
    cancels: c B, and the noise on top.
    B stands for the largest word of a report.

    Args:
        task: the task.
        sketch: shape `(m, w/c)`, in ring units.
        row_counts: shape `(m,)`.

    Returns:
        The threshold z in deviations, at which honest rows are flagged with probability `FALSE_ALARM` at most, and the
        numbers of the rows with an entry beyond it.
    """
    mechanism = task.mechanism
    z = math.sqrt(2 * math.log(2 * sketch.size / FALSE_ALARM))
    largest = float(mechanism.largest_word())
    sigmas = mechanism.sigmas(task.num_columns)[: task.sketch_words].astype(np.float64)
    counts = row_counts[:, np.newaxis].astype(np.float64)
    if isinstance(mechanism, Osnap | OsnapPublished):
        smoothing = task.num_servers * float(mechanism.smoothing) ** 2
        band = z * np.sqrt(counts * (largest**2 + sigmas**2) + smoothing)
    else:
        band = counts * largest + z * np.sqrt(counts) * sigmas
    outside = (np.abs(sketch.astype(np.float64)) > band).any(axis=1)
    return z, [int(row) for row in np.flatnonzero(outside)]


def sparsity_of(task: Task) -> int:
    """Return s, how many rows of the public matrix a report enters."""
    return task.mechanism.sparsity if isinstance(task.mechanism, Osnap | OsnapPublished) else 1


def as_release(task: Task, sketch: IntArray, row_counts: IntArray) -> linear.Release:
    """Decode the released integers of shape `(m, w/c)` into what the estimators read."""
    mechanism = task.mechanism
    num_clients = int(row_counts.sum()) // sparsity_of(task)
    columns = tuple(
        Column(c.name, float(c.center), float(c.scale), float(c.lower), float(c.upper), c.unit) for c in task.columns
    )
    if isinstance(mechanism, RonGauss):
        promise = promise_of(task.privacy(num_clients), mechanism.kind)
        return projected_sums(mechanism, task.columns, sketch, num_clients, noise_law(mechanism, num_clients), promise)
    if isinstance(mechanism, RonGaussCentred):
        promise = promise_of(task.privacy(num_clients), mechanism.kind)
        return centred_products(mechanism, task.columns, sketch, num_clients, promise)
    values = mechanism.decode(sketch, task.num_columns)
    row_bound = float(fraction(mechanism.row_bound))
    step = 2.0**-mechanism.fraction_bits
    if isinstance(mechanism, Osnap | OsnapPublished):
        smoothing = task.num_servers * float(mechanism.smoothing * step) ** 2
        noise_variance = (row_counts * np.float64(mechanism.sigma * step) ** 2 + smoothing) / sparsity_of(task)
        return linear.Sketch(columns, values, row_counts, noise_variance, num_clients, row_bound)
    if mechanism.kind == "sum":
        return linear.Sum(columns, values, math.sqrt(num_clients) * mechanism.sigma * step, num_clients, row_bound)
    if isinstance(mechanism, WishartSecondMoment):
        # The clients have taken the mean off their examples' products, so that nothing is left to debias.
        product_sd = math.hypot(mechanism.variance, mechanism.rounding) * step**2
        noise_sd = math.sqrt(num_clients) * product_sd
        return linear.SecondMoment(columns, values, noise_sd, num_clients, row_bound, gaussian=False)
    assert isinstance(mechanism, SecondMoment)
    return _second_moment(mechanism, columns, values, num_clients)


def _second_moment(
    mechanism: SecondMoment, columns: tuple[Column, ...], values: FloatArray, num_clients: int
) -> linear.SecondMoment:
    """Return decoded second moments as a release; an intercept becomes its first column, equal to 1 for everybody."""
    row_bound, exact = float(fraction(mechanism.row_bound)), ""
    trace_columns = len(columns) if mechanism.trace else 0
    # Products are counted in squared steps. The diagonal's noise is sqrt(2) times this, rounded up to an integer.
    noise_sd = math.sqrt(num_clients) * mechanism.sigma * 4.0**-mechanism.fraction_bits
    if mechanism.intercept_steps:
        constant = mechanism.intercept_steps * 2.0**-mechanism.fraction_bits
        values[0, 0] = mechanism.intercept_square(num_clients)
        row_bound, exact = math.hypot(row_bound, constant), INTERCEPT
        columns = (Column(INTERCEPT, 0.0, 1 / constant, 1.0, 1.0), *columns)
    return linear.SecondMoment(columns, values, noise_sd, num_clients, row_bound, trace_columns, exact)
