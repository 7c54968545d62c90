"""Files as people and programs of many places write them, with what they mean: an attack on the reader of tables.

A column is misread in silence if the reader asks nothing, leaves nothing out, and its values are not those that were
written. `PYTHONPATH=tests python -m support.foreign_tables` prints how many there are of each family.
"""

import math
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lintra_analysis.trial.files.table import FileTable, Readings, read_table
from lintra_protocol.errors import InvalidTableError

Truth = Sequence[float] | Sequence[str]
"""Numbers with NaN where nothing was meant; or the texts that the cells are, of which no number may be made."""

NAN = math.nan


@dataclass(frozen=True)
class WrittenColumn:
    """Cells and what they mean."""

    cells: Sequence[str]
    truth: Truth
    name: str = "x"


@dataclass(frozen=True)
class Dialect:
    """How a program writes a file."""

    separator: str
    decimal: str
    encoding: str = "utf-8"
    sep_line: bool = False
    quote_all: bool = False
    newline: str = "\r\n"


GERMAN_EXCEL = Dialect(";", ",", "cp1252")
DIALECTS = {
    "German Excel": GERMAN_EXCEL,
    "German Excel with sep=": Dialect(";", ",", "cp1252", sep_line=True),
    "French Excel": Dialect(";", ",", "utf-8-sig"),
    "Swiss Excel": Dialect(";", ".", "cp1252"),
    "US Excel": Dialect(",", ".", "utf-8-sig"),
    "Excel Unicode text": Dialect("\t", ",", "utf-16"),
    "R write.csv": Dialect(",", ".", quote_all=False, newline="\n"),
    "R write.csv2": Dialect(";", ",", newline="\n"),
    "quoted by a database": Dialect(",", ".", quote_all=True, newline="\n"),
    "German web form": Dialect(",", ",", quote_all=True, newline="\n"),
    "tabs": Dialect("\t", ".", newline="\n"),
}

Family = Callable[[random.Random, Dialect], WrittenColumn]
ROWS = 40
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")


def _grouped(number: float, decimals: int, thousands: str, decimal: str) -> str:
    text = f"{number:,.{decimals}f}"
    return text.replace(",", "\0").replace(".", decimal).replace("\0", thousands)


def _indian(number: int) -> str:
    text = str(number)
    head, tail = text[:-3], text[-3:]
    groups = []
    while head:
        groups.insert(0, head[-2:])
        head = head[:-2]
    return ",".join([*groups, tail])


def _numbers(write: Callable[[random.Random, Dialect, float], str], low: float, high: float, digits: int = 2) -> Family:
    def family(draw: random.Random, dialect: Dialect) -> WrittenColumn:
        numbers = [round(draw.uniform(low, high), digits) for _ in range(ROWS)]
        return WrittenColumn([write(draw, dialect, number) for number in numbers], numbers)

    return family


def _codes(write: Callable[[random.Random], str], name: str = "x") -> Family:
    def family(draw: random.Random, _: Dialect) -> WrittenColumn:
        cells = [write(draw) for _ in range(ROWS)]
        return WrittenColumn(cells, cells, name)

    return family


def _plain(dialect: Dialect, number: float, digits: int) -> str:
    return f"{number:.{digits}f}".replace(".", dialect.decimal)


def _with_missing(code: str, share: float = 0.15) -> Family:
    def family(draw: random.Random, dialect: Dialect) -> WrittenColumn:
        numbers = [NAN if draw.random() < share else float(draw.randint(18, 80)) for _ in range(ROWS)]
        return WrittenColumn([code if math.isnan(each) else f"{each:.0f}" for each in numbers], numbers)

    return family


def _scale_with_code(code: float) -> Family:
    def family(draw: random.Random, _: Dialect) -> WrittenColumn:
        numbers = [NAN if draw.random() < 0.15 else float(draw.randint(1, 5)) for _ in range(ROWS)]
        return WrittenColumn([f"{code if math.isnan(each) else each:.0f}" for each in numbers], numbers)

    return family


def _days(year: int, month: int, day: int) -> float:
    from datetime import date

    return float(date(year, month, day).toordinal() - date(1970, 1, 1).toordinal())


