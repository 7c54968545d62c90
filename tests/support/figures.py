"""Where the figures on the pages come from: every number with a decimal point or a unit needs a source that tests hold.

A section, from one heading to the next, has as sources

* the tables in it that a benchmark wrote, between `<!-- NAME -->` and `<!-- end NAME -->`, under the command, the date
  and the machine;
* its blocks of code, which other tests run as they stand;
* tests that it names, by file and function: numbers that stand in them;
* what a comment anywhere in it says, which readers of the page do not see:

      <!-- figures: block race wide; in tests/a.py::test_x server/b.py::LIMIT; setting .95 30; published 1.123 -->

  `block` names tables on any page, `in` a function or a constant whose literal numbers count, `setting` what somebody
  chose or what follows by counting, and `published` what a paper or a design prints. What is named and not needed is a
  fault too, so that no comment outlives its figures.

A figure may be rounded: it stands for a number of its source that rounds to it at the digits that the page shows.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import cache

from support.pages import ROOT, pages

BLOCK = re.compile(r"<!-- (?P<name>[\w.-]+) -->\n(?P<text>.*?)<!-- end (?P=name) -->\n?", re.DOTALL)
STAMP = re.compile(r"`python (?:-m )?benchmarks[/.](\w+)(?:\.py)?[^`]*`,\s+\d+\s+\w+\s+\d{4},\s+\d+\s+cores")
_MARK = re.compile(r"<!-- figures: (.*?)\s-->", re.DOTALL)
_FENCE = re.compile(r"^(?P<fence>```+)[^\n]*\n(?P<text>.*?)^(?P=fence)[ \t]*$", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?:(?<=\n\n)|\A)(?:(?: {4}[^\n]*)?\n)+")
_HEADING = re.compile(r"^#{1,6} .*$", re.MULTILINE)

_UNIT = r"(?:(?:CPU|[mun]?s|(?:micro|milli)?seconds?|minutes?|hours?|[KMGT]iB|[kMGT]B|bytes|times)\b|%)"
_FIGURE = re.compile(
    r"(?<![\w.^/#:=-])-?"
    r"(?P<number>(?:\d[\d,]*)?\.\d+(?:e[+-]?\d+)?|\d[\d,]*(?:e[+-]?\d+)?(?=[ \n]" + _UNIT + r"))"
    r"(?![\w^]|\.\d)"
)
_NAMED = re.compile(
    r"(?:arXiv|Theorems?|Lemmas?|Propositions?|Definitions?|Figures?|Tables?|Corollar(?:y|ies)|Remarks?|Algorithms?|Examples?|"
    r"[Ss]ections?|[Cc]hapters?|Equations?|equations?|[Vv]ersions?|Python|TLS|NumPy|SciPy|SQLite|PostgreSQL|BY|Debian|§)"
    r"\s+\(?\d+(?:\.\d+)*\)?(?:(?:,| and| to| or)\s+\(?\d+(?:\.\d+)*\)?)*"
)
_LITERAL = re.compile(r"(?<![\w.])(?:\d[\d,_]*)?\.?\d+(?:e[+-]?\d+)?")

BYTES_ARE_THE_SUBJECT = frozenset(f"docs/reference/protocol{part}.md" for part in ("", "-encoding", "-rules", "-http"))
"""Pages that define formats: a number of bytes there is no result."""


@dataclass(frozen=True)
class Figure:
    """A number on a page: as it stands there, and its value without the sign."""

    text: str
    value: Decimal

    def is_(self, number: Decimal) -> bool:
        """Return whether a number rounds to this one at the digits that the page shows."""
        shown = self.value.as_tuple()
        assert isinstance(shown.exponent, int)
        # A large whole number may be rounded to two digits or more.
        zeros = len(shown.digits) - len("".join(map(str, shown.digits)).rstrip("0"))
        places = shown.exponent + (min(zeros, max(len(shown.digits) - 2, 0)) if shown.exponent >= 0 else 0)
        try:
            return any(
                abs(abs(one) - self.value) <= Decimal(1).scaleb(places) / 2
                and (abs(one) / Decimal(1).scaleb(places)).quantize(Decimal(1), ROUND_HALF_UP)
                == self.value.quantize(Decimal(1).scaleb(places)) / Decimal(1).scaleb(places)
                for one in (number, number * 100)
            )
        except InvalidOperation:
            return False


@dataclass
class Section:
    """From one heading of a page to the next: its figures, and where they may come from."""

    page: str
    title: str
    line: int
    figures: list[Figure]
    own: set[Decimal]
    named: dict[str, frozenset[Decimal]] = field(default_factory=dict)

    def faults(self) -> Iterator[str]:
        """Yield what has no source, and sources that nothing here comes from."""
        where = f"{self.page}:{self.line} ({self.title})"
        for figure in self.figures:
            if not any(map(figure.is_, self.own)) and not any(map(figure.is_, set().union(*self.named.values()))):
                yield f"{where}: {figure.text} has no source"
        for name, numbers in self.named.items():
            if not any(figure.is_(number) for figure in self.figures for number in numbers):
                yield f"{where}: nothing here comes from {name}"


def sections(page: str, text: str) -> Iterator[Section]:
    """Yield the sections of a page that have figures or name a source.

    Raises:
        ValueError: a comment names a source that does not exist, or is not written as it should be.
    """
    # A written table may have a heading of its own: it belongs to the section in which it stands.
    plain = BLOCK.sub(_blank, text)
    starts = [0, *(match.start() for match in _HEADING.finditer(_FENCE.sub(_blank, plain)) if match.start())]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        part = plain[start:end]
        title = part.partition("\n")[0].lstrip("# ")
        own = {number for match in BLOCK.finditer(text, start, end) for number in numbers(match["text"])}
        for pattern in (_FENCE, _INDENTED):
            own |= {number for match in pattern.finditer(part) for number in numbers(match[0])}
            part = pattern.sub("\n", part)
        own |= set().union(*(_literals(path, name) for path, name in _tests_named(part)))
        named = {name: held for mark in _MARK.findall(part) for name, held in _sources(mark)}
        found = list(figures(_MARK.sub("", part), page))
        if found or named:
            yield Section(page, title, text.count("\n", 0, start) + 1, found, own, named)


def figures(text: str, page: str = "") -> Iterator[Figure]:
    """Yield the numbers of a text that are results: with a decimal point, or before a unit."""
    text = re.sub(r"\]\([^)]*\)|<!--(?s:.*?)-->|</?\w[^<>\n]*>|`[^`]*`|^#.*$", " x ", text, flags=re.MULTILINE)
    text = _NAMED.sub(" x ", text)
    for match in _FIGURE.finditer(text):
        if page in BYTES_ARE_THE_SUBJECT and text[match.end() :].lstrip().startswith("bytes"):
            continue
        yield Figure(match[0], Decimal(match["number"].replace(",", "")))


def numbers(text: str) -> set[Decimal]:
    """Return all numbers of a text, without signs."""
    return {Decimal(re.sub("[,_]", "", found)) for found in _LITERAL.findall(text)}


@cache
def written() -> dict[str, str]:
    """Return every table that a benchmark wrote, by its name, from all pages.

    Raises:
        ValueError: two have the same name.
    """
    found: dict[str, str] = {}
    for page, text in pages().items():
        for match in BLOCK.finditer(text):
            if match["name"] in found:
                raise ValueError(f"{page}: a second table is called {match['name']}")
            found[match["name"]] = match["text"]
    return found


def _sources(mark: str) -> Iterator[tuple[str, frozenset[Decimal]]]:
    for clause in mark.split(";"):
        kind, *names = clause.split()
        for name in names:
            if kind == "block":
                if name not in written():
                    raise ValueError(f"there is no written table {name!r}")
                yield name, frozenset(numbers(written()[name]))
            elif kind == "in":
                path, _, inner = name.partition("::")
                yield name, frozenset(_literals(path, inner))
            elif kind in ("setting", "published"):
                yield f"{kind} {name}", frozenset({Decimal(name.replace(",", ""))})
            else:
                raise ValueError(f"{kind!r} is none of block, in, setting, published")


def _tests_named(text: str) -> Iterator[tuple[str, str]]:
    """Yield file and function of each test that a section names in code, `tests/x.py: test_y` in one or two pieces."""
    code = " ".join(re.findall(r"`([^`]*)`", text))
    files = re.findall(r"tests/[\w/]+\.py", code)
    for name in re.findall(r"\btest_\w+\b(?!\.py)", code):
        for path in files:
            if name in _nodes(path):
                yield path, name


@cache
def _nodes(path: str) -> dict[str, ast.AST]:
    """Return the functions, classes and constants of a module, by name."""
    if not (ROOT / path).is_file():
        raise ValueError(f"there is no file {path}")
    found: dict[str, ast.AST] = {}
    for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                    if isinstance(one, ast.Name):
                        found.setdefault(one.id, node)
    return found


@cache
def _literals(path: str, name: str) -> frozenset[Decimal]:
    """Return the numbers that stand in a function with its parameters, or in a constant's value."""
    if name not in _nodes(path):
        raise ValueError(f"{path} has no {name}")
    constants = (one.value for one in ast.walk(_nodes(path)[name]) if isinstance(one, ast.Constant))
    held = (one for one in constants if isinstance(one, int | float) and not isinstance(one, bool))
    return frozenset(abs(Decimal(repr(one))) for one in held if abs(one) < 1e300)


def _blank(match: re.Match[str]) -> str:
    """Return as many lines and characters, without a word in them."""
    return re.sub(r"[^\n]", "x", match[0])
