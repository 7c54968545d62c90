"""`lintra try FILE --target COLUMN`: the whole protocol in one process on one's own table."""

import json
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from lintra_analysis.commands.waiting import waiting
from lintra_analysis.trial.files.table import read_table
from lintra_analysis.trial.text import show
from lintra_analysis.trial.trial import Trial, try_table
from lintra_analysis.trial.wide import WideTrial, is_wide, try_wide_table
from lintra_analysis.trial.wide_text import show_wide
from lintra_protocol.errors import InvalidTableError
from lintra_protocol.randomness import bulk_system_randomness


def try_file(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="CSV or Parquet, with names on top."),
    ],
    target: Annotated[str, typer.Option(metavar="COLUMN", help="The column to explain by all others.")],
    epsilon: Annotated[float, typer.Option(help="What is promised to every row.")] = 1.0,
    delta: Annotated[float | None, typer.Option(help="By default a millionth, or one over the rows if less.")] = None,
    spec: Annotated[Path | None, typer.Option(metavar="SPEC.json", help="Write a task's specification here.")] = None,
    picture: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw it; needs matplotlib.")] = None,
    mechanism: Annotated[
        Literal["second_moment", "range_finder"] | None,
        typer.Option(help="All products, or from 500 numbers in a row on by default a range finder."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Collect a table privately on this machine, and show what would be learned beside what is there.

    Nothing leaves the machine. The output is not private: it shows the table's own numbers beside the private ones,
    and takes bounds and levels from the table.
    """
    with waiting("reading the file") as said:
        table, now, random_bytes = read_table(file), int(time.time()), bulk_system_randomness()
        trial: Trial | WideTrial
        if mechanism == "range_finder" or (mechanism is None and is_wide(table, target)):
            _refuse_picture(picture)
            trial = try_wide_table(table, target, epsilon, delta, now, random_bytes, said)
        else:
            trial = try_table(table, target, epsilon, delta, now, random_bytes, said)
    if spec is not None:
        spec.write_text(json.dumps(trial.specification, indent=2, ensure_ascii=False) + "\n", "utf-8")
    if picture is not None and isinstance(trial, Trial):
        from lintra_analysis.trial.picture import draw

        draw(trial, picture)
    if as_json:
        typer.echo(json.dumps(trial.document(), ensure_ascii=False, allow_nan=False))
    else:
        typer.echo(show(trial) if isinstance(trial, Trial) else show_wide(trial), nl=False)
        if spec is not None:
            typer.echo(f"A specification was written to {spec}: replace its bounds by public ones before collecting.")


def _refuse_picture(picture: Path | None) -> None:
    if picture is not None:
        raise InvalidTableError("--picture draws coefficients; a range finder of many columns has directions instead")
