"""Streams in a plan: the damping that is chosen if none is given, and what a stream gains and costs.

Deviations are those of a plain window, whose noise is independent, at the same promise for all that a source may send.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.stream_matrix import StreamMatrix

MOST_SINGLE = 1.25
"""How much noise a single window may have, if no damping is given, in that of a plain window."""

LEAST_GAIN = 0.1
"""A total that is sharper by less than this part is not worth a stream."""

MOVING = 4
"""Windows of the moving sum that is predicted."""

_STEP = Fraction(1, 20)

_MOST_COMPARED = 1000
"""Windows of a stream beside which others are computed: that takes a second."""


@dataclass(frozen=True)
class StreamGain:
    """The noise of a stream beside that of plain windows.

    Attributes:
        single: of the noisiest window.
        total: of the sum of all windows.
        plain_total: the same of plain windows: the root of their number.
        moving: of the noisiest sum of `MOVING` windows in a row, or of all if there are fewer.
        plain_moving: the same of plain windows.
        slope: of the change from window to window, of the line that fits best.
        plain_slope: the same of plain windows.
    """

    single: float
    total: float
    plain_total: float
    moving: float
    plain_moving: float
    slope: float
    plain_slope: float

    @property
    def is_worthwhile(self) -> bool:
        """Return whether the total gains at least a tenth."""
        return self.total <= (1 - LEAST_GAIN) * self.plain_total

    def lines(self, stream: StreamMatrix) -> list[str]:
        """Return in words what a stream costs a source, and the advice not to use it where it gains little."""
        charged = (
            f"the claim is about all {stream.reports} reports that one source may send, and its ledger is charged for "
            "them with the first"
        )
        said = [charged]
        if not self.is_worthwhile:
            said.append(
                f"the total gains less than a tenth: a source may answer {stream.reports} of {stream.rows} windows; "
                "leave windows.stream out, or let each source answer fewer"
            )
        return said


@dataclass(frozen=True)
class StreamOption:
    """A stream as asked, or one in which a source answers more or fewer windows; its gain is None if there is none.

    `damping` is 0 where nothing is gained.
    """

    reports: int
    damping: float
    gain: StreamGain | None


def stream_options(stream: StreamMatrix) -> tuple[StreamOption, ...]:
    """Return the stream, and beside it those for other numbers of answers, each with the usual damping."""
    found = [StreamOption(stream.reports, float(stream.damping), gain_of(stream))]
    if stream.rows <= _MOST_COMPARED:
        for reports in {1, 2, 4, 12, stream.rows} - {stream.reports}:
            damping = usual_damping(stream.rows, reports, stream.blur, stream.memory) if reports < stream.rows else 0
            other = StreamMatrix(stream.rows, reports, Fraction(damping), stream.blur, stream.memory)
            if reports <= stream.rows:
                gain = gain_of(other) if damping else None
                found.append(
                    StreamOption(reports, float(damping), gain if gain is not None and gain.is_worthwhile else None)
                )
    return tuple(sorted(found, key=lambda option: option.reports))


OPTION_HEADER = ("a source answers", "damping", "one window", f"{MOVING} in a row", "all", "slope")


def option_rows(options: Sequence[StreamOption], asked: StreamMatrix) -> list[list[str]]:
    """Return lines of text beside `OPTION_HEADER`: noise in that of plain windows of the same promise."""
    rows = []
    for option in options:
        times = f"at most {option.reports}" + (", as asked" if option.reports == asked.reports else "")
        gain = option.gain
        if gain is None:
            rows.append([times, "-", "no gain", "", "", ""])
            continue
        parts = (gain.single, gain.moving / gain.plain_moving, gain.total / gain.plain_total, _slope(gain))
        rows.append([times, f"{option.damping:g}", *(f"{part:.2f}" for part in parts)])
    return rows


def _slope(gain: StreamGain) -> float:
    return gain.slope / gain.plain_slope if gain.plain_slope else 1.0


def gain_of(stream: StreamMatrix) -> StreamGain:
    """Return what a stream gains, by its law; at most some seconds at ten thousand windows."""
    rows, price = stream.rows, sqrt(stream.squared_norm / stream.reports)
    width, middle = min(MOVING, rows), (rows - 1) / 2
    centred = np.arange(rows, dtype=np.float64) - middle
    slope: FloatArray = centred / max(float(np.sum(centred**2)), 1.0)
    moving = np.zeros(rows)
    moving[rows - width :] = 1.0

    def deviation(weights: FloatArray) -> float:
        return price * sqrt(stream.variance(weights))

    return StreamGain(
        single=price * sqrt(stream.window_variance),
        total=deviation(np.ones(rows)),
        plain_total=sqrt(rows),
        moving=deviation(moving),
        plain_moving=sqrt(width),
        slope=deviation(slope),
        plain_slope=float(np.linalg.norm(slope)),
    )


def usual_damping(rows: int, reports: int, blur: Fraction, memory: int | None) -> Fraction:
    """Return the largest multiple of .05 at which a window has at most `MOST_SINGLE` times the noise; 0 if none."""
    for times in range(20, 0, -1):
        stream = StreamMatrix(rows, reports, times * _STEP, blur, memory)
        if sqrt(float(stream.squared_norm) / reports * stream.window_variance) <= MOST_SINGLE:
            return times * _STEP
    return Fraction(0)
