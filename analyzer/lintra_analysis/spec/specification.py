"""The specification of a task, as an analyst writes it, for any mechanism."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SerializationInfo,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from lintra_analysis.kinds.kind import KINDS
from lintra_analysis.kinds.options import MechanismSpecification, Number, SpecPart
from lintra_protocol.crypto.sealing import HYBRID, SuiteName
from lintra_protocol.encoding.canonical import canonical_json
from lintra_protocol.encoding.documents import omitted, real
from lintra_protocol.fields.code_book import CodeBook
from lintra_protocol.fields.contributors import MAX_ROWS, MAX_ROWS_PER_PERSON, Contributors
from lintra_protocol.fields.schema import OTHER, Kind, Name
from lintra_protocol.fields.windows import MAX_MERGE, MAX_STREAM, MAX_WINDOWS
from lintra_protocol.privacy.statement import Neighbours, NoiseBy, Threat


def _as_code_book(value: object) -> object:
    """Read a code book as it stands in JSON: lists are lists, and a factor may be a number."""
    if not isinstance(value, Mapping):
        return value
    units = value.get("units")
    book = {**value, "units": list(map(_with_factor, units))} if isinstance(units, list) else dict(value)
    return CodeBook.model_validate_json(json.dumps(book))


def _with_factor(unit: object) -> object:
    """Return a unit with its factor as documents spell it; what is no number is left to be refused."""
    if not isinstance(unit, Mapping) or not isinstance(factor := unit.get("factor"), int | float | str):
        return unit
    try:
        return {**unit, "factor": real(factor)}
    except (ValueError, ArithmeticError):
        return dict(unit)


class ColumnSpecification(SpecPart):
    """A column: its public bounds; by default its middle is the centre and half its width the scale.

    A category has `levels` instead, and a boolean needs neither. Where values are expected to be `missing`, a category
    gets the level "(other)" for them, and a number makes the task count rows with noise, so that rows without it are
    left out; else a number that is missing nevertheless stands at its centre. `code_book` says what else senders may
    write: spellings of levels, other units, codes for missing values.
    """

    name: Name
    lower: Number
    upper: Number
    center: Number | None = None
    scale: Number | None = None
    unit: str = ""
    kind: Kind = "real"
    levels: tuple[Name, ...] = Field(default=(), max_length=1024)
    missing: bool = Field(default=False, strict=True)
    code_book: Annotated[CodeBook | None, BeforeValidator(_as_code_book)] = omitted(None)

    @model_validator(mode="before")
    @classmethod
    def _bounds_of_its_kind(cls, value: object) -> object:
        """Fill in the only bounds that a boolean or a category can have; what is given is checked by `Column`."""
        if not isinstance(value, Mapping):
            return value
        if value.get("kind") == "boolean":
            return {"lower": 0, "upper": 1, **value}
        levels = value.get("levels")
        if value.get("kind") == "category" and isinstance(levels, Sequence):
            if value.get("missing") is True and OTHER not in levels:
                levels = [*levels, OTHER]
                value = {**value, "levels": levels}
            return {"lower": 0, "upper": len(levels) - 1, "center": 0, "scale": 1, **value}
        return value


def specifications() -> dict[str, type[MechanismSpecification]]:
    """Return how each kind of mechanism is asked for, those left out that only follow another task."""
    found = {kind: described.spec for kind, described in KINDS.all().items()}
    return {kind: specification for kind, specification in found.items() if specification is not None}


@dataclass(frozen=True)
class _ByKind:
    """Validates the options of a mechanism as those of the kind that its field `kind` names, looked up when asked."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        serialization = core_schema.plain_serializer_function_ser_schema(_dumped, info_arg=True)
        return core_schema.no_info_plain_validator_function(_options, serialization=serialization)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        members = [handler(member.__pydantic_core_schema__) for member in specifications().values()]
        return {"oneOf": members}


