"""`lintra analyzer ...`: run the service, make tokens, and use the REST interface from a terminal.

Exit codes: 0 done, 1 refused, 75 not ready yet (try again later).
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_analysis.certificate.certificate import witness_lines
from lintra_analysis.commands.progress import waiting
from lintra_analyzer.commands import access, analyses, models
from lintra_analyzer.commands.asking import (
    DEFAULT_URL,
    IDENTIFIERS,
    AsJson,
    ReleaseId,
    TaskId,
    Token,
    Url,
    client_of,
    give_up,
    print_json,
)
from lintra_analyzer.settings import Settings
from lintra_analyzer.storage.keys import load_keys
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.task import Task
from lintra_service.bearer_tokens import new_token, token_hash
from lintra_service.findings import print_findings
from lintra_service.settings import InvalidSettingsError


def task_line(task: dict[str, Any]) -> str:
    """Describe a task."""
    if "unreadable" in task:
        return f"{task['task_id']}  unreadable: {task['unreadable']}"
    state = "" if task["registered"] else ", not registered with every server"
    return (
        f"{task['task_id']}  until {_moment(task['not_after_seconds'])}  {task['mechanism']}, at least "
        f"{task['min_clients']} clients, epsilon {_short(task['epsilon'])} at delta {_short(task['delta'])}{state}  "
        f"{task['purpose']}"
    )


def release_line(release: dict[str, Any]) -> str:
    """Describe a release."""
    if "unreadable" in release:
        return f"{release['release_id']}  unreadable: {release['unreadable']}"
    return (
        f"{release['release_id']}  {_moment(release['released_at'])}  {release['mechanism']}, "
        f"{release['num_clients']} clients, epsilon {_short(release['epsilon'])} at delta {_short(release['delta'])}"
    )


def window_line(window: dict[str, Any]) -> str:
    """Describe a window, and what became of it."""
    what = f"{window['num_clients']} clients, {window['release_id']}" if window["release_id"] else ""
    if window["problem"] is not None:
        what = window["problem"]["detail"] or window["problem"]["title"]
    when = f"{_moment(window['begins_seconds'])} to {_moment(window['ends_seconds'])}"
    return f"{window['window']:5}  {when}  {window['state']}  {what}".rstrip()


def _moment(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}Z"


def _short(real: str) -> str:
    return f"{float(real):.6g}"


app = typer.Typer(help="The analyst's service: tasks, releases, analyses.", no_args_is_help=True)
task_app = typer.Typer(help="Make and look at tasks.", no_args_is_help=True)
app.add_typer(task_app, name="task")
app.add_typer(models.app, name="model")
app.add_typer(analyses.app)
app.add_typer(access.app, name="access")
app.command("sign-in-link")(access.sign_in_link)

_STAGES = {
    "inventory": "closing the batch at every server",
    "cohort": "agreeing on the reports that all servers hold",
    "aggregate": "every server applies the public matrix",
    "reconstruct": "adding up, and signing the record",
}

Config = Annotated[Path, typer.Option("--config", help="The settings, a TOML file.")]


@app.command()
def run(config: Config) -> None:
    """Run the service until SIGTERM or SIGINT."""
    from lintra_analyzer.serve import run as serve

    with _settings_errors():
        serve(Settings.load(config))


@app.command()
def doctor(config: Config) -> None:
    """Look at everything an analyzer stands on, also while it runs; exit with 1 if something must be done.

    Every finding names what mends it and what that costs. Advice alone ends with 0.
    """
    from lintra_analyzer.commands.doctor import examine

    with _settings_errors():
        code = print_findings(examine(Settings.load(config), config), typer.echo)
    raise typer.Exit(code)


@app.command("example-config")
def example_config() -> None:
    """Print a commented settings file."""
    typer.echo(files("lintra_analyzer").joinpath("example.toml").read_text("utf-8"), nl=False)


@app.command()
def keys(config: Config) -> None:
    """Print the analyzer's public keys as JSON; servers allow the author key in their policy."""
    with _settings_errors():
        settings = Settings.load(config)
        found = load_keys(settings.key_folder, settings.create_keys, system_randomness)
    print_json(found.public())


@app.command()
def token(
    file: Annotated[Path | None, typer.Option("--file", help="Append the token's hash to this file.")] = None,
) -> None:
    """Make an operator's token for the settings, shown once; without --file, its hash goes to the standard error."""
    made = new_token(system_randomness)
    if file is None:
        typer.echo(f"sha256: {token_hash(made)}", err=True)
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="ascii") as lines:
            lines.write(token_hash(made) + "\n")
    typer.echo(made)


@task_app.command("create")
def create(
    specification: Annotated[Path, typer.Argument(help="The specification, a JSON file (docs/reference/analyzer.md).")],
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
    request_key: Annotated[str | None, typer.Option(help="Repeating it finds the same task.")] = None,
    population: Annotated[str | None, typer.Option(help="Whose rows it is about; everybody's if not given.")] = None,
) -> None:
    """Calibrate and sign a task, register it with every server, and print its identifier."""
    try:
        wanted = json.loads(specification.read_text("utf-8"))
    except (OSError, ValueError) as error:
        give_up(f"{specification}: {error}")
    if not isinstance(wanted, dict):
        give_up(f"{specification}: expected a JSON object")
    with client_of(url, token) as client, waiting("registering the task with every server"):
        made = client.create_task(wanted, request_key, population)
    if as_json:
        print_json(made)
        return
    for warning in made["warnings"]:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(made["task_id"])


