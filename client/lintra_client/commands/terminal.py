"""Shared by all commands: how they name servers, and how they end. A refusal is one line and exit code 1."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn

import typer

from lintra_client.sending import connection
from lintra_protocol.command import tell_retry
from lintra_protocol.encoding.csv_values import right_cell
from lintra_protocol.errors import LintraError
from lintra_protocol.fields.schema import Column

SHOWN_CELL = 40
"""So many characters of a cell are shown."""


@contextmanager
def refusals() -> Iterator[None]:
    """Turn a refusal, or an argument that cannot be right, into an error's text and exit code 1; a question into 2."""
    connection.on_retry = tell_retry
    try:
        yield
    except (LintraError, ValueError) as error:
        typer.echo(str(error), err=True)
        sys.exit(error.exit_status if isinstance(error, LintraError) else 1)


def refuse_cell(complaint: str, cell: object, column: Column) -> NoReturn:
    """Say to whoever holds the file which cell cannot be sent, what it holds and what may stand there; exit code 1.

    No error of the library repeats a value, since programs write errors into logs. This is for a terminal.
    """
    held = repr(str(cell)[:SHOWN_CELL])
    right = right_cell(column.kind, column.unit, column.levels)
    typer.echo(f"Nothing was sent. {complaint}. The cell holds {held}: {right}.", err=True)
    raise typer.Exit(1)


def servers_of(options: Sequence[str]) -> Sequence[str] | Mapping[str, str]:
    """Return the servers of the option `--server`: URLs, or URL=ADDRESS where one is reached elsewhere."""
    pairs = [option.partition("=") for option in options]
    return {name: address or name for name, _, address in pairs} if len(set(options)) == len(options) else options
