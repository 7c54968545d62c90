"""The reports as one HTML page without scripts, fonts or images from elsewhere; charts are SVG, drawn by matplotlib."""

from collections.abc import Sequence
from html import escape

from lintra_analysis.synthetic.comparison import Comparison
from lintra_analysis.synthetic.fidelity import FidelityReport
from lintra_analysis.synthetic.plots import bars
from lintra_protocol.errors import InvalidAnalysisError

_STYLE = (
    "body{font:15px/1.45 sans-serif;max-width:60em;margin:2em auto;color:#222}table{border-collapse:collapse}"
    "td,th{padding:.15em .9em .15em 0;text-align:left}.w{color:#a40}svg{display:block;margin:.6em 0}"
)


def html_page(report: FidelityReport, comparison: Comparison | None = None) -> str:
    """Return a page for people: promise, warnings, verdicts, eigenvalues, and the comparison with reference rows.

    `report` is that of `fidelity.fidelity`; `comparison` is that of `compare(..)`, if the analyst owns reference rows.
    """
    parts = [
        "<h1>Synthetic rows</h1>",
        _promised(report),
        *(f'<p class="w">{escape(warning)}.</p>' for warning in report.warnings),
        "<h2>What the noise has left</h2>",
        _table(
            ["part", "name", "relative error", "verdict"],
            [[part, name, f"{error:.3g}", verdict] for part, name, error, verdict in report.lines()],
        ),
        "<h2>Classes</h2>",
        _table(
            ["class", "count", f"{100 * report.confidence:g} % interval", "share of the rows"],
            [
                [one.level or "all", f"{one.count:.0f}", "{:.0f} .. {:.0f}".format(*one.interval), f"{one.share:.3f}"]
                for one in report.classes
            ],
        ),
        "<h2>Eigenvalues of the covariance</h2>",
        chart([(str(number + 1), value) for number, value in enumerate(report.eigenvalues.tolist()[:40])]),
        *(f"<p>{escape(note)}.</p>" for note in report.notes),
    ]
    if comparison is not None:
        parts += _compared(comparison)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Synthetic rows</title><style>{_STYLE}'
        f"</style></head><body>{''.join(parts)}</body></html>\n"
    )


def chart(values: Sequence[tuple[str, float]]) -> str:
    """Return a bar chart; or, where matplotlib is not installed, its numbers as a table and what is missing."""
    try:
        return bars(values)
    except InvalidAnalysisError as error:
        rows = [[name, f"{value:.3g}"] for name, value in values]
        return f"{_table(['name', 'value'], rows)}<p>{escape(str(error))}</p>"


def _promised(report: FidelityReport) -> str:
    promise = report.promise
    words = (
        f"{promise.mechanism}: epsilon {promise.epsilon:.6g} at delta {promise.delta:g} ({promise.neighbours}), "
        f"{report.num_clients} people; {promise.note}. Projected to {report.dimension} of {report.coordinates} "
        f"coordinates. Model {report.model_digest}."
    )
    return f"<p>{escape(words)}</p>"


def _compared(comparison: Comparison) -> list[str]:
    parts = [
        "<h2>Beside reference rows</h2>",
        *(f'<p class="w">{escape(note)}.</p>' for note in comparison.notes),
        chart([(one.column, one.distance) for one in comparison.columns]),
        _table(
            ["column", "measure", "distance", "by chance about", "reference outside the bounds"],
            [
                [one.column, one.measure, f"{one.distance:.3f}", f"{one.chance:.3f}", f"{one.outside:.3f}"]
                for one in comparison.columns
            ],
        ),
    ]
    if comparison.correlation_error is not None:
        largest, mean = comparison.correlation_error
        parts.append(f"<p>Correlations differ by {largest:.3f} at most, {mean:.3f} on average.</p>")
    if (use := comparison.training) is not None:
        rows = [[use.measure, f"{use.synthetic:.3f}", f"{use.reference:.3f}", f"{use.baseline:.3f}"]]
        parts.append(_table(["tested on reference rows", "trained on synthetic", "on reference", "baseline"], rows))
    return parts


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heading)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
