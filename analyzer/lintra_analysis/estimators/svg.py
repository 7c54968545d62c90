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
from typing import TYPE_CHECKING, Literal, get_args

from lintra_analysis.estimators.figures import FRAME_HEIGHT, INSTALL, LINE_HEIGHT, WIDTH
from lintra_protocol.errors import InvalidAnalysisError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = get_args(Theme)

# Ink of text and frames: at least 7 to 1 on the background of a page. Then C0, C1 and so on: at least 3 to 1.
PAGES: dict[Theme, str] = {"light": "#ffffff", "dark": "#12181e"}
"""The backgrounds that pictures are made for."""

INKS: dict[Theme, str] = {"light": "#1b1f24", "dark": "#e6e9ed"}
CYCLES: dict[Theme, tuple[str, ...]] = {
    "light": ("#1f5fa8", "#b0480a", "#2b7a3d", "#8a3b91", "#7a5c00", "#a3243b", "#0f6f78", "#555b66"),
    "dark": ("#7db8ff", "#ffb066", "#7fd694", "#dda0e6", "#e3c65b", "#ff9aa9", "#6fd3dd", "#b7bdc8"),
}
_OTHER_LINES = 8

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
    with _lock, _settings(_themed(theme)):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(WIDTH, FRAME_HEIGHT + _OTHER_LINES * LINE_HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        plot(axes)
        figure.set_size_inches(WIDTH, FRAME_HEIGHT + LINE_HEIGHT * _lines(axes))
        return svg_text(figure.savefig, transparent=True).encode()


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


def _lines(axes: "Axes") -> int:
    """Return how many lines a picture needs: those that have names, or the usual number."""
    from matplotlib.ticker import FixedLocator

    if not isinstance(axes.yaxis.get_major_locator(), FixedLocator):
        return _OTHER_LINES
    named = len(axes.get_yticks())
    return max(named, _OTHER_LINES) if axes.images else named
