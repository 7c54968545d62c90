"""`lintra analyzer ...`: run the service, make tokens, and use the REST interface from a terminal.

Exit codes: 0 done, 1 refused, 75 not ready yet (try again later).
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.resources import files
from pathlib import Path
from typing import Annotated

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
    print_entry,
    print_json,
)
from lintra_analyzer.commands.entries import census_lines, release_line, task_line, window_line
from lintra_analyzer.settings import Settings
from lintra_analyzer.storage.keys import load_keys
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.task import Task
from lintra_service.bearer_tokens import new_token, token_hash
from lintra_service.findings import print_findings, print_findings_as_json
from lintra_service.settings import InvalidSettingsError

app = typer.Typer(help="The analyst's service: tasks, releases, analyses.", no_args_is_help=True)
task_app = typer.Typer(help="Make and look at tasks.", no_args_is_help=True)

SERVICE, TASKS, RELEASES = "Run the service", "Tasks", "Releases"
"""The groups in which the commands are listed; `analyses` has one more."""

app.add_typer(task_app, name="task", rich_help_panel=TASKS)
app.add_typer(models.app, name="model", rich_help_panel=TASKS)
app.add_typer(analyses.app)
app.add_typer(access.app, name="access", rich_help_panel=SERVICE)
app.command("sign-in-link", rich_help_panel=SERVICE)(access.sign_in_link)

_STAGES = {
    "inventory": "closing the batch at every server",
    "cohort": "agreeing on the reports that all servers hold",
    "aggregate": "every server applies the public matrix",
    "reconstruct": "adding up, and signing the record",
}

Config = Annotated[Path, typer.Option("--config", help="The settings, a TOML file.")]


@app.command(rich_help_panel=SERVICE)
def run(config: Config) -> None:
    """Run the service until it is asked to stop."""
    from lintra_analyzer.serve import run as serve

    with _settings_errors():
        serve(Settings.load(config))


@app.command(rich_help_panel=SERVICE)
def doctor(config: Config, as_json: AsJson = False) -> None:
    """Look at everything that an analyzer needs, also while it runs.

    Every finding names what mends it and what that costs. The exit code is 1 if something must be done, and 0 if there
    is advice only.
    """
    from lintra_analyzer.commands.doctor import examine

    with _settings_errors():
        printed = print_findings_as_json if as_json else print_findings
        code = printed(examine(Settings.load(config), config), typer.echo)
    raise typer.Exit(code)


@app.command("example-config", rich_help_panel=SERVICE)
def example_config() -> None:
    """Print a commented settings file."""
    typer.echo(files("lintra_analyzer").joinpath("example.toml").read_text("utf-8"), nl=False)


@app.command(rich_help_panel=SERVICE)
def keys(config: Config) -> None:
    """Print the analyzer's public keys as JSON. The servers' operators allow the author key in their policy."""
    with _settings_errors():
        settings = Settings.load(config)
        found = load_keys(settings.key_folder, settings.create_keys, system_randomness)
    print_json(found.public())


@app.command(rich_help_panel=SERVICE)
def token(
    file: Annotated[Path | None, typer.Option("--file", help="Append the token's hash to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make an operator's token for the settings, and show it once.

    Without --file its hash goes to the standard error.
    """
    made = new_token(system_randomness)
    if file is None:
        if not as_json:
            typer.echo(f"sha256: {token_hash(made)}", err=True)
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="ascii") as lines:
            lines.write(token_hash(made) + "\n")
    if as_json:
        print_json({"token": made, "sha256": token_hash(made)})
    else:
        typer.echo(made)


@task_app.command("create")
def create(
    specification: Annotated[Path, typer.Argument(help="The specification, a JSON file; `lintra trial` writes one.")],
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
    request_key: Annotated[
        str | None, typer.Option(help="A word of yours: the same word finds the same task again.")
    ] = None,
    population: Annotated[
        str | None, typer.Option(help="Whose rows the task is about; everybody's if not given.")
    ] = None,
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
    task_id: Annotated[
        str,
        typer.Argument(
            help="The task of the first round, which was released: a ron_gauss or range_finder with 2 rounds."
        ),
    ],
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
    row_bound: Annotated[
        str | None, typer.Option(help="The longest row of the second round, in normalised units.")
    ] = None,
) -> None:
    """Make the second of two rounds from the release of the first, register it, and print its identifier."""
    with client_of(url, token) as client, waiting("registering the second round with every server"):
        made = client.create_second_task(task_id, row_bound)
    if as_json:
        print_json(made)
    else:
        typer.echo(made["task_id"])


