"""The figures of the house: how much there is, how deep it is, and what is still doubled or has no test of its name.

    PYTHONPATH=tests python -m support.house

prints them as a table. `tests/architecture/test_figures.py` holds those that may only get better.
"""

import ast
import inspect
import io
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from lintra_protocol.encoding.documents import Frozen
from lintra_protocol.mechanisms import MECHANISMS
from lintra_protocol.mechanisms.base import Mechanism
from support.import_graph import ROOT, circles, house, import_graph, rooms_of, sources, upward
from support.sources import parsed, statements

FOLDERS = ("protocol", "service", "client", "server", "analyzer")
SHORT = 60
"""Modules of so many lines need no test of their name."""

_DECIDES = (ast.If, ast.IfExp, ast.While, ast.Match, ast.Try, ast.BoolOp)


def modules() -> Iterator[Path]:
    """Yield every module of the five folders."""
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))


def public_members(kind: type = Mechanism) -> list[str]:
    """Return the public names of a mechanism beyond those of any document."""
    return sorted(name for name in dir(kind) if not name.startswith("_") and not hasattr(Frozen, name))


def ladder(kind: type) -> list[str]:
    """Return the longest line of our own classes from a class up to its last base, itself first."""
    above = [ladder(base) for base in kind.__bases__ if base.__module__.startswith("lintra_")]
    return [kind.__name__, *max(above, key=len, default=[])]


def lines_of_kinds() -> dict[str, int]:
    """Return the length of the module of every kind of mechanism."""
    files = {name: inspect.getsourcefile(kind) for name, kind in MECHANISMS.items()}
    return {name: len(Path(file).read_text("utf-8").splitlines()) for name, file in files.items() if file is not None}


def doubled_classes() -> dict[str, list[str]]:
    """Return where each public class name stands that two modules define."""
    found = defaultdict(list)
    for module, source in sources().items():
        for node in statements(parsed(source)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module)
    return {name: homes for name, homes in sorted(found.items()) if len(homes) > 1}


def decides(source: str) -> bool:
    """Return whether a module of more than `SHORT` lines chooses between two ways anywhere."""
    if len(source.splitlines()) <= SHORT:
        return False
    return any(
        isinstance(node, _DECIDES) or (isinstance(node, ast.comprehension) and node.ifs)
        for node in ast.walk(parsed(source))
    )


def test_of(module: Path) -> Path:
    """Return where the test of a module's name stands: tests/unit mirrors the packages."""
    inner = module.relative_to(ROOT).parts[1:]
    return ROOT.joinpath("tests", "unit", *inner[:-1], f"test_{inner[-1]}")


@cache
def untested() -> list[str]:
    """Return the modules that decide something and have no test of their name, from the repository's root."""
    found = [path for path in modules() if path.name != "__init__.py" and decides(path.read_text("utf-8"))]
    return [path.relative_to(ROOT).as_posix() for path in found if not test_of(path).is_file()]


def lines_of_through() -> dict[str, str]:
    """Return the test that decides about a module which has none of its name, as tests/unit/through.toml says."""
    lines: dict[str, str] = tomllib.loads((ROOT / "tests/unit/through.toml").read_text("utf-8"))
    return lines


def lines_a_comment() -> float:
    """Return how many lines of code there are for each comment; what says a field's meaning (`#:`) is none."""
    counts: Counter[str] = Counter()
    for path in modules():
        source = path.read_text("utf-8")
        strings = [node for node in ast.walk(parsed(source)) if isinstance(node, ast.Expr) and _is_text(node)]
        documented = sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in strings)
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
        comments = [token for token in tokens if token.type == tokenize.COMMENT and _says_why(token.string)]
        blank = sum(not line.strip() for line in source.splitlines())
        counts["comments"] += len(comments)
        counts["code"] += len(source.splitlines()) - documented - blank
    return counts["code"] / max(1, counts["comments"])


def _says_why(comment: str) -> bool:
    return "noqa" not in comment and not comment.startswith("#:")


def _is_text(node: ast.Expr) -> bool:
    return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def figures() -> dict[str, str]:
    """Return every figure, ready to be printed."""
    graph = import_graph(sources())
    packages = sorted({module.partition(".")[0] for module in graph})
    climbs = [arrow for package in packages for arrow in upward(rooms_of(graph, package))] + upward(house(graph))
    tests = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py")]
    source = [path.read_text("utf-8") for path in modules()]
    kinds = lines_of_kinds()
    largest = max(kinds, key=kinds.__getitem__)
    return {
        "source lines": f"{sum(len(text.splitlines()) for text in source):,}",
        "source files": str(len(source)),
        "test lines": f"{sum(len(text.splitlines()) for text in tests):,}",
        "circles of imports": str(len(circles(graph))),
        "imports that run back up": str(len(climbs)),
        "members of Mechanism": str(len(public_members())),
        "depth of a mechanism": str(max(len(ladder(kind)) for kind in MECHANISMS.values())),
        "lines of the largest kind": f"{kinds[largest]} ({largest})",
        "class names that stand twice": str(len(doubled_classes())),
        "modules without a test of their name": str(len(untested())),
        "lines of code for a comment": f"{lines_a_comment():.0f}",
    }


if __name__ == "__main__":
    print("| figure | today |\n| --- | --- |")
    print("\n".join(f"| {name} | {value} |" for name, value in figures().items()))
