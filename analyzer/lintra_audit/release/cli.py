"""`lintra audit ...`: try to refute the claims that releases make.

Exit codes: 0 nothing contradicts a claim, 1 something does, or the task was refused.
"""

import json
from typing import Annotated

import typer
from rich.console import Console

from lintra_analysis.commands.progress import waiting
from lintra_audit.gaussian import cli as gaussian_cli
from lintra_audit.release.cases import cases_of_task, seams_of, standard_cases
from lintra_audit.release.output import audit_document, show_audit
from lintra_audit.release.run import MIN_TRIALS, audit_case
from lintra_audit.replay import cli as replay_cli
from lintra_audit.task import cli as task_cli
from lintra_audit.trials.audit_case import Case
from lintra_audit.verify import cli as verify_cli
from lintra_protocol.cli import read_task
from lintra_protocol.crypto.randomness import system_randomness

TRIALS = 200_000

app = typer.Typer(help="Try to refute privacy claims by running the pipeline.", no_args_is_help=True)
app.command("gaussian")(gaussian_cli.gaussian)
app.command("task")(task_cli.task)
app.command("verify")(verify_cli.verify)
app.command("replay")(replay_cli.replay)


@app.callback()
def _audit() -> None:
    """Try to refute privacy claims by running the pipeline."""


@app.command()
def release(
    task: Annotated[
        str | None,
        typer.Option(
            "--task", metavar="FILE", help="Audit this task, or a small twin of it; '-' reads standard input."
        ),
    ] = None,
    case: Annotated[list[str] | None, typer.Option("--case", metavar="NAME", help="Only these cases.")] = None,
    fault: Annotated[
        str | None,
        typer.Option(
            "--fault", metavar="NAME", help="Plant a fault (docs/explanation/audit.md has them all): this must fail."
        ),
    ] = None,
    trials: Annotated[int, typer.Option("--trials", min=MIN_TRIALS, help="Runs of each of the two worlds.")] = TRIALS,
    seed: Annotated[
        str | None, typer.Option("--seed", metavar="HEX", help="The 32 bytes of an audit, to repeat it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Run releases of worst-case neighbours many times, and compare what tells them apart with the claim."""
    cases, subject = _chosen(task, case)
    entropy = _seed(seed)
    try:
        seams = seams_of(fault)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--fault") from None
    outcomes = []
    with waiting("auditing") as said:
        for number, chosen in enumerate(cases, 1):
            said(f"case {number} of {len(cases)}: {chosen.name}")
            outcomes.append(audit_case(chosen, trials, entropy, seams))
    document = audit_document(outcomes, subject=subject, fault=fault, trials=trials, seed=entropy)
    if as_json:
        typer.echo(json.dumps(document, indent=2, allow_nan=False))
    else:
        show_audit(Console(), document)
    if document["verdict"] != "pass":
        raise typer.Exit(1)


def _chosen(file: str | None, names: list[str] | None) -> tuple[list[Case], str]:
    """Return the cases to run, and in words what they are."""
    if file is not None:
        if names:
            raise typer.BadParameter("cases belong to the standard audit, not to a task", param_hint="--case")
        return cases_of_task(read_task(file))
    cases = standard_cases()
    known = [case.name for case in cases]
    unknown = set(names or ()) - set(known)
    if unknown:
        raise typer.BadParameter(f"there are {', '.join(known)}", param_hint="--case")
    return [case for case in cases if not names or case.name in names], "this version"


def _seed(text: str | None) -> bytes:
    if text is None:
        return system_randomness(32)
    try:
        seed = bytes.fromhex(text)
    except ValueError:
        seed = b""
    if len(seed) != 32:
        raise typer.BadParameter("expected 64 hexadecimal digits", param_hint="--seed")
    return seed
