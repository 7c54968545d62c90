"""`lintra columns FILE`: how each column of a file is read, and what only its owner can say; and the options for it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lintra_analysis.trial.files.table import FileCells, FileTable, Readings, asked_of
from lintra_protocol.tables.readings import READINGS, ColumnReport

As = Annotated[
    list[str] | None,
    typer.Option("--as", metavar="COLUMN=READING", help=f"How a column is meant: {', '.join(READINGS)}."),
]
Missing = Annotated[
    list[str] | None,
    typer.Option("--missing", metavar="COLUMN=CODE", help="A cell that means a missing value, with its column."),
]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Leave this column out; may be repeated.")
]
Keep = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="COLUMN", help="Use this column; may be repeated; by default all."),
]
AcceptGuesses = Annotated[
    bool,
    typer.Option(
        "--accept-guesses", help="Where a column can be read in two ways, take the likelier one and ask nothing."
    ),
]


def readings_of(
    as_: list[str] | None, missing: list[str] | None, drop: list[str] | None, keep: list[str] | None, guess: bool
) -> Readings:
    """Return what the options say (see `Readings.from_options` for errors)."""
    return Readings.from_options(as_ or (), missing or (), drop or (), keep or (), guess=guess)


def tell_remarks(table: FileTable) -> None:
    """Say on the standard error what columns of a file lose, and which readings were guessed."""
    for remark in table.remarks():
        typer.echo(remark, err=True)


def columns(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="CSV or Parquet, with names on top.")
    ],
    as_: As = None,
    missing: Missing = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say how each column of a file would be read: its kind, unit, levels and missing values, and what is lost.

    The exit status is 2 if a column can be read in two ways and only its owner can say in which.
    """
    cells = FileCells.of(file)
    reports, num_rows = cells.read(readings_of(as_, missing, None, None, guess=True))[0], len(cells.columns[0])
    if as_json:
        typer.echo(json.dumps([asdict(report) for report in reports], ensure_ascii=False))
    else:
        width = max(len(report.name) for report in reports)
        for report in reports:
            typer.echo(f"{report.name:{width}}  {_in_words(report, num_rows)}")
    if open_ := [report for report in reports if report.question]:
        typer.echo("\n" + asked_of(open_), err=True)
        raise typer.Exit(2)


def _in_words(report: ColumnReport, num_rows: int) -> str:
    if report.kind == "left out":
        return f"left out: {report.why}"
    parts: list[str] = [report.kind]
    if report.unit:
        parts.append(f"in {report.unit}")
    if report.levels:
        parts.append(f"of {', '.join(report.levels)}")
    if report.missing_codes:
        parts.append(f"missing where {', '.join(map(repr, report.missing_codes))}")
    if report.missing:
        fate = ", which count as (other)" if report.levels else ""
        parts.append(f"missing in {report.missing:,} of {num_rows:,} rows{fate}")
    parts.append(f"such as {', '.join(report.examples)}")
    if report.lost:
        parts.append(report.lost)
    return "; ".join(parts)
