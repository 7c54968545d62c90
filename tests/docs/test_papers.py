"""Pages point at files that are there; those of papers and errata also at functions, tests and vectors there."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXPLANATION = ROOT / "docs/explanation"
PAGES = {
    path.relative_to(EXPLANATION).as_posix(): path.read_text("utf-8")
    for subject in ("papers", "errata")
    for path in (EXPLANATION / f"{subject}.md", *sorted((EXPLANATION / subject).glob("*.md")))
}
NAMED = re.compile(r"`((?:[\w.]+/)*[\w.]+\.(?:py|json|npz))(?::\s*([\w., `]+?))?`")
FOLDERS_NAMED = re.compile(r"`((?:[\w.]+/)+)`")
THEN_NAMED = re.compile(r"`((?:[\w.]+/)*[\w.]+\.py)`:\s+`(\w+)`")
TESTS_NAMED = re.compile(r"`(test_\w+)`")
LINKED = re.compile(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)")
FOLDERS = ("protocol", "service", "client", "server", "analyzer", "tests", "benchmarks", "deploy")


@cache
def files() -> tuple[str, ...]:
    """Return the path of every source, vector and data file."""
    found = [path for folder in FOLDERS for end in ("py", "json", "npz") for path in (ROOT / folder).rglob(f"*.{end}")]
    return tuple(path.relative_to(ROOT).as_posix() for path in found)


def pattern_of(name: str) -> str:
    """Return the regular expression of a name's paths; `...` stands for some folders."""
    return r"(?:.*/)?" + re.escape(name).replace(r"\.\.\.", "[^.]+")


def pointed_at(name: str) -> list[str]:
    """Return the paths that a name means."""
    pattern = re.compile(pattern_of(name) + "$")
    return [path for path in files() if pattern.match(path)]


@cache
def defined(path: str) -> frozenset[str]:
    """Return what a Python file defines: functions, classes, names at the top, and members as `Class.member`."""
    found: set[str] = set()

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                collect(node.body, f"{prefix}{node.name}.")
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            found.update(prefix + each.id for each in targets if isinstance(each, ast.Name))

    collect(ast.parse((ROOT / path).read_text("utf-8")).body, "")
    return frozenset(found)


@cache
def definitions_of_tests() -> dict[str, str]:
    """Return where each test function seems to be defined, by the text of the files; `defined` then looks closer."""
    found = {}
    for path in files():
        if re.match(r"tests/.*/test_\w+\.py$", path):
            found |= dict.fromkeys(re.findall(r"def (test_\w+)\(", (ROOT / path).read_text("utf-8")), path)
    return found


def is_a_test(name: str) -> bool:
    """Say whether some test file defines a function of this name."""
    path = definitions_of_tests().get(name)
    return path is not None and name in defined(path)


def missing(page: str, folder: Path = EXPLANATION) -> list[str]:
    """Return what a page in a folder names and is not there: files, folders, tests, pages, names in a file."""
    gone = []
    for name, inside in NAMED.findall(page) + THEN_NAMED.findall(page):
        paths = pointed_at(name)
        gone += [] if paths else [name]
        words = re.findall(r"[\w.]+", inside)
        gone += [f"{name}: {word}" for word in words if not any(word in defined(path) for path in paths)]
    folders = [
        name for name in FOLDERS_NAMED.findall(page) if not any(map(re.compile(pattern_of(name)).match, files()))
    ]
    tests = [name for name in TESTS_NAMED.findall(page) if not is_a_test(name)]
    linked = [name for name in LINKED.findall(page) if not (folder / name).is_file()]
    return gone + folders + tests + linked


@pytest.mark.parametrize("name", PAGES)
def test_everything_that_a_page_names_is_there(name: str) -> None:
    assert len(NAMED.findall(PAGES[name])) >= 2
    assert missing(PAGES[name], (EXPLANATION / name).parent) == []


