"""`lintra audit verify`: hostile clients, servers, analyzers and editors of databases against real servers.

Exit codes: 0 every attack fails against its rule and works without it, 1 one does not.
"""

import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from lintra_analysis.commands.progress import counting
from lintra_audit.output import Document, report
from lintra_audit.verify.attack_result import RULES, AttackResult


def verify(
    attack: Annotated[
        list[str] | None, typer.Option("--attack", metavar="NAME", help="Make only this attack; may be repeated.")
    ] = None,
    fault: Annotated[
        str | None,
        typer.Option(
            "--fault", metavar="RULE", help="Leave this rule out where all should be kept, so that the audit must fail."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")] = False,
) -> None:
    """Attack real servers on this machine: each attack must fail against its rule, and work where the rule is off."""
    # The servers and what they serve with are loaded for this command only.
    from lintra_audit.verify.run import audit_verification, known_attacks

    unknown = set(attack or ()) - set(known_attacks())
    if unknown:
        raise typer.BadParameter(f"there are {', '.join(known_attacks())}", param_hint="--attack")
    if fault is not None and fault not in RULES:
        raise typer.BadParameter(f"there are {', '.join(RULES)}", param_hint="--fault")
    began = time.monotonic()
    total = len(set(attack or known_attacks()))
    with counting("starting servers", total) as (said, done):
        findings = []
        for finding in audit_verification(attack or (), fault, said):
            findings.append(finding)
            done(len({each.name for each in findings}))
    document = verification_document(findings, fault=fault, seconds=time.monotonic() - began)
    report(document, show_verification, as_json=as_json, code=int(document["verdict"] != "pass"))


def verification_document(findings: Sequence[AttackResult], *, fault: str | None, seconds: float) -> Document:
    """Return everything that was found, ready for JSON.

    `fault` is the rule that was off where all should be kept, if one was.
    """
    return {
        "verdict": "pass" if all(finding.passed for finding in findings) else "fail",
        "fault": fault,
        "seconds": round(seconds, 1),
        "attacks": [finding.document() for finding in findings],
    }


def show_verification(console: Console, document: Document) -> None:
    """Print each attack, what became of it with its rule and without, and the verdict."""
    for attack in document["attacks"]:
        rule = attack["rule"]
        console.print(Text(f"{attack['name']}: {attack['verdict']}", style="bold"))
        console.print(Text(f"  {attack['told']}"))
        console.print(Text(f"  rule {rule['number']}: {rule['says']}"))
        console.print(Text(f"  with the rule: {attack['with_rule']['happened']}"))
        console.print(Text(f"  without it: {attack['without_rule']['happened']}"))
    if document["fault"]:
        console.print(f"planted fault: servers without the rule {document['fault']!r}", highlight=False)
    console.print(f"{len(document['attacks'])} attacks in {document['seconds']:g} s", highlight=False)
    console.print(f"verdict: {document['verdict']}", highlight=False)
