"""Estimates as tables for people; machines take the JSON.

Only the kinds in `SHOWN` are drawn here. The others have a text of their own, which the analyzer sends.
"""

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

Document = dict[str, Any]


def show_analysis(console: Console, answer: Document) -> None:
    """Print the answer of an analysis, the certificate below it, and every warning."""
    result, certificate = answer["result"], answer["certificate"]
    _SHOW[answer["kind"]](console, result)
    console.print(
        f"{certificate['num_clients']} clients, epsilon {_short(certificate['epsilon'])} at delta "
        f"{certificate['delta']} ({certificate['neighbours']}); this analysis spent {certificate['privacy_spent']}",
        highlight=False,
    )
    for warning in [*certificate["warnings"], *result.get("warnings", []), *result.get("notes", [])]:
        console.print(Text(f"! {warning}"))


def _ridge(console: Console, result: Document) -> None:
    table = Table(title=f"{result['target']}, regularization {result['regularization']:g}", title_justify="left")
    for heading in ("feature", "coefficient", "standard error", _percent(result)):
        table.add_column(heading, justify="left" if heading == "feature" else "right")
    for row in [*result["coefficients"], result["intercept"]]:
        error = row["standard_error"]
        table.add_row(
            Text(row["name"]), _number(row["value"]), _number(error and error["total"]), _interval(row["interval"])
        )
    console.print(table)
    console.print(f"r2 {_number(result['r2'])}, residual sd {_number(result['residual_sd'])}", highlight=False)


def _low_rank(console: Console, result: Document) -> None:
    table = Table(title=f"rank {result['rank']}", title_justify="left")
    table.add_column("column")
    for number in range(result["rank"]):
        table.add_column(f"component {number + 1}", justify="right")
    for name, row in zip(result["columns"], result["components"], strict=True):
        table.add_row(Text(name), *map(_number, row))
    table.add_section()
    table.add_row("eigenvalue", *(_number(value["value"]) for value in result["eigenvalues"]))
    table.add_row(_percent(result), *(_interval(value["interval"]) for value in result["eigenvalues"]))
    console.print(table)
    explained = result["explained"]
    share = "unknown" if explained is None else f"{_number(explained['value'])} {_interval(explained['interval'])}"
    console.print(f"explained share {share}", highlight=False)


def _moments(console: Console, result: Document) -> None:
    what, values = ("mean", result["means"]) if result["means"] else ("root mean square", result["rms"])
    table = Table()
    for heading in ("column", what, "standard error", _percent(result)):
        table.add_column(heading, justify="left" if heading == "column" else "right")
    for name, value in zip(result["columns"], values or [], strict=True):
        known = value or {"value": None, "standard_error": None, "interval": None}
        table.add_row(
            Text(name), _number(known["value"]), _number(known["standard_error"]), _interval(known["interval"])
        )
    console.print(table)


_SHOW: dict[str, Callable[[Console, Document], None]] = {"ridge": _ridge, "low-rank": _low_rank, "moments": _moments}
SHOWN = frozenset(_SHOW)


def _percent(result: Document) -> str:
    return f"{100 * result['confidence']:g} % interval"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"


def _short(text: str) -> str:
    return f"{float(text):.6g}"


def _interval(interval: list[float] | None) -> str:
    return "-" if interval is None else f"{_number(interval[0])} .. {_number(interval[1])}"
