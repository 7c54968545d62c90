"""The base of every document that parties exchange: frozen, strict, and with exactly one encoding.

A document holds strings and integers only. Reals are decimal strings with one spelling each, so a document's
hash means one thing on every machine.
"""

import math
import re
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Self, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
)

from lintra_protocol.encoding.canonical import JsonValue, canonical_json, parse_canonical_json
from lintra_protocol.errors import InvalidMessageError

_DIGITS = r"\.[0-9]{0,39}[1-9]"
_REAL = rf"^(0|-?0{_DIGITS}|-?[1-9][0-9]{{0,17}}({_DIGITS})?)$"
Real = Annotated[str, StringConstraints(pattern=_REAL)]
"""A real number as a decimal string without exponent, leading or trailing zeros."""

Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,2048}$")]
"""A key, hash or signature in unpadded base64url."""

Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{43}$")]
"""The identifier of a task."""


ServerIndex = Annotated[int, Field(ge=0, lt=256)]
Count = Annotated[int, Field(ge=0, lt=2**53)]


_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029"  # controls, and what breaks a line
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns the direction of text
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0"  # unseen
    "\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
    "\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff\U000f0000-\U0010ffff"  # surrogates, private, no characters
    + "".join(f"{chr(plane | 0xFFFE)}{chr(plane | 0xFFFF)}" for plane in range(0x10000, 0xF0000, 0x10000))
    + "]"
)
"""What no text of a document holds: a fixed list, since Unicode's own tables change (docs/reference/protocol.md)."""


def is_printable(text: str) -> bool:
    """Return whether no terminal takes a text for commands, and it reads as it is written, on every machine alike."""
    return not _UNPRINTABLE.search(text)


def _printable(text: str) -> str:
    """Return a text that is printable."""
    if not is_printable(text):
        raise ValueError("printable characters only")
    return text


Printable = Annotated[str, AfterValidator(_printable)]
"""A stranger's words, which people will read."""


def omitted(default: object, **limits: Any) -> Any:
    """Return a document's field that its encoding leaves out where it has the default, with the limits of a `Field`."""
    return Field(default=default, exclude_if=lambda value: value == default, **limits)


class Frozen(BaseModel):
    """An immutable document that refuses unknown fields and silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def canonical(self) -> bytes:
        """Return the document's canonical JSON encoding."""
        return canonical_json(self.model_dump(mode="json"))

    @classmethod
    def from_canonical(cls, data: bytes) -> Self:
        """Parse and check a canonical encoding; every field is written, also one that equals its default.

        Raises InvalidMessageError if it is not canonical, or not a document of this kind; the detail names the field.
        """
        try:
            document = cls._validated(data)
            if document.canonical() == data:  # then these bytes are canonical, too
                return document
            refusal = InvalidMessageError(f"{cls.__name__}: a field is left out; defaults are written in full")
        except ValueError:
            refusal = InvalidMessageError(f"{cls.__name__}: a value that has no canonical form")
        except InvalidMessageError as error:
            refusal = error
        parse_canonical_json(data)  # says it first, if these bytes are not
        raise refusal

    @classmethod
    def from_value(cls, value: object) -> Self:
        """Check a value that was already parsed from canonical JSON (see `from_canonical`)."""
        return cls._validated(canonical_json(cast("JsonValue", value)))

    @classmethod
    def _validated(cls, data: bytes) -> Self:
        try:
            # In JSON mode a list may stand for a tuple; everything else stays strict.
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise InvalidMessageError(f"{cls.__name__}: {first_complaint(error)}") from None


def first_complaint(error: ValidationError) -> str:
    """Return where the first validation error lies and what is wrong there, without the offending value."""
    complaint = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(str(part) for part in complaint["loc"]) or "document"
    return f"{where}: {complaint['msg'].removeprefix('Value error, ')}"


def real(value: float | int | str | Decimal) -> Real:
    """Spell a number as a `Real`: the shortest decimal that gives the same float back.

    Raises ValueError if it is not finite, or not representable.
    """
    number = Decimal(value if isinstance(value, int | str | Decimal) else repr(float(value)))
    if not number.is_finite():
        raise ValueError(f"a real in a document is finite, got {value}")
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    text = "0" if text == "-0" else text
    if not re.match(_REAL, text):
        raise ValueError(f"a real has at most 18 digits before the point and 40 behind it, got {value}")
    return text


_LAST_DIGIT = Decimal(1).scaleb(-40)
_CONTEXT = Context(prec=80)


def rounded_up(value: float | Decimal) -> Real:
    """Spell a number that is not negative with at most 40 decimals, rounded up where that loses digits."""
    shortest = value if isinstance(value, Decimal) else Decimal(repr(value))
    rounded = shortest.quantize(_LAST_DIGIT, ROUND_CEILING, _CONTEXT)
    return real(shortest if rounded == shortest else rounded)


def float_of(text: object) -> float:
    """Return the float that `rounded_up` spells like this; a float stays what it is.

    Raises ValueError if it is no `Real`, or has more digits than any float is spelled with.
    """
    if isinstance(text, float):
        return text
    if not isinstance(text, str) or not re.match(_REAL, text):
        raise ValueError("a real is a decimal string")
    nearest = float(text)
    # Below 1e-23 the last of 40 decimals may be finer than a float's own digits; then a neighbour is meant.
    for found in (nearest, math.nextafter(nearest, 0), math.nextafter(nearest, math.inf)):
        if rounded_up(found) == text:
            return found
    raise ValueError(f"no float is spelled {text}")


def _float_or_infinite(text: object) -> float:
    return math.inf if text is None else float_of(text)


def _spelled_if_finite(value: float) -> Real | None:
    return None if value == math.inf else rounded_up(value)


_REAL_SCHEMA = {"type": "string", "pattern": _REAL}
RoundedUp = Annotated[
    float, BeforeValidator(float_of), PlainSerializer(rounded_up, return_type=str), WithJsonSchema(_REAL_SCHEMA)
]
"""A float from 0 on that documents spell as a `Real`, rounded up, so that what they say is never too good."""

RoundedUpOrNone = Annotated[
    float,
    BeforeValidator(_float_or_infinite),
    PlainSerializer(_spelled_if_finite, return_type=str | None),
    WithJsonSchema({"anyOf": [_REAL_SCHEMA, {"type": "null"}]}),
]
"""The same, with nothing for an infinite number."""


def real_below(value: Fraction) -> Real:
    """Spell the largest number of 40 digits behind the point that is at most `value`, from 0 on."""
    digits = (value * 10**40).__floor__()
    return real(f"{digits // 10**40}.{digits % 10**40:040d}")


@lru_cache(maxsize=4096)
def fraction(text: Real) -> Fraction:
    """Return the exact value of a `Real`."""
    return Fraction(text)
