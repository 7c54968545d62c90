"""Lines of a file that are no rows: names that are missing or stand twice, totals, cells that were not cut."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from lintra_protocol.tables.numbers import written_number

_SUMMARY = re.compile(
    r"(?:(?:grand|sub)[ -]?)?totals?\b|sums?\b|summe\b|gesamt|insgesamt|ergebnis\b|average\b|mean\b|mittelwert\b"
    r"|durchschnitt\b|median\b|moyenne\b|somme\b|totale?\b|promedio\b|suma\b|totaal\b|gemiddelde\b",
    re.IGNORECASE,
)
"""How the first cell of a line begins that sums up those above it."""

_OTHER_MARKS = (",", ";", "|", ":", " ")
_YEAR = re.compile(r"(?:18|19|20|21)\d\d")


def complaints(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield why some of the lines are no rows, or the first one holds no names.

    `names` are the cells of the first line, and `rows` those of all others, as many in each.
    """
    yield from _of_cells_not_cut(names, rows)
    if len(names) > 1 and all(len(name) > 1 and name[0] == name[-1] == "'" for name in names):
        yield "apostrophes stand around its cells; a CSV file has quotation marks there"
    if names_missing(names):
        yield f"its first line holds numbers such as {_number_in(names)!r}, where the names of columns should stand"
    for place, name in enumerate(names):
        if not name or written_number(name) is not None or not any(row[place] == name for row in rows):
            continue
        if len({row[place] for row in rows} - {""}) > 1:
            yield f"the name {name!r} stands in its own column, too: names are missing, or stand there twice"
    yield from _of_summaries(rows)


def names_missing(names: Sequence[str]) -> bool:
    """Return whether the first line holds numbers that name nothing.

    A program names columns 0, 1, 2, and an author by years; both are names.

    >>> names_missing(["Bern", "1.5"]), names_missing(["0", "1", "2"]), names_missing(["2019", "2020", "town"])
    (True, False, False)
    """
    if any(_is_decimal(name) for name in names):
        return True
    whole = [name for name in names if name.isdigit()]
    counted = [str(int(whole[0]) + place) for place in range(len(whole))] if whole else []
    return len(whole) == len(names) and whole != counted and not all(map(_YEAR.fullmatch, whole))


def _is_decimal(name: str) -> bool:
    number = written_number(name)
    return number is not None and not number.unit and ("." in number.digits or "," in number.digits or number.negative)


def _number_in(names: Sequence[str]) -> str:
    return next((name for name in names if _is_decimal(name)), names[0])


def _of_summaries(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the line that sums up others: its first cell says so, as none beside it does.

    At the end of the file the cell may say more than the word; elsewhere a name such as "Total Ltd" is one.
    """
    first = [next((cell.strip() for cell in row if cell.strip()), "") for row in rows]
    for cell, count in Counter(first).items():
        if count == 1 < len(rows) and (word := _SUMMARY.match(cell)) and cell in (word[0], first[-1]):
            place = first.index(cell) + 1
            yield f"row {place} begins with {cell[:40]!r}: a line of sums or means is no row; take it out"


def _of_cells_not_cut(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if len(names) != 1:
        return
    for mark in _OTHER_MARKS:
        cuts = {len(re.split(" +" if mark == " " else re.escape(mark), cells[0].strip())) for cells in (names, *rows)}
        if len(cuts) == 1 and cuts != {1}:
            yield f"its cells seem to be separated by {mark!r}: write them with commas, semicolons or tabs"
            return
