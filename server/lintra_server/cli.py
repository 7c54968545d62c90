"""`lintra server ...`: found one server, run it, look after it."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy.exc import SQLAlchemyError

from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.errors import LintraError
from lintra_server.clock import Clock
from lintra_server.durability.private_files import make_folder, require_private, write_new
from lintra_server.node import new_clock
from lintra_server.operations.backup import back_up, back_up_keys
from lintra_server.operations.doctor import Doctor
from lintra_server.operations.initialise import initialise, may_initialise
from lintra_server.operations.losses import abandoned_in_words, batch_named, begun
from lintra_server.operations.restore import put_database, restore
from lintra_server.settings import Settings
from lintra_server.storage.key_folder import ACCEPT_FILE, KeyFolder
from lintra_server.storage.server_resources import NotStartedError, lock_folders, open_vault, open_witness
from lintra_server.storage.transition_log import ForkedError
from lintra_service.findings import print_findings, print_findings_as_json

app = typer.Typer(help="Run one of the servers.", no_args_is_help=True)

BEGIN, DAILY, LOSS = "Set up", "Run and look after", "After a loss"
"""The groups in which the commands are listed."""

ConfigOption = Annotated[
    Path, typer.Option("--config", exists=True, dir_okay=False, help="The server's settings, a TOML file.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


@contextmanager
def _failing_in_words() -> Iterator[None]:
    try:
        yield
    except (ValueError, LintraError, OSError, ForkedError) as error:
        typer.echo(" ".join(str(error).split()), err=True)
        raise typer.Exit(1) from None
    except (SQLAlchemyError, sqlite3.Error) as error:
        said = str(getattr(error, "orig", error)).partition("\n")[0]
        typer.echo(f"the database cannot be used: {said}; `lintra server doctor` looks at it", err=True)
        raise typer.Exit(1) from None


@app.command(rich_help_panel=DAILY)
def run(
    config: ConfigOption,
    workers: Annotated[
        int,
        typer.Option(min=1, max=64, help="How many processes take uploads. With two or more, one process more writes."),
    ] = 1,
) -> None:
    """Serve until the process is asked to stop."""
    # The other commands do without the web framework, which takes a second to import.
    from lintra_server.serve import run as serve

    with _failing_in_words():
        serve(Settings.load(config), workers)


@app.command(rich_help_panel=BEGIN)
def init(config: ConfigOption, as_json: AsJson = False) -> None:
    """Make a new server: its keys where they are missing, its journal and its database."""
    with _failing_in_words():
        settings = Settings.load(config)
        with _locked(settings) as (folder, clock):
            initialise(settings.model_copy(update={"create_keys": True}), system_randomness, folder, clock)
        key = settings.signing_key(system_randomness).public_key
        if as_json:
            _print_json({"data_dir": str(settings.data_dir), "key_dir": str(settings.key_dir), "identity_key": key})
            return
        typer.echo(f"a new server in {settings.data_dir} and {settings.key_dir}")
        typer.echo(key)


@app.command(rich_help_panel=BEGIN)
def keys(
    config: ConfigOption,
    backup: Annotated[Path | None, typer.Option(help="Copy the two long-lived keys to this new folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the public identity key by which tasks name this server."""
    with _failing_in_words():
        settings = Settings.load(config)
        if not settings.has_identity_key():
            with _locked(settings) as (folder, clock):
                if not may_initialise(settings, folder):
                    raise NotStartedError(
                        "no identity key: bring it along, or set create_keys = true, or run `lintra server init`"
                    )
                initialise(settings, system_randomness, folder, clock)
        key = settings.signing_key(system_randomness).public_key
        if not as_json:
            typer.echo(key)
        if backup is not None:
            back_up_keys(settings, backup)
        if as_json:
            _print_json({"identity_key": key, "backup": None if backup is None else str(backup)})
        elif backup is not None:
            typer.echo(f"the identity key and the storage root key are in {backup}; keep it apart from every database")


@app.command(rich_help_panel=DAILY)
def backup(
    config: ConfigOption,
    folder: Annotated[Path, typer.Argument(help="A new folder for the copy.")],
    as_json: AsJson = False,
) -> None:
    """Copy the database, also while the server runs.

    The key folder is not copied, because keys that are destroyed after a release would live on in the copy.
    """
    with _failing_in_words():
        lines = []
        for line in back_up(Settings.load(config), folder):
            lines.append(line)
            if not as_json:
                typer.echo(line)
        if as_json:
            _print_json({"folder": str(folder), "said": lines})


