"""A new task as a form: fields that a person fills in become the specification that the REST interface takes."""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from lintra_analysis.spec.specification import Specification, specifications
from lintra_analysis.trial.default_spec import proposed_document
from lintra_analysis.trial.error_forecast import ErrorForecast, foresee
from lintra_analyzer.access import MOST_NAME
from lintra_analyzer.storage.rows import EVERYBODY
from lintra_analyzer.web.console.forms import Form, field
from lintra_analyzer.web.console.options import CONTRIBUTORS, OTHERS, WINDOWS, mechanism_options, read_all, whole
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.encoding.documents import first_complaint
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import OTHER

DAY = 86_400

KINDS = {
    "second_moment": "Means, regressions, correlations, components: all products of two columns",
    "sum": "Means only: one total for each column",
    "histogram": "Distributions: how many rows fall into each cell of each column",
    "ron_gauss": "Synthetic rows, class by class",
    "range_finder": "Many hundred columns: the directions in which they vary most",
    "osnap": "A sketch of the rows, where there are too many columns for all products",
    "second_moment_wishart": "All products of two columns, with noise of which no eigenvalue is negative",
    "newton_step": "One step of a logistic regression; rounds of it find the coefficients",
    "osnap_published": "The sketch with its noise as published, for comparison",
}
"""What is released, in words; a kind without words of its own is offered by its name."""

FIELDS = (
    "purpose", "population", "columns", "kind", "epsilon", "delta", "min_clients", "max_clients", "days", "row_bound",
    "target", "client_auth", "verification", "specification",
)  # fmt: skip

LABELS = {
    "purpose": "Purpose", "population": "Population", "columns": "Columns", "kind": "What is released", "epsilon": "ε",
    "delta": "δ", "min_clients": "Reports at least", "max_clients": "Reports at most",
    "days": "Days that reports are taken", "row_bound": "Row bound", "target": "Column to explain",
    "client_auth": "Who may send", "verification": "Proofs", "specification": "A whole specification",
}  # fmt: skip
"""What the fields are called on the page."""

USUAL = {
    "population": EVERYBODY, "kind": "second_moment", "epsilon": "1", "min_clients": "1000", "days": "7",
    "client_auth": "none", "verification": "",
}  # fmt: skip
"""What an empty form says."""

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\s+to\s+({_NUMBER})\b\s*(.*)", re.DOTALL)
_CODES = re.compile(r",\s*missing:\s*(\S.*)$")
_YES_OR_NO = {"yes/no", "yes or no", "boolean"}
_SETTINGS = (*WINDOWS, *CONTRIBUTORS, *OTHERS)
_HINT = "write `age: 0 to 120 years`, `smoker: yes/no` or `stage: I | II | III`"


@dataclass(frozen=True)
class TaskForm:
    """What a form asks for."""

    document: dict[str, object]  #: the specification, before open parameters are proposed
    population: str  #: whose rows it is about
    target: str | None  #: a column that a regression is planned for, or None

    @cached_property
    def proposed(self) -> dict[str, object]:
        """The specification with what it leaves open filled in by rule, from the ranges of its columns."""
        return proposed_document(self.document, None)

    @property
    def width(self) -> int:
        """How many columns there are where only numbers count: a category is as many as its levels but one."""
        columns = self.document.get("columns")
        return sum(map(_width, columns)) if isinstance(columns, list) else 0

    @property
    def kind(self) -> str:
        """The kind of its mechanism; empty if it names none."""
        mechanism = self.document.get("mechanism")
        return str(mechanism.get("kind", "")) if isinstance(mechanism, dict) else ""

    def specification(self) -> Specification:
        """Return what the service is asked for.

        Raises InvalidTaskError if it is malformed; the detail names the field.
        """
        try:
            return Specification.model_validate(self.proposed)
        except ValidationError as error:
            raise InvalidTaskError(first_complaint(error).removeprefix("document: ")) from None

    def foreseen(self, now: int, random_bytes: RandomBytes, num_servers: int) -> ErrorForecast:
        """Return what to expect of the task with so many servers; nobody is asked for anything."""
        # Who may send changes no error; stand-ins of keys make no tokens, and what may be missing is said of these.
        document = self.proposed | {"client_auth": "none"}
        if self.document.get("client_auth") == "token":
            document.pop("max_missing", None)
        return foresee(document, None, self.target, now, random_bytes, num_servers=num_servers)


def _width(column: object) -> int:
    """Return how many columns one of a specification becomes where only numbers count."""
    levels = column.get("levels") if isinstance(column, dict) else None
    if not isinstance(column, dict) or not isinstance(levels, list):
        return 1
    reserved = column.get("missing") is True and OTHER not in levels
    return max(1, len(levels) - 1 + reserved)


@dataclass(frozen=True)
class FormComplaint:
    """What is wrong with a form."""

    text: str  #: in words, without the field's name
    field: str = ""  #: of the form, that it is about; empty if it is about no single one
    label: str = ""  #: of that field


def complaint_of(text: str, kind: str) -> FormComplaint:
    """Return what is wrong with a form, and at which of its fields, from the detail of a refusal."""
    settings = {one.key: one for one in (*mechanism_options(kind), *_SETTINGS)}
    name, colon, rest = text.partition(":")
    start = name.partition(",")[0].partition(".")[0]
    if colon and start in LABELS:
        line = name.removeprefix(start).lstrip(",. ")
        return FormComplaint(f"{line}: {rest.strip()}" if line else rest.strip(), start, LABELS[start])
    if colon and start in settings:
        return FormComplaint(rest.strip(), settings[start].name, settings[start].label)
    for word, found in _ABOUT:
        if re.search(rf"\b{word}", text):
            return FormComplaint(text, found, LABELS[found])
    return FormComplaint(text)


