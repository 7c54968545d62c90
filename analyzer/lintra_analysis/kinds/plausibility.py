"""What the totals of honest organisations satisfy, whatever their rows are: what fails it was no sum of rows.

A malicious organisation may add any vector. These checks see crude errors, such as a wrong unit or a sum sent twice,
and no plausible lie with the weight of as many rows as the task allows.
"""

import math

import numpy as np

from lintra_analysis.releases.columns import INTERCEPT
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.mechanisms import Histogram, SecondMoment, Sum
from lintra_protocol.mechanisms.range_finder import RangeFinder
from lintra_protocol.task import Task

DEVIATIONS = 5.0
"""How far beyond its range a number may be for the noise's sake."""


def of_second_moment(task: Task, mechanism: SecondMoment, sketch: IntArray, row_counts: IntArray) -> list[str]:
    """Return what is impossible about sums of products, shape `(1, w)`, in words."""
    rows = _most_rows(task, sketch, row_counts)
    size = mechanism.num_factors(task.num_columns)
    matrix = task.measurement.decode(sketch)[-size:, -size:]
    noise = task.measurement.layout.product_deviations("products", int(row_counts.sum()))[0]
    names, largest = _factors(task, mechanism)
    square = DEVIATIONS * math.sqrt(2) * noise
    own, most = np.diagonal(matrix), rows * largest**2 + square
    found = of_count(task, sketch, row_counts)
    found += [f"the squares of {names[i]!r} are negative" for i in np.flatnonzero(own < -square)]
    found += [f"the squares of {names[i]!r} exceed what its bounds allow" for i in np.flatnonzero(own > most)]
    lengths = np.sqrt(np.maximum(own, 0) + square)
    for i, j in np.argwhere(np.triu(np.abs(matrix) > np.outer(lengths, lengths) + DEVIATIONS * noise, 1)):
        found.append(f"the products of {names[i]!r} and {names[j]!r} exceed the root of their squares' product")
    if float(own.sum()) > rows * (task.measurement.person_norm or 0.0) ** 2 + square * math.sqrt(own.size):
        found.append("all squares together exceed what the norm bound allows")
    least = float(np.linalg.eigvalsh(matrix)[0])
    if least < -(2 * math.sqrt(own.size) + DEVIATIONS) * noise:
        found.append(f"the least eigenvalue, {least:.3g}, is further below 0 than noise carries it")
    return found


def _factors(task: Task, mechanism: SecondMoment) -> tuple[list[str], FloatArray]:
    """Return names and largest values of what is multiplied: columns, or directions, as long as a row, and targets."""
    names, largest = [column.name for column in task.encoded_columns], _largest(task)
    if mechanism.row_weights is not None:
        weights = mechanism.weights(task.num_columns)
        if weights.basis is not None:
            features = [place for place in range(task.num_columns) if place != weights.target]
            largest[features] = np.abs(weights.basis) @ largest[features]
        if weights.target is not None:
            largest[weights.target] = min(largest[weights.target], weights.target_bound) * weights.target_factor
        return [INTERCEPT, *names], np.append(weights.constant, largest)
    if mechanism.basis is None:
        return names, largest
    own, rank = list(mechanism.targets), mechanism.num_factors(task.num_columns) - len(mechanism.targets)
    along = np.full(rank, float(fraction(mechanism.row_bound)))
    return [*(f"direction {i + 1}" for i in range(rank)), *(names[i] for i in own)], np.append(along, largest[own])


def of_sum(task: Task, mechanism: Sum, sketch: IntArray, row_counts: IntArray) -> list[str]:
    """Return what is impossible about sums of rows, shape `(1, w)`, in words."""
    rows = _most_rows(task, sketch, row_counts)
    noise = float(task.measurement.layout.deviation("row", int(row_counts.sum())))
    sums = np.abs(task.measurement.decode(sketch))
    beyond = np.flatnonzero(sums > rows * _largest(task) + DEVIATIONS * noise)
    words = [f"the sum of {task.encoded_columns[i].name!r} exceeds what its bounds allow" for i in beyond]
    return of_count(task, sketch, row_counts) + words


def of_histogram(task: Task, mechanism: Histogram, sketch: IntArray, row_counts: IntArray) -> list[str]:
    """Return what is impossible about rows in cells, shape `(1, w)`, in words."""
    found, rows = of_count(task, sketch, row_counts), task.measurement.counted_rows(sketch)
    noise = DEVIATIONS * float(task.measurement.layout.deviation("cells", int(row_counts.sum())))
    names = [" and ".join(repr(each.name) for each in task.columns)] if mechanism.crossed else []
    names = names or [repr(each.name) for each in task.columns]
    for name, cells in zip(names, mechanism.by_column(task.measurement.decode(sketch)), strict=True):
        if float(cells.min()) < -noise:
            found.append(f"a cell of {name} holds fewer than 0 rows")
        if abs(float(cells.sum()) - rows) > noise * math.sqrt(2 * cells.size):
            found.append(f"the cells of {name} do not add up to the number of rows")
    return found


def of_range(task: Task, mechanism: RangeFinder, sketch: IntArray, row_counts: IntArray) -> list[str]:
    """Return what is impossible about products with projected rows, shape `(1, w)`, in words."""
    rows, found = _most_rows(task, sketch, row_counts), of_count(task, sketch, row_counts)
    layout, draws = task.measurement.layout, int(row_counts.sum())
    noise = DEVIATIONS * float(layout.deviation("products", draws)[-1])
    values = mechanism.unpack(task.measurement.decode(sketch))
    bound = float(fraction(mechanism.row_bound))
    longest = rows * _largest(task) * float(fraction(mechanism.projected_bound)) + noise
    beyond = np.flatnonzero(np.abs(values.projected).max(axis=1) > longest)
    found += [f"products of {task.encoded_columns[i].name!r} exceed what its bounds allow" for i in beyond]
    allowed = rows * bound**2 + (DEVIATIONS * float(layout.deviation("trace", draws)) if mechanism.trace else 0.0)
    if values.trace is not None and values.trace > allowed:
        found.append("all squares together exceed what the norm bound allows")
    return found


def of_count(task: Task, sketch: IntArray, row_counts: IntArray) -> list[str]:
    """Return in words if a sum, shape `(1, w)`, counts more rows than so many organisations can have."""
    if task.contributors is None:
        return []
    most, rows = int(row_counts.sum()) * task.contributors.max_rows, task.measurement.counted_rows(sketch)
    doubt = DEVIATIONS * _noise_of_the_count(task, row_counts)
    if -doubt <= rows <= most + doubt:
        return []
    return [f"{rows:,.0f} rows are not between 0 and {most:,}, what so many organisations may contribute"]


def _most_rows(task: Task, sketch: IntArray, row_counts: IntArray) -> float:
    rows = max(task.measurement.counted_rows(sketch), 1.0)
    return rows + DEVIATIONS * _noise_of_the_count(task, row_counts)


def _noise_of_the_count(task: Task, row_counts: IntArray) -> float:
    """Return the deviation of the number of rows; 0 where it is exact."""
    return task.measurement.layout.count_deviation(int(row_counts.sum())) if task.setting.count == "noisy" else 0.0


def _largest(task: Task) -> FloatArray:
    """Return the largest absolute value of each encoded column in normalised units, shape `(d,)`."""
    ends = [
        max(abs(float(end) - float(column.center)) for end in (column.lower, column.upper)) / float(column.scale)
        for column in task.encoded_columns
    ]
    return np.array(ends)
