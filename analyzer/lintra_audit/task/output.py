"""What the audit of a task found: a document for machines, and lines for people."""

from typing import Any

from rich.console import Console

from lintra_audit.exact.task_audit import TaskAudit

Document = dict[str, Any]


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
