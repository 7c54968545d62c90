"""Every text of a picture stands whole on its page and beside the others, measured from the figure's own boxes."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from lintra_analysis.estimators import figures
from lintra_analysis.estimators.figures import Mark, shortened
from lintra_analysis.estimators.svg import THEMES, Theme, laid_out
from lintra_protocol.crypto.ring import FloatArray

TITLE = "Coefficients of systolic blood pressure at rest, with intervals of 95 % for the population"
ACROSS = "mmHg per unit of the column, with intervals of 95 % for the population that the rows are a sample of"


def names(count: int) -> list[str]:
    given = ["age", "smoker[yes, at least ten cigarettes a day]", "body mass index", "income [1,000 EUR a year]"]
    return [given[place] if place < len(given) else f"column number {place}" for place in range(count)]


def numbers(count: int) -> FloatArray:
    """Return numbers that need no linear algebra, so that every machine has the same."""
    return np.array([((37 * place) % 101 - 50) / 10 for place in range(count)])


def an_interval(place: int, value: float) -> tuple[float, float] | None:
    return None if place % 7 == 5 else (value - 0.3, value + 1e3 * (place % 5 == 4))


def plots(count: int) -> dict[str, Callable[[Axes], None]]:
    values, labels = numbers(count), names(count)
    marks = [
        Mark(name, float(value), an_interval(i, float(value)))
        for i, (name, value) in enumerate(zip(labels, values, strict=True))
    ]
    matrix = np.clip(np.add.outer(values, values) / 10, -1, 1)
    penalties = np.array([0, *np.logspace(-3, 3, 24)])
    curves = [(name, value / (1 + penalties)) for name, value in zip(labels, values, strict=True)]
    ends = [(0.0, 0.02)] * count
    return {
        "intervals": partial(figures.draw_intervals, marks=marks, title=TITLE, across=ACROSS),
        "bars": partial(
            figures.draw_bars,
            values=dict(zip(labels, values.tolist(), strict=True)),
            filled=[True] * count,
            title=TITLE,
            across=ACROSS,
        ),
        "matrix": partial(figures.draw_matrix, names=labels, matrix=matrix, doubtful=matrix < 0.2, title=TITLE),
        "path": partial(figures.draw_path, penalties=penalties, curves=curves, best=1.0, title=TITLE, up="coefficient"),
        "levels": partial(figures.draw_cells, edges=(), levels=labels, shares=[1 / count] * count, intervals=ends),
        "cells": partial(
            figures.draw_cells,
            edges=[1e6 * k for k in range(count + 1)],
            levels=(),
            shares=[1 / count] * count,
            intervals=ends,
        ),
        "windows": partial(
            figures.draw_windows, means=[(k, float(v), None) for k, v in enumerate(values)], combined=0.5, title=TITLE
        ),
    }


KINDS = tuple(plots(3))


def texts(figure: Figure) -> Iterator[Text]:
    for text in figure.findobj(Text):
        if isinstance(text, Text) and text.get_visible() and text.get_text().strip():
            yield text


def faults(figure: Figure) -> list[str]:
    """Return the texts that leave the page, and the pairs that lie over each other, by more than a pixel."""
    figure.draw_without_rendering()
    ticks = {
        label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks() + axis.get_minor_ticks()
        for label in (tick.label1, tick.label2)
    }
    drawn = {label for axes in figure.axes for label in axes.get_xticklabels() + axes.get_yticklabels()}
    limits = {axes: (sorted(axes.get_xlim()), sorted(axes.get_ylim())) for axes in figure.axes}

    def shown(text: Text) -> bool:
        if text not in ticks:
            return True
        axes = text.axes
        if text not in drawn or axes is None:
            return False
        # Matplotlib makes a label beyond each end of an axis, too, and does not draw it.
        across, up = limits[axes]
        place = text.get_position()
        within = across if text in set(axes.get_xticklabels()) else up
        return within[0] - 1e-9 <= place[0 if within is across else 1] <= within[1] + 1e-9

    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure) if shown(text)]
    page = figure.bbox
    out = [
        f"leaves the page: {text}"
        for text, box in boxes
        if box.x0 < page.x0 - 1 or box.x1 > page.x1 + 1 or box.y0 < page.y0 - 1 or box.y1 > page.y1 + 1
    ]
    over = [
        f"overlap: {one} and {other}"
        for (one, a), (other, b) in combinations(boxes, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
    ]
    return out + over


@pytest.mark.parametrize("count", [3, 12, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.grid(3)
def test_no_text_is_cut_off_or_lies_over_another(kind: str, count: int) -> None:
    with laid_out(plots(count)[kind]) as figure:
        assert faults(figure) == []


def test_the_measure_finds_a_title_that_is_cut_off_and_numbers_that_collide() -> None:
    figure = Figure(figsize=(3, 3), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(TITLE)
    assert any("leaves the page" in fault for fault in faults(figure))
    figure = Figure(figsize=(4, 4), layout="constrained")
    short = [str(number) for number in range(12)]
    figures.draw_matrix(figure.add_subplot(), short, np.full((12, 12), -0.25), np.full((12, 12), True), "short")
    assert any("overlap: (-0.25)" in fault for fault in faults(figure))


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.grid(2)
def test_no_two_curves_of_a_path_look_alike(theme: Theme) -> None:
    with laid_out(plots(60)["path"], theme) as figure:
        (axes,) = figure.axes
        named = [line for line in axes.get_lines() if str(line.get_label()).startswith(" ")]
        looks = {str(line.get_color()) for line in named}
        legend = axes.get_legend()
        assert legend is not None
        said = [text.get_text() for text in legend.get_texts()]
    assert len(looks) == len(named) == figures.MOST_CURVES
    assert "44 others" in said


def test_a_long_name_keeps_its_beginning_and_its_end() -> None:
    assert shortened("age") == "age"
    short = shortened("smoker[yes, at least ten cigarettes a day]")
    assert (len(short), short[:7], short[-6:]) == (figures.MOST_NAME, "smoker[", "a day]")
