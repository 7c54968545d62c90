"""`lintra plan SPEC.json`: the errors to expect of a task, from a public sample or from the ranges of its columns."""

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from lintra_analysis.access.downloaded import open_release, task_of
from lintra_analysis.commands.columns import tell_remarks
from lintra_analysis.plan.flags import PlanFlags
from lintra_analysis.trial.default_spec import proposed_document
from lintra_analysis.trial.error_forecast import ErrorForecast, foresee
from lintra_analysis.trial.files.table import FileTable, Readings, read_columns, read_table
from lintra_analysis.trial.pilot import main_document, pilot_document
from lintra_analysis.trial.plan_text import document, show
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.tables.readings import Reading

PublicSample = Annotated[
    Path | None, typer.Option(metavar="FILE", help="With SPEC.json: public or synthetic rows, CSV or Parquet.")
]
Pilot = Annotated[
    bool, typer.Option("--pilot", help="With SPEC.json: print the SPEC of its pilot, with a tenth of mu^2.")
]
PilotRelease = Annotated[
    Path | None,
    typer.Option(metavar="FILE.npz", help="With SPEC.json: print the main SPEC, bounds from the pilot's release."),
]
Propose = Annotated[
    bool, typer.Option("--propose", help="With SPEC.json: print it with everything filled in that it leaves open.")
]

OrganisationRows = Annotated[
    int | None,
    typer.Option(help="With SPEC.json of contributors: rows that each organisation has; by default max_rows."),
]


OF_A_FILE = ("public_sample", "target", "propose", "pilot", "pilot_release", "organisation_rows")
"""The options of the command that are read with a SPEC.json only."""


def answer_file(specification: Path, options: Mapping[str, Any]) -> None:
    """Answer `lintra plan SPEC.json` as the command's options say, which are `OF_A_FILE` and `as_json` by name."""
    sample, release = options["public_sample"], options["pilot_release"]
    if options["pilot"]:
        pilot_file(specification)
    elif release is not None:
        main_file(specification, release)
    elif options["propose"]:
        propose_file(specification, sample, options["target"])
    else:
        rows = options["organisation_rows"]
        plan_file(specification, sample, options["target"], rows, as_json=options["as_json"])


def plan_file(
    specification: Path, public_sample: Path | None, target: str | None, organisation_rows: int | None, *, as_json: bool
) -> None:
    """Print what to expect of the task that a specification asks for."""
    asked = _read(specification)
    sample = None if public_sample is None else _sample(public_sample, asked)
    _tell(foresee(asked, sample, target, int(time.time()), system_randomness, organisation_rows), as_json=as_json)


def _tell(found: ErrorForecast, *, as_json: bool) -> None:
    text = json.dumps(document(found), ensure_ascii=False, allow_nan=False) + "\n" if as_json else show(found)
    typer.echo(text, nl=False)


def plan_family(flags: PlanFlags, mechanism: str | None, solve: str | None, *, as_json: bool) -> None:
    """Print what to expect of the rounds of a logistic regression, of columns that are spread evenly over [-1, 1].

    Raises:
        InvalidTaskError: an option beside --columns, --clients, --max-clients, --epsilon, --delta, --neighbours and
            --corrupt is given.
    """
    read = ("columns", "clients", "max_clients", "epsilon", "delta", "neighbours", "corrupt", "features")
    same = replace(flags, **{name: getattr(PlanFlags(), name) for name in read})
    if mechanism is not None or solve is not None or same != PlanFlags():
        raise InvalidTaskError(
            "--family is planned for --columns, --clients, --max-clients, --epsilon, --delta, --neighbours and "
            "--corrupt alone; write a SPEC.json for the rest"
        )
    names = [f"x{number}" for number in range(1, flags.columns)]
    study = {
        "purpose": "a plan",
        "columns": [*({"name": name, "lower": "-1", "upper": "1"} for name in names), {"name": "y", "kind": "boolean"}],
        "mechanism": {"kind": "newton_step"},
        "epsilon": flags.epsilon,
        "delta": flags.delta,
        "neighbours": flags.neighbours,
        "min_clients": flags.clients,
        "max_clients": flags.cohort,
        "max_corrupt_clients": flags.corrupt,
    }
    found = foresee(proposed_document(study, None), None, None, int(time.time()), system_randomness)
    _tell(found, as_json=as_json)


def propose_file(specification: Path, public_sample: Path | None, target: str | None) -> None:
    """Print a specification in which all that was open is filled in, from a public sample or the ranges it states."""
    asked = _read(specification)
    _print(proposed_document(asked, None if public_sample is None else _sample(public_sample, asked), target))


def _sample(file: Path, asked: Mapping[str, Any]) -> FileTable:
    """Read public rows as the columns of a specification say that they are meant, so that no question is left."""
    stated = {str(one["name"]): one for one in asked.get("columns") or [] if isinstance(one, dict) and "name" in one}
    readings = {}
    for report in read_columns(file):
        one = stated.get(report.name, {})
        if one.get("kind") == "category":
            readings[report.name] = Reading("category")
        elif one and report.kind not in ("date", "boolean"):
            readings[report.name] = Reading("number")
    table = read_table(file, Readings(readings, guess=True))
    tell_remarks(table)
    return table


def pilot_file(specification: Path) -> None:
    """Print the specification of the pilot of a study."""
    _print(pilot_document(_read(specification)))


def main_file(specification: Path, pilot_release: Path) -> None:
    """Print the specification of the main task of a study, with bounds from the pilot's release.

    Raises:
        InvalidTaskError: as `plan_file`, or the release is of other columns.
        InvalidAnalysisError: the release is no histogram.
        LintraError: the release is not what it says.
    """
    _print(main_document(_read(specification), open_release(pilot_release).need("cells"), task_of(pilot_release)))


def _read(specification: Path) -> dict[str, object]:
    try:
        asked = json.loads(specification.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidTaskError(f"{specification}: {error}") from None
    if not isinstance(asked, dict):
        raise InvalidTaskError(f"{specification}: a specification is a JSON object")
    return asked


def _print(document: dict[str, object]) -> None:
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))