def _options(value: object) -> MechanismSpecification:
    if isinstance(value, MechanismSpecification):
        return value
    kind = value.get("kind") if isinstance(value, Mapping) else None
    known = specifications()
    if not isinstance(kind, str) or kind not in known:
        raise PydanticCustomError("kind", "kind: expected one of {known}", {"known": ", ".join(known)})
    return known[kind].model_validate(value)


def _dumped(value: MechanismSpecification, info: SerializationInfo) -> dict[str, object]:
    return value.model_dump(mode=info.mode)


AnyMechanismSpecification = Annotated[MechanismSpecification, _ByKind()]
"""The options of any mechanism that can be asked for."""

Whole = Annotated[int, Field(strict=True)]


class StudySpecification(SpecPart):
    """What a pilot and its main task promise together; `lintra plan SPEC.json --pilot` writes it."""

    epsilon: Number
    delta: Number
    delta_coalition: Number = "0"
    share: Number = Field(description="the part of mu^2 that the pilot may spend")
    pilot: str | None = Field(default=None, description="the pilot's task identifier; only in the main task")
    epsilon_alone: Number | None = Field(
        default=None,
        description="with noise both: epsilon of both tasks together if everybody else is invented",
    )


class StreamSpecification(SpecPart):
    """Windows whose servers take back, later, what they added before, so that totals stay sharp."""

    damping: Number | None = Field(
        default=None,
        description="how much is taken back, above 0 and at most 1; if not given, the largest multiple of 0.05 at "
        "which a single window has at most 1.25 times the noise of a plain one",
    )
    blur: Number = Field(
        default="0.1", description="servers remember their noise under noise of this part of its deviation"
    )
    memory: Whole | None = Field(
        default=None, ge=2, le=MAX_STREAM, description="for how many windows, its own included; for all if not given"
    )


class WindowsSpecification(SpecPart):
    """How a task is cut into windows; lengths are multiples of its `time_precision`, and its duration follows."""

    window_seconds: Whole = Field(ge=1, le=31_536_000, description="the length of one window")
    grace_seconds: Whole = Field(
        ge=0, le=31_536_000, description="how long after its end a window still takes reports that were delayed"
    )
    max_windows: Whole = Field(ge=1, le=MAX_WINDOWS, description="how many windows there are")
    max_merge: Whole = Field(
        default=1,
        ge=1,
        le=MAX_MERGE,
        description="how many windows in a row may be released together where the first ones have too few reports; "
        "a source's reports then cost more, whether or not it happens",
    )
    stream: StreamSpecification | None = Field(
        default=None,
        description="totals of many windows have less noise, and single windows a little more, where a source answers "
        "few of them; servers add all noise, and the claim is about all that a source may send",
    )


class ContributorsSpecification(SpecPart):
    """Organisations that contribute rows of many persons, in one report (docs/proofs/persons.md#organisations)."""

    rows_per_person: Whole = Field(ge=1, le=MAX_ROWS_PER_PERSON, description="most rows of one person in one of them")
    max_rows: Whole = Field(ge=1, le=MAX_ROWS, description="most rows of one organisation")
    person_bound: Number | None = Field(
        default=None,
        description="root of the largest sum of squared norms of a person's rows, in normalised units; row_bound times "
        "the root of rows_per_person if not given",
    )
    organisations_per_person: Whole = Field(
        default=1, ge=1, le=2**32, description="in how many organisations one person may have rows"
    )
    count: Literal["exact", "noisy"] | None = Field(
        default=None, description="of their rows; exact if not given, unless neighbours or missing numbers forbid it"
    )

    def contributors(self, neighbours: Neighbours, *, missing: bool) -> Contributors:
        """Return the field of the task. `missing` says whether numbers are expected to be missing."""
        moves = neighbours == "add-remove" or (neighbours == "replace-one" and self.rows_per_person > 1)
        return Contributors(
            rows_per_person=self.rows_per_person,
            person_bound=self.person_bound,
            organisations_per_person=self.organisations_per_person,
            max_rows=self.max_rows,
            count=self.count or ("noisy" if moves or missing else "exact"),
        )


