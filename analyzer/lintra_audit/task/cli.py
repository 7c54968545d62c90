"""`lintra audit task`: an exact audit that needs no runs, only the task and a public matrix.

Exit codes: 0 within the claim, 1 a claim is refuted or a task refused.
"""

from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from lintra_audit.exact.task_audit import TaskAudit
from lintra_audit.kinds.kind_audit import AUDITS
from lintra_audit.output import Document, entropy_of, report
from lintra_audit.trials.simulated_release import request_release
from lintra_protocol.cli import read_task
from lintra_protocol.rules.release import fewest_reports
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix


def task(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A task; '-' reads standard input.")],
    clients: Annotated[
        int | None,
        typer.Option(
            "--clients", min=2, help="How many clients the cohort has; by default the fewest that the task releases."
        ),
    ] = None,
    seed: Annotated[
        str | None,
        typer.Option(
            "--seed", metavar="HEX", help="The seed of an earlier audit, 32 bytes in hexadecimal, to repeat it."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")] = False,
) -> None:
    """Compute a task's privacy from a public matrix as servers draw it, in another way than the service does."""
    definition, entropy = read_task(file), entropy_of(seed)
    try:
        audit = audit_task(definition, clients or fewest_reports(definition), entropy)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    document = task_document(audit) | {"seed": entropy.hex()}
    report(document, show_task, as_json=as_json, code=int(not audit.passed))


def task_document(audit: TaskAudit) -> Document:
    """Return what a task's audit found, ready for JSON."""
    finding, found = audit.findings[0], audit.recomputed
    return {
        "verdict": "pass" if audit.passed else "fail",
        "consistent": audit.consistent,
        "clients": audit.stated.num_clients,
        "layout": found.layout,
        "rows": found.rows,
        "sparsity": found.sparsity,
        "corrupt": audit.corrupt,
        "leverage_stated": audit.stated.leverage,
        "leverage": found.leverage,
        "mu_stated": audit.stated.mu,
        "mu": audit.mu,
        "epsilon": finding.claimed[0],
        "delta": finding.claimed[1],
        "delta_hi": finding.found.hi,
        "claim": audit.claim.verdict,
        "absence_delta_hi": None if audit.absence is None else audit.absence.hi,
        "sketch": found.digest,
    }


def show_task(console: Console, document: Document) -> None:
    """Print what a task's audit found, and the verdict."""
    sizes = f"{document['clients']} clients, {document['rows']} rows, {document['sparsity']} entries a column"
    absent = document["absence_delta_hi"]
    absence = "not known for this noise" if absent is None else f"{absent:.3g}"
    lines = [
        f"{sizes}, {document['corrupt']} corrupt clients in a row",
        f"leverage {document['leverage']:.9g}, stated {document['leverage_stated']:.9g}",
        f"mu {document['mu']:.9g}, stated {document['mu_stated']:.9g}",
        f"delta at epsilon {document['epsilon']:g}: at most {document['delta_hi']:.6g}, claimed {document['delta']:g}",
        f"the same if a client stays away with its noise, which nobody promises: {absence}",
        f"verdict: {document['verdict']}",
    ]
    for line in lines:
        console.print(line, highlight=False)


def audit_task(task: Task, num_clients: int, seed: bytes) -> TaskAudit:
    """Draw the matrix of a cohort as servers do, and audit what a release under it would tell.

    `seed` is 32 bytes for made-up identifiers and nonces.
    """
    task.check()
    return audit_matrix(task, request_release(task, np.arange(num_clients), set(), seed).matrix)


def audit_matrix(task: Task, matrix: PublicMatrix) -> TaskAudit:
    """Audit what a release under a matrix that was really drawn tells, by another route than the service.

    Raises:
        InvalidTaskError: the mechanism brings no audit.
        LintraError: the service itself refuses this matrix.
        ValueError: the matrix is too large to be factorised.
    """
    return AUDITS[task.mechanism.kind].of_task(task, matrix)
