"""`lintra client ledger`: what this device has answered, and what it has left."""

import json
from pathlib import Path
from typing import Annotated

import typer

from lintra_client.commands.terminal import refusals
from lintra_client.ledger.ledger import DELTA, MAX_EPSILON, SELF, Entry, Ledger, default_path
from lintra_client.ledger.prices import Balance

app = typer.Typer(help="Look at the ledger of this device.", no_args_is_help=True)

LedgerPath = Annotated[
    Path | None,
    typer.Option(
        "--ledger", metavar="FILE", dir_okay=False, help="The file of the ledger; the one of this user if not given."
    ),
]
Ceiling = Annotated[float, typer.Option(help="The largest epsilon of one source over all tasks together.")]
LedgerDelta = Annotated[float, typer.Option(help="The delta at which the ledger computes epsilon.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


@app.callback()
def ledger() -> None:
    """Keep `show` a word of its own."""


@app.command()
def show(
    ledger: LedgerPath = None,
    source: Annotated[str, typer.Option(help="Whose account to show.")] = SELF,
    ceiling: Ceiling = MAX_EPSILON,
    ledger_delta: LedgerDelta = DELTA,
    as_json: AsJson = False,
) -> None:
    """Show what a source has spent, and every charge that counts for it."""
    path = ledger or default_path()
    with refusals():
        if not path.exists():
            raise ValueError(f"there is no ledger at {path}: nothing was charged in it")
        with Ledger(path, max_epsilon=ceiling, delta=ledger_delta) as opened:
            balance = opened.spent(source)
            entries = opened.entries(source)
    if as_json:
        typer.echo(json.dumps(_document(source, balance, entries), ensure_ascii=False))
        return
    typer.echo(f"{source}: epsilon {balance.epsilon:.6g} of {balance.max_epsilon:g} at delta {balance.delta:g}")
    trusted = f"; {balance.unbounded} releases are not bounded then" * (balance.unbounded > 0)
    typer.echo(f"  {balance.epsilon_alone:.6g} of {balance.max_epsilon_alone:g} if everybody else is invented{trusted}")
    for entry in entries:
        whose = "" if entry.source else f", for every source ({entry.num_reports} rows)"
        price = f"epsilon {entry.spent.epsilon_at(balance.delta):.6g}"
        if entry.pilot is not None:
            price = f"charged with its pilot {entry.pilot}"
        typer.echo(f"  task {entry.task_id}: {price}{whose}")


def _document(source: str, balance: Balance, entries: list[Entry]) -> dict[str, object]:
    return {
        "source": source,
        "epsilon": _number(balance.epsilon),
        "max_epsilon": balance.max_epsilon,
        "epsilon_alone": balance.epsilon_alone,
        "max_epsilon_alone": balance.max_epsilon_alone,
        "unbounded": balance.unbounded,
        "delta": balance.delta,
        "spent": balance.spent.to_document(),
        "entries": [
            {
                "task_id": entry.task_id,
                "batch": entry.batch,
                "source": None if entry.source is None else source,
                "reports": entry.num_reports,
                "epsilon": _number(entry.spent.epsilon_at(balance.delta)),
                "spent": entry.spent.to_document(),
                "pilot": entry.pilot,
            }
            for entry in entries
        ],
    }


def _number(epsilon: float) -> float | None:
    """JSON knows no infinity; None is no bound at this delta."""
    return epsilon if epsilon < float("inf") else None
