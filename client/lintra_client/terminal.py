"""What all commands share: how they name servers, and how they end. A refusal is one line and exit code 1."""

import sys
from collections.abc import Iterator, Mapping, Sequence
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


def servers_of(options: Sequence[str]) -> Sequence[str] | Mapping[str, str]:
    """Return the servers of the option `--server`: URLs, or URL=ADDRESS where one is reached elsewhere."""
    pairs = [option.partition("=") for option in options]
    return {name: address or name for name, _, address in pairs} if len(set(options)) == len(options) else options