def _dates(write: Callable[[int, int, int], str], low: int = 1990, high: int = 2023, last: int = 28) -> Family:
    def family(draw: random.Random, _: Dialect) -> WrittenColumn:
        days = [(draw.randint(low, high), draw.randint(1, 12), draw.randint(1, last)) for _ in range(ROWS)]
        return WrittenColumn([write(*each) for each in days], [_days(*each) for each in days])

    return family


def _marks_of_two_persons(draw: random.Random, _: Dialect) -> WrittenColumn:
    numbers = [round(draw.uniform(1, 90), 1) for _ in range(ROWS)]
    return WrittenColumn(
        [f"{each:.1f}".replace(".", "," if place % 2 else ".") for place, each in enumerate(numbers)], numbers
    )


def _kilograms_and_pounds(draw: random.Random, _: Dialect) -> WrittenColumn:
    numbers = [float(draw.randint(50, 100)) for _ in range(ROWS)]
    cells = [f"{each:.0f} kg" if place % 2 else f"{each / 0.45359237:.0f} lb" for place, each in enumerate(numbers)]
    return WrittenColumn(cells, numbers)


def _percent_in_some(draw: random.Random, _: Dialect) -> WrittenColumn:
    numbers = [float(draw.randint(1, 99)) for _ in range(ROWS)]
    cells = [f"{each:.0f}%" if place % 2 else f"{each / 100:.2f}" for place, each in enumerate(numbers)]
    return WrittenColumn(cells, numbers)


def _checkbox(mark: str) -> Family:
    def family(draw: random.Random, _: Dialect) -> WrittenColumn:
        numbers = [float(draw.random() < 0.4) for _ in range(ROWS)]
        return WrittenColumn([mark if each else "" for each in numbers], numbers)

    return family


def _words(yes: str, no: str) -> Family:
    def family(draw: random.Random, _: Dialect) -> WrittenColumn:
        numbers = [float(draw.random() < 0.5) for _ in range(ROWS)]
        return WrittenColumn([yes if each else no for each in numbers], numbers)

    return family


def _same_word_twice(draw: random.Random, _: Dialect) -> WrittenColumn:
    cells = [draw.choice(["yes", "ja"]) for _ in range(ROWS)]
    return WrittenColumn(cells, cells)


def _codes_for_days(draw: random.Random, code: str) -> WrittenColumn:
    column = _dates(lambda y, m, d: f"{y}-{m:02}-{d:02}")(draw, GERMAN_EXCEL)
    gone = [draw.random() < 0.2 for _ in column.cells]
    cells = [code if each else cell for each, cell in zip(gone, column.cells, strict=True)]
    return WrittenColumn(cells, [NAN if each else float(day) for each, day in zip(gone, column.truth, strict=True)])


def _severity(draw: random.Random, _: Dialect) -> WrittenColumn:
    cells = [draw.choice(["none", "mild", "severe"]) for _ in range(ROWS)]
    return WrittenColumn(cells, cells)


def _countries(draw: random.Random, _: Dialect) -> WrittenColumn:
    cells = [draw.choice(["DE", "FR", "NA", "CH"]) for _ in range(ROWS)]
    return WrittenColumn(cells, cells)


def _digits(count: int) -> Callable[[random.Random], str]:
    return lambda draw: str(draw.randint(10 ** (count - 1), 10**count - 1))


def _hexadecimal(letter: str) -> Callable[[random.Random], str]:
    return lambda draw: f"{draw.randint(1, 7)}{draw.randint(1, 7)}{draw.choice([letter, '4', '5'])}{draw.randint(1, 4)}"


def _groups(draw: random.Random, *lengths: int, mark: str) -> str:
    return mark.join(str(draw.randint(10 ** (length - 1), 10**length - 1)) for length in lengths)


def _iban(draw: random.Random) -> str:
    return f"DE{draw.randint(10, 99)} " + " ".join(f"{draw.randint(0, 9999):04}" for _ in range(4)) + " 00"


