"""`lintra schema infer FILE`: the columns of a task from a file, asking for what is not public."""

import json
from pathlib import Path
from typing import Annotated

import typer

from lintra_analysis.commands.columns import AcceptGuesses, As, Drop, Missing, readings_of, tell_remarks
from lintra_analysis.trial.files.bounds import bounds_of
from lintra_analysis.trial.files.schema import column_documents, complete_with, questions
from lintra_analysis.trial.files.table import FileTable, read_table

app = typer.Typer(help="Describe the columns of a file as a task needs them.", no_args_is_help=True)


@app.callback()
def _family() -> None:
    """Describe the columns of a file as a task needs them."""


@app.command()
def infer(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="CSV or Parquet, with names on top.")
    ],
    bounds_from_file: Annotated[
        bool, typer.Option("--bounds-from-file", help="Take bounds from the file, which must then be public.")
    ] = False,
    as_: As = None,
    missing: Missing = None,
    drop: Drop = None,
    accept_guesses: AcceptGuesses = False,
    ask: Annotated[bool, typer.Option(help="Ask for public bounds on the terminal.")] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document and nothing else; ask nothing.")
    ] = False,
) -> None:
    """Print the columns of a task as JSON.

    Names and kinds come from the file. The bounds of a number have to be public: they are asked for, since the
    smallest and largest values of private rows would give somebody away. What is not answered stays null, and a
    task is refused until it is filled in. The levels of a category come from the file too: strike out what is not
    public.
    """
    readings = readings_of(as_, missing, drop, None, accept_guesses)
    table = read_table(file, readings)
    if not as_json:
        tell_remarks(table)
    documents = column_documents(table) if not bounds_from_file else _from_file(table)
    if ask and not bounds_from_file and not as_json:
        for name, end in questions(documents):
            answer = typer.prompt(f"{name}: {end} bound that is public (empty to leave open)", default="", err=True)
            complete_with(documents, name, end, answer)
    for document in documents:
        column = table.column(str(document["name"]))
        if column.missing:
            document["missing"] = True
            if not as_json:
                said = f"{column.name}: {column.missing} values are missing; rows without them will be left out"
                typer.echo(said, err=True)
    for document in documents:
        reading = readings.columns.get(str(document["name"]))
        # What the owner said of this file's codes, senders need as well.
        if codes := [code for code in (reading.missing if reading else ()) if code]:
            document["code_book"] = {"missing": codes}
    for name, reason in table.left_out.items() if not as_json else ():
        typer.echo(f"left out {name}: {reason}", err=True)
    typer.echo(json.dumps(documents, indent=2, ensure_ascii=False))


def _from_file(table: FileTable) -> list[dict[str, object]]:
    return column_documents(table, bounds_of(table).columns)
