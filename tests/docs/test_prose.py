"""Prose wraps at 100 characters, so that a page can be read beside the code and compared line by line."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 100


def long_lines(page: str) -> Iterator[str]:
    """Yield the lines of prose that are too long; tables, code, headings and pictures cannot wrap."""
    inside = False
    for line in page.splitlines():
        text = line.lstrip()
        if text.startswith("```"):
            inside = not inside
        cannot_wrap = inside or line.startswith("    ") or text.startswith(("|", "#", "!["))
        if len(line) > WIDTH and not cannot_wrap:
            yield line


def pages() -> list[Path]:
    """Return the Markdown files of the project; what is not under version control is none of them."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False)
    return [ROOT / name for name in listed.stdout.split()] or sorted((ROOT / "docs").rglob("*.md"))


def test_prose_wraps_at_a_hundred_characters() -> None:
    found = {path.name: lines for path in pages() if (lines := list(long_lines(path.read_text("utf-8"))))}
    assert not found, f"lines of more than {WIDTH} characters: {found}"


def test_a_long_line_is_found_and_a_table_is_not_one() -> None:
    long = "word " * 30
    assert list(long_lines(f"short\n{long}\n")) == [long]
    assert not list(long_lines(f"| {long} |\n```\n{long}\n```\n# {long}\n    {long}"))
