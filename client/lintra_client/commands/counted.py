"""`lintra client verify-inclusion`: whether what was sent is in the cohort that the servers froze."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lintra_client.commands.contribute import ServerUrls, TaskId
from lintra_client.commands.ledger import AsJson, LedgerPath
from lintra_client.commands.terminal import refusals, servers_of
from lintra_client.counted import Counted
from lintra_client.ledger.ledger import Ledger, default_path
from lintra_client.upload.client import Client
from lintra_protocol.errors import AbandonedError, BatchOpenError, LintraError, UnknownResourceError
from lintra_protocol.messages.documents import BATCH
from lintra_protocol.task import Task

ReportIds = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[REPORT_ID]...",
        help="Identifiers of reports, as receipts show them. If none is given, those in the ledger are asked about.",
    ),
]
Window = Annotated[int | None, typer.Option(help="The number of the reports' window, in a task with windows.")]
SourceName = Annotated[
    str | None, typer.Option("--source", metavar="NAME", help="Ask only about the reports of this source.")
]
CertificateFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", exists=True, dir_okay=False, help="The release's certificate, as its analyst publishes it."
    ),
]

MOST = 100
"""Reports that are asked about at once: each is a proof of every server."""

NOT_READY = 75
"""The exit code where a later question may have an answer (`EX_TEMPFAIL`)."""

Outcome = Counted | LintraError


def counted(
    task_id: TaskId,
    server: ServerUrls,
    report: ReportIds = None,
    window: Window = None,
    source: SourceName = None,
    certificate: CertificateFile = None,
    ledger: LedgerPath = None,
    as_json: AsJson = False,
) -> None:
    """Say whether reports were counted; the servers prove it, and the proofs are checked here.

    The exit code is 0 if all of them were, 1 if one was not, and 75 if that is not decided yet.
    """
    with refusals():
        client = Client(task_id, servers_of(server), ledger=None)
        text = None if certificate is None else certificate.read_text("utf-8")
        known = _known(ledger or default_path(), task_id, source)
        task, outcomes = asyncio.run(_ask(client, report or [], window, known, text))
    if as_json:
        found = [_document(report_id, outcome) for report_id, outcome in outcomes]
        typer.echo(json.dumps({"task_id": task_id, "reports": found}))
    else:
        for report_id, outcome in outcomes:
            typer.echo(in_words(task, report_id, outcome))
    if any(isinstance(outcome, (BatchOpenError, UnknownResourceError)) for _, outcome in outcomes):
        raise typer.Exit(NOT_READY)
    if not all(isinstance(outcome, Counted) and outcome.included for _, outcome in outcomes):
        raise typer.Exit(1)


def in_words(task: Task, report_id: str, outcome: Outcome) -> str:
    """Say in sentences what became of a report."""
    if isinstance(outcome, AbandonedError):
        return f"Report {report_id} was not counted, and never will be: nothing of its batch is released. {outcome}"
    if isinstance(outcome, LintraError):
        return f"Of report {report_id} it is not decided yet, or no longer known: {outcome}"
    servers, of = f"All {task.num_servers} servers", f"the {outcome.num_clients} reports"
    whose = "of the release that the certificate describes" if outcome.certified else "that they froze for the release"
    if outcome.included:
        more = "" if outcome.certified else " With --certificate you see that a published release is of exactly these."
        return f"Report {report_id} was counted. {servers} proved that it is one of {of} {whose}.{more}"
    if outcome.rejected:
        return (
            f"Report {report_id} was rejected: its check failed. {servers} proved that it is not among {of} that were "
            "accepted. It is in no other release either, and its charge stays."
        )
    if outcome.lost:
        urls = {task.servers[server].url: f"{lost:,}" for server, lost in outcome.lost.items()}
        who = " and ".join(f"{url} says that it lost up to {lost} reports" for url, lost in urls.items())
        return (
            f"Report {report_id} was lost, if you have a receipt for it: {who} of this batch, and does not list this "
            f"one. {servers} proved that it is not among {of} {whose}. It is in no other release either, and its "
            "charge stays."
        )
    return (
        f"Report {report_id} was not counted. {servers} proved that it is not among {of} {whose}: "
        "it was not at every server when the batch was closed. It is in no other release either, and its charge stays."
    )


def _known(path: Path, task_id: str, source: str | None) -> dict[str, int]:
    """Return the reports of a task that a ledger knows, each with its batch; none if there is no ledger."""
    if not path.exists():
        return {}
    with closing(Ledger(path)) as ledger:
        return dict(ledger.reports(task_id, source))


async def _ask(
    client: Client, named: Sequence[str], window: int | None, known: dict[str, int], certificate: str | None
) -> tuple[Task, list[tuple[str, Outcome]]]:
    reports = named or [report_id for report_id, batch in known.items() if window in (None, batch)]
    if not reports:
        raise ValueError("the ledger knows no such report of this task; name the report, as its receipt does")
    if len(reports) > MOST:
        raise ValueError(f"these are {len(reports)} reports; name at most {MOST}, or one source with --source")
    async with client:
        outcomes: list[tuple[str, Outcome]] = []
        for report_id in reports:
            batch = known.get(report_id, BATCH if client.task.windows is None else None) if window is None else window
            if batch is None:
                raise ValueError(
                    f"the ledger does not know report {report_id}: say with --window which window it is of"
                )
            try:
                outcomes.append((report_id, await client.counted(report_id, batch=batch, certificate=certificate)))
            except (AbandonedError, BatchOpenError, UnknownResourceError) as error:
                outcomes.append((report_id, error))
        return client.task, outcomes


def _document(report_id: str, outcome: Outcome) -> dict[str, object]:
    if isinstance(outcome, Counted):
        return asdict(outcome)
    never = isinstance(outcome, AbandonedError)
    return {"report_id": report_id, "included": False if never else None, "error": outcome.token}
