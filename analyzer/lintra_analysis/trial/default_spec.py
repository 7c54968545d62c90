"""`lintra plan SPEC.json --propose`: fills in every open parameter of a specification by the rule of `files.bounds`.

Stated parameters are kept. Open ones follow from a public or synthetic sample or, for each column, from its stated
range, which is taken to be filled evenly. Rows are weighted (`row_weights`) unless a row bound or an intercept is
stated or organisations contribute. The rule is fixed beforehand, and the same for every table.
"""

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from pydantic import ValidationError

from lintra_analysis.spec.build_task import as_asked, claim_of, columns_of
from lintra_analysis.spec.specification import ColumnSpecification, Specification, specifications
from lintra_analysis.trial.files.bounds import ColumnSpread, bounded_column, column_of, row_bound_of
from lintra_analysis.trial.files.table import FileColumn, FileKind, FileTable
from lintra_analysis.trial.logistic import logistic_document
from lintra_analysis.trial.row_weights import applies_to, weighted_document
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.csv_values import DAYS
from lintra_protocol.encoding.documents import first_complaint, fraction, real
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import OTHER, Column, Kind, Schema

Document = dict[str, object]

EVENLY = 1001
"""So many values fill a range that is stated."""


def proposed_document(study: Mapping[str, object], sample: FileTable | None, target: str | None = None) -> Document:
    """Return a specification in which nothing is open.

    `study` is a specification whose columns may lack bounds, centers, scales and levels, or have null there, and which
    may lack `row_bound`, `mechanism` and its `intercept`. `sample` is public or synthetic rows; without one every
    number needs `lower` and `upper`. `target` is a column that will be explained by the others, if the mechanism names
    none: rows are then weighted for that (row_weights.py).

    Raises:
        InvalidTaskError: a parameter is open that nothing tells, or the specification is malformed; the detail says
            which.
    """
    given = study.get("columns")
    if not isinstance(given, list) or not given or not all(isinstance(one, dict) and "name" in one for one in given):
        raise InvalidTaskError("columns: a specification has a list of columns, each with a name")
    mechanism = study.get("mechanism") or {"kind": "second_moment"}
    mechanism = _stated(mechanism) if isinstance(mechanism, dict) else mechanism
    kind = mechanism.get("kind") if isinstance(mechanism, dict) else None
    asked_as = specifications().get(str(kind))
    stated = [_stated(one) for one in given]
    for place, one in enumerate(stated):
        _require_sound(place, one)
    held = [_values(one, sample) for one in stated]
    columns = [_checked_column(one, values) for one, values in zip(stated, held, strict=True)]
    if asked_as is not None and not asked_as.takes_norm:
        filled = [_filled(*triple, ends_only=True) for triple in zip(stated, columns, held, strict=True)]
        return _by_its_own_rule(_stated(study) | {"columns": filled})
    filled = [_filled(*triple) for triple in zip(stated, columns, held, strict=True)]
    if isinstance(mechanism, dict) and applies_to(mechanism, study):
        document = _stated(study) | {"columns": filled, "mechanism": mechanism}
        rows, whole = _rows_like(columns, held, sample)
        claim = claim_of(_specification(document))
        fields, bound = weighted_document(
            columns, rows, claim, mechanism, target=target, whole=whole, at_hand=sample is not None
        )
        return _by_its_own_rule(document | {"mechanism": fields, "row_bound": bound})
    if isinstance(mechanism, dict) and kind == "newton_step" and study.get("row_bound") is None:
        document = {"noise": "clients"} | _stated(study) | {"columns": filled, "mechanism": mechanism}
        rows, _ = _rows_like(columns, held, sample)
        return document | logistic_document(
            _features(columns, rows, mechanism), claim_of(_specification(document)), mechanism
        )
    bounds = row_bound_of(columns, [spread for pair in zip(columns, held, strict=True) for spread in _spreads(*pair)])
    if isinstance(mechanism, dict) and kind == "second_moment":
        mechanism = {"intercept": bounds.intercept, "trace": True} | mechanism
    document = _stated(study) | {
        "columns": filled,
        "mechanism": mechanism,
        "row_bound": _stated(study).get("row_bound", bounds.row_bound),
    }
    return _by_its_own_rule(document)


