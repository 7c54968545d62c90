"""`lintra client`: check a task from the outside, and send the rows of a CSV file."""

import asyncio
import csv
import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lintra_client.bulk import FailedRow, SendSummary
from lintra_client.check import Policy
from lintra_client.client import Client, Servers
from lintra_protocol.errors import InvalidRowError, LintraError
from lintra_protocol.sealing import HYBRID
from lintra_protocol.task import Task

app = typer.Typer(help="Send rows to the servers of a task.", no_args_is_help=True)

TaskId = Annotated[str, typer.Argument(metavar="TASK_ID", help="The identifier from whoever asks for the data.")]
ServerUrls = Annotated[
    list[str],
    typer.Option(
        "--server", metavar="URL", help="Every server of the task; URL=ADDRESS where it is reached elsewhere."
    ),
]
MaxEpsilon = Annotated[float | None, typer.Option(help="Refuse a task that promises less privacy than this.")]
MinClients = Annotated[int, typer.Option(help="Refuse a task that may release fewer reports than this.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
CsvFile = Annotated[
    Path, typer.Argument(metavar="FILE.csv", exists=True, dir_okay=False, help="Rows under a line of column names.")
]

_SHOWN_FAILURES = 10


@app.command()
def check(
    task_id: TaskId,
    server: ServerUrls,
    max_epsilon: MaxEpsilon = None,
    min_clients: MinClients = 2,
    as_json: AsJson = False,
) -> None:
    """Check a task as every client does before it sends anything."""
    with _refusals():
        client = Client(task_id, _servers(server), policy=Policy(max_epsilon=max_epsilon, min_clients=min_clients))
        task = asyncio.run(_opened(client))
    if as_json:
        typer.echo(json.dumps({"task_id": task.task_id, **_facts(task)}, ensure_ascii=False))
        return
    typer.echo(f"task {task.task_id} holds at {task.num_servers} servers, and its promise holds:")
    for name, value in _facts(task).items():
        typer.echo(f"  {name}: {', '.join(value) if isinstance(value, list) else value}")
    _warn(task)


@app.command()
def send(
    task_id: TaskId,
    file: CsvFile,
    server: ServerUrls,
    max_epsilon: MaxEpsilon = None,
    min_clients: MinClients = 2,
    as_json: AsJson = False,
) -> None:
    """Send every row of a CSV file as a report of its own; exit 1 unless all of them are stored everywhere."""
    with _refusals():
        client = Client(task_id, _servers(server), policy=Policy(max_epsilon=max_epsilon, min_clients=min_clients))
        summary = asyncio.run(_send_file(client, file, quiet=as_json))
    if as_json:
        typer.echo(json.dumps(_account(summary), ensure_ascii=False))
    else:
        _tell(summary)
    if summary.failed or summary.stopped is not None:
        raise typer.Exit(1)


async def _opened(client: Client) -> Task:
    async with client:
        return client.task


async def _send_file(client: Client, file: Path, *, quiet: bool) -> SendSummary:
    total = _count_rows(file)
    columns = (TextColumn("sending"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet) as bar:
        async with client:
            if not quiet:
                _warn(client.task)
            work = bar.add_task("sending", total=total)
            rows = read_rows(file, [column.name for column in client.task.columns])
            return await client.send_many(rows, progress=lambda done: bar.update(work, completed=done))


def read_rows(file: Path, columns: Sequence[str]) -> Iterator[dict[str, float]]:
    """Yield the rows of a CSV file by column name; a cell that is no number becomes NaN, which the task refuses.

    Raises:
        InvalidRowError: the first line does not name exactly the task's columns; raised before the first row.
    """
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines)
        header = next(reader, [])
        if sorted(header) != sorted(columns):
            raise InvalidRowError(f"the file has columns {', '.join(header)}; the task has {', '.join(columns)}")
        for cells in reader:
            if cells:
                # Too few or too many cells leave a column missing or unknown, which names the fault.
                names = [*header, *(f"column {number}" for number in range(len(header) + 1, len(cells) + 1))]
                yield {name: _number(cell) for name, cell in zip(names, cells, strict=False)}


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan  # which the task refuses, naming the column


def _count_rows(file: Path) -> int:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        return max(0, sum(1 for cells in csv.reader(lines) if cells) - 1)


def _servers(options: Sequence[str]) -> Servers:
    pairs = [option.partition("=") for option in options]
    return {name: address or name for name, _, address in pairs} if len(set(options)) == len(options) else options


def _facts(task: Task) -> dict[str, str | list[str]]:
    claim = task.claim
    return {
        "purpose": task.purpose,
        "mechanism": task.mechanism.kind,
        "columns": [column.name for column in task.columns],
        "servers": [entry.url for entry in task.servers],
        "epsilon": claim.epsilon,
        "delta": claim.delta,
        "neighbours": claim.neighbours,
        "min_clients": str(claim.min_clients),
        "max_corrupt_clients": str(claim.max_corrupt_clients),
        "suite": task.suite,
    }


def _warn(task: Task) -> None:
    if task.suite != HYBRID:
        typer.echo(f"warning: suite {task.suite} has no post-quantum part; recorded reports may open one day", err=True)


def _account(summary: SendSummary) -> dict[str, object]:
    return {
        "sent": summary.sent,
        "clipped": summary.clipped,
        "failed": [
            {"row": each.index, "error": each.error.token, "detail": each.error.detail} for each in summary.failed
        ],
        "stopped": None if summary.stopped is None else summary.stopped.token,
    }


def _tell(summary: SendSummary) -> None:
    typer.echo(f"{summary.sent} rows sent, {summary.clipped} of them clipped, {len(summary.failed)} failed")
    for failed in summary.failed[:_SHOWN_FAILURES]:
        typer.echo(_line(failed), err=True)
    if len(summary.failed) > _SHOWN_FAILURES:
        typer.echo(f"and {len(summary.failed) - _SHOWN_FAILURES} more", err=True)
    if summary.stopped is not None:
        typer.echo(f"stopped early: {summary.stopped}", err=True)


def _line(failed: FailedRow) -> str:
    return f"row {failed.index + 1}: {failed.error}"


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except (LintraError, ValueError) as error:
        typer.echo(str(error), err=True)
        sys.exit(1)