def test_every_file_that_a_page_names_by_its_path_is_there() -> None:
    pages = [ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    named = {name for page in pages for name, _ in NAMED.findall(page.read_text("utf-8")) if "/" in name}
    outside = {name for name in named if name.startswith("docs/")}
    assert [name for name in sorted(named - outside) if not pointed_at(name)] == []


@pytest.mark.parametrize(
    "planted",
    [
        "`mechanisms/osmap.py`",
        "`unit/.../test_ideals.py`",
        "`noise/joint_noise.py: joint_nu`",
        "`ndis/gaussian_pair.py: GaussianPair.composed`",
        "`tests/papers/test_errata_spectrum.py`: `test_the_fit_agrees`",
        "`test_that_nobody_wrote`",
        "`unit/.../verifications/`",
        "[page](errors.md)",
    ],
)
def test_a_planted_name_that_is_not_there_is_reported(planted: str) -> None:
    assert missing(planted)
    fine = (
        "`mechanisms/osnap.py`, `unit/.../test_ideal.py`, `noise/joint_noise.py: joint_squared_mu`, [page](errata.md)"
    )
    assert not missing(fine + ", `ndis/gaussian_pair.py: GaussianPair.compose`, `unit/.../verification/`")


def test_every_erratum_says_what_is_stated_or_found_and_names_a_counterexample() -> None:
    of_papers = [page for name, page in PAGES.items() if name.startswith("errata/")]
    entries = [entry for page in of_papers for entry in re.split(r"^## ", page, flags=re.MULTILINE)[1:]]
    assert PAGES["errata.md"].partition("## Withdrawn")[2].count("\n* **") >= 3
    assert len(entries) >= 30
    silent = [entry.splitlines()[0] for entry in entries if "**Counterexample**" not in entry]
    unshown = [entry.splitlines()[0] for entry in entries if "tests/" not in entry and "benchmarks/" not in entry]
    assert silent == unshown == []
    for word in ("Perhaps meant", "Follows", "Weight"):
        assert [entry.splitlines()[0] for entry in entries if f"**{word}**" not in entry] == []
    assert [entry for entry in entries if not re.search(r"\*\*Weight\*\*: (small|moderate|serious)", entry)] == []


LINES = "\n".join(page for name, page in PAGES.items() if name.startswith("papers/"))
STATUSES = ("built", "reproduced", "disproved", "not built")
TEXTS = ROOT.parent / "shared/papers"
WORDS = "Question|Definition|Fact|Remark|Claim|Lemma|Proposition|Theorem|Corollary|Algorithm|Figure|Table"
PAPERS = tomllib.loads((ROOT / "tests/papers/items.toml").read_text("utf-8"))["paper"]

every_paper = pytest.mark.parametrize("paper", PAPERS, ids=[paper["text"][:3] for paper in PAPERS])


def items_of(paper: dict[str, Any]) -> list[str]:
    """Return the numbered items that a paper is listed with, such as "Lemma 4.1"."""
    return [f"{word} {number}" for word, numbers in paper["items"].items() for number in numbers.split()]


def lines_of(paper: dict[str, Any], page: str) -> list[list[str]]:
    """Return the cells of each line of a paper's tables among the pages."""
    sections = re.split(r"^#{1,2} ", page, flags=re.MULTILINE)
    (section,) = (each for each in sections if each.startswith(paper["section"]))
    lines = [line for line in section.splitlines() if re.match(r"\| (?!item |---)", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def faults_of(paper: dict[str, Any], page: str) -> list[str]:
    """Return which items have no line of their own, or one that does not say what its status needs."""
    lines, faults = lines_of(paper, page), []
    for item in items_of(paper):
        own = [line for line in lines if re.match(re.escape(item) + r"(?![\w.])", line[0])]
        faults += [f"{item}: {len(own)} lines"] * (len(own) != 1)
    for item, status, here, test, _ in lines:
        faults += [f"{item}: status {status!r}"] * (status not in STATUSES)
        faults += [f"{item}: nothing is said"] * (not here)
        tested = NAMED.search(test) or TESTS_NAMED.search(test) or FOLDERS_NAMED.search(test)
        faults += [f"{item}: {status} without a test"] * (status != "not built" and not tested)
    return faults


@every_paper
def test_every_numbered_item_of_a_paper_has_a_line_that_says_where_it_is_and_what_tests_it(paper: Any) -> None:
    assert faults_of(paper, LINES) == []


def test_a_line_that_is_missing_or_doubled_or_without_a_test_or_status_is_found() -> None:
    paper, page = PAPERS[0], LINES
    (line,) = (one for one in page.splitlines() if one.startswith("| Corollary 3.5 "))
    cells = line.split("|")
    untested, unknown = (
        "|".join([*cells[:place], word, *cells[place + 1 :]]) for place, word in ((4, " "), (2, " no "))
    )
    for changed in ("", f"{line}\n{line}", untested, unknown):
        (fault,) = faults_of(paper, page.replace(line, changed))
        assert fault.startswith("Corollary 3.5: ")


@every_paper
def test_the_list_of_items_is_what_the_text_numbers(paper: Any) -> None:
    if not TEXTS.is_dir():
        pytest.skip("the texts of the papers are not ours to ship; the test needs them in ../shared/papers")
    text = (TEXTS / paper["text"]).read_text("utf-8")
    text = re.sub(r"\b(Def|Fig|Alg)\.[ ~\u02dc]", lambda short: f"{SPELLED[short[1]]} ", text)
    found = set(re.findall(rf"\b(?:{WORDS})[ \u02dc](?:[A-Z]\.)?(?:\d+|[IVX]+\b)(?:\.\d+)*", text))
    found = {re.sub("\u02dc", " ", item) for item in found}
    assert found - set(paper["foreign"]) == set(items_of(paper))


SPELLED = {"Def": "Definition", "Fig": "Figure", "Alg": "Algorithm"}