def _features(columns: Sequence[Column], rows: FloatArray, mechanism: Document) -> FloatArray:
    """Return rows, shape `(m, k)`, without the column that a mechanism explains, the last if it names none."""
    names = [column.name for column in Schema(tuple(columns), indicators=True).encoded]
    target = mechanism.get("target", names[-1])
    if target not in names or len(names) < 2:
        raise InvalidTaskError(f"mechanism.target: {target!r} is none of {', '.join(names)} beside a feature")
    return np.delete(rows, names.index(str(target)), axis=1)


def _require_sound(place: int, stated: Document) -> None:
    """Check what is stated of a column before anything is computed from it.

    Raises InvalidTaskError; the detail names the column, or its place among the columns if it has no name.
    """
    whole: Document = {"lower": 0, "upper": 1} | stated
    if isinstance(levels := stated.get("levels"), list | tuple):
        whole = {"kind": "category", "levels": levels} | stated
    try:
        asked = ColumnSpecification.model_validate(whole)
        # Where one end is open, the sample gives it.
        if asked.kind in {"real", "integer"} and not {"lower", "upper"} <= stated.keys():
            asked = asked.model_copy(update={"lower": "0", "upper": "1"})
        as_asked(asked)
    except ValidationError as error:
        said = first_complaint(error).removeprefix("document: ")
        where = "" if said.startswith("column ") else f"column {stated.get('name') or place + 1!r}: "
        raise InvalidTaskError(where + said) from None


def _rows_like(
    columns: Sequence[Column], held: Sequence[FileColumn], sample: FileTable | None
) -> tuple[FloatArray, float]:
    """Return normalised rows like those to expect, shape `(m, k)`, and the share of rows without a gap.

    Without a sample every range is filled evenly, each column in an order of its own.
    """
    if sample is None:
        parts = [column.values[_order(i, len(column.values))] for i, column in enumerate(held)]
        return Schema(tuple(columns), indicators=True).normalise(np.column_stack(parts)), 1.0
    block = np.column_stack([column.values for column in held])
    whole = block[~np.isnan(block).any(axis=1)]
    if not len(whole):
        raise InvalidTaskError("the sample has no row with all the columns' numbers; give a larger one")
    return Schema(tuple(columns), indicators=True).normalise(whole), len(whole) / len(block)


def _order(number: int, count: int) -> IntArray:
    """Return an order of so many places that is the same at every call, and another one for each number."""
    drawn = expand(bytes(32), f"evenly filled column {number}")(8 * count)
    return np.argsort(np.frombuffer(drawn, "<u8"))


def _by_its_own_rule(document: Document) -> Document:
    """Return a specification with what the rule of its kind of mechanism chooses, such as a dimension or cells."""
    asked = _specification(document)
    try:
        chosen = asked.mechanism.defaults(claim_of(asked), columns_of(asked), asked.row_bound)
    except ValidationError as error:
        raise InvalidTaskError(first_complaint(error)) from None
    except ValueError as error:
        raise InvalidTaskError(f"the rule of {asked.mechanism.kind} gives no number here: {error}") from None
    bound = {"row_bound": chosen.pop("row_bound")} if "row_bound" in chosen else {}
    mechanism = cast("Document", document["mechanism"])
    return bound | document | {"mechanism": chosen | _stated(mechanism)}


def _specification(document: Document) -> Specification:
    try:
        return Specification.model_validate(document)
    except ValidationError as error:
        raise InvalidTaskError(first_complaint(error)) from None


def _stated(document: Mapping[str, object]) -> Document:
    return {name: value for name, value in document.items() if value is not None}


