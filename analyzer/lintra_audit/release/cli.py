"""`lintra audit ...`: try to refute the claims that releases make.

Exit codes: 0 nothing contradicts a claim, 1 something does, or the task was refused.
"""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lintra_analysis.commands.progress import counting
from lintra_audit.gaussian import cli as gaussian_cli
from lintra_audit.output import Document, entropy_of, report
from lintra_audit.release.cases import cases_of_task, seams_of, standard_cases
from lintra_audit.release.run import MIN_TRIALS, Outcome, audit_case
from lintra_audit.replay import cli as replay_cli
from lintra_audit.task import cli as task_cli
from lintra_audit.trials.audit_case import Case
from lintra_audit.trials.likelihood_test import CONFIDENCE, Bound
from lintra_audit.verify import cli as verify_cli
from lintra_protocol.cli import read_task

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
            "--task", metavar="FILE", help="Audit this task, or a smaller one like it; '-' reads the standard input."
        ),
    ] = None,
    case: Annotated[
        list[str] | None, typer.Option("--case", metavar="NAME", help="Make only this case; may be repeated.")
    ] = None,
    fault: Annotated[
        str | None,
        typer.Option(
            "--fault", metavar="NAME", help="Plant this fault, so that the audit must fail. An unknown name lists all."
        ),
    ] = None,
    trials: Annotated[
        int, typer.Option("--trials", min=MIN_TRIALS, help="How often each of the two worlds is run.")
    ] = TRIALS,
    seed: Annotated[
        str | None,
        typer.Option(
            "--seed", metavar="HEX", help="The seed of an earlier audit, 32 bytes in hexadecimal, to repeat it."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Run releases of worst-case neighbours many times, and compare what tells them apart with the claim."""
    cases, subject = _chosen(task, case)
    entropy = entropy_of(seed)
    try:
        seams = seams_of(fault)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--fault") from None
    outcomes = []
    with counting("auditing", len(cases)) as (said, done):
        for number, chosen in enumerate(cases, 1):
            said(f"case {number} of {len(cases)}: {chosen.name}")
            outcomes.append(audit_case(chosen, trials, entropy, seams))
            done(number)
    document = audit_document(outcomes, subject=subject, fault=fault, trials=trials, seed=entropy)
    report(document, show_audit, as_json=as_json, code=int(document["verdict"] != "pass"))


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


def audit_document(
    outcomes: Sequence[Outcome], *, subject: str, fault: str | None, trials: int, seed: bytes
) -> Document:
    """Return everything that was found, ready for JSON.

    `trials` are runs of each world for an ordinary case. `seed` is 32 bytes, with which the audit can be repeated.
    """
    return {
        "verdict": "pass" if all(outcome.passed for outcome in outcomes) else "fail",
        "subject": subject,
        "fault": fault,
        "trials": trials,
        "seed": seed.hex(),
        "confidence": CONFIDENCE,
        "cases": [_case(outcome) for outcome in outcomes],
    }


def show_audit(console: Console, document: Document) -> None:
    """Print a table of the cases, what every failed check found, and the verdict."""
    title = f"Audit of {document['subject']}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("case", no_wrap=True)
    for heading in ("epsilon", "at least", "mu", "measured", "at least", "learned", "verdict"):
        table.add_column(heading, justify="right", no_wrap=True)
    for case in document["cases"]:
        optimal, black_box = case["optimal"] or {}, case["black_box"] or {}
        table.add_row(
            Text(case["name"]),
            _number(case["epsilon"]),
            _number(case["epsilon_lower"]),
            _number(case["mu"]),
            _number(optimal.get("mu")),
            _number(optimal.get("mu_lower")),
            _number(black_box.get("mu_lower")),
            "refused" if case["verdict"] == "pass" and case["refusal"] else case["verdict"],
        )
    console.print(table)
    for case in document["cases"]:
        console.print(Text(f"{case['name']}: {case['about']}"))
    for case in document["cases"]:
        for check in case["checks"]:
            if not check["passed"]:
                console.print(Text(f"! {case['name']}: {check['name']}: {check['detail']}"))
    for case in document["cases"]:
        if case["published_refuted"] is not None:
            console.print(Text(_published(case)))
    if document["fault"]:
        console.print(f"planted fault: {document['fault']}", highlight=False)
    console.print(f"{document['trials']} runs of each world; repeat with --seed {document['seed']}", highlight=False)
    console.print(f"verdict: {document['verdict']}", highlight=False)


def _case(outcome: Outcome) -> Document:
    statement = outcome.statement
    return {
        "name": outcome.case.name,
        "about": outcome.case.about,
        "verdict": "pass" if outcome.passed else "fail",
        "refusal": outcome.refusal,
        "epsilon_of_task": outcome.case.task.claim.epsilon,
        "epsilon": statement.epsilon,
        "delta": statement.delta,
        "epsilon_published": outcome.published_epsilon,
        "published_refuted": outcome.published_refuted,
        "mu": statement.mu,
        "mu_exact": outcome.exact_mu,
        "epsilon_lower": outcome.epsilon_lower,
        "optimal": _bound(outcome.optimal, statement.delta),
        "black_box": _bound(outcome.black_box, statement.delta),
        "checks": [{"name": check.name, "passed": check.passed, "detail": check.detail} for check in outcome.checks],
    }


def _published(case: Document) -> str:
    found = "refuted" if case["published_refuted"] else "not refuted by so few runs"
    return (
        f"{case['name']}: claimed epsilon {case['epsilon_published']:g} by Theorem 3.4, exactly {case['epsilon']:.4f}, "
        f"measured at least {case['epsilon_lower']:.4f}: the published claim is {found}"
    )


def _bound(bound: Bound | None, delta: float) -> Document | None:
    if bound is None:
        return None
    return {
        "trials": bound.trials,
        "false_positives": bound.false_positives,
        "false_negatives": bound.false_negatives,
        "mu": bound.mu,
        "mu_lower": bound.mu_lower,
        "epsilon_lower": bound.epsilon_lower(delta),
    }


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
