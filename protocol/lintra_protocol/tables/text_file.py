"""The cells of a CSV file: its encoding, what separates cells, and its rows. Nothing is inferred in silence."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper

from lintra_protocol.errors import InvalidTableError
from lintra_protocol.tables.lines import complaints
from lintra_protocol.tables.readings import text_of

SEPARATORS = (",", ";", "\t", "|")
_SEP_LINE = re.compile("^sep=(.)\r?\n?$", re.IGNORECASE)
"""What Excel writes and reads before the line of names."""

_LOOKED_AT = 1000
_WORD = re.compile(r'[^\s,;|"]*[^\x00-\x7f][^\s,;|"]*')
"""What stands without a space around a character beyond ASCII, such as a letter or a sign of a currency."""


@dataclass(frozen=True)
class TextFormat:
    """How a CSV file is written.

    Attributes:
        encoding: UTF-8, UTF-16, or else Windows-1252.
        separator: what stands between cells: the one of `SEPARATORS` that the first line has outside quotes, or that
            gives every line as many cells, or that the file states by a line `sep=;`.
        note: what its owner should check, such as an encoding that was inferred; empty if there is nothing.
        skipped: lines before the names, which is 1 if there is such a line.
    """

    encoding: str
    separator: str
    note: str
    skipped: int = 0


def lines_of(content: bytes, text_format: TextFormat, name: str) -> Iterator[list[str]]:
    """Yield the lines of a CSV file that have a cell, each as a list of cells.

    `content` is the bytes of the file; `name` is its name, for errors.

    Raises:
        InvalidTableError: the file is no CSV file.
    """
    text = TextIOWrapper(BytesIO(content), encoding=text_format.encoding, newline="")
    try:
        for _ in range(text_format.skipped):
            text.readline()
        yield from filter(None, csv.reader(text, delimiter=text_format.separator))
    except csv.Error as error:
        raise InvalidTableError(f"{name} is no CSV file: {error}") from None


def read_csv(content: bytes, name: str) -> tuple[list[str], list[list[str]], TextFormat]:
    """Return the names in the first line of a CSV file, the rows under it, and how it is written.

    Raises:
        InvalidTableError: the file is no CSV file, or a line has more or fewer cells than the first; the detail says
            which line.
    """
    text_format = format_of(content, name)
    lines = lines_of(content, text_format, name)
    names, rows = [text_of(name) for name in next(lines, [])], list(lines)
    for number, cells in enumerate(rows, 1):
        if len(cells) != len(names):
            raise InvalidTableError(f"row {number} has {len(cells)} cells, the first line has {len(names)} names")
    for complaint in complaints(names, rows):
        raise InvalidTableError(f"{name}: {complaint}")
    return names, rows, text_format


def format_of(content: bytes, name: str) -> TextFormat:
    """Return how a file is written.

    Raises:
        InvalidTableError: its bytes are text in none of the three encodings.
    """
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _format(content, "utf-16", "", name)
    if content.count(0) > len(content) // 5:
        encoding = "utf-16-be" if content[:1] == b"\0" else "utf-16-le"
        return _format(content, encoding, "the file is read as UTF-16", name)
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError:
        words = list(dict.fromkeys(_WORD.findall(content.decode("cp1252", "replace"))))[:3]
        note = f"the file is no UTF-8 and is read as Windows-1252, with words such as {', '.join(map(repr, words))}"
        return _format(content, "cp1252", note, name)
    return _format(content, "utf-8-sig", "", name)


def _format(content: bytes, encoding: str, note: str, name: str) -> TextFormat:
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise InvalidTableError(f"{name} is no text file: {error}; save it as CSV with the encoding UTF-8") from None
    first, _, rest = text.partition("\n")
    if stated := _SEP_LINE.match(first):
        return TextFormat(encoding, stated[1], note, skipped=1)
    possible = [mark for mark in SEPARATORS if _cells(first, mark) > 1]
    if len(possible) > 1:
        # A name such as "height, cm" in a file of semicolons: the other lines decide.
        lines = [line for line in rest.splitlines() if line.strip()][:_LOOKED_AT]
        fitting = [mark for mark in possible if all(_cells(line, mark) == _cells(first, mark) for line in lines)]
        if lines and len(fitting) > 1:
            marks = " or ".join(map(repr, fitting))
            raise InvalidTableError(f"the cells of {name} may be separated by {marks}: write sep=; as its first line")
        possible = fitting or possible
    return TextFormat(encoding, possible[0] if possible else ",", note)


def _cells(line: str, separator: str) -> int:
    try:
        return len(next(csv.reader([line.strip("\r\n")], delimiter=separator), []))
    except csv.Error:
        return 0
