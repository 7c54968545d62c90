"""`lintra analyzer ...`: run the service, make tokens, and use the REST interface from a terminal.

Exit codes: 0 done, 1 refused, 75 not ready yet (try again later).
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_analysis.commands.waiting import waiting
from lintra_analysis.synthetic.analysis import synthesize as synthesize_rows
from lintra_analysis.synthetic.rows import WARNING
from lintra_analyzer.listing import release_line, task_line, window_line
from lintra_analyzer.settings import TOKEN_VARIABLE, URL_VARIABLE, Settings
from lintra_analyzer.storage.keys import load_keys
from lintra_protocol.errors import LintraError, UnauthorizedError
from lintra_protocol.randomness import system_randomness
from lintra_service.settings import InvalidSettingsError
from lintra_service.tokens import new_token, token_hash

NOT_READY = os.EX_TEMPFAIL
_DEFAULT_URL = "http://127.0.0.1:8700"

app = typer.Typer(help="The analyst's service: tasks, releases, analyses.", no_args_is_help=True)
task_app = typer.Typer(help="Make and look at tasks.", no_args_is_help=True)
app.add_typer(task_app, name="task")

_STAGES = {
    "inventory": "closing the batch at every server",
    "cohort": "agreeing on the reports that all servers hold",
    "aggregate": "every server applies the public matrix",
    "reconstruct": "adding up, and signing the record",
}

# One identifier in 64 begins with a hyphen; it is an argument all the same.
_IDENTIFIERS = {"ignore_unknown_options": True}

Config = Annotated[Path, typer.Option("--config", help="The settings, a TOML file.")]
Url = Annotated[str, typer.Option("--url", envvar=URL_VARIABLE, help="Where the analyzer listens.")]
Token = Annotated[
    str, typer.Option("--token", envvar=TOKEN_VARIABLE, help="Bearer token; better given by the environment.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a text.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV instead of a text.")]
Features = Annotated[list[str] | None, typer.Option("--feature", help="A column that explains; repeat; all others.")]
Confidence = Annotated[float | None, typer.Option("--confidence", help="Of the intervals; 0.95 if left out.")]


@app.command()
def run(config: Config) -> None:
    """Run the service until SIGTERM or SIGINT."""
    from lintra_analyzer.serve import run as serve

    with _settings_errors():
        serve(Settings.load(config))


@app.command("example-config")
def example_config() -> None:
    """Print a commented settings file."""
    typer.echo(files("lintra_analyzer").joinpath("example.toml").read_text("utf-8"), nl=False)


@app.command()
def keys(config: Config) -> None:
    """Print the analyzer's public keys as JSON; servers allow the author key in their policy."""
    with _settings_errors():
        settings = Settings.load(config)
        found = load_keys(settings.data_dir / "keys", settings.create_keys, system_randomness)
    _print_json(found.public())


@app.command()
def token(
    file: Annotated[Path | None, typer.Option("--file", help="Append the token's hash to this file.")] = None,
) -> None:
    """Make a bearer token and show it once; without --file, its hash goes to the standard error."""
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
    specification: Annotated[Path, typer.Argument(help="The specification, a JSON file (docs/analyzer.md).")],
    url: Url = _DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
    request_key: Annotated[str | None, typer.Option(help="Repeating it finds the same task.")] = None,
) -> None:
    """Calibrate and sign a task, register it with every server, and print its identifier."""
    try:
        wanted = json.loads(specification.read_text("utf-8"))
    except (OSError, ValueError) as error:
        _give_up(f"{specification}: {error}")
    if not isinstance(wanted, dict):
        _give_up(f"{specification}: expected a JSON object")
    with _client(url, token) as client, waiting("registering the task with every server"):
        made = client.create_task(wanted, request_key)
    if as_json:
        _print_json(made)
        return
    for warning in made["warnings"]:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(made["task_id"])


@task_app.command("second-round", context_settings=_IDENTIFIERS)
def second_round(
    task_id: Annotated[str, typer.Argument(help="The first round: a task of ron_gauss with 2 rounds, released.")],
    url: Url = _DEFAULT_URL,
    token: Token = "",
    row_bound: Annotated[str | None, typer.Option("--row-bound", help="Of rows about their class's mean.")] = None,
) -> None:
    """Make the second of two rounds from the release of the first, register it, and print its identifier."""
    with _client(url, token) as client, waiting("registering the second round with every server"):
        made = client.create_second_task(task_id, row_bound)["task_id"]
    typer.echo(made)


