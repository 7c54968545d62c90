"""Estimates as pictures: intervals beside their names, a matrix, a path. Drawn by matplotlib (`lintra[plot]`).

As with pandas, a picture is drawn on the axes that the caller gives, or on new ones, and the axes are returned: a
notebook shows them, and a program goes on with matplotlib from there. Matplotlib is imported inside functions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lintra_analysis.estimators.estimates import Interval
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError, install_command

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INSTALL = f"pictures need matplotlib, which is not installed; {install_command('plot')}"
UNTOLD = "cannot be told"
WIDTH, LINE_HEIGHT, FRAME_HEIGHT = 6.4, 0.35, 1.3
"""Of a picture in inches: its width, one of its lines, and what stands above and below them."""

CROWDED = 15
"""Above so many columns a matrix is drawn without numbers."""

CELL, NARROW_CELL = 0.48, 0.2
"""Of a matrix in inches: a cell with a number in it, and one without."""

MOST_NAME, MOST_CURVES = 28, 16
"""Characters of a name beside a line, and curves that have a colour and a name of their own."""


@dataclass(frozen=True)
class Mark:
    """One line of a picture of intervals."""

    name: str  #: beside the line
    value: float | None  #: None where there is none
    interval: Interval | None  #: None where nothing can be told

    def moved(self, by: float, scale: float) -> "Mark":
        """Return the mark with `by` added to its numbers, and then multiplied by a positive scale."""
        value = None if self.value is None else (self.value + by) * scale
        ends = None if self.interval is None else ((self.interval[0] + by) * scale, (self.interval[1] + by) * scale)
        return Mark(self.name, value, ends)


@dataclass(frozen=True)
class Figure:
    """What `draw` puts on axes, and for how many lines there is room on new ones."""

    lines: int
    draw: "Callable[[Axes], None]"

    def on(self, axes: "Axes | None" = None) -> "Axes":
        """Draw on the axes given, or on new ones, and return them.

        Raises InvalidAnalysisError if matplotlib is not installed.
        """
        if axes is None:
            try:
                from matplotlib import pyplot
            except ModuleNotFoundError:
                raise InvalidAnalysisError(INSTALL) from None
            size = (WIDTH, FRAME_HEIGHT + LINE_HEIGHT * self.lines)
            axes = pyplot.subplots(figsize=size, layout="constrained")[1]
        self.draw(axes)
        return axes


def shortened(name: str, most: int = MOST_NAME) -> str:
    """Return a name that fits beside a line: of a long one the beginning and the end, which tell levels apart."""
    return name if len(name) <= most else f"{name[: most - most // 3 - 1]}…{name[-(most // 3) :]}"


def intervals(marks: Sequence[Mark], title: str, across: str) -> Figure:
    """Return a figure of intervals, a line each."""
    return Figure(len(marks), partial(draw_intervals, marks=marks, title=title, across=across))


def bars(values: Mapping[str, float], filled: Sequence[bool], title: str, across: str) -> Figure:
    """Return a figure of bars, a line each."""
    return Figure(len(values), partial(draw_bars, values=values, filled=filled, title=title, across=across))


def draw_intervals(axes: "Axes", marks: Sequence[Mark], title: str, across: str) -> None:
    """Draw a point and its interval for every mark, the first on top; a mark without an interval has a hollow point."""
    for place, mark in enumerate(marks):
        if mark.interval is not None:
            axes.plot(mark.interval, [place, place], color="C0", linewidth=2, solid_capstyle="butt")
        if mark.value is not None:
            filled = "C0" if mark.interval is not None else "none"
            axes.plot([mark.value], [place], "o", color="C0", markerfacecolor=filled)
    short = [shortened(mark.name) for mark in marks]
    names = [
        name if mark.interval is not None else f"{name} ({UNTOLD})" for name, mark in zip(short, marks, strict=True)
    ]
    axes.set_yticks(range(len(marks)), names, parse_math=False)
    axes.set_ylim(len(marks) - 0.5, -0.5)
    axes.axvline(0, color="grey", linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(across, parse_math=False)
    axes.set_title(title, loc="left", parse_math=False)


def draw_bars(axes: "Axes", values: Mapping[str, float], filled: Sequence[bool], title: str, across: str) -> None:
    """Draw a bar from 0 for every name, the first on top, filled or hollow."""
    colours = ["C0" if told else "none" for told in filled]
    axes.barh(range(len(values)), [*values.values()], height=0.6, color=colours, edgecolor="C0")
    axes.set_yticks(range(len(values)), [shortened(name) for name in values], parse_math=False)
    axes.set_ylim(len(values) - 0.5, -0.5)
    axes.axvline(0, color="grey", linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(across, parse_math=False)
    axes.set_title(title, loc="left", parse_math=False)


def draw_matrix(
    axes: "Axes", names: Sequence[str], matrix: FloatArray, doubtful: NDArray[np.bool_], title: str
) -> None:
    """Draw a matrix of numbers from -1 to 1; those that may as well be 0 stand in brackets.

    `names` are those of rows and columns, d of them; `matrix` has shape `(d, d)`. `doubtful` says which entries may be
    0 for all that is known, shape `(d, d)`; `title` is above it.
    """
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
    axes.figure.colorbar(image, ax=axes, shrink=0.8)
    if len(names) <= CROWDED:
        for (i, j), value in np.ndenumerate(matrix):
            text = f"({value:.2f})" if doubtful[i, j] else f"{value:.2f}"
            axes.text(j, i, text, ha="center", va="center", color="white" if abs(value) > 0.6 else "black", fontsize=8)
    short = [shortened(name) for name in names]
    axes.set_xticks(range(len(names)), short, rotation=90, parse_math=False)
    axes.set_yticks(range(len(names)), short, parse_math=False)
    axes.set_title(title, loc="left", parse_math=False)


def draw_path(
    axes: "Axes", penalties: FloatArray, curves: Sequence[tuple[str, FloatArray]], best: float, title: str, up: str
) -> None:
    """Draw a curve for every name over the penalties, each of shape `(k,)`, and a line at the best of these.

    A penalty of 0 has no place on a logarithmic axis; it is drawn left of the others. Of many curves those that reach
    farthest from 0 have a name, and all others are grey.
    """
    positive = penalties[penalties > 0]
    left = positive.min() / 10 if positive.size else 1.0
    across = np.where(penalties > 0, penalties, left)
    from matplotlib import rcParams

    reach = sorted((-float(np.abs(curve).max()), place) for place, (_, curve) in enumerate(curves))
    named = {place for _, place in reach[:MOST_CURVES]}
    others = [curve for place, (_, curve) in enumerate(curves) if place not in named]
    for curve in others:
        axes.plot(across, curve, color="grey", linewidth=0.5, alpha=0.5)
    if others:
        axes.plot([], [], color="grey", linewidth=0.5, label=f"{len(others)} others")
    for number, place in enumerate(sorted(named)):
        name, curve = curves[place]
        # In a notebook colours come again after some, with another kind of line. A label that begins with an
        # underscore would be left out of the legend.
        colours = len(rcParams["axes.prop_cycle"])
        line = ("-", "--", ":", "-.")[number // colours % 4]
        marker = "." if across.size < CROWDED else ""
        axes.plot(across, curve, line, color=f"C{number % colours}", label=f" {shortened(name)}", marker=marker)
    axes.axvline(best if best > 0 else left, color="grey", linewidth=1, linestyle="--", label="smallest cost")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel("penalty")
    axes.set_ylabel(up, parse_math=False)
    axes.set_title(title, loc="left", parse_math=False)
    # Curves may go anywhere, so no corner is free.
    below = axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0, -0.2), ncols=2, frameon=False)
    for text in below.get_texts():
        text.set_parse_math(False)


def draw_cells(
    axes: "Axes", edges: Sequence[float], levels: Sequence[str], shares: Sequence[float], intervals: Sequence[Interval]
) -> None:
    """Draw a bar for every cell, as wide as the cell, with its interval as a line.

    `edges` are those of m cells, m + 1 of them; or none, where there are levels. `levels` are names of the m cells, or
    none.
    """
    ends = np.asarray(edges) if edges else np.arange(len(levels) + 1) - 0.5
    middles = (ends[:-1] + ends[1:]) / 2
    axes.bar(middles, shares, np.diff(ends), color="C0", alpha=0.6, edgecolor=axes.get_facecolor(), linewidth=0.5)
    axes.vlines(middles, [low for low, _ in intervals], [high for _, high in intervals], color="C0", linewidth=1)
    if levels:
        axes.set_xticks(range(len(levels)), [shortened(level) for level in levels], rotation=90, parse_math=False)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylabel("share of the rows")


def draw_curves(
    axes: "Axes",
    curves: Sequence[tuple[str, Sequence[float], Sequence[float], Sequence[Interval]]],
    across: str,
    title: str,
) -> None:
    """Draw falling curves as lines between their points, each with its band; they are names, times, shares, bands."""
    for place, (name, times, shares, band) in enumerate(curves):
        colour = f"C{place}"
        axes.plot(times, shares, color=colour, linewidth=2, label=f" {name}")
        axes.fill_between(times, [low for low, _ in band], [high for _, high in band], color=colour, alpha=0.2)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(across, parse_math=False)
    axes.set_ylabel("share without the event")
    axes.set_title(title, parse_math=False)
    if len(curves) > 1:
        for text in axes.legend(fontsize=8).get_texts():
            text.set_parse_math(False)


def draw_windows(
    axes: "Axes", means: Sequence[tuple[int, float, Interval | None]], combined: float, title: str
) -> None:
    """Draw a point and its interval over the number of each window, and a line at what all windows say together."""
    from matplotlib.ticker import MaxNLocator

    for window, value, interval in means:
        if interval is not None:
            axes.plot([window, window], interval, color="C0", linewidth=2, solid_capstyle="butt")
        axes.plot([window], [value], "o", color="C0", markerfacecolor="C0" if interval is not None else "none")
    axes.axhline(combined, color="C1", linewidth=1, linestyle="--")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("window")
    axes.set_title(title, loc="left", parse_math=False)


def draw_band(axes: "Axes", points: Mapping[int, tuple[float, Interval | None]], title: str) -> None:
    """Draw a curve over the numbers of windows and a band of its intervals; a number without a point breaks both."""
    from matplotlib.ticker import MaxNLocator

    numbers = np.arange(min(points), max(points) + 1)
    curve = np.full((numbers.size, 3), np.nan)
    for window, (value, interval) in points.items():
        curve[window - numbers[0]] = (value, *(interval or (value, value)))
    axes.fill_between(numbers, curve[:, 1], curve[:, 2], color="C0", alpha=0.25, linewidth=0)
    axes.plot(numbers, curve[:, 0], color="C0", marker="o", markersize=3 if numbers.size <= CROWDED * 4 else 0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("window")
    axes.set_title(title, loc="left", parse_math=False)
