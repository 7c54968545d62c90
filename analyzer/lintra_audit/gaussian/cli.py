"""`lintra audit gaussian`: an exact audit that needs no runs, only laws.

Exit codes: 0 within the claim, 1 a claim is refuted or a task refused, 3 undecided to the stated accuracy.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lintra_analysis.synthetic.plots import decay
from lintra_audit.gaussian.verdict import GaussianAudit, Point, audit_pair
from lintra_audit.output import Document, report
from lintra_curator.ndis.certified_value import CertifiedValue
from lintra_curator.ndis.gaussian_pair import GaussianPair, pair_from_gaussians
from lintra_curator.ndis.profile import PrivacyProfile, pair_profile
from lintra_curator.ndis.profile_evaluation import RTOL

EXIT_CODES = {"WITHIN": 0, "VIOLATION": 1, "UNDECIDED": 3}
_CURVE_POINTS = 61

_EXPECTED = {
    "mu1": "a finite number or a list of them",
    "S1": "a finite number or a list of rows of them",
    "mu2": "a finite number or a list of them",
    "S2": "a finite number or a list of rows of them",
    "epsilon": "a finite number or a list of them",
    "delta": "a finite number",
}

Vector = list[float] | float
Matrix = list[list[float]] | float


class LawsFile(BaseModel):
    """Two Gaussian laws and what is claimed about them; numbers stand for one dimension."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    mu1: Vector
    cov1: Matrix = Field(alias="S1")
    mu2: Vector
    cov2: Matrix = Field(alias="S2")
    epsilon: list[float] | float = Field(default_factory=list)
    delta: float | None = None

    def pair(self) -> GaussianPair:
        """Return the pair of the two laws; raise ValueError if they are no Gaussians."""
        for name, rows in (("S1", self.cov1), ("S2", self.cov2)):
            if isinstance(rows, list) and len({len(row) for row in rows}) > 1:
                raise ValueError(f"the rows of {name} have different lengths")
        return pair_from_gaussians(self.mu1, np.array(self.cov1), self.mu2, np.array(self.cov2))


def gaussian(
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON with mu1, S1, mu2, S2; '-' reads standard input.")],
    epsilon: Annotated[
        list[float] | None,
        typer.Option("--epsilon", help="The epsilon that is claimed, in the place of the file's; may be repeated."),
    ] = None,
    delta: Annotated[
        float | None, typer.Option("--delta", help="The delta that is claimed, in the place of the file's.")
    ] = None,
    rtol: Annotated[float, typer.Option("--rtol", help="The relative accuracy of delta.")] = RTOL,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="SVG", help="Draw the curve and the claims to this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Compare the exact privacy profile of two Gaussian laws, in both directions, with a claim."""
    try:
        laws = LawsFile.model_validate_json(_text(file))
        claims = _claims(laws, epsilon, delta)
        if plot is not None:
            require_svg(plot)
        pair = laws.pair()
        audit = audit_pair(pair, claims, rtol)
        if plot is not None:
            largest = max(2 * max(epsilon for epsilon, _ in claims), 1.0)
            write_plot(plot, pair_profile(pair, np.linspace(0.0, largest, _CURVE_POINTS), max(rtol, 1e-6)), claims)
    except ValidationError as error:
        raise typer.BadParameter(_complaint(error), param_hint="FILE") from None
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from None
    report(gaussian_document(audit), show_gaussian, as_json=as_json, code=EXIT_CODES[audit.verdict])


def _complaint(error: ValidationError) -> str:
    """Return what is wrong with a file of laws, and what would be right."""
    first = error.errors()[0]
    if not first["loc"]:
        return f"no JSON object with mu1, S1, mu2, S2 ({first['msg']})"
    name = str(first["loc"][0])
    if first["type"] == "missing":
        return f"{name} is missing"
    if name not in _EXPECTED:
        return f"{name}: unknown; the file holds {', '.join(_EXPECTED)}"
    return f"{name} must be {_EXPECTED[name]}"


def _claims(laws: LawsFile, epsilons: list[float] | None, delta: float | None) -> list[Point]:
    chosen = epsilons or (laws.epsilon if isinstance(laws.epsilon, list) else [laws.epsilon])
    target = laws.delta if delta is None else delta
    if not chosen or target is None:
        raise ValueError("a claim needs epsilon and delta, in the file or as options")
    return [(epsilon, target) for epsilon in chosen]


def _text(file: str) -> str:
    return sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")


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
