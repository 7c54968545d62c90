"""What the attacks showed, in words for people and as a document for machines."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from lintra_audit.verify.attack_result import AttackResult

Document = dict[str, Any]


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
