"""What the commands of `lintra audit` share: the seed of an audit, and its result as JSON or in words."""

import json
from collections.abc import Callable
from typing import Any

import typer
from rich.console import Console

from lintra_protocol.crypto.randomness import system_randomness

Document = dict[str, Any]


def entropy_of(seed: str | None) -> bytes:
    """Return the 32 bytes that `--seed` gives in hexadecimal digits, or new ones."""
    try:
        entropy = system_randomness(32) if seed is None else bytes.fromhex(seed)
    except ValueError:
        entropy = b""
    if len(entropy) != 32:
        raise typer.BadParameter("expected 64 hexadecimal digits", param_hint="--seed")
    return entropy


def report(document: Document, show: Callable[[Console, Document], None], *, as_json: bool, code: int) -> None:
    """Print what was found, and end the command with an exit code."""
    if as_json:
        typer.echo(json.dumps(document, indent=2, allow_nan=False))
    else:
        show(Console(), document)
    if code:
        raise typer.Exit(code)
