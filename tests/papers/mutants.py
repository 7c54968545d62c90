"""Does a line of the papers' pages that says "built" name a test that fails without the function?

    .venv/bin/python tests/papers/mutants.py [--page spectrum] [--only "Theorem 2"] [--part 2/8]

Each function that such a line names returns a constant, in turn, and the tests that the line names run on that. A
constant is of the annotated kind: .5 for a number, True for a truth, nothing for what is done and not returned. Of a
class all public methods return constants at once. The source is changed as it is loaded, in a process of its own, so
that every module sees the change; so this program imports nothing of ours. Printed is which tests failed (red); the
exit status says whether any did not.
"""

import argparse
import ast
import importlib.abc
import importlib.machinery
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs/explanation/papers"
FOLDERS = ("protocol", "service", "client", "server", "analyzer", "benchmarks", "tests")
NAMED = re.compile(r"`((?:[\w.]+/)*[\w.]+\.py): ([\w., `]+?)`")
FILES = re.compile(r"`((?:[\w.]+/)*test_[\w.]+\.py)`")
TESTS = re.compile(r"`(test_\w+)`")
PASSED, FAILED, UNCOLLECTED, NOTHING = 0, 1, 2, 5
CONSTANTS = {"float": "0.5", "int": "1", "bool": "True", "str": "''", "None": "None"}


@dataclass(frozen=True)
class Mutant:
    """A function of a line, and what runs against it: a test file, and a test in it or all of them."""

    item: str
    path: str
    name: str
    tests: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.item}: {self.path}: {self.name}"


def pointed_at(name: str, folders: Sequence[str] = FOLDERS) -> list[Path]:
    """Return the files that a name on a page means; `...` stands for some folders."""
    pattern = re.compile(r"(?:.*/)?" + re.escape(name).replace(r"\.\.\.", "[^.]+") + "$")
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")) if pattern.match(str(path))]


def tests_of(cell: str) -> tuple[tuple[str, str], ...]:
    """Return the file and the name of each test that a cell names."""
    files = [(str(path.relative_to(ROOT)), "") for name in FILES.findall(cell) for path in pointed_at(name, ("tests",))]
    by_name = [
        (str(path.relative_to(ROOT)), name)
        for name in TESTS.findall(cell)
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if f"def {name}(" in path.read_text("utf-8")
    ]
    return tuple(files + by_name)


def mutants(page: Path) -> Iterator[Mutant]:
    """Yield every function that a "built" line of a page names, with the tests of that line."""
    for line in page.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[1] == "built":
            for file, inside in NAMED.findall(cells[2]):
                sources = [path for path in pointed_at(file) if "/tests/" not in str(path)]
                for name in re.findall(r"[\w.]+", inside):
                    for path in sources:
                        if functions(ast.parse(path.read_text("utf-8")), name):
                            yield Mutant(cells[0], str(path.relative_to(ROOT)), name, tests_of(cells[3]))


def functions(tree: ast.Module, name: str) -> list[ast.FunctionDef]:
    """Return the functions that a name means: itself, a method, or all public methods of a class."""
    body: list[ast.stmt] = tree.body
    for part in name.split("."):
        held = [node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == part]
        if not held:
            return []
        last = held[-1]
        body = last.body
    if isinstance(last, ast.FunctionDef):
        return [last]
    return [node for node in body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]


def spoilt(source: str, name: str) -> CodeType:
    """Return the code of a module whose named functions return constants."""
    tree = ast.parse(source)
    for function in functions(tree, name):
        said = ast.unparse(function.returns) if function.returns else "None"
        function.body = ast.parse(f"return {CONSTANTS.get(said, 'None')}").body
    return compile(ast.fix_missing_locations(tree), name, "exec", dont_inherit=True)


class Spoiler(importlib.abc.MetaPathFinder):
    """Loads one module with a function spoilt."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Return how to load the module, if it is the one; else leave it to the others."""
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or Path(spec.origin).resolve() != self.path:
            return None
        loader, name, text = spec.loader, self.name, self.path.read_text("utf-8")
        assert isinstance(loader, importlib.machinery.SourceFileLoader)
        loader.get_code = lambda _fullname: spoilt(text, name)  # type: ignore[method-assign]
        return spec


def outcome(mutant: Mutant) -> str:
    """Say whether a test of a line fails where its function returns a constant; the quick ones run first."""
    status = _status(mutant, "not slow")
    if status in (PASSED, NOTHING):
        status = _status(mutant, "slow or not slow")
    return {PASSED: "GREEN", FAILED: "red", UNCOLLECTED: "red"}.get(status, "ERROR")


def _status(mutant: Mutant, marked: str) -> int:
    """Return pytest's exit status of the tests of a line on a spoilt function."""
    child = os.fork()
    if not child:
        sys.meta_path.insert(0, Spoiler(ROOT / mutant.path, mutant.name))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        import pytest

        asked = [f"{file}::{name}" if name else file for file, name in mutant.tests]
        options = ["-q", "-x", "-n", "0", "--assert=plain", "-p", "no:cacheprovider", "-m", marked]
        os._exit(int(pytest.main([*options, *asked])))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Try every mutant that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", choices=sorted(path.stem for path in PAGES.glob("*.md")))
    parser.add_argument("--only", help="the beginning of an item")
    parser.add_argument("--part", default="1/1", help="such as 2/8: the second of eight parts")
    parser.add_argument("--list", action="store_true", help="only say what would be tried")
    asked = parser.parse_args()
    pages = [path for path in sorted(PAGES.glob("*.md")) if asked.page in (None, path.stem)]
    found = [one for page in pages for one in mutants(page) if one.item.startswith(asked.only or "")]
    part, of = map(int, asked.part.split("/"))
    found = found[part - 1 :: of]
    # What every child needs, and nothing of ours: a module that is loaded already could not be spoilt.
    for name in ("numpy", "scipy.stats", "scipy.special", "scipy.optimize", "pytest", "hypothesis", "pydantic"):
        __import__(name)
    green = []
    for one in found:
        if asked.list or not one.tests:
            say(f"{one}{'' if one.tests else ': NO TEST'}")
            continue
        said = outcome(one)
        say(f"{said}  {one}")
        green += [one] * (said != "red")
    say(f"{len(found)} tried, {len(green)} did not fail")
    if green:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
