"""`lintra audit gaussian`: an exact audit that needs no runs, only laws.

Exit codes: 0 within the claim, 1 a claim is refuted or a task refused, 3 undecided to the stated accuracy.
"""

import json
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rich.console import Console

from lintra_audit.gaussian.output import gaussian_document, require_svg, show_gaussian, write_plot
from lintra_audit.gaussian.verdict import GaussianAudit, Point, audit_pair
from lintra_curator.ndis.gaussian_pair import GaussianPair, pair_from_gaussians
from lintra_curator.ndis.profile import pair_profile
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
        list[float] | None, typer.Option("--epsilon", help="Claimed; may be given several times. Overrides the file.")
    ] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="Claimed. Overrides the file.")] = None,
    rtol: Annotated[float, typer.Option("--rtol", help="Relative accuracy of delta.")] = RTOL,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="SVG", help="Draw the curve and the claims.")] = None,
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
    _report(audit, as_json=as_json)


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


def _report(audit: GaussianAudit, *, as_json: bool) -> None:
    document = gaussian_document(audit)
    if as_json:
        typer.echo(json.dumps(document, indent=2, allow_nan=False))
    else:
        show_gaussian(Console(), document)
    if code := EXIT_CODES[audit.verdict]:
        raise typer.Exit(code)


def _claims(laws: LawsFile, epsilons: list[float] | None, delta: float | None) -> list[Point]:
    chosen = epsilons or (laws.epsilon if isinstance(laws.epsilon, list) else [laws.epsilon])
    target = laws.delta if delta is None else delta
    if not chosen or target is None:
        raise ValueError("a claim needs epsilon and delta, in the file or as options")
    return [(epsilon, target) for epsilon in chosen]


def _text(file: str) -> str:
    return sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
