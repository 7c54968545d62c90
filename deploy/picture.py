"""The demonstration's answer as a picture: how good the private answers are, and what they say."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

INK, GREY, BLUE, ORANGE = "#222222", "#b9bec7", "#2f6db5", "#d9822b"


def draw(path: Path, result: dict[str, Any], coefficients: dict[str, Any]) -> None:
    """Draw a result of the demonstration.

    Args:
        path: of the PNG file.
        result: as written to result.json.
        coefficients: `names`, and `non_private`, `second_moment`, `interval`, `regularised` in normalised units.
    """
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "text.color": INK})
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12.5, 5.0), width_ratios=(1.15, 0.9, 1.5))
    _accuracy(left, result)
    _low_rank(middle, result)
    draw_coefficients(right, coefficients)
    sketch = result["tasks"][0]
    figure.suptitle(
        f"{result['rows']:,} flights, every row a client, {result['servers']} servers: "
        f"epsilon {sketch['epsilon']:g}, delta {sketch['delta']:g} for each release",
        x=0.01, ha="left", fontsize=11, fontweight="bold",
    )  # fmt: skip
    figure.tight_layout(rect=(0, 0, 1, 0.96))
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _accuracy(axes: Axes, result: dict[str, Any]) -> None:
    sketch, moments = (task["ridge"] for task in result["tasks"])
    bars = [
        ("not private", moments["r2_non_private"], GREY),
        ("second moments,\ntrusted curator", moments["r2_central"], GREY),
        ("second moments,\nsimulated", moments["r2_simulated"], BLUE),
        ("second moments,\nthis run", moments["r2"], BLUE),
        ("sketch,\ntrusted curator", sketch["r2_central"], GREY),
        ("sketch,\nsimulated", sketch["r2_simulated"], ORANGE),
        ("sketch,\nthis run", sketch["r2"], ORANGE),
        ("products noised\nby each client", moments["r2_local_products"], GREY),
        ("rows noised\nby each client", moments["r2_local"], GREY),
    ]
    _bars(axes, bars, "arrival delay: R2 of ridge regression")


def _low_rank(axes: Axes, result: dict[str, Any]) -> None:
    sketch, moments = (task["low_rank"] for task in result["tasks"])
    bars = [
        ("not private", moments["explained_non_private"], GREY),
        ("second moments", moments["explained"], BLUE),
        ("sketch", sketch["explained"], ORANGE),
    ]
    _bars(axes, bars, f"share held by the best {moments['rank']} directions")


def _bars(axes: Axes, bars: list[tuple[str, float | dict[str, float], str]], title: str) -> None:
    """Draw bars; of simulated runs the median, with a line from the 10 % to the 90 % point."""
    labels, found, colours = zip(*bars, strict=True)
    values = [each["median"] if isinstance(each, dict) else each for each in found]
    places = np.arange(len(bars))[::-1]
    axes.barh(places, np.clip(values, 0, 1), color=colours, height=0.62)
    for place, value, each in zip(places, values, found, strict=True):
        end = value
        if isinstance(each, dict):
            low, end = np.clip([each["low"], each["high"]], 0, 1)
            axes.plot([low, end], [place, place], color=INK, linewidth=1.2)
        axes.text(max(0.0, min(end, 1.0)) + 0.015, place, f"{value:.3f}", va="center")
    axes.set_yticks(places, labels)
    axes.set_xlim(0, 1.12)
    axes.set_title(title, loc="left")
    axes.tick_params(length=0)


def draw_coefficients(axes: Axes, coefficients: dict[str, Any]) -> None:
    """Draw coefficients as `draw` takes them, a row for each, with the legend below all rows."""
    places = np.arange(len(coefficients["names"]))[::-1]
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.scatter(coefficients["non_private"], places, marker="|", s=160, color=INK, label="not private", zorder=3)
    points, ends = np.array(coefficients["second_moment"]), coefficients["interval"]
    known = np.array([each is not None for each in ends])
    if known.any():
        low, high = np.array([each for each in ends if each is not None]).T
        axes.errorbar(
            points[known],
            places[known],
            xerr=[points[known] - low, high - points[known]],
            fmt="o", color=BLUE, markersize=4, capsize=2, label="second moments, 95 % interval",
        )  # fmt: skip
    if not known.all():
        unknown = ~known
        axes.scatter(
            points[unknown], places[unknown], color=BLUE, s=16,
            label="second moments, no interval: the noise does not tell them",
        )  # fmt: skip
    axes.set_yticks(places, coefficients["names"])
    axes.set_title("coefficients, in standard units", loc="left")
    # Every row may have a point anywhere, so no corner is free.
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.06), ncols=2, fontsize=8)
    axes.tick_params(length=0)
