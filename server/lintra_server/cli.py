"""`lintra server ...`: run one server, show its public key, show an example of its settings."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from lintra_protocol.randomness import system_randomness
from lintra_server.serve import run as serve
from lintra_server.settings import Settings

app = typer.Typer(help="Run one of the servers.", no_args_is_help=True)

ConfigOption = Annotated[Path, typer.Option("--config", exists=True, dir_okay=False, help="The server's TOML file.")]


@app.command()
def run(config: ConfigOption) -> None:
    """Serve until the process is asked to stop."""
    try:
        serve(Settings.load(config))
    except ValueError as error:
        _give_up(error)


@app.command()
def keys(config: ConfigOption) -> None:
    """Print the public identity key that tasks name this server by."""
    try:
        typer.echo(Settings.load(config).signing_key(system_randomness).public_key)
    except ValueError as error:
        _give_up(error)


@app.command("example-config")
def example_config() -> None:
    """Print a commented settings file."""
    typer.echo(files("lintra_server").joinpath("example.toml").read_text("utf-8"), nl=False)


def _give_up(error: ValueError) -> None:
    typer.echo(str(error), err=True)
    raise typer.Exit(1)
