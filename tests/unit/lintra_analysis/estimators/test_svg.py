"""Pictures for a page: the same bytes every time, in colours that can be read, each with its finding in words."""

import math
import re
import sys
from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pytest

from lintra_analysis.estimators.correlation import correlation
from lintra_analysis.estimators.figures import MOST_CURVES
from lintra_analysis.estimators.means import means
from lintra_analysis.estimators.pca import pca
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.svg import CYCLES, INKS, PAGES, THEMES, Theme, svg_of
from lintra_analysis.estimators.table import Estimate
from lintra_analysis.estimators.trend import trend
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import mixed_columns, regression_rows, second_moment, with_constant

ROWS, NAMED = with_constant(regression_rows(4096, np.random.default_rng(1)), mixed_columns())
RELEASE = second_moment(ROWS, 20.0, np.random.default_rng(2), NAMED)
ESTIMATE = regression(RELEASE, "c4", ["c2", "c0"])


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2.2 of a colour such as #aabbcc."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_every_colour_can_be_read_on_the_page_of_its_theme(theme: Theme) -> None:
    assert contrast(INKS[theme], PAGES[theme]) >= 7
    assert min(contrast(colour, PAGES[theme]) for colour in CYCLES[theme]) >= 3
    assert len(set(CYCLES[theme])) == len(CYCLES[theme])
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def distance(one: str, other: str) -> float:
    """Return how far two colours look from each other (CIELAB, 1976)."""

    def lab(colour: str) -> tuple[float, float, float]:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
        y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
        z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
        x, y, z = (one ** (1 / 3) if one > 0.008856 else 7.787 * one + 16 / 116 for one in (x, y, z))
        return 116 * y - 16, 500 * (x - y), 200 * (y - z)

    return math.dist(lab(one), lab(other))


@pytest.mark.parametrize("theme", THEMES)
def test_curves_that_are_named_have_colours_that_can_be_told_apart(theme: Theme) -> None:
    assert len(CYCLES[theme]) == MOST_CURVES
    assert min(distance(one, other) for one, other in combinations(CYCLES[theme], 2)) > 20
    assert distance("#000000", "#ffffff") == pytest.approx(100, abs=0.1)
    assert distance("#1f5fa8", "#1f60a9") < 1


def test_a_picture_is_the_same_bytes_every_time_and_in_the_colours_of_its_theme() -> None:
    light, dark = svg_of(ESTIMATE.plot, "light"), svg_of(ESTIMATE.plot, "dark")
    assert light == svg_of(ESTIMATE.plot, "light") != dark
    for theme, drawing in zip(THEMES, (light, dark), strict=True):
        assert INKS[theme].encode() in drawing
        assert CYCLES[theme][0].encode() in drawing
        assert drawing.startswith(b"<svg")
    # Nothing is fetched, and nothing says when or by what it was drawn.
    assert not re.search(rb"<dc:date>|<script|https?://(?!www\.w3\.org|purl\.org|creativecommons)", light)


def test_a_picture_opens_no_window_and_leaves_no_setting_behind() -> None:
    svg_of(ESTIMATE.plot)
    settings: Mapping[str, object] = sys.modules["matplotlib"].rcParams
    before = dict(settings)
    sys.modules.pop("matplotlib.pyplot", None)
    svg_of(ESTIMATE.plot, "dark")
    assert dict(settings) == before
    assert "matplotlib.pyplot" not in sys.modules


def test_a_picture_grows_with_its_lines() -> None:
    drawings = [svg_of(one.plot) for one in (ESTIMATE, regression(RELEASE, "c4"))]
    heights = [float(height) for one in drawings for height in re.findall(rb'<svg [^>]*height="([0-9.]+)pt"', one)]
    assert heights[1] - heights[0] == pytest.approx(2 * 0.35 * 72, abs=0.1)


def test_without_matplotlib_a_picture_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InvalidAnalysisError, match=r"\[plot\]"):
        svg_of(ESTIMATE.plot)


@pytest.mark.parametrize("estimate", [ESTIMATE, pca(RELEASE, 2), correlation(RELEASE), means(RELEASE)])
def test_every_estimate_says_in_words_what_its_picture_shows(estimate: Estimate) -> None:
    said = estimate.in_words()
    assert said.endswith(".")
    assert "4,096 rows" in said
    assert "  " not in said
    assert "nan" not in said


def test_the_words_of_a_regression_hold_its_numbers() -> None:
    said = ESTIMATE.in_words()
    low, high = ESTIMATE.conf_int()["c0"] or (0.0, 0.0)
    assert f"c0: {ESTIMATE.params['c0']:.4g} (between {low:.4g} and {high:.4g})" in said
    assert "95 % intervals for the population" in said


def test_the_words_of_a_trend_name_the_windows_without_a_release() -> None:
    said = trend({2: RELEASE, 5: RELEASE}, "c0").in_words()
    assert "no release of window 3 and window 4" in said
    assert "over 2 windows" in said
