"""Shows the result of an audit as a table and as a JSON document."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lintra_audit.release.run import Outcome
from lintra_audit.trials.likelihood_test import CONFIDENCE, Bound

Document = dict[str, Any]


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
