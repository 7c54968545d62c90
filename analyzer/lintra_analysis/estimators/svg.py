"""Pictures of estimates as files: SVG for a page with a light or a dark background, the same bytes every time.

The estimate's own `plot` draws, as in a notebook. This module gives it axes that belong to no window, in colours that
can be read on the background, and writes the file.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from io import StringIO
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Literal, get_args

from lintra_analysis.estimators.figures import (
    CELL,
    CROWDED,
    FRAME_HEIGHT,
    INSTALL,
    LINE_HEIGHT,
    NARROW_CELL,
    WIDTH,
)
from lintra_protocol.errors import InvalidAnalysisError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as MatplotlibFigure

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = get_args(Theme)

# Ink of text and frames: at least 7 to 1 on the background of a page. Then C0, C1 and so on: at least 3 to 1.
PAGES: dict[Theme, str] = {"light": "#ffffff", "dark": "#12181e"}
"""The backgrounds that pictures are made for."""

INKS: dict[Theme, str] = {"light": "#1b1f24", "dark": "#e6e9ed"}
CYCLES: dict[Theme, tuple[str, ...]] = {
    "light": (
        "#1f5fa8", "#b0480a", "#2b7a3d", "#8a3b91", "#7a5c00", "#a3243b", "#0f6f78", "#555b66",
        "#ee4499", "#779900", "#223311", "#bb7788", "#002288", "#551133", "#8877ee", "#552200",
    ),
    "dark": (
        "#7db8ff", "#ffb066", "#7fd694", "#dda0e6", "#e3c65b", "#ff9aa9", "#6fd3dd", "#b7bdc8",
        "#cc2288", "#5566dd", "#cc3333", "#557700", "#886644", "#007766", "#bbee66", "#666688",
    ),
}  # fmt: skip
"""As many as there are curves with a colour of their own; the last eight lie farthest from those before (CIELAB)."""

_OTHER_LINES = 8
_LEGEND_LINE, _MATRIX_WIDTH, _MATRIX_HEIGHT = 0.2, 3.6, 3.0
"""In inches: a line of a legend, and what stands beside and around a matrix at most."""

_lock = threading.Lock()
"""Matplotlib's settings are those of the process, so one picture is drawn at a time."""


def can_draw() -> bool:
    """Return whether pictures can be drawn here, without loading what draws them."""
    return sys.modules.get("matplotlib", ...) is not None and find_spec("matplotlib") is not None


def svg_of(plot: "Callable[[Axes], object]", theme: Theme = "light") -> bytes:
    """Return a picture as an SVG file; the same picture is the same bytes.

    Its background is transparent, and its letters are outlines, so that it looks everywhere as it was laid out. `plot`
    draws on axes, as the `plot` of an estimate does. `theme` is that of the page that it will stand on.
    """
    with laid_out(plot, theme) as figure:
        return svg_text(figure.savefig, transparent=True).encode()


@contextmanager
def laid_out(plot: "Callable[[Axes], object]", theme: Theme = "light") -> "Iterator[MatplotlibFigure]":
    """Draw a figure in which every text has its place, in the colours of a theme, which hold until the block ends."""
    with _lock, _settings(_themed(theme)):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(WIDTH, FRAME_HEIGHT + _OTHER_LINES * LINE_HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        plot(axes)
        figure.set_size_inches(*_size(axes))
        _fit_texts(figure, axes)
        yield figure


@contextmanager
def plain_settings() -> Iterator[None]:
    """Draw SVG elements for a page of its own: the words are text, not outlines."""
    with _lock, _settings({"svg.fonttype": "none", "font.size": 9}):
        yield


def svg_text(save: Callable[..., None], **options: object) -> str:
    """Return what matplotlib writes as SVG, from its root element on, without a date and a program's name."""
    text = StringIO()
    save(text, format="svg", metadata={"Date": None, "Creator": None}, **options)
    drawing = text.getvalue()
    return drawing[drawing.index("<svg") :]


def _themed(theme: Theme) -> dict[str, object]:
    ink = INKS[theme]
    coloured = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    colours = ", ".join(repr(colour) for colour in CYCLES[theme])
    return {
        **dict.fromkeys(coloured, ink),
        "axes.prop_cycle": f"cycler('color', [{colours}])",
        "axes.facecolor": "none",
        "legend.facecolor": "none",
        "legend.edgecolor": ink,
        "figure.facecolor": "none",
        "svg.fonttype": "path",
        "font.size": 10,
    }


@contextmanager
def _settings(chosen: Mapping[str, object]) -> Iterator[None]:
    try:
        from matplotlib import RcParams, rc_context
    except ModuleNotFoundError:
        raise InvalidAnalysisError(INSTALL) from None
    # The same picture is the same bytes everywhere.
    with rc_context(RcParams({"svg.hashsalt": "lintra", "text.parse_math": False, **chosen})):
        yield


def _size(axes: "Axes") -> tuple[float, float]:
    """Return the width and height of a picture in inches: what is named, or usual, has room for its name."""
    from matplotlib.ticker import FixedLocator

    legend = axes.get_legend()
    below = 0.0 if legend is None else _LEGEND_LINE * ceil(len(legend.get_texts()) / 2)
    if axes.images:
        count = len(axes.get_xticks())
        side = max(count * (CELL if count <= CROWDED else NARROW_CELL), 2)
        return max(WIDTH, side + _MATRIX_WIDTH), side + _MATRIX_HEIGHT
    if isinstance(axes.xaxis.get_major_locator(), FixedLocator):  # levels, whose names stand upright
        return max(WIDTH, 1 + NARROW_CELL * len(axes.get_xticks())), FRAME_HEIGHT + (_OTHER_LINES + 2) * LINE_HEIGHT
    named = isinstance(axes.yaxis.get_major_locator(), FixedLocator)
    return WIDTH, FRAME_HEIGHT + LINE_HEIGHT * (len(axes.get_yticks()) if named else _OTHER_LINES) + below


def _fit_texts(figure: "MatplotlibFigure", axes: "Axes") -> None:
    """Break the title and the labels into lines that fit, and draw as many numbers below the axes as have room."""
    title, across = axes.get_title(loc="left"), axes.get_xlabel()
    for _ in range(4):  # a title of more lines moves the axes, and with them where it begins
        figure.draw_without_rendering()
        frame, page = axes.get_window_extent(), figure.bbox
        axes.set_title(_broken(figure, title, page.x1 - frame.x0, 12), loc="left", parse_math=False)
        axes.set_xlabel(_broken(figure, across, frame.width, 10), parse_math=False)
    for count in (6, 5, 4, 3, 2):
        figure.draw_without_rendering()
        boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
        crowded = any(one.x1 + 2 > other.x0 for one, other in pairwise(sorted(boxes, key=lambda box: box.x0)))
        if not crowded or axes.images or axes.get_xscale() != "linear" or axes.get_xticklabels()[0].get_rotation():
            return
        axes.locator_params(axis="x", nbins=count)


def _broken(figure: "MatplotlibFigure", text: str, width: float, size: float) -> str:
    """Return a text in lines of some width in pixels; each is measured as it is drawn, letters of `size` points."""
    measured = figure.text(0, 0, "", size=size, parse_math=False)
    lines: list[str] = []
    for word in text.split():
        measured.set_text(f"{lines[-1]} {word}" if lines else word)
        if lines and measured.get_window_extent().width <= width:
            lines[-1] = measured.get_text()
        else:
            lines.append(word)
    measured.remove()
    return "\n".join(lines)
