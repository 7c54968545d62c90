"""The commands about models in rounds: make one and follow it, look at one, end one."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from lintra_analysis.access.model_client import ModelClient
from lintra_analysis.estimators.tabular import number, table
from lintra_analyzer.commands.asking import (
    DEFAULT_URL,
    IDENTIFIERS,
    AsJson,
    Token,
    Url,
    client_of,
    give_up,
    print_entry,
    print_json,
)

app = typer.Typer(no_args_is_help=True, help="Models in rounds: each round's release gives the next one's parameter.")

ModelId = Annotated[str, typer.Argument(metavar="MODEL", help="The task of its first round.")]
Reports = Annotated[
    int | None,
    typer.Option(
        "--reports", min=1, help="Release a round as soon as all servers hold so many reports; at its end if not given."
    ),
]
Wait = Annotated[
    float | None, typer.Option("--wait", help="How many seconds to follow the model; until it has ended if not given.")
]
Poll = Annotated[float, typer.Option("--poll", min=0.1, help="How many seconds pass between two questions.")]


@app.command()
def run(
    specification: Annotated[Path, typer.Argument(help="The specification of a task of newton_step, a JSON file.")],
    url: Url = DEFAULT_URL,
    token: Token = "",
    windows: Annotated[
        int, typer.Option(min=1, help="How many windows, each with people of its own; one if not given.")
    ] = 1,
    reports: Reports = None,
    population: Annotated[
        str | None, typer.Option(help="Whose rows the model is about; everybody's if not given.")
    ] = None,
    request_key: Annotated[
        str | None, typer.Option(help="A word of yours: the same word finds the same model again.")
    ] = None,
    wait: Wait = None,
    poll: Poll = 5.0,
    as_json: AsJson = False,
) -> None:
    """Make a model, say what clients need to know of each round, and print the regression when its rounds are over.

    The analyzer makes the rounds, so nothing is lost if this command ends before. `follow` then goes on.
    """
    try:
        wanted = json.loads(specification.read_text("utf-8"))
    except (OSError, ValueError) as error:
        give_up(f"{specification}: {error}")
    if not isinstance(wanted, dict):
        give_up(f"{specification}: expected a JSON object")
    with client_of(url, token) as client:
        made = client.models.create(wanted, windows, request_key, population)
        _follow(client.models, made["task_id"], reports, wait, poll, as_json=as_json)


@app.command(context_settings=IDENTIFIERS)
def follow(
    task_id: ModelId,
    url: Url = DEFAULT_URL,
    token: Token = "",
    reports: Reports = None,
    wait: Wait = None,
    poll: Poll = 5.0,
    as_json: AsJson = False,
) -> None:
    """Follow a model until it has ended, and print the regression."""
    with client_of(url, token) as client:
        _follow(client.models, task_id, reports, wait, poll, as_json=as_json)


@app.command("list")
def list_models(url: Url = DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """List all models, the newest first."""
    with client_of(url, token) as client:
        found = client.models.all()
    if as_json:
        print_json(found)
        return
    for each in found:
        print_entry(each["task_id"], each["ended"] or "goes on", each["purpose"])


@app.command(context_settings=IDENTIFIERS)
def show(task_id: ModelId, url: Url = DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """Show the rounds of a model with the statistic T of each, and what epsilon was reserved and spent."""
    with client_of(url, token) as client:
        found = client.models.show(task_id)
    if as_json:
        print_json(found)
        return
    for line in _lines(found):
        typer.echo(line)


@app.command(context_settings=IDENTIFIERS)
def stop(task_id: ModelId, url: Url = DEFAULT_URL, token: Token = "", as_json: AsJson = False) -> None:
    """Make no further round of a model. What was released stays."""
    with client_of(url, token) as client:
        stopped = client.models.stop(task_id)
    if as_json:
        print_json(stopped)
    else:
        typer.echo(stopped["ended"])


def _follow(
    models: ModelClient, task_id: str, reports: int | None, wait: float | None, poll: float, *, as_json: bool
) -> None:
    last: dict[str, Any] = {}
    for last in models.follow(task_id, reports, poll, wait):
        newest = last["rounds"][-1]
        # Lines for people go to the standard error: the standard output holds what a script reads.
        typer.echo(f"round {newest['number']} of at most {last['most_rounds']}: {_state(newest)}", err=True)
    if last["release_id"] is None:
        give_up("no round was released")
    if as_json:
        print_json(models.estimate(task_id))
        return
    for line in _lines(last):
        typer.echo(line)
    typer.echo("")
    typer.echo(models.estimate_text(task_id), nl=False)


def _state(one: dict[str, Any]) -> str:
    problem = one["problem"]
    why = "" if problem is None else f" ({problem['title']} {problem['detail']}".rstrip() + ")"
    return f"task {one['task_id']}, {one['state']}{why}"


def _lines(model: dict[str, Any]) -> list[str]:
    rounds = [
        [
            str(one["number"]),
            one["state"],
            "" if one["num_clients"] is None else f"{one['num_clients']:,}",
            number(one["statistic"]),
            {None: "", True: "yes", False: "no"}[one["passes"]],
        ]
        for one in model["rounds"]
    ]
    reserved, spent = model["reserved"], model["spent"]
    said = [] if model["said"] is None else [f"The rounds say: {model['said']}."]
    whole = "all rounds" if model["windows"] == 1 else "each window"
    promise = f"Reserved for {whole}: epsilon {reserved['epsilon']} at delta {reserved['delta']}"
    return [
        f"Logistic regression of {model['target']} in at most {model['most_rounds']} rounds: {model['purpose']}",
        "",
        *table(["round", "state", "rows", "T", "agrees"], rounds),
        "",
        f"Ended: {model['ended']}." if model["ended"] else "It goes on.",
        *said,
        f"{promise}; released so far: epsilon {spent['epsilon']}.",
    ]
