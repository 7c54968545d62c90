"""`lintra trial FILE --target COLUMN`: the whole protocol in one process on one's own table."""

import json
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from lintra_analysis.commands.columns import AcceptGuesses, As, Drop, Keep, Missing, readings_of, tell_remarks
from lintra_analysis.commands.progress import waiting
from lintra_analysis.trial.directions import DirectionComparison
from lintra_analysis.trial.files.table import FileTable, Readings, read_table_beside
from lintra_analysis.trial.organisations import Whose
from lintra_analysis.trial.text import draw, show
from lintra_analysis.trial.trial import is_wide, try_logistic, try_table
from lintra_protocol.crypto.randomness import bulk_system_randomness
from lintra_protocol.errors import InvalidTableError

TriedMechanism = Annotated[
    Literal["second_moment", "range_finder"] | None,
    typer.Option(help="The mechanism; by default second_moment, and a range_finder from 500 numbers in a row on."),
]
Family = Annotated[
    Literal["logistic"] | None,
    typer.Option(help="Explain a target of zeros and ones by a logistic regression, in rounds of the same rows."),
]
Organisation = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="A column: each of its values is an organisation that sends one report for its rows."
    ),
]
Person = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="With --organisation: the column that says whose row each is. Without it each row is another person's.",
    ),
]
KeepRows = Annotated[
    int | None,
    typer.Option(min=1, help="With --person: how many rows of each person an organisation keeps, the first ones."),
]
NumDraws = Annotated[
    int | None,
    typer.Option(
        min=20,
        max=2000,
        help="How many collections are simulated; by default 200 for rows of up to 24 numbers, fewer for longer ones.",
    ),
]
Delta = Annotated[
    float | None,
    typer.Option(
        help="The delta of the promise; by default a millionth, or one over the number of rows if that is less."
    ),
]
SpecFile = Annotated[
    Path | None,
    typer.Option(metavar="SPEC.json", help="Write the specification of a task for such rows to this file."),
]
Picture = Annotated[
    Path | None, typer.Option(metavar="FILE.png", help="Draw the answer to this file; needs matplotlib.")
]


def try_file(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="CSV or Parquet, with names on top."),
    ],
    target: Annotated[str, typer.Option(metavar="COLUMN", help="The column that all others are to explain.")],
    epsilon: Annotated[float, typer.Option(help="The epsilon that is promised to every row.")] = 1.0,
    delta: Delta = None,
    spec: SpecFile = None,
    picture: Picture = None,
    mechanism: TriedMechanism = None,
    family: Family = None,
    organisation: Organisation = None,
    person: Person = None,
    keep: KeepRows = None,
    draws: NumDraws = None,
    as_: As = None,
    missing: Missing = None,
    drop: Drop = None,
    column: Keep = None,
    accept_guesses: AcceptGuesses = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Collect a table privately on this machine, and show what would be learned beside what is there.

    Nothing leaves the machine. The output is not private: it shows the table's own numbers beside the private ones,
    and takes bounds and levels from the table.
    """
    kept = column and [*column, *([] if target in column else [target])]
    readings = readings_of(as_, missing, drop, kept, accept_guesses)
    with waiting("reading the file") as said:
        if organisation is None and (person is not None or keep is not None):
            raise InvalidTableError("--person and --keep are read only with --organisation: add it, or leave them out")
        if family is not None and (mechanism is not None or organisation is not None):
            raise InvalidTableError(
                "--family takes the rounds of a logistic regression, one client a row: leave --mechanism and "
                "--organisation out"
            )
        table, whose = _read(file, organisation, person, readings)
        wide = mechanism == "range_finder" or (mechanism is None and family is None and is_wide(table, target))
        if wide and whose is not None:
            raise InvalidTableError("organisations are tried with all products: leave columns out")
        if wide and picture is not None:
            raise InvalidTableError(
                "--picture draws coefficients; a range finder of many columns has directions instead"
            )
        now, random_bytes = int(time.time()), bulk_system_randomness()
        asked = (table, target, epsilon, delta, now, random_bytes, said)
        if family is None:
            trial = try_table(*asked, wide=wide, whose=whose, rows_per_person=keep, draws=draws)
        else:
            trial = try_logistic(*asked, draws=draws)
    if spec is not None:
        spec.write_text(json.dumps(trial.specification, indent=2, ensure_ascii=False) + "\n", "utf-8")
    if picture is not None and not isinstance(trial.answer, DirectionComparison):
        draw(trial, trial.answer, picture)
    if as_json:
        typer.echo(json.dumps(trial.document(), ensure_ascii=False, allow_nan=False))
    else:
        typer.echo(show(trial), nl=False)
        if spec is not None:
            typer.echo(f"A specification was written to {spec}: replace its bounds by public ones before collecting.")


def _read(
    file: Path, organisation: str | None, person: str | None, readings: Readings
) -> tuple[FileTable, Whose | None]:
    """Return a file's table without the columns that say whose rows these are, and what they say."""
    if organisation is not None and organisation == person:
        raise InvalidTableError("--organisation and --person must name two different columns")
    beside = [name for name in (organisation, person) if name is not None]
    table, texts = read_table_beside(file, beside, readings)
    tell_remarks(table)
    if organisation is None:
        return table, None
    return table, Whose.named(texts[organisation], None if person is None else texts[person])
