"""`lintra audit verify`: hostile clients, servers and analyzers against real servers of verified tasks.

Exit codes: 0 every attack fails against its rule and works without it, 1 one does not.
"""

import json
import time
from typing import Annotated

import typer
from rich.console import Console

from lintra_analysis.commands.progress import waiting
from lintra_audit.verify.output import show_verification, verification_document
from lintra_audit.verify.rules import RULES


def verify(
    attack: Annotated[list[str] | None, typer.Option("--attack", metavar="NAME", help="Only these attacks.")] = None,
    fault: Annotated[
        str | None,
        typer.Option("--fault", metavar="RULE", help="Leave a rule out where all should be kept: this must fail."),
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
    with waiting("starting servers") as said:
        findings = list(audit_verification(attack or (), fault, said))
    document = verification_document(findings, fault=fault, seconds=time.monotonic() - began)
    if as_json:
        typer.echo(json.dumps(document, indent=2, allow_nan=False))
    else:
        show_verification(Console(), document)
    if document["verdict"] != "pass":
        raise typer.Exit(1)
