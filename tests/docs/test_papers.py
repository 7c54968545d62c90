"""docs/explanation/papers.md and errata.md point at functions, tests, benchmarks and vectors that are there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = {name: (ROOT / "docs/explanation" / name).read_text("utf-8") for name in ("papers.md", "errata.md")}
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


def missing(page: str) -> list[str]:
    """Return what a page names and is not there: files, folders, tests, pages, and names a file should define."""
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
    linked = [name for name in LINKED.findall(page) if not (ROOT / "docs/explanation" / name).is_file()]
    return gone + folders + tests + linked


@pytest.mark.parametrize("name", PAGES)
def test_everything_that_a_page_names_is_there(name: str) -> None:
    assert len(NAMED.findall(PAGES[name])) > 40
    assert missing(PAGES[name]) == []


@pytest.mark.parametrize(
    "planted",
    [
        "`mechanisms/osmap.py`",
        "`unit/.../test_ideals.py`",
        "`privacy/joint.py: joint_nu`",
        "`ndis/gaussian_pair.py: GaussianPair.composed`",
        "`tests/papers/test_errata_spectrum.py`: `test_the_fit_agrees`",
        "`test_that_nobody_wrote`",
        "`unit/.../verifications/`",
        "[page](errors.md)",
    ],
)
def test_a_planted_name_that_is_not_there_is_reported(planted: str) -> None:
    assert missing(planted)
    fine = "`mechanisms/osnap.py`, `unit/.../test_ideal.py`, `privacy/joint.py: joint_squared_mu`, [page](errata.md)"
    assert not missing(fine + ", `ndis/gaussian_pair.py: GaussianPair.compose`, `unit/.../verification/`")


def test_every_erratum_says_what_is_stated_or_found_and_names_a_counterexample() -> None:
    _, *entries = re.split(r"^### ", PAGES["errata.md"], flags=re.MULTILINE)
    assert len(entries) >= 30
    silent = [entry.splitlines()[0] for entry in entries if "**Counterexample**" not in entry]
    unshown = [entry.splitlines()[0] for entry in entries if "tests/" not in entry and "benchmarks/" not in entry]
    assert silent == unshown == []


ITEMS = {
    "Burkhardt": "2.1 2.3 A.1 3.1 3.2 3.4 B.2 3.5 B.1 D.1 4.1 4.2 4.3 4.4 4.5 Table_5 "
    "Table_6 Figures_2 Figures_4 Tables_2 Tables_4",
    "Sheffet": "Algorithm_1 Algorithm_2 Algorithm_3 Algorithms_4 Theorem_3.1 B.4 Figures_1 Lasso",
    "Wei": "Theorem_4.1 Figure_2 Lemma_2 Lemma_3 Theorem_4.2 Table_VI Theorem_5 Figure_3 Figure_4 Figure_1 Theorem_7.1 "
    "Tables_I Theorem_5.2 Proposition_5 Definition_6",
    "RON-Gauss": "Algorithm_1 Algorithm_2 Algorithm_3 Lemma_1 Lemma_3 Lemma_4 Lemma_5 Theorem_2 4.2.3.1 3.4 "
    "experiments",
}


@pytest.mark.parametrize("paper", ITEMS)
def test_every_numbered_item_of_a_paper_has_a_line_with_a_status(paper: str) -> None:
    sections = re.split(r"^## ", PAGES["papers.md"], flags=re.MULTILINE)
    (section,) = (each for each in sections if each.startswith(paper))
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if re.match(r"\| (?!item|---)", line)]
    items = " ".join(line[0] for line in lines)
    assert [item for item in ITEMS[paper].split() if item.replace("_", " ") not in items] == []
    assert [line[0] for line in lines if not re.match(r"(full|partial|no)\b", line[1])] == []
    unexplained = [line[0] for line in lines if line[1] in ("partial", "no")]
    assert unexplained == []