class Specification(SpecPart):
    """A new task: what is collected, what is released, and what is promised."""

    purpose: str = Field(min_length=1, max_length=2000)
    columns: list[ColumnSpecification] = Field(min_length=1, max_length=2**20)
    mechanism: AnyMechanismSpecification
    row_bound: Number | None = Field(
        default=None,
        description="L2 norm that rows are clipped to, in normalised units; not for osnap_published, optional "
        "for ron_gauss",
    )
    epsilon: Number
    delta: Number | None = Field(
        default=None, description="a millionth, or one over min_clients if that is less, if not given"
    )
    min_clients: Whole = Field(ge=2, le=2**32)
    max_clients: Whole | None = Field(default=None, description="10 times min_clients if not given")
    neighbours: Neighbours = "replace-one"
    contributors: ContributorsSpecification | None = Field(
        default=None, description="organisations with many rows each; every report is one row if not given"
    )
    max_corrupt_clients: Whole | None = Field(
        default=None,
        ge=0,
        description="5 % of min_clients, rounded down, if not given; all but one with contributors",
    )
    threat: Threat = "static"
    delta_coalition: Number | None = Field(
        default=None,
        description="half of delta over reports_per_source for a sketch that tolerates a static coalition, else 0, if "
        "not given",
    )
    reports_per_source: Whole = Field(
        default=1,
        ge=1,
        le=1000,
        description="how many tasks like this the same people are asked to take part in; with windows, in how many of "
        "them one source may answer",
    )
    windows: WindowsSpecification | None = Field(
        default=None, description="release it again and again, once in every window of time"
    )
    max_missing: Number | None = Field(
        default=None,
        description="0.25 with tokens, or twice the part of corrupt clients if that is more; with contributors what "
        "max_clients has more than min_clients",
    )
    client_auth: Literal["none", "token"] = Field(
        default="none", description="with token, every report needs a token that the author made"
    )
    share_form: Literal["uniform", "seeded", "spread"] = Field(
        default="uniform",
        description="seeded makes all uploads but the last server's short, spread makes all of them equally long, "
        "together as long as that one",
    )
    verification: Literal["none", "norm"] | None = Field(
        default=None,
        description="with norm every report proves to the servers that its row is not too long; if not given, norm "
        "wherever it is offered and a report stays below a megabyte, else none",
    )
    max_rejected: Number | None = Field(
        default=None,
        description="0.1 if not given: the largest part of a cohort's reports that may fail their proof; needs "
        "verification norm",
    )
    noise: NoiseBy | None = Field(
        default=None,
        description="with servers reports carry no noise, and every server adds enough of it to its share of the "
        "release; for sum, osnap, second_moment and histogram. With both clients add theirs and every server a floor, "
        "which hides a client even if all others are invented. If not given, both wherever it is offered, else clients",
    )
    epsilon_alone: Number | None = Field(
        default=None,
        description="with noise both: epsilon if everybody else is invented; three times epsilon if not given",
    )
    suite: SuiteName = HYBRID
    duration_seconds: Whole = Field(default=604_800, ge=1, le=31_536_000)
    time_precision: Whole = Field(default=3600, ge=1, le=31_536_000)
    retention: Whole = Field(default=0, ge=0, lt=2**31)
    study: StudySpecification | None = Field(
        default=None, description="of a pilot and of its main task: what devices charge once for both"
    )

    @property
    def noise_by(self) -> NoiseBy:
        """Return who adds the noise: as asked; both where a floor is offered and t leaves anybody to invent."""
        if self.noise is not None:
            return self.noise
        if self.windows is not None and self.windows.stream is not None:
            return "servers"
        corrupt = self.max_corrupt_clients
        if corrupt is None:
            corrupt = 0 if self.contributors is None else self.min_clients - 1
        promised = self.study is None or self.study.epsilon_alone is not None
        floored = self.mechanism.takes_floor and promised and corrupt < self.min_clients - 1
        return "both" if floored else "clients"

    def canonical(self) -> bytes:
        """Return bytes that two equal specifications share."""
        return canonical_json(self.model_dump(mode="json"))
