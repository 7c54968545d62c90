"""Forecasts the release of a sketch and of a range finder for rows like those of a sample; nothing is drawn."""

import math
from dataclasses import dataclass
from typing import cast

import numpy as np

from lintra_analysis.estimators.estimates import IntervalEstimate
from lintra_analysis.estimators.wide import wide_components, wide_ridge
from lintra_analysis.kinds.sketches import AnySketch, entry_variance, sketch_error
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.task import Task


@dataclass(frozen=True)
class SketchForecast:
    """What to expect of a sketch; all in normalised units.

    Which rows of the sketch a report enters is drawn after the last report, so errors are known on the average of that
    draw only, and not column by column.
    """

    rows: int  #: m of the sketch
    entry: float  #: root mean square of an entry that rows like these give
    entry_noise: float  #: deviation of the noise in it
    #: root mean square error of all eigenvalues of the second moments together, as a part of their sum: the expected
    #: Frobenius error over the trace bounds it (Hoffman and Wielandt 1953)
    spectrum_error: float
    sketching_error: float  #: the same without noise: what so few rows cost


def foresee_sketch(task: Task, rows: FloatArray) -> SketchForecast | None:
    """Return what to expect of a task's smallest cohort; None if it makes no sketch.

    The rows of the task's sketch are taken to be filled evenly. `rows` has shape `(n, d)`, in users' units; only their
    mean squared norm after clipping enters.
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
    variance = entry_variance(cast("AnySketch", mechanism), task.setting, clients)
    trace = clients * length**2
    return SketchForecast(
        rows=m,
        entry=math.sqrt(trace / (m * d)),
        entry_noise=math.sqrt(variance),
        spectrum_error=math.sqrt(sketch_error(clients, d, length, m, variance)) / trace,
        sketching_error=math.sqrt(sketch_error(clients, d, length, m, 0.0)) / trace,
    )


@dataclass(frozen=True)
class ForeseenDirection:
    """A direction that would stand out: the variance along it, and the squared sine of the angle that noise turns it.

    Both in a cohort like the sample; the variance in normalised units squared.
    """

    variance: float
    squared_sine: float


@dataclass(frozen=True)
class WideForecast:
    """What to expect of a range finder."""

    columns: int
    seen_from: float  #: a direction with this variance is seen
    usual_variance: float | None  #: of one column in the mean; None where the trace is not released
    #: that would stand out of the noise; none where the rows have no such direction
    directions: tuple[ForeseenDirection, ...]
    #: by target the share of its sum of squares that a ridge regression would explain, with the deviation that noise
    #: causes; None where it cannot be told
    explained: dict[str, IntervalEstimate | None]

    def document(self) -> dict[str, object]:
        """Return it as JSON holds it."""
        return {
            "columns": self.columns,
            "seen_from": self.seen_from,
            "usual_variance": self.usual_variance,
            "directions": [{"variance": one.variance, "squared_sine": one.squared_sine} for one in self.directions],
            "explained": {
                name: None if told is None else {"share": told.value, "standard_error": told.standard_error}
                for name, told in self.explained.items()
            },
        }


def foresee_wide(release: Release, target: str | None) -> WideForecast | None:
    """Return the directions that would stand out of a range finder's noise; None for other releases.

    `release` is without noise; `target` is a column to explain beside the targets that the task names.
    """
    try:
        held = release.need("range_sums")
    except InvalidAnalysisError:
        return None
    count, size = held.num_clients, len(held.columns)
    wanted = [held.columns[each.column].name for each in held.targets]
    wanted += [] if target is None or target in wanted else [target]
    trace = held.trace_about_means()
    found = WideForecast(
        columns=size,
        seen_from=held.noise_sd * math.sqrt(size) / count,
        usual_variance=None if trace is None else trace / count / size,
        directions=(),
        explained=dict.fromkeys(wanted),
    )
    try:
        components = wide_components(release)
    except InvalidAnalysisError:
        return found
    return WideForecast(
        columns=size,
        seen_from=found.seen_from,
        usual_variance=found.usual_variance,
        directions=tuple(
            ForeseenDirection(one.value, sine)
            for one, sine in zip(components.explained_variance, components.squared_sines, strict=True)
        ),
        explained={name: wide_ridge(release, name).explained_share for name in wanted},
    )
