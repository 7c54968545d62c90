"""The comparison of four calibrations in docs/explanation/benchmarks.md: `lintra plan --grid`."""

import json
import math

import typer

from lintra_analysis.kinds.plan_request import Question
from lintra_analysis.kinds.planning.osnap import plan_sketch, yardsticks
from lintra_analysis.kinds.wording import number
from lintra_protocol.privacy.statement import Claim

GRID = (
    *((1_000, 64, s) for s in (1, 8)),
    *((10_000, 64, s) for s in (1, 8)),
    *((100_000, 256, s) for s in (1, 4, 8)),
    *((1_000_000, 1024, s) for s in (1, 4, 8)),
    *((1_000_000, 4096, s) for s in (1, 4, 8)),
)
"""Clients, rows and sparsities of the comparison in docs/explanation/benchmarks.md."""


def show_grid(as_json: bool) -> None:
    """Print one client's noise by the four calibrations on `GRID`, at epsilon 1, delta 1e-6, row bound 1."""
    lines = [grid_line(*point) for point in GRID]
    if as_json:
        typer.echo(json.dumps(lines, indent=2, allow_nan=False))
        return
    typer.echo("| " + " | ".join(lines[0]) + " |")
    typer.echo("|" + " --- |" * len(lines[0]))
    for line in lines:
        cells = (number(value) if isinstance(value, float) else str(value or "undefined") for value in line.values())
        typer.echo("| " + " | ".join(cells) + " |")


def grid_line(clients: int, rows: int, sparsity: int) -> dict[str, object]:
    """Return one line of the comparison, replacing one row; the published noise for 10 and for 50 columns.

    The theory is Delta sqrt(tau) / mu*; what is above it pays for the lattice and for a whole number of steps.
    """
    claim = Claim(epsilon="1", delta="0.000001", min_clients=clients)
    ten, fifty = (
        Question(
            columns=d,
            claim=claim,
            max_clients=2 * clients,
            rows=rows,
            sparsity=sparsity,
            clip_count_weight="0",  # the others count nothing either
        )
        for d in (10, 50)
    )
    option, others = plan_sketch(ten), yardsticks(ten)
    return {
        "n": clients,
        "m": rows,
        "s": sparsity,
        "leverage n/m": option.leverage * clients / rows,
        "published, d=10": others.published,
        "published, d=50": yardsticks(fifty).published,
        "ours": option.sigma,
        "central": others.central,
        "local": others.local,
        "above theory": option.sigma / (ten.sensitivity * math.sqrt(option.leverage) / ten.mu) - 1,
    }
