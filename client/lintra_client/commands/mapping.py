"""The options by which a sender says how a file is read, shared by `send`, `contribute` and `rehearse`."""

from pathlib import Path
from typing import Annotated

import typer

from lintra_client.organisations.mapping import AS_IT_IS, FileMapping
from lintra_protocol.tables.readings import READINGS

_ANSWERS = ", ".join(way for way in READINGS if way.startswith(("number", "date", "yes-no")))

As = Annotated[
    list[str] | None, typer.Option("--as", metavar="COLUMN=READING", help=f"How cells are meant: {_ANSWERS}.")
]
Missing = Annotated[
    list[str] | None, typer.Option("--missing", metavar="COLUMN=CODE", help="A cell that means a missing value.")
]
Other = Annotated[
    list[str] | None,
    typer.Option("--other", metavar="COLUMN=TEXT:COUNT", help="This many cells are of no level and count as (other)."),
]
Rename = Annotated[
    list[str] | None, typer.Option("--rename", metavar="A=B", help="The file's column A is the task's column B.")
]
OnlyColumns = Annotated[
    bool, typer.Option("--columns", help="Take the task's columns alone, and leave the file's others aside.")
]
MappingFile = Annotated[
    Path | None,
    typer.Option(
        "--mapping", metavar="FILE.json", exists=True, dir_okay=False, help="The answers that `rehearse --write` wrote."
    ),
]


SamePersons = Annotated[
    bool, typer.Option("--same-persons", help="Names that differ only in capitals mean one person.")
]


def mapping_of(
    file: Path | None,
    rename: list[str] | None,
    columns: bool,
    as_: list[str] | None,
    missing: list[str] | None,
    other: list[str] | None,
    same_persons: bool,
) -> FileMapping:
    """Return what the options say beside the mapping of a file (see `FileMapping.from_options` for errors)."""
    stated = FileMapping.from_options(rename or (), columns, as_ or (), missing or (), other or (), same_persons)
    return (AS_IT_IS if file is None else FileMapping.from_file(file)).with_more(stated)