@app.command("restore", rich_help_panel=LOSS)
def restore_command(
    config: ConfigOption,
    source: Annotated[Path | None, typer.Option("--from", help="A folder that `backup` wrote.")] = None,
    without_manifest: Annotated[
        bool,
        typer.Option(
            "--without-manifest",
            help="The backup has no manifest. The journal and the notes of the server alone judge it.",
        ),
    ] = False,
    journal_lost: Annotated[
        bool,
        typer.Option(
            "--journal-lost", help="The key folder lost its journal. Every batch that is not released is given up."
        ),
    ] = False,
    never_copied: Annotated[
        bool,
        typer.Option(
            "--key-folder-never-copied",
            help="You vouch that the key folder is the original, and that nobody put an older copy in its place.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make the two folders fit together after a loss.

    A batch that may have been released already is given up, so that it is never released twice.
    """
    with _failing_in_words():
        settings = Settings.load(config)
        if source is not None and journal_lost:
            raise NotStartedError(
                "without the journal nobody vouches for a backup: leave out --from, or --journal-lost"
            )
        aside: Path | None = None
        with _locked(settings) as (folder, clock):
            if source is not None:
                aside = put_database(settings, source, without_manifest=without_manifest)
            if source is not None and not as_json:
                typer.echo(f"put the backup's database in place{f'; the old one is {aside}' if aside else ''}")
            done = restore(
                settings, system_randomness, folder, clock, journal_lost=journal_lost, never_copied=never_copied
            )
    if as_json:
        replaced = None if aside is None else str(aside)
        _print_json({**asdict(done), "lost": list(done.lost), "replaced_database": replaced})
        return
    typer.echo(f"{done.kept} batches go on, {done.abandoned} were given up, {done.released} releases were stored again")
    for line in done.lost:
        typer.echo(line)
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(done.barred_before))
    typer.echo(f"new tasks must begin after {when} UTC; older ones may have been released in the part that was lost")


TaskId = Annotated[
    str, typer.Argument(metavar="TASK", help="The task's identifier, as `lintra server doctor` shows it.")
]
BatchNumber = Annotated[
    int, typer.Argument(metavar="[BATCH]", min=0, help="The number of the window; 0 in a task without windows.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before it is done.")]

_IDENTIFIERS = {"ignore_unknown_options": True}
"""An identifier may begin with a hyphen."""


@app.command("accept-loss", context_settings=_IDENTIFIERS, rich_help_panel=LOSS)
def accept_loss(config: ConfigOption, task: TaskId, batch: BatchNumber = 0, yes: Yes = False) -> None:
    """Go on with an open batch of which reports are gone, or delete rows that do not belong to a batch.

    The server's inventory and the certificate of the release say how many reports are lost.
    """
    with _failing_in_words():
        settings, named = Settings.load(config), batch_named(task, batch)
        with _locked(settings) as (folder, _), begun(settings, system_randomness, folder) as server:
            loss = server.loss(named)
            typer.echo(loss.words)
            if _agreed("Accept the loss?", yes):
                server.accept(loss)
                typer.echo(f"accepted: {named} goes on with {loss.end.total} reports")


@app.command("abandon", context_settings=_IDENTIFIERS, rich_help_panel=LOSS)
def abandon_command(config: ConfigOption, task: TaskId, batch: BatchNumber = 0, yes: Yes = False) -> None:
    """Give a batch up for good, whatever its state, and destroy its keys and shares."""
    with _failing_in_words():
        settings, named = Settings.load(config), batch_named(task, batch)
        with _locked(settings) as (folder, _), begun(settings, system_randomness, folder) as server:
            row = server.given_up(named)
            typer.echo(abandoned_in_words(row))
            if _agreed("Give it up?", yes):
                server.abandon(row)
                typer.echo("done")


@app.command(rich_help_panel=DAILY)
def doctor(config: ConfigOption, as_json: AsJson = False) -> None:
    """Look at everything that a server needs, also while it runs, and name a command for what is wrong.

    The exit code is 1 if there is trouble, and 0 if nothing is wrong or there is advice only.
    """
    with _failing_in_words():
        printed = print_findings_as_json if as_json else print_findings
        raise typer.Exit(printed(Doctor(Settings.load(config), config).examine(), typer.echo))


@app.command("clock", rich_help_panel=DAILY)
def clock_command(
    config: ConfigOption,
    accept: Annotated[
        bool, typer.Option("--accept", help="Say that the machine's clock is right, so that the server goes on by it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say whether the machine's clock agrees with what the server saw last, also while the server runs."""
    with _failing_in_words():
        settings = Settings.load(config)
        make_folder(settings.key_dir)
        require_private(settings.key_dir)
        now = time.time()
        said = [] if accept else [finding.what for finding in Doctor(settings, config).clock()]
        if not as_json:
            typer.echo(f"this machine says {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(now))} UTC")
        if accept:
            # A running server sees the file within a second, one that starts at once.
            path = settings.key_dir / ACCEPT_FILE
            if not path.exists():
                write_new(path, b"")
        if as_json:
            _print_json({"machine_seconds": int(now), "accepted": accept, "found": said})
        elif accept:
            typer.echo("accepted: what is due by this clock is destroyed after the server has run for an hour")
        else:
            for line in said or ["it agrees with what the server saw last"]:
                typer.echo(line)


@app.command(rich_help_panel=LOSS)
def witness(config: ConfigOption) -> None:
    """Tell a new, empty witness where the journal stands. Stop the server before."""
    with _failing_in_words():
        settings = Settings.load(config)
        with _locked(settings) as (folder, _):
            vault = open_vault(settings, system_randomness)
            told = open_witness(settings, folder.path, vault, system_randomness)
            if told is None:
                raise NotStartedError("the settings name no witness_dir")
            told.tell(folder.open_journal(vault).head)
        typer.echo(f"{settings.witness_dir} knows where the journal stands")


@app.command("example-config", rich_help_panel=BEGIN)
def example_config() -> None:
    """Print a commented settings file."""
    typer.echo(files("lintra_server").joinpath("example.toml").read_text("utf-8"), nl=False)


@contextmanager
def _locked(settings: Settings) -> Iterator[tuple[KeyFolder, Clock]]:
    folder = lock_folders(settings, system_randomness)
    try:
        yield folder, new_clock(settings, folder, time.time, time.monotonic)
    finally:
        folder.close()


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _agreed(question: str, yes: bool) -> bool:
    """Ask before something that cannot be undone; whoever does not agree changes nothing."""
    if not yes and not typer.confirm(question):
        typer.echo("nothing was changed")
        raise typer.Exit(1)
    return True
