"""`lintra client`: check a task from the outside, and send the rows of a CSV file."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lintra_client.commands.contribute import (
    MaxEpsilonAlone,
    MaxRetention,
    MaxRetentionOfRows,
    RequireVerified,
    TrustEnrolment,
    contribute,
)
from lintra_client.commands.counted import counted
from lintra_client.commands.ledger import AsJson, Ceiling, LedgerDelta, LedgerPath
from lintra_client.commands.ledger import app as ledger_app
from lintra_client.commands.mapping import (
    As,
    MappingFile,
    Missing,
    OnlyColumns,
    Other,
    Rename,
    SamePersons,
    mapping_of,
)
from lintra_client.commands.rehearse import refuse_cell_of, rehearse_file
from lintra_client.commands.task_facts import facts, facts_in_words
from lintra_client.commands.terminal import refusals, servers_of
from lintra_client.ledger.ledger import DELTA, DISTINCT_SOURCES, MAX_EPSILON, Ledger, default_path
from lintra_client.organisations.mapping import FileMapping
from lintra_client.organisations.sent_table import TableFile, read_table
from lintra_client.organisations.table import persons_of, values_of
from lintra_client.task_check import MAX_RETENTION, ClientPolicy
from lintra_client.upload.bulk import FailedRow, SendSummary
from lintra_client.upload.client import Client
from lintra_protocol.crypto.sealing import HYBRID
from lintra_protocol.errors import InvalidRowError
from lintra_protocol.tables.sent_columns import SentColumn
from lintra_protocol.task import Task
from lintra_protocol.trust import trust_in_words

app = typer.Typer(help="Send rows to the servers of a task.", no_args_is_help=True)
app.add_typer(ledger_app, name="ledger")

# One identifier in 64 begins with a hyphen; it is an argument all the same.
_IDENTIFIERS = {"ignore_unknown_options": True}

TaskId = Annotated[str, typer.Argument(metavar="TASK_ID", help="The identifier from whoever asks for the data.")]
ServerUrls = Annotated[
    list[str],
    typer.Option(
        "--server",
        metavar="URL",
        help="A server of the task, given once for each; URL=ADDRESS if it is reached elsewhere.",
    ),
]
MaxEpsilon = Annotated[float | None, typer.Option(help="Refuse a task that promises less privacy than this.")]
MinClients = Annotated[int, typer.Option(help="Refuse a task that may release fewer reports than this.")]
CsvFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", exists=True, dir_okay=False, help="Rows under a line of column names, CSV or Parquet."
    ),
]
SourceColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The column that says whose facts a row states; it is not sent. Without it every row is another person's.",
    ),
]
NoLedger = Annotated[bool, typer.Option("--no-ledger", help="Keep no ledger: another program counts what is sent.")]

Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Refuse rows with a missing value. By default they are sent, since silence would tell it.",
    ),
]

TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--tokens",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="A file with the token of each row, one a line, if the task asks for tokens.",
    ),
]
OneToken = Annotated[str | None, typer.Option("--token", metavar="TEXT", help="The token of a file of one row.")]

_SHOWN_FAILURES = 10

app.command(context_settings=_IDENTIFIERS)(contribute)
app.command("rehearse", context_settings=_IDENTIFIERS)(rehearse_file)
app.command("verify-inclusion", context_settings=_IDENTIFIERS)(counted)


@app.command(context_settings=_IDENTIFIERS)
def check(
    task_id: TaskId,
    server: ServerUrls,
    max_epsilon: MaxEpsilon = None,
    max_epsilon_alone: MaxEpsilonAlone = None,
    trust_enrolment: TrustEnrolment = False,
    require_verified: RequireVerified = False,
    min_clients: MinClients = 2,
    max_retention: MaxRetention = MAX_RETENTION,
    max_retention_of_rows: MaxRetentionOfRows = 0,
    as_json: AsJson = False,
) -> None:
    """Check a task as every client does before it sends anything. Nothing is sent."""
    with refusals():
        policy = ClientPolicy(
            max_epsilon=max_epsilon,
            max_epsilon_alone=max_epsilon_alone,
            trust_enrolment=trust_enrolment,
            require_verified=require_verified,
            min_clients=min_clients,
            max_retention=max_retention,
            max_retention_of_rows=max_retention_of_rows,
        )
        client = Client(task_id, servers_of(server), policy=policy, ledger=None)
        task = asyncio.run(_opened(client))
    if as_json:
        typer.echo(json.dumps({"task_id": task.task_id, **facts(task, policy)}, ensure_ascii=False))
        return
    typer.echo(f"task {task.task_id} holds at {task.num_servers} servers, and its promise holds:")
    for line in facts_in_words(task, policy):
        typer.echo(f"  {line}")
    _warn(task)


@app.command(context_settings=_IDENTIFIERS)
def send(
    task_id: TaskId,
    file: CsvFile,
    server: ServerUrls,
    max_epsilon: MaxEpsilon = None,
    max_epsilon_alone: MaxEpsilonAlone = None,
    trust_enrolment: TrustEnrolment = False,
    require_verified: RequireVerified = False,
    min_clients: MinClients = 2,
    max_retention: MaxRetention = MAX_RETENTION,
    max_retention_of_rows: MaxRetentionOfRows = 0,
    ledger: LedgerPath = None,
    no_ledger: NoLedger = False,
    source_column: SourceColumn = None,
    ceiling: Ceiling = MAX_EPSILON,
    ledger_delta: LedgerDelta = DELTA,
    strict: Strict = False,
    token: OneToken = None,
    tokens: TokenFile = None,
    mapping: MappingFile = None,
    rename: Rename = None,
    columns: OnlyColumns = False,
    as_: As = None,
    missing: Missing = None,
    other: Other = None,
    same_persons: SamePersons = False,
    as_json: AsJson = False,
) -> None:
    """Send every row of a file as a report of its own.

    The exit code is 0 if every row is stored at every server, else 1. If a cell can be read in two ways, the command
    asks before anything leaves, and the exit code is then 2.
    """
    policy = ClientPolicy(
        max_epsilon=max_epsilon,
        max_epsilon_alone=max_epsilon_alone,
        trust_enrolment=trust_enrolment,
        require_verified=require_verified,
        min_clients=min_clients,
        max_retention=max_retention,
        max_retention_of_rows=max_retention_of_rows,
    )
    with refusals():
        if no_ledger and ledger is not None:
            raise ValueError("give --ledger or --no-ledger, not both")
        answers = mapping_of(mapping, rename, columns, as_, missing, other, same_persons)
        table = read_table(file)
        if table.note:
            typer.echo(table.note, err=True)
        passes = _tokens(token, tokens, table.num_rows)
        path = ledger or default_path()
        with nullcontext() if no_ledger else Ledger(path, max_epsilon=ceiling, delta=ledger_delta) as opened:
            client = Client(task_id, servers_of(server), policy=policy, ledger=opened, strict=strict)
            summary = asyncio.run(_send_table(client, table, source_column, answers, passes, quiet=as_json))
    if as_json:
        typer.echo(json.dumps(_account(summary), ensure_ascii=False))
    else:
        _tell(summary)
    if summary.failed or summary.stopped is not None:
        raise typer.Exit(1)


async def _opened(client: Client) -> Task:
    async with client:
        return client.task


def _tokens(one: str | None, file: Path | None, rows: int) -> list[str] | None:
    """Return a token for each row, or None for a task without."""
    if one is None and file is None:
        return None
    if one is not None and file is not None:
        raise ValueError("give --token or --tokens, not both")
    found = [one] if one is not None else [] if file is None else file.read_text("ascii").split()
    if len(found) != rows:
        raise ValueError(f"{len(found)} tokens for {rows} rows: each row takes one, and keeps it when it is sent again")
    return found


async def _send_table(
    client: Client,
    table: TableFile,
    source_column: str | None,
    mapping: FileMapping,
    tokens: list[str] | None,
    *,
    quiet: bool,
) -> SendSummary:
    sources = None if source_column is None else _sources(table, source_column, mapping)
    bar_columns = (TextColumn("sending"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*bar_columns, console=Console(stderr=True), transient=True, disable=quiet) as bar:
        async with client:
            if not quiet:
                _warn(client.task)
            work = bar.add_task("sending", total=table.num_rows)
            # All cells are looked at before a row leaves: a row that is refused alone could never be sent later.
            try:
                values, read = values_of(client.task, table, source_column, mapping, strict=False)
            except InvalidRowError as error:
                refuse_cell_of(error, client.task, table, mapping, source_column)
                raise
            _tell_columns(read)
            return await client.send_many(
                iter(values),
                source_for=DISTINCT_SOURCES if sources is None else sources.__getitem__,
                token_for=None if tokens is None else tokens.__getitem__,
                progress=lambda done: bar.update(work, completed=done),
            )


def _tell_columns(columns: list[SentColumn]) -> None:
    """Say on the standard error which texts of a file are sent as another level."""
    for each in columns:
        for text, (level, count) in each.translated.items():
            typer.echo(f"{each.column.name}: {count:,} cells {text!r} are sent as {level}", err=True)
        for text, count in each.others.items():
            typer.echo(f"{each.column.name}: {count:,} cells {text!r} are sent as (other)", err=True)


def _sources(table: TableFile, column: str, mapping: FileMapping) -> Sequence[object]:
    """Return whose facts each row states, as it is spelled in the file."""
    if column not in table:
        raise InvalidRowError(f"the file has columns {', '.join(table)}; sources stand in {column!r}, once")
    persons_of(table, column, table.num_rows, ask=not mapping.same_persons)
    return list(table[column])


def _warn(task: Task) -> None:
    for sentence in trust_in_words(task):
        typer.echo(sentence, err=True)
    if task.suite != HYBRID:
        typer.echo(f"warning: suite {task.suite} has no post-quantum part; recorded reports may open one day", err=True)


def _account(summary: SendSummary) -> dict[str, object]:
    return {
        "sent": summary.sent,
        "clipped": summary.clipped,
        "incomplete": summary.incomplete,
        "joined": summary.joined,
        "failed": [
            {"row": each.index, "error": each.error.token, "detail": each.error.detail} for each in summary.failed
        ],
        "stopped": None if summary.stopped is None else summary.stopped.token,
    }


def _tell(summary: SendSummary) -> None:
    lacking = f", {summary.incomplete} with a missing value" if summary.incomplete else ""
    typer.echo(f"{summary.sent} rows sent, {summary.clipped} of them clipped{lacking}, {len(summary.failed)} failed")
    if summary.joined:
        typer.echo(f"{summary.joined} spellings of names were joined with others: they name the same persons")
    for failed in summary.failed[:_SHOWN_FAILURES]:
        typer.echo(_line(failed), err=True)
    if len(summary.failed) > _SHOWN_FAILURES:
        typer.echo(f"and {len(summary.failed) - _SHOWN_FAILURES} more", err=True)
    if summary.stopped is not None:
        typer.echo(f"stopped early: {summary.stopped}", err=True)


def _line(failed: FailedRow) -> str:
    return f"row {failed.index + 1}: {failed.error}"
