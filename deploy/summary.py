"""The demonstration's answer in words: the certificate of a release, and the table that compares."""

from collections.abc import Iterator
from typing import Any

from rich.table import Table


def certificate_lines(release_id: str, record: dict[str, Any]) -> Iterator[str]:
    """Yield what the certificate of a release says, a line each: what is promised, to whom, and what is not."""
    privacy, noise = record["privacy"], record["noise"]
    yield (
        f"Release {release_id[:12]}: {record['num_clients']:,} reports, realised epsilon "
        f"{float(privacy['epsilon']):.4f} at delta {privacy['delta']} ({privacy['neighbours']})"
    )
    yield (
        f"  one client's noise: sigma {noise['sigma']} steps of {float(noise['step']):.3g}; "
        f"{privacy['honest_clients']:,} honest clients or more behind every released number"
    )
    yield f"  trusted: {privacy['trusted']}"
    for line in privacy["not_promised"]:
        yield f"  not promised: {line}"


def comparison_table(result: dict[str, Any]) -> Table:
    """Return the one table: what privacy costs, and what it would cost without the servers."""
    table = Table(title=f"{result['rows']:,} flights: what privacy costs", title_justify="left")
    table.add_column("what the analyst gets")
    table.add_column("who is trusted with rows")
    table.add_column("ridge R2", justify="right")
    table.add_column("low rank: share held", justify="right")
    sketch, moments = result["tasks"]
    table.add_row(
        "rows, no privacy", "the analyst",
        _number(moments["ridge"]["r2_non_private"]), _number(moments["low_rank"]["explained_non_private"]),
    )  # fmt: skip
    for task, name in ((moments, "second moments"), (sketch, "sketch")):
        ridge, low_rank = task["ridge"], task["low_rank"]
        table.add_section()
        table.add_row(name, "one curator", _number(ridge["r2_central"]), "")
        table.add_row(
            f"[bold]{name}, this release[/bold]", "[bold]nobody[/bold]",
            f"[bold]{_number(ridge['r2'])}[/bold]", f"[bold]{_number(low_rank['explained'])}[/bold]",
        )  # fmt: skip
        table.add_row(f"{name}, local model", "nobody", _number(ridge["r2_local"]), "")
    return table


def _number(value: float) -> str:
    return f"{value:.4f}"
