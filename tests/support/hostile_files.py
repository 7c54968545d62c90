"""Whole files that are easily misread: encodings, names, lines that are no rows; made before any of them was tried.

Each has what its column `x` means; None where the file may be refused or asked about, and never read in silence.
"""

import gzip
import zipfile
from dataclasses import dataclass
from io import BytesIO

BODY = "town,x\nBern,1.5\nBasel,2.5\nGenf,3.5\nBern,7.25\nBasel,5.5\n"
MEANT = (1.5, 2.5, 3.5, 7.25, 5.5)


@dataclass(frozen=True)
class HostileFile:
    """The bytes of a file, and what its column `x` means; `plain` if a question would be one too many."""

    name: str
    content: bytes
    meaning: tuple[float, ...] | None = None
    plain: bool = False


def _archive() -> bytes:
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return content.getvalue()


def _rows(*lines: str, encoding: str = "utf-8", newline: str = "\n") -> bytes:
    return (newline.join(lines) + newline).encode(encoding)


def _plain(name: str, content: bytes) -> HostileFile:
    return HostileFile(name, content, MEANT, plain=True)


def _semicolons(text: str) -> str:
    return text.replace(".", "_").replace(",", ";").replace("_", ",")


FILES = [
    _plain("UTF-8", BODY.encode()),
    _plain("a byte order mark", BODY.encode("utf-8-sig")),
    _plain("a byte order mark before quotes", b"\xef\xbb\xbf" + BODY.replace("town", '"town"').encode()),
    HostileFile("two byte order marks", b"\xef\xbb\xbf\xef\xbb\xbf" + BODY.encode(), MEANT),
    _plain("UTF-16 with a mark", BODY.encode("utf-16")),
    _plain("UTF-16 of the other order", b"\xfe\xff" + BODY.encode("utf-16-be")),
    HostileFile("UTF-16 without a mark", BODY.encode("utf-16-le"), MEANT),
    HostileFile("UTF-16-BE without a mark", BODY.encode("utf-16-be"), MEANT),
    HostileFile("UTF-32", BODY.encode("utf-32")),
    HostileFile("Windows-1252", BODY.replace("Genf", "Z\u00fcrich").encode("cp1252"), MEANT),
    HostileFile("Windows-1250", BODY.replace("Genf", "\u0141\u00f3d\u017a").encode("cp1250"), MEANT),
    HostileFile("Mac Roman", BODY.replace("Genf", "Z\u00fcrich").encode("mac-roman"), MEANT),
    HostileFile("Shift-JIS", BODY.replace("Genf", "\u6771\u4eac").encode("shift-jis"), MEANT),
    HostileFile("a broken letter in UTF-8", BODY.replace("Genf", "Z\u00fcrich").encode()[:-40] + b"\xfc,1\n", None),
    _plain("carriage returns", BODY.replace("\n", "\r\n").encode()),
    HostileFile("carriage returns alone", BODY.replace("\n", "\r").encode(), MEANT),
    HostileFile("mixed ends of lines", BODY.replace("\n", "\r\n", 2).encode(), MEANT),
    HostileFile("blank lines", BODY.replace("\n", "\n\n").encode(), MEANT),
    HostileFile("a blank line first", b"\n" + BODY.encode(), MEANT),
    HostileFile("no end of the last line", BODY.rstrip("\n").encode(), MEANT),
    HostileFile("an end of file of DOS", BODY.encode() + b"\x1a", None),
    HostileFile("zero bytes", BODY.replace("Genf", "Ge\0nf").encode(), MEANT),
    HostileFile("a separator at the end of each line", BODY.replace("\n", ",\n").encode(), MEANT),
    HostileFile("a separator at the end of the rows", BODY.replace("5\n", "5,\n").encode(), None),
    HostileFile("a line too short", BODY.encode() + b"Bern\n"),
    HostileFile("a line too long", BODY.encode() + b"Bern,1,5\n"),
    HostileFile("lines of separators at the end", BODY.encode() + b",\n,\n", (*MEANT, float("nan"), float("nan"))),
    HostileFile("two columns of one name", BODY.replace("town", "x").encode()),
    HostileFile("two columns of one name but for a space", BODY.replace("town", "x ").encode()),
    HostileFile("two columns of one name but for case", BODY.replace("town", "X").encode(), MEANT),
    HostileFile("a column without a name", BODY.replace("x\n", "x,\n", 1).replace("5\n", "5,1\n").encode(), None),
    HostileFile("an index without a name", _rows(",x", "0,1.5", "1,2.5", "2,3.5", "3,7.25", "4,5.5"), MEANT),
    HostileFile("R's row names", _rows("town,x", "1,Bern,1.5", "2,Basel,2.5")),
    _plain("a space around names", BODY.replace("town,x", "town , x").encode()),
    HostileFile("a space that does not break in a name", BODY.replace("x\n", "x\u00a0\n", 1).encode(), MEANT),
    HostileFile("spaces behind separators", BODY.replace(",", ", ").encode(), MEANT),
    HostileFile("spaces before quotes", _rows("town, x", 'Bern, "1.5"', 'Basel, "2.5"'), (1.5, 2.5)),
    HostileFile("a line of units", _rows("town,x", "-,kg", "Bern,1.5", "Basel,2.5", "Genf,3.5")),
    HostileFile("a title", b"Report of 2020\n" + BODY.encode()),
    HostileFile("a title with separators", b"Report of 2020,\n" + BODY.encode()),
    HostileFile("comments", b"# exported\n" + BODY.encode()),
    HostileFile("a line of a total", BODY.encode() + b"Total,20.25\n"),
    HostileFile("a line of a sum in German", BODY.encode() + b"Summe,20.25\n"),
    HostileFile("a line of a mean", BODY.encode() + b"Mean,4.05\n"),
    HostileFile("lines of subtotals", BODY.replace("Genf", "Total\nGenf").replace("Total\n", "Total,4.0\n").encode()),
    HostileFile("a note at the end", BODY.encode() + b"Source: survey of 2020,\n", (*MEANT, float("nan"))),
    HostileFile("a total without a name", BODY.encode() + b",20.25\n", (*MEANT, 20.25)),
    HostileFile("no names", _rows("1.5,2.5", "2.5,3.5", "3.5,7.5", "4.5,1.5")),
    HostileFile("no names, texts and numbers", _rows("Bern,1.5", "Basel,2.5", "Genf,3.5", "Bern,7.25")),
    HostileFile("names that are years", _rows("2019,2020,x", "1.5,2.5,1", "2.5,1.5,2", "3.5,4.5,4"), (1, 2, 4)),
    HostileFile("a quote that does not end", BODY.replace("Genf", '"Genf').encode()),
    HostileFile("a quote inside a cell", BODY.replace("Genf", 'Ge"nf').encode(), MEANT),
    HostileFile("inches", _rows("town,x", '5" pipe,1.5', '6" pipe,2.5', '7" pipe,3.5'), (1.5, 2.5, 3.5)),
    HostileFile("apostrophes as quotes", _rows("'town','x'", "'Bern','1.5'", "'Basel','2.5'", "'Genf','3.5'")),
    _plain("everything quoted", "\n".join(
        ",".join(f'"{cell}"' for cell in line.split(",")) for line in BODY.splitlines()).encode()),
    _plain("tabs", BODY.replace(",", "\t").encode()),
    _plain("strokes", BODY.replace(",", "|").encode()),
    _plain("semicolons and decimal commas", _semicolons(BODY).encode()),
    _plain("sep=;", b"sep=;\n" + _semicolons(BODY).encode()),
    HostileFile("sep=; and commas", b"sep=;\n" + BODY.encode()),
    HostileFile("spaces", BODY.replace(",", " ").encode()),
    HostileFile("several spaces", BODY.replace(",", "   ").encode()),
    HostileFile("colons", BODY.replace(",", ":").encode()),
    HostileFile("decimal commas without quotes", BODY.replace(".", ",").encode()),
    HostileFile("names with one separator, rows with another", BODY.replace(",", ";").replace(";", ",", 1).encode()),
    HostileFile("semicolons and points", BODY.replace(",", ";").encode(), MEANT),
    HostileFile("the names once more", BODY.encode() + b"town,x\nBern,8.5\n"),
    HostileFile("empty", b""),
    HostileFile("names alone", b"town,x\n"),
    HostileFile("one row", b"town,x\nBern,1.5\n"),
    HostileFile("one column", b"x\n1.5\n2.5\n3.5\n", (1.5, 2.5, 3.5), plain=True),
    HostileFile("JSON", b'[{"town": "Bern", "x": 1.5},\n {"town": "Basel", "x": 2.5}]\n'),
    HostileFile("JSON, one object a line", b'{"town": "Bern", "x": 1.5}\n{"town": "Basel", "x": 2.5}\n'),
    HostileFile("a workbook of Excel", _archive()),
    HostileFile("an old workbook of Excel", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512)),
    HostileFile("compressed", gzip.compress(BODY.encode(), mtime=0)),
    HostileFile("a page", b"<html><table><tr><td>town</td><td>x</td></tr></table></html>\n"),
    HostileFile("a name with a line break", _rows('town,"x\n(kg)"', "Bern,1.5", "Basel,2.5")),
    HostileFile("many columns", _rows("x," + ",".join(f"c{n}" for n in range(2000)),
        *(f"{row}.5," + ",".join(["1.5", "2.5"] * 1000) for row in (1, 2, 3))), (1.5, 2.5, 3.5)),
    HostileFile("R's decimals of three digits", _rows(
        "y,x", "0.123,1.500", "0.456,2.250", "12.125,3.125"), (1.5, 2.25, 3.125)),
]  # fmt: skip
