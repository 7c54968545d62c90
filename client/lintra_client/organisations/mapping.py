"""What a sender says of a file: which of its columns are the task's, how they are read, and what is of no level."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from lintra_protocol.errors import InvalidRowError
from lintra_protocol.tables.readings import Reading

T = TypeVar("T")


@dataclass(frozen=True)
class FileMapping:
    """The answers of a sender; `rehearse` writes them as JSON, `contribute` and `send` read them."""

    rename: Mapping[str, str] = field(default_factory=dict)
    """The task's name of a column by the file's."""
    columns: bool = False
    """Whether columns that the task does not have are left aside; else the file is refused."""
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """By the task's name of a column, how its cells are read."""
    others: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By the task's name of a column, texts that are of no level, and how many cells there are of each."""
    same_persons: bool = False
    """Whether names of persons that differ in capitals only are the same persons'."""

    def __post_init__(self) -> None:
        """Refuse two columns of the file that become one."""
        if len(set(self.rename.values())) < len(self.rename):
            raise InvalidRowError("two columns are renamed to the same name")

    @classmethod
    def from_options(
        cls,
        rename: Sequence[str],
        columns: bool,
        as_: Sequence[str],
        missing: Sequence[str],
        other: Sequence[str],
        same_persons: bool = False,
    ) -> "FileMapping":
        """Return what the options of a command say.

        Each of `rename` is `A=B`, of `as_` `COLUMN=READING`, of `missing` `COLUMN=CODE`, and of `other`
        `COLUMN=TEXT:COUNT`. Raises InvalidRowError if one is written otherwise.
        """
        ways = dict(_pair("--as", text) for text in as_)
        codes: dict[str, tuple[str, ...]] = {}
        for name, code in (_pair("--missing", text) for text in missing):
            codes[name] = (*codes.get(name, ()), code)
        others: dict[str, dict[str, int]] = {}
        for option in other:
            name, counted = _pair("--other", option, first=True)
            text, mark, count = counted.rpartition(":")
            if not mark or not count.isdecimal():
                raise InvalidRowError(f"--other takes COLUMN=TEXT:COUNT, got {option!r}")
            others.setdefault(name, {})[text] = int(count)
        readings = {name: Reading(ways.get(name), codes.get(name, ())) for name in ways.keys() | codes.keys()}
        return cls(dict(_pair("--rename", text) for text in rename), columns, readings, others, same_persons)

    @classmethod
    def from_file(cls, file: Path) -> "FileMapping":
        """Return the mapping that `document` gave; raises InvalidRowError if the file holds none."""
        try:
            held = json.loads(file.read_text("utf-8"))
            rename, columns = _dict(held["rename"], str), held["columns"]
            readings = {
                name: Reading(reading["as"], tuple(_texts(reading["missing"])))
                for name, reading in _dict(held["readings"], dict).items()
            }
            others = {name: _dict(texts, int) for name, texts in _dict(held["others"], dict).items()}
            same_persons = held["same_persons"]
            if not isinstance(columns, bool) or not isinstance(same_persons, bool):
                raise TypeError
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise InvalidRowError(f"{file.name} is no mapping that `lintra client rehearse` wrote") from None
        return cls(rename, columns, readings, others, same_persons)

    def document(self) -> dict[str, object]:
        """Return this mapping as JSON holds it."""
        readings = {name: {"as": one.way, "missing": list(one.missing)} for name, one in self.readings.items()}
        others = {name: dict(texts) for name, texts in self.others.items()}
        return {
            "rename": dict(self.rename),
            "columns": self.columns,
            "readings": readings,
            "others": others,
            "same_persons": self.same_persons,
        }

    def with_more(self, other: "FileMapping") -> "FileMapping":
        """Return both mappings together; where they differ, `other` counts."""
        return FileMapping(
            {**self.rename, **other.rename},
            self.columns or other.columns,
            {**self.readings, **other.readings},
            {**self.others, **other.others},
            self.same_persons or other.same_persons,
        )

    def apply(self, columns: Mapping[str, T], names: Sequence[str], person: str | None) -> dict[str, T]:
        """Return the columns of a file by the task's names.

        `columns` are the file's by their names; `names` are the task's columns; `person` is the file's column that says
        whose row each is, which is left out.

        Raises:
            InvalidRowError: a column is there twice, or not at all, or is none of the task's.
        """
        if absent := [name for name in self.rename if name not in columns]:
            raise InvalidRowError(f"the file has no column {absent[0]!r} to rename; it has {', '.join(columns)}")
        if person in names:
            raise InvalidRowError(f"column {person!r} belongs to the task, so that it cannot name the sources")
        if unknown := sorted((self.readings.keys() | self.others.keys()) - set(names)):
            raise InvalidRowError(f"the task has no column {unknown[0]!r}; it has {', '.join(names)}")
        renamed = [(self.rename.get(name, name), cells) for name, cells in columns.items() if name != person]
        kept = [(name, cells) for name, cells in renamed if not self.columns or name in names]
        if sorted(name for name, _ in kept) != sorted(names):
            extra = [name for name, _ in kept if name not in names]
            hint = "; rename columns, or take the task's alone" if extra else ""
            raise InvalidRowError(f"the file has columns {', '.join(columns)}; the task has {', '.join(names)}{hint}")
        found = dict(kept)
        return {name: found[name] for name in names}


AS_IT_IS = FileMapping()
"""The mapping of a sender who says nothing."""


def _pair(option: str, text: str, *, first: bool = False) -> tuple[str, str]:
    """Return what stands before and behind the last `=`, or behind the first one."""
    name, mark, value = text.partition("=") if first else text.rpartition("=")
    if not mark or not name:
        raise InvalidRowError(f"{option} takes COLUMN=VALUE, got {text!r}")
    return name, value


def _dict(value: Any, of: Callable[[Any], T]) -> dict[str, T]:
    if not isinstance(value, dict) or not all(type(each) is of for each in value.values()):
        raise TypeError
    return value


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise TypeError
    return value
