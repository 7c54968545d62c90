"""The code blocks of README.md, CONTRIBUTING.md and docs/, as they stand, and how to run those in Python."""

import ast
import asyncio
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]

LANGUAGES = {"python": "python", "sh": "shell", "bash": "shell", "console": "shell"}
OUTPUTS = frozenset({"text", "json", "toml", "csv", "html", "ts", "{toctree}", "{code-cell}"})
COMMANDS = frozenset(
    {"alias", "ask", "curl", "docker-compose", "echo", "export", "lintra", "make", "pip", "pytest", "python"}
)
"""What a line begins with that somebody types into a terminal."""

SERVED = frozenset({"README.md", *(f"docs/reference/{name}.md" for name in ("analyzer", "client", "client-ledger"))})
"""Pages whose blocks of Python talk to servers."""

_FENCE = re.compile(r"^(?P<fence>```+)(?P<tag>\S*)[^\n]*\n(?P<text>.*?)^(?P=fence)[ \t]*$", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?:\A|\n[ \t]*\n)(?P<text>(?:(?: {4}[^\n]*)?\n)+)")

Kind = Literal["python", "shell", "other"]


@dataclass(frozen=True)
class Block:
    """One block of code: where it stands, what it is, and its text."""

    page: str
    line: int
    kind: Kind
    text: str


@cache
def pages() -> dict[str, str]:
    """Return the text of every page by its path from the root."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    # What the site makes from the code is no page that anybody wrote.
    found = [path for path in found if path.parent != ROOT / "docs/reference/made"]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in found}


def text_of(stem: str) -> str:
    """Return the text of all explanations whose names begin alike: of one page that was parted."""
    return "".join(text for page, text in pages().items() if page.startswith(f"docs/explanation/{stem}"))


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """Return the blocks of a page in order, fenced and indented ones."""
    return tuple(sorted(blocks_of(page, pages()[page]), key=lambda block: block.line))


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """Yield the blocks of a text.

    Raises:
        ValueError: a fence has a language that nobody here knows what to do with.
    """
    for match in _FENCE.finditer(text):
        tag, code = match["tag"], match["text"]
        if tag and tag not in LANGUAGES.keys() | OUTPUTS:
            raise ValueError(f"{page}: a block of {tag!r}: known are {', '.join(sorted(LANGUAGES.keys() | OUTPUTS))}")
        kind: Kind = LANGUAGES[tag] if tag in LANGUAGES else _guessed(code) if not tag else "other"  # type: ignore[assignment]
        yield Block(page, text.count("\n", 0, match.start()) + 1, kind, code)
    # Lines of a fence are blanked, so that what is indented in it is no block of its own.
    rest = _FENCE.sub(lambda match: re.sub(r"[^\n]+", "x", match[0]), text)
    for match in _INDENTED.finditer(rest):
        code = re.sub(r"^ {4}", "", match["text"], flags=re.MULTILINE).strip("\n") + "\n"
        if code.strip():
            yield Block(page, rest.count("\n", 0, match.start("text")) + 1, _guessed(code), code)


def every_block(kind: Kind) -> list[Block]:
    """Return the blocks of one kind, of all pages."""
    return [block for page in pages() for block in blocks(page) if block.kind == kind]


def commands(text: str) -> list[str]:
    """Return the commands of a shell block: lines, with those joined that a quote or a backslash holds together."""
    found: list[str] = []
    for line in text.splitlines(keepends=True):
        if found and (found[-1].endswith("\\\n") or found[-1].partition(" # ")[0].count("'") % 2):
            found[-1] += line
        elif line.strip():
            found.append(line)
    return [command.rstrip("\n") for command in found]


def run_python(sources: list[Block], names: dict[str, object]) -> list[dict[str, object]]:
    """Run blocks of Python one after the other in one namespace, with `await` where it stands.

    Returns:
        A copy of the namespace after each block.
    """
    stages = []
    for block in sources:
        # Line numbers of an error are those of the page.
        source = "\n" * block.line + block.text
        code = compile(source, block.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(code, names))
        else:
            exec(code, names)
        stages.append(dict(names))
    return stages


def _guessed(text: str) -> Kind:
    first = text.split(maxsplit=1)[0]
    return "shell" if first in COMMANDS else "python" if first in {"from", "import"} else "other"
