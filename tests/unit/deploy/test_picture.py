"""The picture of the demonstration: nothing lies over what it shows, and its legend names only what is there."""

import importlib
from collections.abc import Sequence
from typing import Any

import pytest

# Its own pyplot is used below, since tests do not import matplotlib.
picture: Any = importlib.import_module("picture")

NAMES = ["month", "hour", "distance"]
NO_INTERVAL = "second moments, no interval: the noise does not tell them"


@pytest.mark.parametrize(
    ("ends", "labels"),
    [
        ([(-0.1, 0.1), (1.0, 1.5), (0.9, 1.2)], {"not private", "second moments, 95 % interval"}),
        ([(-0.1, 0.1), None, (0.9, 1.2)], {"not private", "second moments, 95 % interval", NO_INTERVAL}),
        ([None, None, None], {"not private", NO_INTERVAL}),
    ],
)
def test_the_legend_lies_over_no_row_and_names_what_is_drawn(
    ends: Sequence[tuple[float, float] | None], labels: set[str]
) -> None:
    figure, axes = picture.plt.subplots(figsize=(5, 5))
    shown = {"names": NAMES, "non_private": [0.1, -1.8, 0.9], "second_moment": [0.0, 1.2, 0.9]}
    picture.draw_coefficients(axes, {**shown, "interval": ends})
    figure.tight_layout()
    figure.canvas.draw()
    legend = axes.get_legend()
    assert legend is not None
    assert {text.get_text() for text in legend.get_texts()} == labels
    assert not legend.get_window_extent().overlaps(axes.get_window_extent())
    under = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert not any(legend.get_window_extent().overlaps(each) for each in under)
    picture.plt.close(figure)