FAMILIES: dict[str, Family] = {
    "thousands of the dialect": _numbers(
        lambda _, d, x: _grouped(x, 2, "." if d.decimal == "," else ",", d.decimal), 1, 90_000
    ),
    "whole thousands of the dialect": _numbers(
        lambda _, d, x: _grouped(x, 0, "." if d.decimal == "," else ",", d.decimal), 10_000, 90_000, 0
    ),
    "plain numbers of the dialect": _numbers(lambda _, d, x: _plain(d, x, 2), -50, 50),
    "three decimals above one": _numbers(lambda _, d, x: _plain(d, x, 3), 1.5, 9.5, 3),
    "French thousands": _numbers(lambda _, d, x: _grouped(x, 1, "\u202f", ","), 1000, 90_000, 1),
    "NBSP thousands": _numbers(lambda _, d, x: _grouped(x, 0, "\u00a0", d.decimal), 1000, 90_000, 0),
    "thin space thousands": _numbers(lambda _, d, x: _grouped(x, 0, "\u2009", d.decimal), 1000, 90_000, 0),
    "Swiss thousands": _numbers(lambda _, d, x: _grouped(x, 2, "'", "."), 100, 90_000),
    "Swiss typographic thousands": _numbers(lambda _, d, x: _grouped(x, 2, "\u2019", "."), 100, 90_000),
    "Indian thousands": _numbers(lambda _, d, x: _indian(round(x)), 100_000, 9_000_000, 0),
    "Swiss francs": _numbers(lambda _, d, x: "CHF " + _grouped(x, 2, "'", "."), 100, 90_000),
    "euros behind": _numbers(lambda _, d, x: _grouped(x, 2, ".", ",") + " \u20ac", 1, 9000),
    "dollars before": _numbers(lambda _, d, x: "$" + _grouped(x, 2, ",", "."), 1, 9000),
    "percent": _numbers(lambda _, d, x: _plain(d, x, 1) + " %", 1, 99, 1),
    "kilograms": _numbers(lambda _, d, x: _plain(d, x, 1) + "\u00a0kg", 40, 99, 1),
    "accountants' losses": _numbers(
        lambda _, d, x: f"({_plain(d, -x, 2)})" if x < 0 else _plain(d, x, 2), -50, 50
    ),
    "losses without decimals": _numbers(lambda _, d, x: f"({-x:.0f})" if x < 0 else f"{x:.0f}", -50, 50, 0),
    "minus sign U+2212": _numbers(lambda _, d, x: _plain(d, x, 2).replace("-", "\u2212"), -50, 50),
    "en dash as minus": _numbers(lambda _, d, x: _plain(d, x, 2).replace("-", "\u2013"), -50, 50),
    "leading plus": _numbers(lambda _, d, x: f"{x:+.2f}".replace(".", d.decimal), -50, 50),
    "trailing minus of SAP": _numbers(
        lambda _, d, x: _plain(d, abs(x), 2) + ("-" if x < 0 else ""), -50, 50
    ),
    "scientific, as Excel": _numbers(lambda _, d, x: f"{x:.4E}".replace(".", d.decimal), 1000, 90_000, 0),
    "scientific, as R": _numbers(lambda _, d, x: f"{round(x, -4):.0e}", 10_000, 90_000, -4),
    "no zero before the point (SPSS)": _numbers(
        lambda _, d, x: _plain(d, x, 2).replace("0" + d.decimal, d.decimal), -0.99, 0.99
    ),
    "marks of two persons": _marks_of_two_persons,
    "kilograms and pounds": _kilograms_and_pounds,
    "percent in some": _percent_in_some,
    "missing as NA": _with_missing("NA"),
    "missing as a point (Stata, SAS)": _with_missing("."),
    "missing as #NULL! (SPSS)": _with_missing("#NULL!"),
    "missing as -99": _with_missing("-99"),
    "missing as 999": _with_missing("999"),
    "missing as 9999": _with_missing("9999"),
    "missing as -99.0": _with_missing("-99.0"),
    "a scale with 9 for no answer": _scale_with_code(99),
    "ISO dates": _dates(lambda y, m, d: f"{y}-{m:02}-{d:02}"),
    "ISO dates at midnight": _dates(lambda y, m, d: f"{y}-{m:02}-{d:02}T00:00:00"),
    "ISO dates with a zone": _dates(lambda y, m, d: f"{y}-{m:02}-{d:02}T23:30:00+02:00"),
    "ISO dates with Z": _dates(lambda y, m, d: f"{y}-{m:02}-{d:02}T00:00:00Z"),
    "German dates": _dates(lambda y, m, d: f"{d:02}.{m:02}.{y}"),
    "German dates of two digits": _dates(lambda y, m, d: f"{d:02}.{m:02}.{y % 100:02}"),
    "US dates": _dates(lambda y, m, d: f"{m}/{d}/{y}"),
    "US dates before the thirteenth": _dates(lambda y, m, d: f"{m}/{d}/{y}", last=12),
    "British dates": _dates(lambda y, m, d: f"{d:02}/{m:02}/{y}"),
    "SPSS dates": _dates(
        lambda y, m, d: f"{d:02}-{MONTHS[m - 1]}-{y}"
    ),
    "compact dates": _dates(lambda y, m, d: f"{y}{m:02}{d:02}"),
    "yes and no": _words("yes", "no"),
    "ja and nein": _words("Ja", "Nein"),
    "TRUE and FALSE": _words("TRUE", "FALSE"),
    "WAHR and FALSCH": _words("WAHR", "FALSCH"),
    "only yes": _checkbox("yes"),
    "only 1": _checkbox("1"),
    "yes in two languages": _same_word_twice,
    "none is a level": _severity,
    "NA is Namibia": _countries,
    "hex-like codes": _codes(lambda draw: f"{draw.randint(1, 9)}E{draw.randint(1, 9)}"),
    "hex codes of digits and E": _codes(_hexadecimal("E")),
    "lower hex codes": _codes(_hexadecimal("e")),
    "IBAN": _codes(_iban),
    "phone numbers with +": _codes(lambda draw: f"+4179{draw.randint(1_000_000, 9_999_999)}"),
    "phone numbers with 00": _codes(lambda draw: f"004179{draw.randint(1_000_000, 9_999_999)}"),
    "phone numbers of Spain": _codes(lambda draw: "6" + _groups(draw, 2, 3, 3, mark=" ")),
    "phone numbers of the US": _codes(_digits(10)),
    "phone numbers of Switzerland": _codes(lambda draw: "079 " + _groups(draw, 3, 2, 2, mark=" ")),
    "ISBN": _codes(_digits(13)),
    "postcodes with zeros": _codes(lambda draw: f"{draw.randint(1000, 99_999):05}"),
    "AHV numbers": _codes(lambda draw: "756." + _groups(draw, 4, 4, 2, mark=".")),
    "IP addresses of three digits": _codes(lambda draw: f"192.168.100.{draw.randint(100, 254)}"),
    "times of day": _codes(lambda draw: f"{draw.randint(0, 23):02}:{draw.randint(0, 59):02}"),
    "feet and inches": _codes(lambda draw: f"{draw.randint(4, 6)}'{draw.randint(0, 11)}"),
    "months of years": _codes(lambda draw: f"{draw.randint(1, 12):02}.{draw.randint(1990, 2023)}"),
    "years of months": _codes(lambda draw: f"{draw.randint(1990, 2023)}.{draw.randint(1, 12):02}"),
    "compact months": _codes(lambda draw: f"{draw.randint(1990, 2023)}{draw.randint(1, 12):02}"),
    "days of months": _codes(lambda draw: f"{draw.randint(1, 28)}.{draw.randint(1, 12)}."),
    "hours with AM and PM": _codes(lambda draw: f"{draw.randint(1, 12)} {draw.choice(['AM', 'PM'])}"),
    "ranges": _codes(lambda draw: draw.choice(["18-25", "26-40", "41-65", "66-99"])),
    "versions": _codes(lambda draw: f"{draw.randint(1, 3)}.{draw.randint(0, 9)}.{draw.randint(0, 9)}"),
}  # fmt: skip
"""What the first attack writes; its list was made before any of it was tried."""


