"""The code book of a column: what else its levels are called, its units in other units, and codes for missing values.

A code book is part of the task, so that all senders translate alike. Spellings are compared without their case, their
superfluous spaces and their Unicode form (`folded`); the exact name of a level goes before all spellings.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from pydantic import StringConstraints, model_validator

from lintra_protocol.encoding.documents import Frozen, Printable, Real, fraction, omitted

MAX_SYNONYMS = 64
"""Most other spellings of one level, most other units, and most codes for missing values."""

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")

Spelling = Annotated[Printable, StringConstraints(min_length=1, max_length=80)]


class LevelSpellings(Frozen):
    """What else one level is called: a label for people, and synonyms that files have for it."""

    level: Spelling
    label: Printable = omitted("", max_length=80)
    synonyms: tuple[Spelling, ...] = omitted((), max_length=MAX_SYNONYMS)


class UnitFactor(Frozen):
    """Another unit: a number in it, times `factor`, is the number in the column's unit."""

    unit: Spelling
    factor: Real


class CodeBook(Frozen):
    """What a sender may write in a column besides its levels, or numbers in its unit."""

    levels: tuple[LevelSpellings, ...] = omitted((), max_length=1024)
    units: tuple[UnitFactor, ...] = omitted((), max_length=MAX_SYNONYMS)
    missing: tuple[Spelling, ...] = omitted((), max_length=MAX_SYNONYMS)

    @model_validator(mode="after")
    def _consistent(self) -> "CodeBook":
        if not (self.levels or self.units or self.missing):
            raise ValueError("a code book says something; leave it out")
        for what, names in (
            ("level", [entry.level for entry in self.levels]),
            ("unit", [entry.unit for entry in self.units]),
            ("missing code", list(self.missing)),
        ):
            if len(set(names)) < len(names):
                raise ValueError(f"a {what} stands twice in the code book")
        if any(fraction(entry.factor) <= 0 for entry in self.units):
            raise ValueError("the factor of a unit is positive")
        return self

    def check(self, name: str, levels: Sequence[str], unit: str) -> None:
        """Check that this is the code book of a column.

        `name`, `levels` and `unit` are the column's; a column of numbers has no levels. Raises ValueError if it names
        other levels, a spelling of two levels, or units of a column that has none.
        """
        if unknown := [entry.level for entry in self.levels if entry.level not in levels]:
            raise ValueError(f"column {name!r}: its code book names {unknown[0]!r}, which is none of its levels")
        if levels and self.units:
            raise ValueError(f"column {name!r}: a category has no units")
        if self.units and (not unit or unit in {entry.unit for entry in self.units}):
            raise ValueError(f"column {name!r}: its code book has units other than the column's, which has one")
        if set(self.missing) & set(levels):
            raise ValueError(f"column {name!r}: a level is no code for a missing value")
        spelled: dict[str, str] = {}
        for level, spelling in self._spellings(levels):
            if spelled.setdefault(folded(spelling), level) != level:
                raise ValueError(f"column {name!r}: {spelling!r} is a spelling of two levels")

    def _spellings(self, levels: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield each level with its spellings: its own name, its label, its synonyms."""
        yield from ((level, level) for level in levels)
        for entry in self.levels:
            for spelling in (entry.label, *entry.synonyms):
                if spelling:
                    yield entry.level, spelling


class Codes:
    """How the cells of one column are translated: names of levels, and codes for missing values."""

    def __init__(self, levels: Sequence[str], book: CodeBook | None) -> None:
        """Prepare a column's levels, none for a column of numbers, and its code book."""
        numbers = {level: number for number, level in enumerate(levels)}
        self._exact = numbers
        self._folded: dict[str, int] = {}
        self.missing = frozenset[str]() if book is None else frozenset(book.missing)
        self.missing_numbers = frozenset(value for code in self.missing if (value := _number(code)) is not None)
        if book is not None:
            self._folded = {folded(spelling): numbers[level] for level, spelling in book._spellings(levels)}

    def level(self, text: str) -> int | None:
        """Return the number of the level that a text is the name or, by the code book, a spelling of."""
        number = self._exact.get(text)
        return self._folded.get(folded(text)) if number is None and self._folded else number


def composed(text: str) -> str:
    """Return a text in the Unicode form NFC, without spaces around it."""
    return unicodedata.normalize("NFC", text).strip()


def folded(text: str) -> str:
    """Return a text without its case, its superfluous spaces and its Unicode form, in which spellings may differ.

    >>> folded(" Zu\u0308rich  WEST "), folded("\uff2d")
    ('z\u00fcrich west', 'm')
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _number(code: str) -> float | None:
    """Return the number that a code is: digits, with a sign and a point or without. Exponents could be any size."""
    return float(code) if _NUMBER.fullmatch(code) else None
