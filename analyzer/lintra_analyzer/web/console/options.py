"""The options of a new task as fields of a form: what each kind of mechanism asks for, windows, organisations, others.

Nothing is listed by hand: names, choices and hints are those of the specification, so that a kind of mechanism that is
added tomorrow has its fields here.
"""

import inspect
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from lintra_analysis.kinds.options import MechanismSpecification
from lintra_analysis.spec.specification import (
    ContributorsSpecification,
    Specification,
    WindowsSpecification,
    specifications,
)
from lintra_protocol.errors import InvalidTaskError

Reading = Literal["choice", "whole", "seconds", "text", "json"]
Schema = Mapping[str, Any]

TRUTH = {"no": False, "yes": True}
UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_SECONDS = re.compile(rf"(\d{{1,9}})\s*(?:({'|'.join(UNITS)})s?)?")

ELSEWHERE = frozenset(
    {
        "purpose", "columns", "mechanism", "row_bound", "epsilon", "delta", "min_clients", "max_clients", "client_auth",
        "verification", "duration_seconds", "windows", "contributors", "study",
    }
)  # fmt: skip
"""Fields of a specification that have a place of their own in the form, or belong to studies."""


@dataclass(frozen=True)
class Option:
    """One field of the form."""

    name: str  #: of the field, unlike all others of the form
    key: str  #: its name in the specification
    hint: str  #: what it means, and what holds if it is left empty
    reading: Reading  #: how what was filled in is read
    choices: Mapping[str, object]  #: what can be chosen, by the words for it; none where something is typed
    of_columns: bool = False  #: whether names of columns stand for objects that say more of a column
    required: bool = False  #: whether it has no default

    @property
    def label(self) -> str:
        """Return the name for people."""
        return self.key.removesuffix("_seconds").replace("_", " ").capitalize()

    def read(self, text: str) -> object:
        """Return what was filled in as the specification holds it; numbers stay as they were spelled.

        Raises InvalidTaskError if it cannot be understood; the detail names the field.
        """
        if self.reading == "choice":
            if text not in self.choices:
                raise InvalidTaskError(f"{self.key}: choose one of {', '.join(self.choices)}")
            return self.choices[text]
        if self.reading == "whole":
            return whole(self.key, text)
        if self.reading == "seconds":
            return _seconds(self.key, text)
        return text if self.reading == "text" else self._structured(text)

    def _structured(self, text: str) -> object:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            if text[:1] in "[{":
                raise InvalidTaskError(f"{self.key}: this JSON is broken") from None
        if self.of_columns:
            return [{"column": name.strip()} for name in text.split(",") if name.strip()]
        return text


def mechanism_options(kind: str) -> tuple[Option, ...]:
    """Return what a kind of mechanism asks for; nothing for a kind that there is not."""
    asked = specifications().get(kind)
    if asked is None:
        return ()
    # Its own options come before those of all kinds.
    keys = sorted(asked.model_fields, key=lambda key: key in MechanismSpecification.model_fields)
    return _options("mechanism", asked, [key for key in keys if key != "kind"])


def mechanism_words(kind: str) -> list[str]:
    """Return what a kind says of its options, a paragraph each; nothing for a kind that there is not."""
    asked = specifications().get(kind)
    paragraphs = [] if asked is None else (inspect.getdoc(asked) or "").split("\n\n")
    return [" ".join(paragraph.split()) for paragraph in paragraphs]


def _options(group: str, model: type[BaseModel], keys: Iterable[str]) -> tuple[Option, ...]:
    schema = model.model_json_schema()
    needed = schema.get("required", ())
    return tuple(_option(f"{group}-{key}", key, schema["properties"][key], required=key in needed) for key in keys)


def _option(name: str, key: str, schema: Schema, *, required: bool) -> Option:
    kinds = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
    only = kinds[0] if len(kinds) == 1 else {}
    reading, choices = _reading(key, only)
    parts = [_described(schema), "needed" if required else ""]
    if reading == "seconds":
        parts.append("such as 7 days")
    if reading == "json":
        parts.append("names of columns, or JSON" if "items" in only and "$ref" in only["items"] else "as JSON")
    of_columns = reading == "json" and "names" in parts[-1]
    return Option(name, key, "; ".join(part for part in parts if part), reading, choices, of_columns, required)


def _reading(key: str, schema: Schema) -> tuple[Reading, Mapping[str, object]]:
    kind = schema.get("type")
    if "enum" in schema:
        return "choice", {str(value): value for value in schema["enum"]}
    if kind == "boolean":
        return "choice", TRUTH
    if kind == "integer":
        return ("seconds" if key.endswith("_seconds") or key == "time_precision" else "whole"), {}
    # A number may be spelled as a string of digits, and keeps its digits then.
    return ("text" if kind == "string" or kind == ["number", "string"] else "json"), {}


def _described(schema: Schema) -> str:
    said, usual = str(schema.get("description", "")), schema.get("default")
    if usual in (None, [], {}):
        return said
    usual = {False: "no", True: "yes"}[usual] if isinstance(usual, bool) else usual
    return f"{said}; {usual} if empty" if said else f"{usual} if empty"


def whole(name: str, text: str) -> int:
    """Read a whole number, with or without marks between thousands.

    Raises InvalidTaskError if it is none; the detail names the field.
    """
    digits = text.replace(",", "").replace(" ", "").replace("\u202f", "")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 14):
        raise InvalidTaskError(f"{name}: a whole number, got {text!r}" if text else f"{name}: missing")
    return int(digits)


def _seconds(name: str, text: str) -> int:
    found = _SECONDS.fullmatch(text.strip().lower())
    if not found:
        raise InvalidTaskError(f"{name}: a length of time such as 3600 or 7 days, got {text!r}")
    return int(found[1]) * UNITS[found[2] or "second"]


WINDOWS = _options("windows", WindowsSpecification, WindowsSpecification.model_fields)
CONTRIBUTORS = _options("contributors", ContributorsSpecification, ContributorsSpecification.model_fields)
OTHERS = _options("more", Specification, [key for key in Specification.model_fields if key not in ELSEWHERE])


def read_all(options: Iterable[Option], said: Mapping[str, str]) -> dict[str, object]:
    """Return what was filled into some fields; what is empty is left out."""
    return {one.key: one.read(said[one.name]) for one in options if said[one.name]}
