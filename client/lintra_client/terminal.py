"""How every command ends: a refusal is one line and exit code 1."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from lintra_protocol.errors import LintraError


@contextmanager
def refusals() -> Iterator[None]:
    """Turn a refusal, or an argument that cannot be right, into one line on the standard error and exit code 1."""
    try:
        yield
    except (LintraError, ValueError) as error:
        typer.echo(str(error), err=True)
        sys.exit(1)
