"""`lintra analyzer access ...`: who may ask, on the machine where the analyzer keeps its data; it may be running."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer
from sqlalchemy import Engine

from lintra_analyzer.access import Access
from lintra_analyzer.commands.asking import AsJson, give_up, print_entry, print_json
from lintra_analyzer.settings import Settings
from lintra_analyzer.storage.access_tokens import AccessToken, Role, Scope
from lintra_analyzer.storage.database import TrustedCounter, open_database
from lintra_analyzer.storage.store import DATABASE
from lintra_analyzer.storage.trusted_file import FILE, TrustedFile, reset
from lintra_analyzer.storage.users import Users
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.errors import LintraError
from lintra_service.settings import InvalidSettingsError

DAY = 86_400

app = typer.Typer(help="Tokens with a role: make, list and revoke them.", no_args_is_help=True)

Config = Annotated[Path, typer.Option("--config", help="The settings, a TOML file.")]


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Whose it is, or what for.")],
    config: Config,
    role: Annotated[
        Role, typer.Option(help="A viewer looks, an analyst also makes tasks, and an operator also makes tokens.")
    ],
    days: Annotated[
        int | None, typer.Option(min=1, max=3650, help="For how many days it is valid; for ever if not given.")
    ] = None,
    population: Annotated[list[str] | None, typer.Option(help="Only for this population; may be repeated.")] = None,
    task: Annotated[list[str] | None, typer.Option(help="Only for this task; may be repeated.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a token and show it once. The analyzer keeps only its hash."""
    scope = Scope(tuple(task or ()), tuple(population or ()))
    with _access(config) as access:
        secret, made = access.add(name, role, scope, None if days is None else DAY * days)
    if as_json:
        print_json({"token": secret, **_described(made, _state(made, _now()))})
        return
    typer.echo(f"{made.token_id}  {made.role}", err=True)
    typer.echo(secret)


@app.command("list")
def list_tokens(config: Config, as_json: AsJson = False) -> None:
    """List all tokens, the newest first; those of the settings are not among them."""
    now = _now()
    with _access(config) as access:
        found = [(token, _state(token, now)) for token in access.tokens()]
    if as_json:
        print_json([_described(token, state) for token, state in found])
        return
    for token, state in found:
        whom = "" if token.scope.is_everything else f"  for {', '.join((*token.scope.populations, *token.scope.tasks))}"
        print_entry(token.token_id, f"{token.role:8}", state, f"{token.name}{whom}")


@app.command()
def revoke(
    token_id: Annotated[str, typer.Argument(help="The token's identifier, as `list` shows it.")],
    config: Config,
    as_json: AsJson = False,
) -> None:
    """Revoke a token at once, also for whoever is signed in with it."""
    with _access(config) as access:
        revoked = access.revoke(token_id)
    if as_json:
        print_json(_described(revoked, _state(revoked, _now())))
    else:
        typer.echo(f"{revoked.token_id} is revoked")


@app.command("reset")
def reset_command(config: Config, as_json: AsJson = False) -> None:
    """Put the file of tokens and sessions aside and begin a new one.

    Every token ends, except those of the settings.
    """
    with _settings_errors():
        settings = Settings.load(config)
        engine = _opened(settings)
        try:
            new = reset(settings.key_folder, TrustedCounter(engine))
        finally:
            engine.dispose()
    if as_json:
        print_json({"tokens": 0, "servers_kept": len(new.pins)})
    else:
        typer.echo(f"a new file without tokens; the keys of {len(new.pins)} servers were kept")


def sign_in_link(
    config: Config,
    url: Annotated[
        str | None, typer.Option(help="Where browsers reach the console; this machine if not given.")
    ] = None,
    role: Annotated[Role, typer.Option(help="The role of whoever follows the link.")] = "operator",
    as_json: AsJson = False,
) -> None:
    """Print a link that signs somebody in to the console, once and within a quarter of an hour."""
    with _access(config) as access:
        code = access.sign_in_code(role)
    place = url or f"http://127.0.0.1:{Settings.load(config).port}"
    link = f"{place.rstrip('/')}/sign-in?{urlencode({'code': code})}"
    if as_json:
        print_json({"url": link})
    else:
        typer.echo(link)


@contextmanager
def _access(config: Path) -> Iterator[Access]:
    """Open the database that the settings name, and end the command with what is wrong."""
    with _settings_errors():
        settings = Settings.load(config)
        engine = _opened(settings)
        try:
            users = Users(TrustedFile(settings.key_folder, TrustedCounter(engine)))
            yield Access(settings.known_token_hashes(), users, _now, system_randomness)
        finally:
            engine.dispose()


def _opened(settings: Settings) -> Engine:
    return open_database(settings.data_dir / DATABASE, is_known=(settings.key_folder / FILE).exists())


@contextmanager
def _settings_errors() -> Iterator[None]:
    try:
        yield
    except (InvalidSettingsError, LintraError, OSError) as error:
        give_up(str(error))


def _now() -> int:
    return int(time.time())


def _state(token: AccessToken, now: int) -> str:
    if token.revoked_at is not None:
        return f"revoked {_day(token.revoked_at)}"
    if token.expires_at is None:
        return "valid for ever"
    return f"{'valid until' if token.is_valid(now) else 'expired'} {_day(token.expires_at)}"


def _day(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}Z"


def _described(token: AccessToken, state: str) -> dict[str, object]:
    return {
        "token_id": token.token_id,
        "name": token.name,
        "role": token.role,
        "tasks": list(token.scope.tasks),
        "populations": list(token.scope.populations),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "state": state,
    }