def _values(stated: Document, sample: FileTable | None) -> FileColumn:
    """Return the values that a column is taken to have: those of the sample, or its range, filled evenly."""
    name, kind = str(stated["name"]), stated.get("kind")
    levels = stated.get("levels")
    named = tuple(map(str, levels)) if isinstance(levels, list) else ()
    if sample is not None:
        found = sample.column(name)
        return found if not named or found.kind != "category" else _as_levels(found, named)
    places = np.arange(EVENLY)
    if named:
        return FileColumn(name, "category", (places % len(named)).astype(np.float64), named)
    if kind == "boolean":
        return FileColumn(name, "boolean", (places % 2).astype(np.float64))
    if "lower" not in stated or "upper" not in stated:
        raise InvalidTaskError(f"column {name!r}: state lower and upper, or give a public sample that has it")
    low, high = (float(fraction(real(cast("str", stated[end])))) for end in ("lower", "upper"))
    values = np.linspace(low, high, EVENLY)
    number: FileKind = "integer" if kind == "integer" else "real"
    return FileColumn(name, number, np.rint(values) if number == "integer" else values)


def _as_levels(found: FileColumn, levels: tuple[str, ...]) -> FileColumn:
    """Return a category of a sample with the levels that are stated; what is none of them is left out of the rule."""
    places = {level: float(number) for number, level in enumerate(levels)}
    other = places.get(OTHER, np.nan)
    numbers = np.array([places.get(level, other) for level in found.levels])
    return FileColumn(found.name, "category", numbers[found.values.astype(np.int64)], levels)


def _checked_column(stated: Document, values: FileColumn) -> Column:
    try:
        return _column(stated, values)
    except ValueError as error:
        # Half a range is spelled with more digits than its ends.
        said = first_complaint(error) if isinstance(error, ValidationError) else str(error)
        raise InvalidTaskError(f"column {values.name!r}: {said}; use a unit that gives ordinary numbers") from None


def _column(stated: Document, values: FileColumn) -> Column:
    """Return a column with what is stated of it, and the rule's numbers for the rest."""
    made = column_of(values)
    if made.kind == "category":
        return made
    if made.kind != "boolean":
        ends = {end: float(fraction(real(cast("str", stated[end])))) for end in ("lower", "upper") if end in stated}
        low, high = ends.get("lower", float(fraction(made.lower))), ends.get("upper", float(fraction(made.upper)))
        known = values.values[~np.isnan(values.values)]
        tenth, ninetieth = np.percentile(np.clip(known, low, high), [10, 90])
        kind: Kind = "integer" if "integer" in (made.kind, stated.get("kind")) else "real"
        center = float(np.clip(known, low, high).mean())
        points = (low, float(tenth), float(ninetieth), high)
        within = ends.get("lower", -np.inf), ends.get("upper", np.inf)
        made = bounded_column(made.name, kind, points, center, unit=made.unit, within=within)
    own: dict[str, object] = {name: real(cast("str", stated[name])) for name in ("center", "scale") if name in stated}
    return made.model_copy(update=own)


def _spreads(column: Column, values: FileColumn) -> Sequence[ColumnSpread]:
    """Return mean and deviation of the squares of each number that a column becomes."""
    known: FloatArray = values.values[~np.isnan(values.values)]
    squares = np.square(Schema((column,), indicators=True).normalise(known[:, np.newaxis]))
    pairs = zip(squares.mean(axis=0).tolist(), squares.std(axis=0).tolist(), strict=True)
    return [ColumnSpread(*pair) for pair in pairs]


def _filled(stated: Document, column: Column, values: FileColumn, *, ends_only: bool = False) -> Document:
    """Return a column as a specification holds it; what the sample lacks in some row may be missing.

    With `ends_only` no centre and scale are proposed: the mechanism takes values as they are, or maps bounds to -1, 1.
    """
    if column.kind == "category":
        return stated | {"kind": "category", "levels": list(column.levels)}
    missing: Document = {"missing": True} if values.missing and "missing" not in stated else {}
    if column.kind == "boolean":
        own: Document = {} if ends_only else {"center": column.center, "scale": column.scale}
        return stated | {"kind": "boolean"} | own | missing
    unit: Document = {"unit": DAYS} if values.kind == "date" and "unit" not in stated else {}
    kind: Document = {"kind": "integer"} if column.kind == "integer" else {}
    names = ("lower", "upper") if ends_only else ("lower", "upper", "center", "scale")
    numbers = {name: getattr(column, name) for name in names}
    return stated | kind | unit | numbers | missing
