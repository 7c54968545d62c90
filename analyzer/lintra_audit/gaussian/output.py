"""Shows the result of a white-box audit as a JSON document, as a table, and as a drawing of the curve."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lintra_analysis.synthetic.plots import decay
from lintra_audit.gaussian.verdict import GaussianAudit, Point
from lintra_curator.ndis.certified_value import CertifiedValue
from lintra_curator.ndis.profile import PrivacyProfile

Document = dict[str, Any]


def gaussian_document(audit: GaussianAudit) -> Document:
    """Return the findings, ready for JSON; with the epsilon that the worst pair allows at each claimed delta."""
    allowed = {most: _epsilon(audit, most) for _, most in dict.fromkeys(f.claimed for f in audit.findings)}
    return {
        "verdict": audit.verdict,
        "findings": [
            {
                "epsilon": finding.claimed[0],
                "delta": finding.claimed[1],
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


def write_plot(path: Path, profile: PrivacyProfile, claims: Sequence[Point]) -> None:
    """Draw delta over epsilon, logarithmically, with the claims as points, as SVG.

    `path` is that of a new file; its name ends in .svg. `profile` has both directions; the certified upper end of the
    larger one is drawn.
    """
    require_svg(path)
    drawing = decay(profile.epsilons, profile.hi, list(claims), ("epsilon", "delta"))
    path.write_text(f'<?xml version="1.0" encoding="utf-8"?>\n{drawing}', encoding="utf-8")


def require_svg(path: Path) -> None:
    """Refuse, with ValueError, the name of a plot that does not end in .svg."""
    if path.suffix != ".svg":
        raise ValueError(f"a plot is an SVG file, got {path.name!r}")


def _epsilon(audit: GaussianAudit, target: float) -> Document | None:
    """Return the certified epsilon at a delta; None where a delta of 0 or 1 has none, infinite ends as None."""
    if not 0 < target < 1:
        return None
    value: CertifiedValue = audit.epsilon_at(target)
    return {"lo": _finite(value.lo), "hi": _finite(value.hi)}


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
