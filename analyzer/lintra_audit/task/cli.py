"""`lintra audit task`: an exact audit that needs no runs, only the task and a public matrix.

Exit codes: 0 within the claim, 1 a claim is refuted or a task refused.
"""

import json
from typing import Annotated

import typer
from rich.console import Console

from lintra_audit.task.output import show_task, task_document
from lintra_audit.task.task import audit_task
from lintra_protocol.cli import read_task
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.rules.release import fewest_reports


def task(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A task; '-' reads standard input.")],
    clients: Annotated[
        int | None, typer.Option("--clients", min=2, help="Size of the cohort; the task's minimum by default.")
    ] = None,
    seed: Annotated[
        str | None, typer.Option("--seed", metavar="HEX", help="The 32 bytes of an audit, to repeat it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")] = False,
) -> None:
    """Recompute a task's privacy from a public matrix as servers draw it, by another route than the service."""
    definition = read_task(file)
    try:
        entropy = system_randomness(32) if seed is None else bytes.fromhex(seed)
    except ValueError:
        entropy = b""
    if len(entropy) != 32:
        raise typer.BadParameter("expected 64 hexadecimal digits", param_hint="--seed")
    try:
        audit = audit_task(definition, clients or fewest_reports(definition), entropy)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    document = task_document(audit) | {"seed": entropy.hex()}
    if as_json:
        typer.echo(json.dumps(document, indent=2, allow_nan=False))
    else:
        show_task(Console(), document)
    if not audit.passed:
        raise typer.Exit(1)
