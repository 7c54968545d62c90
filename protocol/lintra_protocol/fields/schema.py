"""The columns of a row: names, kinds, public bounds, public centre and scale; and what makes a row acceptable.

Everything a column says is chosen without looking at the rows. A number outside its bounds is moved to the nearest
bound. None, NaN, and the codes that the column's code book lists for it are *missing*: a NaN from here on, which the
mechanism encodes (`Measurement.exact_reports`), so that whether a report is sent says nothing about the row. Only where
the caller asks for it, by `strict`, is it refused. Any other value that is not of its column's kind, such as a text
where a number belongs, an infinite number or an unknown level, is refused always, since it is a fault of a program that
would else spoil every report in silence. So is a row without a column, with an unknown one, or with another number of
values. No message repeats a value.
A category may reserve the level `OTHER`, which a missing value gets; a sender names it for whatever is no other level.

Most mechanisms count and multiply numbers. For them a category becomes indicators, one for each level but the first:
the column `sex` with the levels male and female becomes `sex[female]`, which is 1 or 0.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import StringConstraints, model_validator

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import Frozen, Printable, Real, fraction, omitted
from lintra_protocol.errors import InvalidRowError
from lintra_protocol.fields.code_book import CodeBook, Codes

Row = Mapping[str, float | str | None] | Sequence[float | str | None] | FloatArray
"""One row: values by name or in column order, None for what is missing. A level of a category is given by its name, in
an array by its number."""

OTHER = "(other)"
"""The level that a category may reserve, as one of its `levels`, for a value that is none of the others."""

Kind = Literal["real", "integer", "boolean", "category"]
SHOWN_LEVELS = 6
"""So many levels of a category stand in a message."""

MAX_NAME = 80
"""Most characters in the name of a column, also of the indicator of a level."""

Name = Annotated[Printable, StringConstraints(pattern=rf"^[^\x00-\x1f]{{1,{MAX_NAME}}}$")]


class Column(Frozen):
    """One column: a value x inside [lower, upper] enters the encoder as (x - center) / scale.

    A boolean is 0 or 1. A category has `levels`; it is the number of its level, from 0, and is neither centred nor
    scaled. In the canonical encoding `kind` is left out of a real column, and `levels` and `code_book` where there are
    none.
    """

    name: Name
    lower: Real
    upper: Real
    center: Real = "0"
    scale: Real = "1"
    unit: Printable = ""
    kind: Kind = omitted("real")
    levels: tuple[Name, ...] = omitted((), max_length=1024)
    code_book: CodeBook | None = omitted(None)

    @model_validator(mode="after")
    def _consistent(self) -> "Column":
        self._require_levels()
        if self.code_book is not None:
            self.code_book.check(self.name, self.levels, self.unit)
        if fraction(self.lower) >= fraction(self.upper):
            raise ValueError(f"column {self.name!r}: lower bound {self.lower} is not below upper bound {self.upper}")
        if fraction(self.scale) <= 0:
            raise ValueError(f"column {self.name!r}: scale {self.scale} is not positive")
        if self.kind == "integer" and "." in self.lower + self.upper:
            raise ValueError(f"column {self.name!r}: the bounds of an integer are integers")
        if self.kind == "boolean" and (self.lower, self.upper) != ("0", "1"):
            raise ValueError(f"column {self.name!r}: a boolean lies between 0 and 1")
        return self

    def indicators(self) -> "tuple[Column, ...]":
        """Return what this column becomes where only numbers count: itself, or 0/1 columns for all levels but one.

        The first level is the reference: a row that has it has 0 in every indicator.
        """
        if self.kind != "category":
            return (self,)
        return tuple(
            Column(name=f"{self.name}[{level}]", lower="0", upper="1", kind="boolean") for level in self.levels[1:]
        )

    def levels_in_words(self) -> str:
        """Return how many levels there are, and the names of the first ones."""
        shown = ", ".join(self.levels[:SHOWN_LEVELS]) + ", ..." * (len(self.levels) > SHOWN_LEVELS)
        return f"its {len(self.levels)} levels, {shown}"

    def _require_levels(self) -> None:
        if self.kind != "category":
            if self.levels:
                raise ValueError(f"column {self.name!r}: only a category has levels")
            return
        if len(self.levels) < 2 or len(set(self.levels)) < len(self.levels):
            raise ValueError(f"column {self.name!r}: a category has at least 2 levels, all different")
        if len(self.name) + max(map(len, self.levels)) > MAX_NAME - 2:
            raise ValueError(f"column {self.name!r}: name and level together have at most {MAX_NAME - 2} characters")
        numbers = ("0", str(len(self.levels) - 1), "0", "1")
        if (self.lower, self.upper, self.center, self.scale) != numbers:
            raise ValueError(f"column {self.name!r}: lower, upper, center, scale of this category are {numbers}")


class Schema:
    """The columns of a task as arrays, ready to check and normalise rows."""

    def __init__(self, columns: Sequence[Column], *, indicators: bool = False) -> None:
        """Prepare the columns; their order is the order of every vector in the task.

        `columns` are what a row consists of, d of them. `indicators` says whether `normalise` turns categories into
        indicators, or leaves the numbers of their levels.
        """
        self.columns = tuple(columns)
        parts = [column.indicators() if indicators else (column,) for column in columns]
        self.encoded = tuple(column for part in parts for column in part)
        """The columns of a normalised row, k of them."""
        self.names = [column.name for column in columns]
        self._named = frozenset(self.names)
        self._codes = [Codes(column.levels, column.code_book) for column in columns]
        # Of these columns a finite number needs no other look: of the numeric ones, and in arrays of all.
        coded = [column.kind != "category" and bool(codes.missing_numbers) for column, codes in self._with_codes()]
        self._numeric = [column.kind != "category" and not each for column, each in zip(columns, coded, strict=True)]
        self._numbered = [not each for each in coded]
        self._whole = np.array([column.kind != "real" for column in columns])
        self._any_whole = bool(self._whole.any())
        self._enumerated = np.array([column.kind in {"boolean", "category"} for column in columns])
        self.lower, self.upper, self.center, self.scale = (
            np.array([float(getattr(column, field)) for column in columns])
            for field in ("lower", "upper", "center", "scale")
        )
        self._plain = [each.tolist() for each in (self.lower, self.upper, self.center, self.scale)]
        # For every encoded column where it comes from, and which level it indicates; 0 is the reference of none.
        self._origin = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        self._level = np.array(
            [
                number if column.kind == "category" and indicators else 0
                for column, part in zip(columns, parts, strict=True)
                for number in range(1, 1 + len(part))
            ]
        )

        self._any_level = bool(self._level.any())

    def row(self, row: Row, *, strict: bool = False) -> FloatArray:
        """Check one row, given by name or in column order; the result has shape `(d,)`, in the user's units.

        What is missing is NaN: None, NaN, or a code that the column's code book lists. Raises InvalidRowError if a
        column is unknown or absent, the length is wrong, a value is not of its column's kind, or, if `strict`, missing.
        """
        if isinstance(row, Mapping):
            values = self._by_name(row)
        elif isinstance(row, str | bytes) or not isinstance(row, Sequence | np.ndarray):
            raise InvalidRowError(f"a row is a mapping or a sequence of numbers, got {type(row).__name__}")
        elif isinstance(row, np.ndarray) and row.ndim != 1:
            raise InvalidRowError(f"a row is an array of one dimension, got {row.ndim}")
        else:
            values = row.tolist() if isinstance(row, np.ndarray) and row.dtype.kind in "fiub" else list(row)
            if len(values) != len(self.names):
                raise InvalidRowError(f"expected {len(self.names)} values ({', '.join(self.names)}), got {len(values)}")
        by_number = isinstance(row, np.ndarray)
        plain = self._numbered if by_number else self._numeric
        read = _value if strict else _value_or_missing
        # Most values are finite floats where a number is asked for: these are looked at no further.
        checked: FloatArray = np.array(
            [
                value
                if type(value) is float and finite_is_enough and math.isfinite(value)
                else read(column, codes, value, by_number=by_number)
                for (column, codes), finite_is_enough, value in zip(self._with_codes(), plain, values, strict=True)
            ]
        )
        self._require_kinds(checked[np.newaxis])
        return checked

    def rows(self, rows: FloatArray, *, strict: bool = False, first: int = 0) -> FloatArray:
        """Check a block of rows of shape `(n, d)`; the result is float64 of the same shape, in the user's units.

        A category is the number of its level, from 0. What is missing is NaN, as in `row`. `rows` holds numbers;
        objects may be among them, but no texts. `strict` says whether a missing value is refused; `first` is the number
        that a message gives the first row. Raises InvalidRowError if the shape is wrong, a value is not of its
        column's kind or, if `strict`, missing; the detail names row and column.
        """
        block = np.asarray(rows)
        if block.ndim != 2 or block.shape[1] != len(self.names):
            raise InvalidRowError(f"expected shape (n, {len(self.names)}), got {block.shape}")
        if block.dtype.kind == "O":
            block = self._numbers(block, first)
        if block.dtype.kind not in "fiu":
            raise InvalidRowError(f"expected real numbers, got an array of {block.dtype}")
        values = block.astype(np.float64, copy=False)
        for place, (column, codes) in enumerate(self._with_codes()):
            if codes.missing_numbers and column.kind != "category":
                coded = np.isin(values[:, place], list(codes.missing_numbers))
                values = np.where(coded[:, np.newaxis] & (np.arange(len(self.names)) == place), np.nan, values)
        refused = ~np.isfinite(values) if strict else np.isinf(values)
        if refused.any():
            index, place = np.argwhere(refused)[0]
            raise InvalidRowError(f"row {index + first}, column {self.names[place]!r}: not a finite number")
        self._require_kinds(values, first)
        return values

    def normalise(self, rows: FloatArray) -> FloatArray:
        """Move checked rows of shape `(n, d)` inside the column bounds, centre, scale and encode; shape `(n, k)`.

        NaN stays NaN, in every indicator of a category.
        """
        if len(rows) == 1 and not self._any_level:  # arrays pay from several rows on
            return np.array([[_normalised(value, *plain) for value, *plain in self._beside(rows)]])
        normalised: FloatArray = (np.clip(rows, self.lower, self.upper) - self.center) / self.scale
        if not self._any_level:
            return normalised
        spread: FloatArray = normalised[:, self._origin]
        indicates = (self._level > 0) & ~np.isnan(spread)
        return np.where(indicates, (spread == self._level).astype(np.float64), spread)

    def outside(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say for each of the checked rows, shape `(n, d)`, whether `normalise` moves a value to a column's bound."""
        if len(rows) == 1:
            return np.array([any(value < lower or value > upper for value, lower, upper, *_ in self._beside(rows))])
        beyond: NDArray[np.bool_] = np.less(rows, self.lower) | np.greater(rows, self.upper)
        moved: NDArray[np.bool_] = np.logical_or.reduce(beyond, axis=1)
        return moved

    def _with_codes(self) -> "zip[tuple[Column, Codes]]":
        return zip(self.columns, self._codes, strict=True)

    def _beside(self, row: FloatArray) -> "zip[tuple[float, float, float, float, float]]":
        """Return each value of one row, shape `(1, d)`, with bounds, centre and scale of its column."""
        return zip(row[0].tolist(), *self._plain, strict=True)

    def largest_norm(self) -> float:
        """Return the largest norm that a normalised row can have; of all indicators of a category at most one is 1."""
        ends = abs(np.stack([self.lower, self.upper]) - self.center) / self.scale
        squares: FloatArray = np.square(ends.max(axis=0))
        squares[self._origin[self._level > 0]] = 1.0
        return float(np.sqrt(squares.sum()))

    def _require_kinds(self, values: FloatArray, first: int | None = None) -> None:
        """Refuse values of shape `(n, d)` that are neither missing nor of their column's kind."""
        if not self._any_whole:
            return
        fits = ~self._whole | np.isnan(values) | (values == np.rint(values))
        fits &= ~self._enumerated | np.isnan(values) | ((values >= self.lower) & (values <= self.upper))
        if fits.all():
            return
        row, place = (int(each) for each in np.argwhere(~fits)[0])
        column = self.columns[place]
        expected = {"boolean": "0 or 1", "category": f"a level's number below {len(column.levels)}"}
        words = f"column {column.name!r}: expected {expected.get(column.kind, 'a whole number')}"
        words = words if first is None else f"row {row + first}, {words}"
        raise InvalidRowError(words, row=row, column=column.name)

    def _numbers(self, block: NDArray[Any], first: int) -> FloatArray:
        """Return a block of any objects as numbers, NaN where one is missing."""
        numbers = np.full(block.shape, np.nan)
        for (row, place), value in np.ndenumerate(block):
            if not is_missing(value):
                try:
                    numbers[row, place] = _number(self.names[place], value)
                except InvalidRowError as error:
                    words = f"row {row + first}, {error.detail}"
                    raise InvalidRowError(words, row=row, column=error.column) from None
        return numbers

    def _by_name(self, row: Mapping[str, float | str | None]) -> list[float | str | None]:
        unknown = [str(name) for name in row if name not in self._named]
        if unknown:
            raise InvalidRowError(f"unknown column {unknown[0]!r}; the columns are {', '.join(self.names)}")
        if absent := [name for name in self.names if name not in row]:
            raise _unfit(absent[0], "it is absent from the row; give None if its value is missing")
        return [row[name] for name in self.names]