@task_app.command("second-round", context_settings=IDENTIFIERS)
def second_round(
    task_id: Annotated[str, typer.Argument(help="The first round: ron_gauss or range_finder with 2 rounds, released.")],
    url: Url = DEFAULT_URL,
    token: Token = "",
    row_bound: Annotated[str | None, typer.Option(help="Of rows about means, or along directions.")] = None,
) -> None:
    """Make the second of two rounds from the release of the first, register it, and print its identifier."""
    with client_of(url, token) as client, waiting("registering the second round with every server"):
        made = client.create_second_task(task_id, row_bound)["task_id"]
    typer.echo(made)


@app.command("tasks")
def list_tasks(url: Url = DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """List all tasks, the newest first."""
    with client_of(url, token) as client:
        found = client.tasks()
    if as_json:
        print_json(found)
        return
    for task in found:
        typer.echo(task_line(task))


@task_app.command("show", context_settings=IDENTIFIERS)
def show(
    task_id: TaskId,
    url: Url = DEFAULT_URL,
    token: Token = "",
    live: Annotated[bool, typer.Option("--live", help="Ask the servers now.")] = False,
) -> None:
    """Print a task as JSON."""
    with client_of(url, token) as client:
        print_json(client.task(task_id, live))


@app.command("admission-tokens", context_settings=IDENTIFIERS)
def admission_tokens(
    task_id: TaskId,
    count: Annotated[int, typer.Option("--count", min=1, help="How many: one for each client.")] = 1,
    url: Url = DEFAULT_URL,
    token: Token = "",
) -> None:
    """Make admission tokens for a task's clients, one a line; each is a secret, and nothing is kept of it."""
    with client_of(url, token) as client:
        for made in client.tokens(task_id, count):
            typer.echo(made)


@app.command(context_settings=IDENTIFIERS)
def census(task_id: TaskId, url: Url = DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """Say who lacks how many reports, before the batch is closed; it changes nothing."""
    with client_of(url, token) as client, waiting("asking every server what it holds"):
        found = client.census(task_id)
    if as_json:
        print_json(found)
        return
    for server in found["servers"]:
        typer.echo(f"server {server['server']}: {server['reports']} reports, {server['missing']} missing")
        if server["start"] < server["highest_start"]:
            typer.echo(
                f"server {server['server']} says that it began {server['start']} times, and said "
                f"{server['highest_start']} before: it was set back, or this census is from before its last start"
            )
    typer.echo(found["gate"])


@app.command(context_settings=IDENTIFIERS)
def windows(task_id: TaskId, url: Url = DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """List the windows of a task that have begun, and what became of each; they are released by themselves."""
    with client_of(url, token) as client:
        found = client.windows(task_id)
    if as_json:
        print_json(found)
        return
    for window in found:
        typer.echo(window_line(window))


@app.command(context_settings=IDENTIFIERS)
def release(
    task_id: TaskId,
    url: Url = DEFAULT_URL,
    token: Token = "",
    wait: Annotated[float, typer.Option("--wait", help="Seconds to wait for a running release.")] = 600.0,
) -> None:
    """Release a task's batch and print the release's identifier; exit code 75 if it is not ready yet."""
    with client_of(url, token) as client:
        with _progress() as progress:
            release_id = client.release(task_id, wait, progress=progress)
        typer.echo(release_id)
        _tell_witnesses(client, release_id)


@app.command(context_settings=IDENTIFIERS)
def download(
    release_id: ReleaseId,
    name: Annotated[Path, typer.Argument(help="NAME.npz, NAME.json and NAME.task.json are written.")],
    url: Url = DEFAULT_URL,
    token: Token = "",
) -> None:
    """Write a release as three files, which lintra_analysis.open_release reads without a network."""
    with client_of(url, token) as client:
        with waiting("fetching the release"):
            client.download_release(release_id, name)
        typer.echo(f"{name}.npz")
        _tell_witnesses(client, release_id)


@app.command(context_settings=IDENTIFIERS)
def evidence(
    release_id: ReleaseId,
    file: Annotated[Path, typer.Argument(help="Where to write it.")],
    url: Url = DEFAULT_URL,
    token: Token = "",
) -> None:
    """Write what the servers of a verified task signed, with their check shares; `lintra audit replay` checks it."""
    with client_of(url, token) as client, waiting("fetching the evidence"):
        client.download_evidence(release_id, file)
    typer.echo(str(file))


@app.command("releases")
def list_releases(url: Url = DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """List all releases, the newest first."""
    with client_of(url, token) as client:
        found = client.releases()
    if as_json:
        print_json(found)
        return
    for each in found:
        typer.echo(release_line(each))


def _tell_witnesses(client: AnalyzerClient, release_id: str) -> None:
    """Say on the standard error which servers had a witness: the standard output holds what a script reads."""
    record = client.record(release_id).record
    task = Task.from_value(client.task(record.task_id)["definition"])
    for line in witness_lines(record, task):
        typer.echo(line, err=True)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Say on the standard error what is being waited for: in place in a terminal, else a line for each stage."""
    console = Console(stderr=True)
    with console.status("asking the analyzer") if console.is_terminal else nullcontext() as status:

        def said(stage: str) -> None:
            text = _STAGES.get(stage, stage)
            if status is None:
                typer.echo(text, err=True)
            else:
                status.update(text)

        yield said


@contextmanager
def _settings_errors() -> Iterator[None]:
    try:
        yield
    except (InvalidSettingsError, OSError) as error:
        give_up(str(error))
