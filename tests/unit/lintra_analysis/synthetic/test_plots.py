"""Charts are SVG, the same bytes every time, with their words as text; without matplotlib they say what to install."""

import re
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from lintra_analysis.synthetic.plots import SMALLEST, bars, decay
from lintra_protocol.errors import InvalidAnalysisError

PATH = re.compile(r"-?[0-9.]+")


def lengths(chart: str) -> list[float]:
    """Return how long the bars are: every bar is a path of its own, clipped to the axes."""
    paths = [node for node in ElementTree.fromstring(chart).iter() if "fill: #446688" in node.get("style", "")]
    ends = [[float(number) for number in PATH.findall(path.attrib["d"])[::2]] for path in paths]
    return [max(across) - min(across) for across in ends]


def test_the_longest_bar_is_the_largest_value() -> None:
    first, second, none = lengths(bars([("a", 1.0), ("b", 4.0), ("c", 0.0)]))
    assert second == pytest.approx(4 * first, rel=1e-3)
    assert none == 0


def test_what_is_not_finite_has_no_bar() -> None:
    assert lengths(bars([("a", float("inf")), ("b", 1.0)]))[0] == 0
    assert "<svg" in bars([])


def test_names_that_look_like_markup_or_formulas_stay_text() -> None:
    chart = bars([("<b>x</b>", 1.0), ("$x^2$", 2.0)])
    words = "".join(ElementTree.fromstring(chart).itertext())
    assert "<b>x</b>" in words
    assert "$x^2$" in words


def test_a_chart_is_the_same_bytes_every_time() -> None:
    assert bars([("a", 1.0)]) == bars([("a", 1.0)])


def test_a_curve_ends_where_the_axis_does_and_marks_its_points() -> None:
    chart = decay(np.array([0.0, 1.0]), np.array([0.5, 0.0]), [(0.5, 0.1), (0.7, 0.0)], ("epsilon", "delta"))
    words = "".join(ElementTree.fromstring(chart).itertext())
    assert SMALLEST == 1e-30
    assert {"epsilon", "delta"} <= set(words.split())
    assert [number in chart for number in ('id="claim-0"', 'id="claim-1"', 'id="claim-2"')] == [True, True, False]


def test_without_matplotlib_a_chart_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InvalidAnalysisError, match=r"type pip install '\.\[plot\]'$"):
        bars([("a", 1.0)])