def _normalised(value: float, lower: float, upper: float, center: float, scale: float) -> float:
    """Move a value inside its bounds, centre and scale it; NaN stays NaN."""
    return ((lower if value < lower else min(value, upper)) - center) / scale


def is_missing(value: object) -> bool:
    """Return whether a value says nothing: None, NaN, or NaT and NA of a data frame."""
    if value is None:
        return True
    if isinstance(value, float | np.floating):
        return math.isnan(value)
    try:
        return bool(value != value)
    except TypeError:  # of pandas' NA nothing can be said
        return True
    except ValueError:  # an array
        return False


def _value_or_missing(column: Column, codes: Codes, value: object, *, by_number: bool) -> float:
    """Return a value as a finite float, a level as its number; NaN if it is missing."""
    if column.kind == "category" and not by_number:
        if not is_missing(value) and not (isinstance(value, str) and value in codes.missing):
            return _value(column, codes, value, by_number=False)
        return float(column.levels.index(OTHER)) if OTHER in column.levels else math.nan
    if is_missing(value):
        return math.nan
    number = _value(column, codes, value, by_number=by_number)
    return math.nan if number in codes.missing_numbers and column.kind != "category" else number


def _value(column: Column, codes: Codes, value: object, *, by_number: bool) -> float:
    """Return a value as a finite float; a level as its number."""
    if column.kind == "boolean" and isinstance(value, bool | np.bool_):
        return float(value)
    if column.kind != "category" or by_number:
        return _number(column.name, value)
    if OTHER in column.levels and is_missing(value):
        return float(column.levels.index(OTHER))
    if not isinstance(value, str):
        raise _unfit(column.name, f"expected the name of a level, got {type(value).__name__}")
    level = codes.level(value)
    if level is None:
        raise _unfit(column.name, f"not one of {column.levels_in_words()}")
    return float(level)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise _unfit(name, f"expected a number, got {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        raise _unfit(name, "too large for a number") from None
    if not math.isfinite(number):
        raise _unfit(name, "not a finite number")
    return number


def _unfit(name: str, words: str) -> InvalidRowError:
    return InvalidRowError(f"column {name!r}: {words}", column=name)
