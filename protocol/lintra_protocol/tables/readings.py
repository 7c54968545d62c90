"""What the owner of a column says of it, and what a reader reports back."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from lintra_protocol.errors import InvalidTableError
from lintra_protocol.fields.code_book import composed

Kind = Literal["real", "integer", "boolean", "date", "category", "left out"]

READINGS = (
    "number", "number-point", "number-comma", "yes-no", "date", "date-day-first", "date-month-first",
    "category", "category-merged", "drop",
)  # fmt: skip
"""What `--as COLUMN=READING` takes; `-point`, `-comma`: the decimal mark; `-merged`: spellings of a level are one."""

SURELY_MISSING = frozenset(
    {
        "",
        "na",
        "n/a",
        "nan",
        "null",
        "#n/a",
        "#null!",
        "k.a.",
        "k. a.",
        "n.a.",
        "<na>",
        "nat",
        "\\n",
        "(null)",
        "#nv",
        "#n/d",
    }
)
MAYBE_MISSING = frozenset(
    {"none", "nil", "unknown", "missing", "?", ".", "-", "--", "\u2013", "\u2014", "..", "...", "\u2026", "*"}
)

TRUTH = {
    "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "y": 1.0, "n": 0.0, "ja": 1.0, "nein": 0.0,
    "oui": 1.0, "non": 0.0, "si": 1.0, "s\u00ed": 1.0, "s\u00ec": 1.0, "wahr": 1.0, "falsch": 0.0,
    "vrai": 1.0, "faux": 0.0, "verdadero": 1.0, "verdadeiro": 1.0, "vero": 1.0, "falso": 0.0, "j": 1.0,
    "sim": 1.0, "n\u00e3o": 0.0, "nee": 0.0, "nej": 0.0, "nei": 0.0, "tak": 1.0, "nie": 0.0,
    "kyll\u00e4": 1.0, "ei": 0.0, "evet": 1.0, "hay\u0131r": 0.0, "hayir": 0.0, "\u0434\u0430": 1.0,
    "\u043d\u0435\u0442": 0.0, "\u662f": 1.0, "\u5426": 0.0, "\u306f\u3044": 1.0, "\u3044\u3044\u3048": 0.0,
}  # fmt: skip
"""Words for yes and no, in lower case."""

_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))
_SOFT_HYPHEN = re.compile(r"\u00ad(?!\d)")

NO_CODE = ""
"""The answer of an owner whose column has no code for missing values: `--missing COLUMN=`."""


def text_of(cell: str) -> str:
    """Return a cell as a person sees it: composed, without spaces, quotes and invisible characters around it.

    >>> text_of(" \u200b72 "), text_of('"72"')
    ('72', '72')
    """
    seen = composed(_SOFT_HYPHEN.sub("", cell.translate(_INVISIBLE)))
    return seen[1:-1].strip() if len(seen) > 1 and seen[0] == seen[-1] == '"' else seen


@dataclass(frozen=True)
class Reading:
    """How the author of a task wants a column to be read: the answer to its question.

    Attributes:
        way: one of `READINGS`; None to decide by the cells.
        missing: cells that mean that a value is missing, besides those that always do; numbers are compared as
            numbers. `NO_CODE` among them says that there are no other codes.
    """

    way: str | None = None
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.way is not None and self.way not in READINGS:
            raise InvalidTableError(f"a column can be read as {', '.join(READINGS)}, got {self.way!r}")

    def answers(self, options: Sequence[str]) -> bool:
        """Return whether this reading ends a question with these options; `number-comma` is a `number`, too."""
        return self.way is not None and (self.way in options or self.way.partition("-")[0] in options)


BY_CELLS = Reading()
"""The reading of an owner who says nothing."""


@dataclass(frozen=True)
class ColumnReport:
    """How a column was read, in terms that its owner can check.

    Attributes:
        name: of the column.
        kind: what it holds; "left out" if it cannot be collected.
        unit: of its numbers; empty if there is none.
        decimal_mark: of its numbers; empty where no cell has one.
        levels: of a category, the most frequent first and `OTHER` last.
        missing_codes: texts that were taken for missing values, the empty cell apart.
        missing: in how many rows its cell says nothing; in a category such a cell counts as `OTHER`.
        examples: up to three different cells.
        why: why it is read so, or why it is left out.
        lost: what the reading loses, such as "3 cells are no numbers"; empty if nothing.
        question: what only its owner can know; empty if nothing is open.
        options: answers to the question, as `--as` or `--missing` takes them.
    """

    name: str
    kind: Kind
    unit: str = ""
    decimal_mark: str = ""
    levels: tuple[str, ...] = ()
    missing_codes: tuple[str, ...] = ()
    missing: int = 0
    examples: tuple[str, ...] = ()
    why: str = ""
    lost: str = ""
    question: str = ""
    options: tuple[str, ...] = ()


Values = list[float]
"""A number for each row: NaN if it is missing; for a category the number of the level."""


def questions_in_words(open_: Iterable[tuple[str, str, Sequence[str]]]) -> Iterator[str]:
    """Yield lines that ask what is open: the columns' names, their questions, and the options that answer each."""
    yield "only you can say how these columns are meant:"
    for name, question, options in open_:
        yield f"  {name}: {question}"
        if options:
            yield f"    answer {' or '.join(_option(name, option) for option in options)}"


def _option(name: str, option: str) -> str:
    word, _, value = option.partition(" ")
    if word == "other":
        return f"--other '{name}={value}'"
    if word == "missing":
        return f"--missing '{name}={value}'" + " if it means nothing of the kind" * (value == NO_CODE)
    return f"--as '{name}={option}'"
