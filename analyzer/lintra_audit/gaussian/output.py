"""What a white-box audit found: a document for machines, a table for people, and the curve as a drawing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lintra_audit.gaussian.gaussian import Claim, GaussianAudit
from lintra_curator.ndis.certified import Certified
from lintra_curator.ndis.curve import PrivacyProfile

Document = dict[str, Any]

_WIDTH, _HEIGHT, _MARGIN = 640, 400, 56
_SMALLEST = 1e-30


def gaussian_document(audit: GaussianAudit) -> Document:
    """Return the findings, ready for JSON; with the epsilon that the worst pair allows at each claimed delta."""
    allowed = {claim.delta: _epsilon(audit, claim.delta) for claim in dict.fromkeys(f.claim for f in audit.findings)}
    return {
        "verdict": audit.verdict,
        "findings": [
            {
                "epsilon": finding.claim.epsilon,
                "delta": finding.claim.delta,
                "neighbour": finding.neighbour,
                "direction": finding.direction,
                "delta_lo": finding.found.lo,
                "delta_hi": finding.found.hi,
                "verdict": finding.verdict,
            }
            for finding in audit.findings
        ],
        "epsilon_at": [{"delta": target, **value} for target, value in allowed.items() if value],
    }


def show_gaussian(console: Console, document: Document) -> None:
    """Print a table of the findings, and the verdict."""
    table = Table(title="Gaussian laws against their claim", title_justify="left", box=None, pad_edge=False)
    table.add_column("neighbour")
    for heading in ("direction", "epsilon", "delta claimed", "delta at least", "delta at most", "verdict"):
        table.add_column(heading, justify="right", no_wrap=True)
    for finding in document["findings"]:
        table.add_row(
            Text(finding["neighbour"]),
            finding["direction"],
            f"{finding['epsilon']:g}",
            f"{finding['delta']:g}",
            f"{finding['delta_lo']:.6g}",
            f"{finding['delta_hi']:.6g}",
            finding["verdict"],
        )
    console.print(table)
    for value in document["epsilon_at"]:
        low, high = value["lo"], value["hi"]
        if high is None:
            console.print(f"at delta {value['delta']:g} this pair has no finite epsilon", highlight=False)
        else:
            console.print(f"at delta {value['delta']:g} this pair has epsilon {low:.9g} to {high:.9g}", highlight=False)
    console.print(f"verdict: {document['verdict']}", highlight=False)


def write_plot(path: Path, profile: PrivacyProfile, claims: Sequence[Claim]) -> None:
    """Draw delta over epsilon, logarithmically, with the claims as points, as SVG.

    Args:
        path: of a new file; its name ends in .svg.
        profile: both directions; drawn is the certified upper end of the larger one.
        claims: points.

    Raises:
        ValueError: if the file would not be SVG.
    """
    require_svg(path)
    deltas = np.maximum(profile.hi, _SMALLEST)
    points = [(claim.epsilon, max(claim.delta, _SMALLEST)) for claim in claims]
    xs = np.concatenate([profile.epsilons, [x for x, _ in points]])
    ys = np.log10(np.concatenate([deltas, [y for _, y in points]]))
    left, right, bottom, top = float(xs.min()), float(xs.max()), float(np.floor(ys.min())), float(np.ceil(ys.max()))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - left) / ((right - left) or 1.0)
        up = (np.log10(y) - bottom) / ((top - bottom) or 1.0)
        return _MARGIN + across * (_WIDTH - 2 * _MARGIN), _HEIGHT - _MARGIN - up * (_HEIGHT - 2 * _MARGIN)

    line = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in zip(profile.epsilons, deltas, strict=True))
    marks = "".join('<circle cx="{:.1f}" cy="{:.1f}" r="5" fill="#c22"/>'.format(*place(*point)) for point in points)
    labels = "".join(
        _label(*at, text)
        for at, text in (
            ((_WIDTH / 2, _HEIGHT - 12.0), "epsilon"),
            ((place(left, 10.0**bottom)[0], _HEIGHT - _MARGIN + 18.0), f"{left:g}"),
            ((place(right, 10.0**bottom)[0], _HEIGHT - _MARGIN + 18.0), f"{right:g}"),
            ((_MARGIN - 28.0, place(left, 10.0**bottom)[1]), f"1e{bottom:g}"),
            ((_MARGIN - 28.0, place(left, 10.0**top)[1]), f"1e{top:g}"),
            ((_MARGIN - 28.0, _HEIGHT / 2), "delta"),
        )
    )
    frame = f'x="{_MARGIN}" y="{_MARGIN}" width="{_WIDTH - 2 * _MARGIN}" height="{_HEIGHT - 2 * _MARGIN}"'
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}">\n'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>\n<rect {frame} fill="none" stroke="#888"/>\n'
        f'<polyline points="{line}" fill="none" stroke="#236" stroke-width="2"/>\n{marks}\n{labels}\n</svg>\n',
        encoding="utf-8",
    )


def require_svg(path: Path) -> None:
    """Refuse the name of a plot that does not end in .svg.

    Raises:
        ValueError: it does not.
    """
    if path.suffix != ".svg":
        raise ValueError(f"a plot is an SVG file, got {path.name!r}")


def _label(x: float, y: float, text: str) -> str:
    style = 'font-family="sans-serif" font-size="13" text-anchor="middle"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'


def _epsilon(audit: GaussianAudit, target: float) -> Document | None:
    """Return the certified epsilon at a delta; None where a delta of 0 or 1 has none, infinite ends as None."""
    if not 0 < target < 1:
        return None
    value: Certified = audit.epsilon_at(target)
    return {"lo": _finite(value.lo), "hi": _finite(value.hi)}


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