@app.command("tasks", rich_help_panel=TASKS)
def list_tasks(url: Url = DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """List all tasks, the newest first."""
    with client_of(url, token) as client:
        found = client.tasks()
    if as_json:
        print_json(found)
        return
    for task in found:
        print_entry(*task_line(task))


@task_app.command("show", context_settings=IDENTIFIERS)
def show(
    task_id: TaskId,
    url: Url = DEFAULT_URL,
    token: Token = "",
    live: Annotated[bool, typer.Option("--live", help="Ask the servers now how many reports they hold.")] = False,
) -> None:
    """Print a task as JSON."""
    with client_of(url, token) as client:
        print_json(client.task(task_id, live))


@app.command("admission-tokens", context_settings=IDENTIFIERS, rich_help_panel=TASKS)
def admission_tokens(
    task_id: TaskId,
    count: Annotated[int, typer.Option("--count", min=1, help="How many tokens: one for each client.")] = 1,
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Make admission tokens for a task's clients, one a line. Each is a secret, and the analyzer keeps none."""
    with client_of(url, token) as client:
        made = client.tokens(task_id, count)
    if as_json:
        print_json(made)
        return
    for each in made:
        typer.echo(each)


@app.command(context_settings=IDENTIFIERS, rich_help_panel=TASKS)
def census(task_id: TaskId, url: Url = DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """Say how many reports each server holds, and how many it lacks, before the batch is closed."""
    with client_of(url, token) as client, waiting("asking every server what it holds"):
        found = client.census(task_id)
    if as_json:
        print_json(found)
        return
    for line in census_lines(found):
        typer.echo(line)


@app.command(context_settings=IDENTIFIERS, rich_help_panel=TASKS)
def windows(task_id: TaskId, url: Url = DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """List the windows of a task that have begun, and what became of each. The analyzer releases them by itself."""
    with client_of(url, token) as client:
        found = client.windows(task_id)
    if as_json:
        print_json(found)
        return
    for window in found:
        print_entry(*window_line(window))


@app.command(context_settings=IDENTIFIERS, rich_help_panel=RELEASES)
def release(
    task_id: TaskId,
    url: Url = DEFAULT_URL,
    token: Token = "",
    wait: Annotated[float, typer.Option("--wait", help="How many seconds to wait for the release.")] = 600.0,
    as_json: AsJson = False,
) -> None:
    """Release a task's batch and print the release's identifier. The exit code is 75 if it is not ready yet."""
    with client_of(url, token) as client:
        with _progress() as progress:
            release_id = client.release(task_id, wait, progress=progress)
        if as_json:
            print_json({"release_id": release_id, "witnesses": _witnesses(client, release_id)})
            return
        typer.echo(release_id)
        _tell_witnesses(client, release_id)


@app.command(context_settings=IDENTIFIERS, rich_help_panel=RELEASES)
def download(
    release_id: ReleaseId,
    name: Annotated[
        Path, typer.Argument(help="What the three files are called: NAME.npz, NAME.json and NAME.task.json.")
    ],
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Write a release as three files, which `open_release` reads in Python without a network."""
    with client_of(url, token) as client:
        with waiting("fetching the release"):
            client.download_release(release_id, name)
        if as_json:
            files_written = [f"{name}{end}" for end in (".npz", ".json", ".task.json")]
            print_json({"files": files_written, "witnesses": _witnesses(client, release_id)})
            return
        typer.echo(f"{name}.npz")
        _tell_witnesses(client, release_id)


@app.command(context_settings=IDENTIFIERS, rich_help_panel=RELEASES)
def evidence(
    release_id: ReleaseId,
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Write what the servers of a verified task signed, with their check shares.

    `lintra audit replay` checks it.
    """
    with client_of(url, token) as client, waiting("fetching the evidence"):
        client.download_evidence(release_id, file)
    if as_json:
        print_json({"file": str(file)})
    else:
        typer.echo(str(file))


@app.command("releases", rich_help_panel=RELEASES)
def list_releases(url: Url = DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """List all releases, the newest first."""
    with client_of(url, token) as client:
        found = client.releases()
    if as_json:
        print_json(found)
        return
    for each in found:
        print_entry(*release_line(each))


def _tell_witnesses(client: AnalyzerClient, release_id: str) -> None:
    """Say on the standard error which servers had a witness: the standard output holds what a script reads."""
    for line in _witnesses(client, release_id):
        typer.echo(line, err=True)


def _witnesses(client: AnalyzerClient, release_id: str) -> list[str]:
    record = client.record(release_id).record
    return witness_lines(record, Task.from_value(client.task(record.task_id)["definition"]))


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Say on the standard error what is being waited for: in place in a terminal, else a line for each stage."""
    console = Console(stderr=True)
    with console.status("asking the analyzer") if console.is_terminal else nullcontext() as status:

        def said(stage: str) -> None:
            step = f"step {[*_STAGES].index(stage) + 1} of {len(_STAGES)}: " if stage in _STAGES else ""
            text = step + _STAGES.get(stage, stage)
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