@app.command("tasks")
def list_tasks(url: Url = _DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """List all tasks, the newest first."""
    with _client(url, token) as client:
        found = client.tasks()
    if as_json:
        _print_json(found)
        return
    for task in found:
        typer.echo(task_line(task))


@task_app.command("show", context_settings=_IDENTIFIERS)
def show(
    task_id: str,
    url: Url = _DEFAULT_URL,
    token: Token = "",
    live: Annotated[bool, typer.Option("--live", help="Ask the servers now.")] = False,
) -> None:
    """Print a task as JSON."""
    with _client(url, token) as client:
        _print_json(client.task(task_id, live))


@app.command(context_settings=_IDENTIFIERS)
def tokens(
    task_id: str,
    count: Annotated[int, typer.Option("--count", min=1, help="How many: one for each client.")] = 1,
    url: Url = _DEFAULT_URL,
    token: Token = "",
) -> None:
    """Make admission tokens for a task's clients, one a line; each is a secret, and nothing is kept of it."""
    with _client(url, token) as client:
        for made in client.tokens(task_id, count):
            typer.echo(made)


@app.command(context_settings=_IDENTIFIERS)
def census(task_id: str, url: Url = _DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """Say who lacks how many reports, before the batch is closed; it changes nothing."""
    with _client(url, token) as client, waiting("asking every server what it holds"):
        found = client.census(task_id)
    if as_json:
        _print_json(found)
        return
    for server in found["servers"]:
        typer.echo(f"server {server['server']}: {server['reports']} reports, {server['missing']} missing")
        if server["start"] < server["highest_start"]:
            typer.echo(
                f"server {server['server']} says that it began {server['start']} times, and said "
                f"{server['highest_start']} before: it was set back, or this census is from before its last start"
            )
    typer.echo(f"{found['common']} reports are at every server, {found['min_clients']} are needed")


@app.command(context_settings=_IDENTIFIERS)
def windows(task_id: str, url: Url = _DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """List the windows of a task that have begun, and what became of each; they are released by themselves."""
    with _client(url, token) as client:
        found = client.windows(task_id)
    if as_json:
        _print_json(found)
        return
    for window in found:
        typer.echo(window_line(window))


@app.command(context_settings=_IDENTIFIERS)
def release(
    task_id: str,
    url: Url = _DEFAULT_URL,
    token: Token = "",
    wait: Annotated[float, typer.Option("--wait", help="Seconds to wait for a running release.")] = 600.0,
) -> None:
    """Release a task's batch and print the release's identifier; exit code 75 if it is not ready yet."""
    with _client(url, token) as client, _progress() as progress:
        release_id = client.release(task_id, wait, progress=progress)
    typer.echo(release_id)


@app.command(context_settings=_IDENTIFIERS)
def download(
    release_id: Annotated[str, typer.Argument()],
    name: Annotated[Path, typer.Argument(help="NAME.npz, NAME.json and NAME.task.json are written.")],
    url: Url = _DEFAULT_URL,
    token: Token = "",
) -> None:
    """Write a release as three files, which lintra_analysis.open_release reads without a network."""
    with _client(url, token) as client, waiting("fetching the release"):
        client.download_release(release_id, name)
    typer.echo(f"{name}.npz")


@app.command("releases")
def list_releases(url: Url = _DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """List all releases, the newest first."""
    with _client(url, token) as client:
        found = client.releases()
    if as_json:
        _print_json(found)
        return
    for each in found:
        typer.echo(release_line(each))


@app.command(context_settings=_IDENTIFIERS)
def analyse(
    release_id: str,
    kind: Annotated[str, typer.Option("--kind", help="ridge, low-rank, moments, pca, correlation, means, ...")],
    url: Url = _DEFAULT_URL,
    token: Token = "",
    target: Annotated[str | None, typer.Option("--target", help="ridge: the column to explain.")] = None,
    feature: Features = None,
    regularization: Annotated[float | None, typer.Option("--regularization", help="ridge: lambda.")] = None,
    rank: Annotated[int | None, typer.Option("--rank", help="low-rank: how many components.")] = None,
    components: Annotated[int | None, typer.Option("--components", help="pca: how many components; all.")] = None,
    column: Annotated[list[str] | None, typer.Option("--column", help="One that takes part; repeat; all.")] = None,
    confidence: Confidence = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Analyse a release; it costs no privacy."""
    given: dict[str, object] = {
        "target": target,
        "features": feature or None,
        "regularization": regularization,
        "rank": rank,
        "components": components,
        "columns": column or None,
        "confidence": confidence,
    }
    _answer(url, token, release_id, kind, given, as_json=as_json, as_csv=as_csv)


@app.command(context_settings=_IDENTIFIERS)
def regress(
    release_id: str,
    target: Annotated[str, typer.Option("--target", help="The column to explain, or a formula: 'y ~ a + C(sex)'.")],
    url: Url = _DEFAULT_URL,
    token: Token = "",
    feature: Features = None,
    ridge: Annotated[float | None, typer.Option("--ridge", help="lambda in normalised units; 0 if left out.")] = None,
    path: Annotated[bool, typer.Option("--path", help="Many penalties instead of one.")] = False,
    intercept: Annotated[
        bool | None, typer.Option("--intercept/--no-intercept", help="Fit one; by default where the release can.")
    ] = None,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="Add bounds that hold for all regressions at once.")
    ] = False,
    confidence: Confidence = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Explain one column of a release by others; it costs no privacy."""
    if path and (ridge is not None or simultaneous):
        _give_up("--path chooses its own penalties and has no intervals: leave out --ridge and --simultaneous")
    given: dict[str, object] = {
        "target": target,
        "features": feature or None,
        "regularization": ridge,
        "intercept": intercept,
        "simultaneous": simultaneous or None,
        "confidence": confidence,
    }
    kind = "regression-path" if path else "regression"
    _answer(url, token, release_id, kind, given, as_json=as_json, as_csv=as_csv)


@app.command(context_settings=_IDENTIFIERS)
def synthesize(
    release_id: str,
    rows: Annotated[int, typer.Option("--rows", help="How many; they cost no privacy.")],
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same rows.")],
    url: Url = _DEFAULT_URL,
    token: Token = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", help="A .parquet, .npz or CSV file; else the terminal."),
    ] = None,
    projected: Annotated[bool, typer.Option("--projected", help="The coordinates h1.. instead of columns.")] = False,
) -> None:
    """Draw synthetic rows from a ron_gauss release, here and not at the service; it costs no privacy."""
    with _client(url, token) as client, waiting("drawing rows"):
        made = synthesize_rows(client.open_release(release_id), rows, seed, "projected" if projected else "columns")
        text = None
        if output is not None and output.suffix == ".parquet":
            made.to_parquet(output)
        elif output is not None and output.suffix == ".npz":
            made.to_npz(output)
        else:
            text = made.to_csv(output)
    if text is not None:
        typer.echo(text, nl=False)
    for warning in (WARNING, *made.warnings):
        typer.echo(f"warning: {warning}", err=True)


def _answer(
    url: str, token: str, release_id: str, kind: str, given: dict[str, object], *, as_json: bool, as_csv: bool
) -> None:
    """Ask for an analysis with what was given, and print it."""
    if as_json and as_csv:
        _give_up("choose one of --json and --csv")
    arguments = {name: value for name, value in given.items() if value is not None}
    with _client(url, token) as client:
        if as_csv:
            typer.echo(client.analysis_text(release_id, kind, "text/csv", **arguments), nl=False)
        elif as_json:
            _print_json(client.analyse(release_id, kind, **arguments))
        else:
            typer.echo(client.analysis_text(release_id, kind, "text/plain", **arguments), nl=False)


@contextmanager
def _client(url: str, token: str) -> Iterator[AnalyzerClient]:
    """Open a client, and end the command with the right exit code when it is refused."""
    try:
        if not token:
            raise UnauthorizedError(f"give --token, or set {TOKEN_VARIABLE}")
        with connect(url, token) as client:
            yield client
    except LintraError as error:
        _give_up(str(error), NOT_READY if error.retryable else 1)


def connect(url: str, token: str) -> AnalyzerClient:
    """Return a client; tests put their own in this place."""
    return AnalyzerClient(url, token)


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
    except InvalidSettingsError as error:
        _give_up(str(error))


def _give_up(message: str, code: int = 1) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(code)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))
