"""`lintra client rehearse`: what would become of a file in a task; nothing is sent, and nothing is charged."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from lintra_client.commands.ledger import AsJson
from lintra_client.commands.mapping import As, MappingFile, Missing, OnlyColumns, Other, Rename, SamePersons, mapping_of
from lintra_client.commands.terminal import refusals, refuse_cell, servers_of
from lintra_client.organisations.contribution import check_losses
from lintra_client.organisations.mapping import FileMapping
from lintra_client.organisations.rehearsal import Rehearsal, rehearse
from lintra_client.organisations.sent_table import TableFile, read_table
from lintra_client.organisations.table import persons_of, values_of
from lintra_client.upload.client import Client
from lintra_protocol.errors import InvalidRowError
from lintra_protocol.task import Task

File = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="Rows in a CSV or Parquet file.")
]
TaskOrFile = Annotated[
    str, typer.Argument(metavar="TASK", help="The task's identifier, with --server; or a file that holds the task.")
]
Servers = Annotated[
    list[str] | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="A server of the task, given once for each, if the task is named by its identifier.",
    ),
]
Person = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The column that says whose row it is; it is not sent.")
]
Write = Annotated[
    Path | None,
    typer.Option(
        "--write", metavar="FILE.json", help="Write all answers to this file, for --mapping of `send` and `contribute`."
    ),
]


def rehearse_file(
    file: File,
    task: TaskOrFile,
    server: Servers = None,
    person: Person = None,
    mapping: MappingFile = None,
    rename: Rename = None,
    columns: OnlyColumns = False,
    as_: As = None,
    missing: Missing = None,
    other: Other = None,
    same_persons: SamePersons = False,
    write: Write = None,
    as_json: AsJson = False,
) -> None:
    """Show what a task would make of a file: how cells are read, levels, losses and values that are moved.

    Nothing is sent, and nothing is charged. What only you can say is asked, with the options that answer; the exit
    status is then 2. --write keeps your answers for `send` and `contribute`.
    """
    with refusals():
        answers = mapping_of(mapping, rename, columns, as_, missing, other, same_persons)
        table = read_table(file)
        if table.note:
            typer.echo(table.note, err=True)
        opened = _task(task, server)
        found = _rehearsed(opened, table, person, answers)
    if write is not None:
        write.write_text(json.dumps(answers.document(), indent=2, ensure_ascii=False) + "\n", "utf-8")
    if as_json:
        typer.echo(json.dumps(found.document(), ensure_ascii=False))
        return
    for line in _lines(found):
        typer.echo(line)
    typer.echo("nothing was sent, and nothing was charged")


def _task(task: str, servers: list[str] | None) -> Task:
    if servers:
        return asyncio.run(_fetched(Client(task, servers_of(servers), ledger=None)))
    if not Path(task).is_file():
        raise ValueError("TASK is an identifier with every --server of the task, or a file that holds the task")
    return Task.from_canonical(Path(task).read_bytes().strip())


async def _fetched(client: Client) -> Task:
    async with client:
        return client.task


def _rehearsed(task: Task, table: TableFile, person: str | None, answers: FileMapping) -> Rehearsal:
    try:
        values, read = values_of(task, table, person, answers, strict=False)
    except InvalidRowError as error:
        refuse_cell_of(error, task, table, answers, person)
        raise
    check_losses(read)
    if person is not None:
        persons_of(table, person, table.num_rows, ask=not answers.same_persons)
    return rehearse(task, values, read)


def refuse_cell_of(
    error: InvalidRowError, task: Task, table: TableFile, mapping: FileMapping, person: str | None
) -> None:
    """Show the cell that an error of a file names, and end; an error that names none is left to the caller."""
    if error.row is None or error.column is None:
        return
    (column,) = [each for each in task.columns if each.name == error.column]
    cells = mapping.apply(table, [each.name for each in task.columns], person)[error.column]
    refuse_cell(error.detail, cells[error.row], column)


def _lines(found: Rehearsal) -> Iterator[str]:
    yield f"{found.rows:,} rows"
    for column in found.columns:
        parts = [column.kind]
        if column.levels:
            parts.append(", ".join(f"{level} {count:,}" for level, count in column.levels.items()))
        parts += [f"{text!r} is read as {level}" for text, level in column.translated.items()]
        parts += [f"{count:,} {text!r} count as (other)" for text, count in column.others.items()]
        if column.moved:
            parts.append(f"{column.moved:,} values beyond a bound are moved to it")
        if column.missing:
            parts.append(f"{column.missing:,} are missing")
        yield f"  {column.name}: {'; '.join(parts)}"
    if found.left_out_rows:
        yield f"{found.left_out_rows:,} rows in which a value is missing are not counted"
    if found.weight is not None:
        yield f"a row counts {found.weight:.3g} on average: rows that lie far out count less"
    if found.shrunk and found.weight is None:
        yield f"{found.shrunk:,} rows are longer than the task's bound and are shrunk"
