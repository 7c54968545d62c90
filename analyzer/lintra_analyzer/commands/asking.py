"""Shared by the commands that talk to an analyzer: find it, print the answer, and end with the right exit code."""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NoReturn

import typer
from stamina.instrumentation import set_on_retry_hooks

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_analyzer.settings import TOKEN_VARIABLE, URL_VARIABLE
from lintra_protocol.command import tell_retry
from lintra_protocol.errors import LintraError, UnauthorizedError

NOT_READY = os.EX_TEMPFAIL
DEFAULT_URL = "http://127.0.0.1:8700"

# One identifier in 64 begins with a hyphen; it is an argument all the same.
IDENTIFIERS = {"ignore_unknown_options": True}

TaskId = Annotated[str, typer.Argument(help="The identifier of a task; `lintra analyzer tasks` lists them.")]
ReleaseId = Annotated[str, typer.Argument(help="The identifier of a release; `lintra analyzer releases` lists them.")]
ReleaseOrWindows = Annotated[
    str, typer.Argument(help="The identifier of a release, or windows of a stream, added up: TASK:FIRST-LAST.")
]
Url = Annotated[str, typer.Option("--url", envvar=URL_VARIABLE, help="Where the analyzer listens.")]
Token = Annotated[
    str, typer.Option("--token", envvar=TOKEN_VARIABLE, help="Bearer token; better given by the environment.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a text.")]


@contextmanager
def client_of(url: str, token: str) -> Iterator[AnalyzerClient]:
    """Open a client, and end the command with the right exit code when it is refused."""
    set_on_retry_hooks([tell_retry])
    try:
        if not token:
            raise UnauthorizedError(f"no token was given: give --token, or set {TOKEN_VARIABLE}")
        with connect(url, token) as client:
            yield client
    except LintraError as error:
        give_up(str(error), NOT_READY if error.retryable else 1)


def connect(url: str, token: str) -> AnalyzerClient:
    """Return a client; tests put their own in this place."""
    return AnalyzerClient(url, token)


def give_up(message: str, code: int = 1) -> NoReturn:
    """End the command with a message on the standard error."""
    typer.echo(message, err=True)
    raise typer.Exit(code)


def print_json(value: object) -> None:
    """Print a value as JSON for people and programs."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_entry(name: str, *parts: str) -> None:
    """Print one entry of a list: in one line, or in a terminal that is narrower under its name, wrapped."""
    line = "  ".join(part for part in (name, *parts) if part)
    width = shutil.get_terminal_size().columns
    if not sys.stdout.isatty() or len(line) <= width:
        typer.echo(line)
        return
    typer.echo(name)
    for part in parts:
        for wrapped in textwrap.wrap(part, width, initial_indent="    ", subsequent_indent="    "):
            typer.echo(wrapped)
