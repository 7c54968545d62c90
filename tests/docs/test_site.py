"""The site: every page can be reached, every link leads somewhere, and Sphinx builds all of it without a warning."""

import re
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from subprocess import run

import pytest

from support.pages import ROOT, pages

DOCS = ROOT / "docs"
MADE = "reference/made/"
_TREE = re.compile(r"^```\{toctree\}\n(?P<lines>.*?)^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?P<path>[^)\s:#]*)(?:#(?P<anchor>[^)\s]+))?\)")
_CODE = re.compile(r"^(```+).*?^\1|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_NAMED = re.compile(r"\bdocs/[\w/-]+\.md(?:#([\w-]+))?")


def children(page: Path) -> list[Path]:
    """Return the pages that the trees of a page name, in order."""
    found = []
    for tree in _TREE.finditer(page.read_text("utf-8")):
        for line in tree["lines"].splitlines():
            if line and not line.startswith(":"):
                name = f"{line}.md"
                found += sorted(page.parent.glob(name)) if "*" in line else [page.parent / name]
    return [path.resolve() for path in found]


def reached() -> set[str]:
    """Return every page that somebody finds who starts at the index, by its path in docs/."""
    seen, ahead = set(), [DOCS / "index.md"]
    while ahead:
        page = ahead.pop()
        name = page.relative_to(DOCS).as_posix()
        if name not in seen:
            seen.add(name)
            ahead += [] if name.startswith(MADE) else children(page)
    return seen


@cache
def anchors(text: str) -> set[str]:
    """Return what a link may name on a page: its headings as GitHub writes them, and marks."""
    marks = re.findall(r'<a id="([\w-]+)">', text)
    headings = re.findall(
        r"^#{1,4} (.+?)\s*$", _CODE.sub(lambda m: m[0] if "\n" not in m[0] else "", text), re.MULTILINE
    )
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    return {*marks, *plain}


def broken(page: str, text: str) -> list[str]:
    """Return the links of a page that lead nowhere: to no file, or to no heading or mark of one."""
    found = []
    for link in _LINK.finditer(_CODE.sub("", text)):
        path = ((ROOT / page).parent / link["path"]).resolve() if link["path"] else ROOT / page
        if path.is_relative_to(DOCS / MADE):
            continue
        if not path.exists() or (link["anchor"] and link["anchor"] not in anchors(path.read_text("utf-8"))):
            found.append(link[0])
    return found


def test_every_page_can_be_reached_from_the_index() -> None:
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    pages_of_the_site = {name for name in written if not name.startswith(MADE)}
    found = reached()
    assert pages_of_the_site - found == set(), "no tree names these pages"
    assert {name for name in found if not name.startswith(MADE)} - pages_of_the_site == set(), "no such page"


def test_every_local_link_leads_to_a_page_and_a_heading_of_it() -> None:
    assert {page: links for page, text in pages().items() if (links := broken(page, text))} == {}


@pytest.mark.parametrize("planted", ["[x](how-to/none.md)", "[x](index.md#none)", "[x](#none)"])
def test_a_link_that_leads_nowhere_is_found(planted: str) -> None:
    assert broken("docs/index.md", f"See {planted}.") == [planted[planted.index("]") :]]


def test_every_page_that_a_docstring_names_is_there() -> None:
    gone = set()
    for room in ("protocol", "service", "client", "server", "analyzer", "deploy", "benchmarks"):
        for path in (ROOT / room).rglob("*.py"):
            for match in _NAMED.finditer(path.read_text("utf-8")):
                page = ROOT / match[0].partition("#")[0]
                if not page.exists() or (match[1] and match[1] not in anchors(page.read_text("utf-8"))):
                    gone.add(f"{path.relative_to(ROOT)}: {match[0]}")
    assert gone == set()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("sphinx") is None, reason="needs the group docs: make .venv/.more")
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    built = run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(DOCS), str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert "joint_squared_mu" in (tmp_path / "reference/made/python-protocol.html").read_text("utf-8")
    assert "lintra trial" in (tmp_path / "reference/made/command-line.html").read_text("utf-8")


def test_every_record_has_a_number_of_its_own_and_its_line_in_the_index() -> None:
    records = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    numbers = [record.name[:4] for record in records]
    assert len(set(numbers)) == len(numbers)
    index = (ROOT / "docs" / "decisions" / "README.md").read_text("utf-8")
    for number, record in zip(numbers, records, strict=True):
        assert record.read_text("utf-8").startswith(f"# {number}: "), record.name
        assert f"[{number}]({record.name})" in index, record.name
