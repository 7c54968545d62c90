"""The command `lintra`: every role adds its own subcommand as an entry point, so that no role imports another.

Only the role whose word is typed is loaded; the others are listed from the table below. So `lintra --help` imports
neither NumPy nor a web framework.
"""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Literal, NoReturn, Protocol

from lintra_protocol import __version__
from lintra_protocol.errors import LintraError, install_command

GROUP = "lintra.commands"

ROLES = {
    "task": ("Read and check task definitions.", "client-cli"),
    "plan": ("Predict errors and sizes before a task is made.", "analysis,client-cli"),
    "trial": ("Try everything on a table of your own, on this machine.", "analysis,client-cli"),
    "columns": ("Say how each column of a file is read, and ask what only you can say.", "analysis,client-cli"),
    "schema": ("Describe the columns of a file as a task needs them.", "analysis,client-cli"),
    "client": ("Send rows to the servers of a task; see what was spent.", "client-cli"),
    "server": ("Run one of the N servers.", "server"),
    "analyzer": ("Run the analyst's service, or ask a running one.", "analyzer"),
    "audit": ("Try to break a privacy claim.", "audit"),
}
"""What each word is for, and the extras that bring all it needs."""


def _end_without_terminal(words: Sequence[str]) -> NoReturn:
    """Answer what can be answered without terminal packages: the version, or which extras the typed word needs."""
    if words[:1] == ["--version"]:
        sys.stdout.write(f"lintra {__version__}\n")
        raise SystemExit(0)
    _, extra = ROLES.get(words[0] if words else "", ("", "client-cli"))
    raise SystemExit(f"lintra: the command line needs typer, which is not installed; {install_command(extra)}")


try:
    import typer
except ModuleNotFoundError:
    # Libraries and devices need no terminal packages, so the command may be installed without them.
    _end_without_terminal(sys.argv[1:])


def build(commands: Iterable[EntryPoint], typed: str | None = None) -> typer.Typer:
    """Return the command with one word for each entry point; only the one that is `typed` is loaded.

    A word whose packages are missing says which extra brings them.
    """
    commands = sorted(commands, key=lambda entry: entry.name)
    # Drawing a frame around a list of words would take longer than all the rest.
    markup: Literal["rich"] | None = "rich" if any(entry.name == typed for entry in commands) else None
    app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=markup)
    app.callback()(_root)
    for command in commands:
        explain, extra = ROLES.get(command.name, ("", command.name))
        if command.name != typed:
            app.command(command.name, help=explain)(_not_loaded)
            continue
        try:
            loaded = command.load()
        except ModuleNotFoundError as error:
            missing = _missing(command.name, error.name or "a module", extra)
            app.command(command.name, help=explain, context_settings=_ANYTHING)(missing)
            continue
        # A word is a family of words of its own, or does one thing.
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=command.name)
        else:
            app.command(command.name)(loaded)
    return app


def main(arguments: list[str] | None = None) -> None:
    """Run the command; a refusal is told in words and ends with exit status 1, a question to the user with 2."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        # The command itself has options without values only, so the first word is a role's.
        app = build(entry_points(group=GROUP), completed() or (words[0] if words else None))
        app(args=words)
    except KeyboardInterrupt:
        # Typer ends a command that runs; this is Ctrl-C while its role was being loaded.
        raise SystemExit(130) from None
    except LintraError as error:
        typer.echo(f"{error.title()}\n{error.detail}".rstrip(), err=True)
        raise SystemExit(error.exit_status) from None


def completed() -> str | None:
    """Return the role of a line that a shell asks to complete, so that its commands and options are known."""
    line = os.environ.get("_TYPER_COMPLETE_ARGS", "") if "_LINTRA_COMPLETE" in os.environ else ""
    # A word that is still being typed is completed from the list of roles.
    words = line.split(" ")[1:-1] or [""]
    return words[0] if words[0] in ROLES else None


class RetryDetails(Protocol):
    """What is known of a request that will be tried again."""

    @property
    def caused_by(self) -> Exception:
        """Return what the request ended with."""


_told_retries: set[str] = set()


def tell_retry(details: RetryDetails) -> None:
    """Say once for each cause, in one line on the standard error, that a request is tried again."""
    cause = str(details.caused_by) or type(details.caused_by).__name__
    shown = "".join(letter if letter.isprintable() else "?" for letter in cause)[:160]
    if shown not in _told_retries:
        _told_retries.add(shown)
        typer.echo(f"no answer yet, trying again for a while: {shown}", err=True)


_ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"lintra {__version__}")
        raise typer.Exit


_VERSION = typer.Option(False, "--version", callback=_say_version, is_eager=True, help="Print the version and exit.")


def _root(*, version: bool = _VERSION) -> None:
    """Private analytics over rows nobody may see. Every role has its own word."""


def _not_loaded() -> None:
    raise AssertionError("main loads the role that is typed")


def _missing(name: str, module: str, extra: str) -> Callable[[typer.Context], None]:
    def explain(_: typer.Context) -> None:
        typer.echo(f"lintra {name} needs {module}, which is not installed; {install_command(extra)}", err=True)
        raise typer.Exit(1)

    return explain
