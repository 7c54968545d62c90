"""The demonstration's answer in words: the certificate of a release, and the table that compares."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from lintra_analysis.certificate.certificate import ReleaseRecord
from lintra_analyzer.tasks.populations import spent_together


def certificate_lines(release_id: str, record: dict[str, Any]) -> Iterator[str]:
    """Yield what the certificate of a release says in numbers."""
    privacy, noise = record["privacy"], record["noise"]
    yield (
        f"Release {release_id[:12]}: {record['num_clients']:,} reports, epsilon {float(privacy['epsilon']):.4f} "
        f"realised at delta {float(privacy['delta']):g} ({privacy['neighbours']}, mu {float(privacy['mu']):.4f})"
    )
    one, behind = "client", f"at least {privacy['honest_clients']:,} honest clients"
    if noise.get("servers"):
        one, behind = "server", "one honest server's"
    yield (
        f"one {one}'s noise: sigma {noise['sigma']:,} steps of {float(noise['step']):.2g}; {behind} behind every "
        "released number"
    )


def epsilon_of_both(records: Sequence[dict[str, Any]]) -> float:
    """Return what releases cost together somebody who took part in all, as the console says it.

    `records` are the certificates of at least one release, all with a promise.
    """
    statements = [ReleaseRecord.model_validate_json(json.dumps(record)).privacy for record in records]
    together = spent_together(statements)
    assert together is not None
    assert together.epsilon is not None
    return float(together.epsilon)


def promise_lines(record: dict[str, Any]) -> Iterator[str]:
    """Yield what the certificates promise and what they do not, in words."""
    yield f"[bold]Promised[/bold]: {record['privacy']['trusted']}."
    yield "[bold]Not promised[/bold]:"
    for line in record["privacy"]["not_promised"]:
        yield f"  - {line}"


def comparison_table(result: dict[str, Any]) -> Table:
    """Return the one table: what privacy costs, and what it would cost without the servers."""
    table = Table(
        title=f"{result['rows']:,} flights: what privacy costs; of simulated runs the median", title_justify="left"
    )
    table.add_column("what the analyst gets", no_wrap=True)
    table.add_column("sees rows", no_wrap=True)
    table.add_column("ridge R2", justify="right", no_wrap=True)
    table.add_column("10 % to 90 %", justify="right", no_wrap=True)
    table.add_column("low rank", justify="right")
    sketch, moments = result["tasks"]
    best = moments["ridge"]
    table.add_row("rows, no privacy", "analyst", *_pair(best["r2_non_private"], moments, "explained_non_private"))
    for task, name in ((moments, "second moments"), (sketch, f"{task_rows(sketch)} sketch rows")):
        table.add_section()
        table.add_row(name, "curator", *_spread(task["ridge"]["r2_central"]), "")
        table.add_row(f"{name}, simulated", "nobody", *_spread(task["ridge"]["r2_simulated"]), "")
        table.add_row(f"{name}, this run", "nobody", *_pair(task["ridge"]["r2"], task, "explained"), style="bold")
    table.add_section()
    table.add_row("products, each for itself", "nobody", *_spread(best["r2_local_products"]), "")
    table.add_row("rows, each for itself", "nobody", *_spread(best["r2_local"]), "")
    return table


def task_rows(task: dict[str, Any]) -> int:
    """Return the rows of a released sketch."""
    return int(task["certificate"]["rows"])


def _pair(r2: float, task: dict[str, Any], share: str) -> tuple[str, str, str]:
    return _number(r2), "", _number(task["low_rank"][share])


def _spread(found: dict[str, float]) -> tuple[str, str]:
    return _number(found["median"]), f"{found['low']:.3f} to {found['high']:.3f}"


def _number(value: float) -> str:
    return f"{value:.4f}"
