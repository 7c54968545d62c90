"""`lintra audit replay`: a third party recomputes the verdict of a verified task from a file and public keys.

Exit codes: 0 nothing differs, 1 something does, 2 the file cannot be read.
"""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from lintra_analysis.certificate.evidence import opened_evidence
from lintra_analysis.certificate.replay import ReplayedCheck
from lintra_audit.replay.run import replayed
from lintra_protocol.errors import LintraError

NOT_ASKED = (
    "Not asked: whether the released numbers are the sum of these reports. Sketch shares are sealed to the "
    "analyzer; its own replay opens them."
)


def replay(
    evidence: Annotated[
        Path, typer.Argument(metavar="FILE", help="What `lintra analyzer evidence` wrote.", exists=True, dir_okay=False)
    ],
    server: Annotated[
        list[str],
        typer.Option(
            "--server", metavar="KEY", help="A server's public key, from a source that you trust; each, in order."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")] = False,
) -> None:
    """Find again which reports of a verified task were accepted, from what its servers signed; no network is used."""
    try:
        with opened_evidence(evidence) as opened:
            checks, release_id = tuple(replayed(opened, server)), opened.record.record.release_id
    except LintraError as error:
        checks, release_id = (ReplayedCheck("Is the file whole, as an analyzer writes it?", False, str(error)),), None
    passed = all(check.passed for check in checks)
    if as_json:
        asked = [{"question": check.question, "passed": check.passed, "detail": check.detail} for check in checks]
        verdict = "pass" if passed else "fail"
        typer.echo(json.dumps({"verdict": verdict, "release_id": release_id, "checks": asked}, indent=2))
    else:
        _show(Console(), checks, passed=passed)
    if not passed:
        raise typer.Exit(1)


def _show(console: Console, checks: tuple[ReplayedCheck, ...], *, passed: bool) -> None:
    for check in checks:
        console.print(Text(check.question, style="bold"))
        console.print(Text(f"  {'yes' if check.passed else 'NO'}: {check.detail}"))
    console.print(
        "The accepted cohort is right: nothing differs." if passed else "Something differs: see the question with NO.",
        highlight=False,
    )
    console.print(NOT_ASKED, highlight=False)