MORE_FAMILIES: dict[str, Family] = {
    "reais": _numbers(lambda _, d, x: "R$ " + _grouped(x, 2, ".", ","), 10, 9000),
    "dollars in parentheses": _numbers(lambda _, d, x: f"(${-x:.2f})" if x < 0 else f"${x:.2f}", -90, 90),
    "negative percent": _numbers(lambda _, d, x: _plain(d, x, 1) + "%", -9, 9, 1),
    "millions and thousands of German": _numbers(lambda _, d, x: _grouped(x, 0, ".", ","), 900, 9_000_000, 0),
    "scientific with a comma": _numbers(lambda _, d, x: f"{x:.3E}".replace(".", ","), 1000, 9000, 0),
    "spaces around": _numbers(lambda _, d, x: f"  {_plain(d, x, 2)} ", 1, 90),
    "Arabic digits": _numbers(
        lambda _, d, x: f"{x:.0f}".translate(str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")), 1, 90, 0
    ),
    "Arabic digits and mark": _numbers(
        lambda _, d, x: f"{x:.1f}".translate(str.maketrans("0123456789.", "٠١٢٣٤٥٦٧٨٩٫")), 1, 90, 1
    ),
    "full-width digits": _numbers(
        lambda _, d, x: f"{x:.1f}".translate({ord(str(n)): 0xFF10 + n for n in range(10)} | {46: 0xFF0E}), 1, 90, 1
    ),
    "credit and debit": _numbers(lambda _, d, x: f"{abs(x):.2f} {'DR' if x < 0 else 'CR'}", -90, 90),
    "only credit": _numbers(lambda _, d, x: f"{x:.2f} CR", 1, 90),
    "euros and dollars": _numbers(lambda draw, d, x: draw.choice(["€", "$"]) + f"{x:.2f}", 1, 90),
    "Celsius and Fahrenheit": _numbers(
        lambda draw, d, x: f"{x:.1f} °C" if draw.random() < 0.5 else f"{x * 1.8 + 32:.1f} °F", 35, 41, 1
    ),
    "minutes and hours": _numbers(
        lambda draw, d, x: f"{x:.0f} min" if draw.random() < 0.5 else f"{x / 60:.2f} h", 10, 300, 0
    ),
    "hours and minutes": _numbers(lambda _, d, x: f"{int(x) // 60}:{int(x) % 60:02}", 10, 300, 0),
    "below detection": _numbers(lambda draw, d, x: "<0.1" if x < 0.3 else f"{x:.2f}", 0.1, 2),
    "about": _numbers(lambda draw, d, x: f"~{x:.0f}", 1, 90, 0),
    "footnotes": _numbers(lambda draw, d, x: f"{x:.0f}" + draw.choice(["", "", "*"]), 1, 90, 0),
    "numbers and lower thousands": _numbers(lambda _, d, x: f"{x / 1000:.1f}k", 1000, 90_000, -2),
    "missing as NULL": _with_missing("NULL"),
    "missing as (null)": _with_missing("(null)"),
    "missing as \\N": _with_missing("\\N"),
    "missing as <NA>": _with_missing("<NA>"),
    "missing as None": _with_missing("None"),
    "missing as n.a.": _with_missing("n.a."),
    "missing as keine Angabe": _with_missing("keine Angabe"),
    "missing as --": _with_missing("--"),
    "missing as 0999": _with_missing("0999"),
    "missing as 99999": _with_missing("99999"),
    "missing as -1": _with_missing("-1"),
    "missing as -88": _with_missing("-88"),
    "missing as 997": _with_missing("997"),
    "missing as 888 in few rows": _with_missing("888", 0.05),
    "missing as 1900-01-01": lambda draw, d: _codes_for_days(draw, "1900-01-01"),
    "missing as 9999-12-31": lambda draw, d: _codes_for_days(draw, "9999-12-31"),
    "missing as 0000-00-00": lambda draw, d: _codes_for_days(draw, "0000-00-00"),
    "a scale with 7 for no answer": _scale_with_code(7),
    "a scale with 0 for no answer": _scale_with_code(0),
    "a scale with 9": _scale_with_code(9),
    "days and months without zeros": _dates(lambda y, m, d: f"{y}-{m}-{d}"),
    "German midnight": _dates(lambda y, m, d: f"{d}.{m}.{y} 00:00"),
    "American midnight": _dates(lambda y, m, d: f"{m}/{d}/{y} 12:00:00 AM"),
    "PostgreSQL dates": _dates(lambda y, m, d: f"{y}-{m:02}-{d:02} 00:00:00+01"),
    "English dates": _dates(lambda y, m, d: f"{d} {MONTHS[m - 1].title()} {y}"),
    "American dates in words": _dates(lambda y, m, d: f"{MONTHS[m - 1].title()} {d}, {y}"),
    "dates of two forms": _dates(lambda y, m, d: f"{d:02}.{m:02}.{y}" if d % 2 else f"{y}-{m:02}-{d:02}"),
    "dates of two persons": _dates(lambda y, m, d: f"{d}/{m}/{y}" if d % 2 else f"{m}/{d}/{y}"),
    "US dates of two digits": _dates(lambda y, m, d: f"{m}/{d}/{y % 100:02}"),
    "ISO days of the year": _codes(lambda draw: f"{draw.randint(1990, 2023)}{draw.randint(1, 365):03}"),
    "DDMMYYYY": _codes(lambda draw: f"{draw.randint(10, 28)}{draw.randint(10, 12)}{draw.randint(1990, 2023)}"),
    "yymmdd": _codes(lambda draw: f"{draw.randint(10, 99)}{draw.randint(1, 12):02}{draw.randint(1, 28):02}"),
    "quarters": _codes(lambda draw: f"{draw.randint(1990, 2023)}Q{draw.randint(1, 4)}"),
    "ISO weeks": _codes(lambda draw: f"{draw.randint(1990, 2023)}-W{draw.randint(1, 52):02}"),
    "years and months": _codes(lambda draw: f"{draw.randint(1990, 2023)}-{draw.randint(1, 12):02}"),
    "times without a mark": _codes(lambda draw: f"{draw.randint(0, 23):02}{draw.randint(0, 59):02}"),
    "y and n": _words("y", "n"),
    "t and f": _words("t", "f"),
    "an x": _checkbox("x"),
    "only true": _checkbox("TRUE"),
    "ja and no": _words("ja", "no"),
    "yes, no and unknown": _codes(lambda draw: draw.choice(["yes", "no", "unknown"])),
    "yes, no and a stroke": _codes(lambda draw: draw.choice(["yes", "no", "-"])),
    "blood pressure": _codes(lambda draw: f"{draw.randint(90, 180)}/{draw.randint(60, 99)}"),
    "fractions": _codes(lambda draw: draw.choice(["1/2", "1/4", "3/4", "2/3"])),
    "results of matches": _codes(lambda draw: f"{draw.randint(0, 5)}:{draw.randint(0, 5)}"),
    "choices of several": _codes(lambda draw: draw.choice(["1", "2", "1,2", "1,2,3", "2,3", "3"])),
    "choices of two": _codes(lambda draw: draw.choice(["1", "2", "1,2", "2,3", "1,3"])),
    "choices with semicolons": _codes(lambda draw: draw.choice(["1", "2", "1;2", "2;3"])),
    "hexadecimal with 0x": _codes(lambda draw: f"0x{draw.randint(16, 255):X}"),
    "colours": _codes(lambda draw: f"#{draw.randint(100000, 999999)}"),
    "cards": _codes(lambda draw: _groups(draw, 4, 4, 4, 4, mark=" ")),
    "social security": _codes(lambda draw: _groups(draw, 3, 2, 4, mark="-")),
    "ZIP+4": _codes(lambda draw: _groups(draw, 5, 4, mark="-")),
    "plates": _codes(lambda draw: f"ZH {draw.randint(1000, 99_999)}"),
    "diagnoses": _codes(lambda draw: draw.choice(["E11", "I10", "C50.9", "J45"])),
    "diagnoses of ICD-11": _codes(lambda draw: draw.choice(["5A10", "2E60", "8E4A", "1E30"])),
    "latitudes": _codes(lambda draw: f"{draw.randint(40, 50)}°{draw.randint(0, 59)}'{draw.randint(0, 59)}\"N"),
    "telephone with a stroke": _codes(lambda draw: "044/" + _groups(draw, 3, 2, 2, mark=" ")),
    "telephone of the US in parentheses": _codes(lambda draw: f"({draw.randint(200, 999)}) 555-0100"),
    "Excel texts": _codes(lambda draw: f'="{draw.randint(100, 999):05}"'),
    "apostrophes": _codes(lambda draw: f"'{draw.randint(100, 999):05}"),
    "ordinals": _codes(lambda draw: draw.choice(["1st", "2nd", "3rd", "4th"])),
    "Roman numerals": _codes(lambda draw: draw.choice(["I", "II", "III", "IV"])),
    "classes of school": _codes(lambda draw: draw.choice(["1a", "1b", "2a", "2b"])),
    "underscores": _codes(lambda draw: f"{draw.randint(1, 9)}_000"),
    "case of levels": _codes(lambda draw: draw.choice(["male", "Male", "female"])),
    "order numbers": lambda draw, d: WrittenColumn(
        cells := [str(draw.randint(10_000, 99_999)) for _ in range(ROWS)], cells, "Bestell-Nr."
    ),
    "customer numbers": lambda draw, d: WrittenColumn(
        cells := [str(draw.randint(10_000, 99_999)) for _ in range(ROWS)], cells, "CustomerNumber"
    ),
    "postal codes by name": lambda draw, d: WrittenColumn(
        cells := [str(draw.randint(1000, 9999)) for _ in range(ROWS)], cells, "postalcode"
    ),
}
"""What a second attack writes; its list was made after the first one found nothing, and before it was tried."""


def file_of(column: WrittenColumn, dialect: Dialect, draw: random.Random) -> bytes:
    """Return a file with a column of towns, one of sizes in the dialect, and the column."""
    rows = [["town", "size", column.name]]
    for cell in column.cells:
        size = f"{draw.uniform(0, 3):.2f}".replace(".", dialect.decimal)
        rows.append([draw.choice(["Z\u00fcrich", "Bern", "Genf"]), size, cell])
    mark = dialect.separator
    lines = [
        mark.join('"' + c.replace('"', '""') + '"' if dialect.quote_all or mark in c or '"' in c else c for c in row)
        for row in rows
    ]
    if dialect.sep_line:
        lines.insert(0, f"sep={mark}")
    return (dialect.newline.join(lines) + dialect.newline).encode(dialect.encoding)


@dataclass(frozen=True)
class Attack:
    """What became of one column: how it is misread in silence, or what was asked; both empty if it is read."""

    family: str
    dialect: str
    misread: str = ""
    asked: str = ""


def _read(column: WrittenColumn, file: Path) -> tuple[str, str]:
    try:
        table = read_table(file, Readings(guess=True))
    except InvalidTableError as error:
        return "", error.detail
    reports = [each for each in table.reports if each.name == column.name]
    if not reports:
        return "the column is not there", ""
    if asked := reports[0].question or (reports[0].why if reports[0].kind == "left out" else ""):
        return "", asked
    return _difference(column.truth, table, column.name), ""


def _difference(truth: Truth, table: FileTable, name: str) -> str:
    column = table.column(name)
    if isinstance(truth[0], str):
        if column.kind != "category":
            return f"texts became {column.kind}"
        read = [column.levels[int(number)] for number in column.values]
        kept = sum(one == other for one, other in zip(read, truth, strict=True))
        return "" if kept >= 0.8 * len(truth) else "levels became others"
    if column.kind == "category":
        values = len({level for level in column.levels if level != "(other)"})
        return "" if set(truth) <= {0.0, 1.0} and values <= 2 else "numbers became a category"
    if column.values.shape != (len(truth),):
        return "rows are gone"
    same = np.isclose(column.values, np.array(truth), rtol=1e-9, atol=1e-9, equal_nan=True)
    if same.all():
        return ""
    place = int(np.argmin(same))
    return f"{column.values[place]!r} in place of {truth[place]!r}"


def attack(families: dict[str, Family], seed: int) -> Iterator[Attack]:
    """Yield what becomes of a column of each family in each dialect that can write it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.csv"
        for name, family in families.items():
            for dialect_name, dialect in DIALECTS.items():
                draw = random.Random(f"{seed} {name} {dialect_name}")
                column = family(draw, dialect)
                try:
                    file.write_bytes(file_of(column, dialect, draw))
                except UnicodeEncodeError:  # the encoding has no such character
                    continue
                yield Attack(name, dialect_name, *_read(column, file))


def main() -> None:
    """Print how many columns are misread in silence, and asked about or left out, by family."""
    found: dict[str, list[Attack]] = {}
    for seed in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
        for each in attack(FAMILIES | MORE_FAMILIES, seed):
            found.setdefault(each.family, []).append(each)
    for name, tries in found.items():
        misread, asked = [each for each in tries if each.misread], [each for each in tries if each.asked]
        example = f"{misread[0].misread} ({misread[0].dialect})" if misread else asked[0].asked if asked else ""
        sys.stdout.write(f"{len(misread):4} misread, {len(asked):4} asked of {len(tries):4}  {name}: {example}\n")
    everything = [each for tries in found.values() for each in tries]
    sys.stdout.write(
        f"{sum(bool(each.misread) for each in everything)} of {len(everything)} columns are misread in silence\n"
    )


if __name__ == "__main__":
    main()