_ABOUT = (
    ("epsilon", "epsilon"), ("delta", "delta"), ("column", "columns"), ("row_bound", "row_bound"),
    ("min_clients", "min_clients"), ("max_clients", "max_clients"), ("duration", "days"), ("seconds", "days"),
)  # fmt: skip
"""The words of a refusal that begins with no field's name, each with the field that they are about."""


def kinds() -> dict[str, str]:
    """Return all kinds of mechanisms that can be asked for, the usual ones first, with what each releases."""
    known = specifications()
    return {kind: words for kind, words in KINDS.items() if kind in known} | {
        kind: kind for kind in known if kind not in KINDS
    }


def shown(form: Form) -> dict[str, str]:
    """Return what the form shows again, by field; in a form that says nothing, or a kind only, what is usual."""
    filled = set(form) > {"kind"}
    said = {name: field(form, name) if filled else USUAL.get(name, "") for name in FIELDS}
    said["kind"] = field(form, "kind") or USUAL["kind"]
    return said | {one.name: field(form, one.name) for one in (*mechanism_options(said["kind"]), *_SETTINGS)}


def asked_by(form: Form) -> TaskForm:
    """Read a form; raise InvalidTaskError if a field is missing or cannot be understood; the detail names it."""
    said = shown(form)
    population = said["population"] or EVERYBODY
    if not population.isprintable() or len(population) > MOST_NAME:
        raise InvalidTaskError(f"population: at most {MOST_NAME} printable characters")
    if said["specification"]:
        return TaskForm(_document(said["specification"]), population, said["target"] or None)
    kind = said["kind"]
    if kind not in kinds():
        raise InvalidTaskError(f"kind: choose one of {', '.join(kinds())}")
    document: dict[str, object] = {
        "purpose": said["purpose"],
        "columns": columns_of(said["columns"]),
        "mechanism": {"kind": kind, **read_all(mechanism_options(kind), said)},
        "epsilon": said["epsilon"],
        "min_clients": whole("min_clients", said["min_clients"]),
        "client_auth": said["client_auth"] or "none",
    }
    document |= {name: said[name] for name in ("delta", "row_bound", "verification") if said[name]}
    if said["max_clients"]:
        document["max_clients"] = whole("max_clients", said["max_clients"])
    parts = {"windows": read_all(WINDOWS, said), "contributors": read_all(CONTRIBUTORS, said)}
    document |= {name: part for name, part in parts.items() if part} | read_all(OTHERS, said)
    if not parts["windows"]:
        document["duration_seconds"] = DAY * whole("days", said["days"])
    return TaskForm(document, population, said["target"] or None)


def columns_of(text: str) -> list[dict[str, object]]:
    """Read columns, one a line: a name, a colon, and its range, its levels, or that it is yes or no.

    Raises InvalidTaskError if a line cannot be understood; the detail has its number.
    """
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    found = [_column(number, line) for number, line in lines if line]
    if not found:
        raise InvalidTaskError(f"columns: none yet; {_HINT}")
    return found


def _column(number: int, line: str) -> dict[str, object]:
    name, colon, rest = line.partition(":")
    name, said = name.strip(), rest.strip()
    options: dict[str, object] = {}
    if not colon or not name or not said:
        raise InvalidTaskError(f"columns, line {number}: {_HINT}")
    for words, option in ((", may be missing", {"missing": True}), (", whole", {"kind": "integer"})):
        if said.endswith(words):
            said, options = said.removesuffix(words).strip(), options | option
    book: dict[str, object] = {}
    if match := _CODES.search(said):
        said, book["missing"] = said[: match.start()].strip(), match[1].split()
    if said.lower() in _YES_OR_NO:
        column: dict[str, object] = {"name": name, **options, "kind": "boolean"}
    elif "|" in said:
        parts = [part.partition("=") for part in said.split("|")]
        column = {"name": name, **options, "kind": "category", "levels": [level.strip() for level, *_ in parts]}
        if spelled := [_spellings(level, names) for level, mark, names in parts if mark]:
            book["levels"] = spelled
    elif found := _RANGE.fullmatch(said):
        lower, upper, rest = found.groups()
        unit, *others = (part.strip() for part in rest.split(","))
        column = {"name": name, "lower": lower, "upper": upper, **({"unit": unit} if unit else {}), **options}
        if others:
            factors = [other.partition("=") for other in others]
            book["units"] = [{"unit": unit.strip(), "factor": factor.strip()} for unit, _, factor in factors]
    else:
        raise InvalidTaskError(f"columns, line {number}: {_HINT}")
    return column | ({"code_book": book} if book else {})


def _spellings(level: str, names: str) -> dict[str, object]:
    """Return what else a level is called: the first of some names is its label, the others are synonyms."""
    label, *synonyms = (name.strip() for name in names.split(","))
    return {"level": level.strip(), "label": label, **({"synonyms": synonyms} if synonyms else {})}


def _document(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidTaskError(f"specification: this JSON is broken: {error}") from None
    except (ValueError, RecursionError):
        raise InvalidTaskError("specification: a number of thousands of digits, or thousands of brackets") from None
    if not isinstance(found, dict):
        raise InvalidTaskError("specification: a JSON object")
    return found
