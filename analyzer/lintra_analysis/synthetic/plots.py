"""Charts, drawn by matplotlib (`lintra[plot]`), as SVG: bars beside their names, and curves with points.

Matplotlib is imported inside functions, since it is optional: without it there are numbers and no charts.
"""

from collections.abc import Sequence

import numpy as np

from lintra_analysis.estimators.svg import plain_settings, svg_text
from lintra_protocol.crypto.ring import FloatArray

SMALLEST = 1e-30
"""Where a logarithmic axis ends."""


def bars(values: Sequence[tuple[str, float]]) -> str:
    """Return a bar chart as an SVG element: one bar for every name, the first on top.

    `values` are names, and lengths of at least 0; what is not finite has no bar.
    """
    with plain_settings():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 0.5 + 0.2 * max(1, len(values))), layout="constrained")
        axes = figure.add_subplot()
        places = np.arange(len(values))
        lengths = [value if np.isfinite(value) else 0.0 for _, value in values]
        drawn = axes.barh(places, lengths, color="#446688")
        axes.set_yticks(places, [name for name, _ in values])
        axes.bar_label(drawn, [f"{value:.3g}" for _, value in values], padding=3)
        axes.invert_yaxis()
        axes.set_xlim(0, 1.15 * max(lengths, default=0.0) or 1.0)
        axes.spines[["top", "right"]].set_visible(False)
        return svg_text(figure.savefig)


def decay(across: FloatArray, down: FloatArray, points: Sequence[tuple[float, float]], labels: tuple[str, str]) -> str:
    """Return a curve of small positive numbers on a logarithmic axis, and points, as an SVG element.

    `across` has shape `(k,)`. `down` has shape `(k,)`; drawn from 1e-30 up.
    """
    with plain_settings():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.add_subplot()
        axes.semilogy(across, np.maximum(down, SMALLEST), color="#223366", gid="curve")
        for number, (x, y) in enumerate(points):
            axes.semilogy([x], [max(y, SMALLEST)], "o", color="#cc2222", gid=f"claim-{number}")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        return svg_text(figure.savefig)
