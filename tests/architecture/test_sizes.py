"""What a reader may count on: short modules and functions, docstrings, and no file tied to one machine."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from support.sources import parsed, statements

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("protocol", "service", "client", "server", "analyzer")
CODE = (*PACKAGES, "deploy", "benchmarks", "tests")
MODULE_LINES = 400
TEST_MODULE_LINES = 600
FUNCTION_LINES = 60
NUMPY_RANDOM_ROOMS = ("tests", "benchmarks")

# The folders that .gitignore names: a checkout without git is as good as one with it.
IGNORED = frozenset(
    {".git"} | {line[:-1] for line in (ROOT / ".gitignore").read_text("utf-8").split() if line[-1] == "/"}
)

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

# Written in pieces, so that these lines are not their own counterexample.
PERSONAL_FOLDERS = ("home", "Users", "root", "work")
MACHINE_PATH = re.compile(r"(?<![\w./~-])/(?:" + "|".join(PERSONAL_FOLDERS) + r")/\w")
REQUIREMENT_FILES = ("requirements.lock", "pyproject.toml")
# Where packages come from is the reader's business: no address in a file of requirements, no index option anywhere.
ADDRESS = re.compile(r"\b(?:https?|ftp|file|git\+\w+):|\s@\s")
INDEX_OPTION = re.compile(
    r"(?<![a-z])(?:extra[-_])?index[-_]" + r"url\b|--find[-_]" + r"links\b|\bpip3?\s+install\b[^\n]*\s-[if]\b",
    re.IGNORECASE,
)


def files(*folders: str) -> Iterator[Path]:
    """Yield every file of the project below `folders`, or the whole project without any."""
    for start in [ROOT / folder for folder in folders] or [ROOT]:
        for path in sorted(start.iterdir()) if start.is_dir() else []:
            if path.name in IGNORED or path.name.endswith(".egg-info") or path.is_symlink():
                continue
            if path.is_dir():
                yield from files(path.relative_to(ROOT).as_posix())
            else:
                yield path


@cache
def modules(*folders: str) -> list[tuple[str, str]]:
    """Return (path from the root, source) of every module that is not empty."""
    sources = [(p.relative_to(ROOT).as_posix(), p.read_text("utf-8")) for p in files(*folders) if p.suffix == ".py"]
    return [(name, source) for name, source in sources if source.strip()]


def texts() -> Iterator[tuple[str, str]]:
    """Yield (path from the root, text) of every file that holds text."""
    for path in files():
        data = path.read_bytes()
        if b"\0" not in data[:8192]:
            yield path.relative_to(ROOT).as_posix(), data.decode("utf-8", errors="replace")


def long_functions(name: str, source: str) -> list[str]:
    """Return the functions with more than `FUNCTION_LINES` lines, their docstrings not counted."""
    found = []
    for node in statements(parsed(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = _length(node) - (_length(node.body[0]) if ast.get_docstring(node) is not None else 0)
            if lines > FUNCTION_LINES:
                found.append(f"{name}:{node.lineno}: {node.name} has {lines} lines")
    return found


def undocumented(name: str, source: str) -> list[str]:
    """Return the public functions, classes and methods without a docstring."""
    return [f"{name}:{node.lineno}: {node.name}" for node in _public(parsed(source)) if not ast.get_docstring(node)]


def numpy_random_uses(name: str, source: str) -> list[str]:
    """Return where `numpy.random` is imported or used."""
    if "random" not in source:
        return []
    return [f"{name}:{node.lineno}" for node in _nodes(source) if _is_numpy_random(node)]


def machine_traces(name: str, text: str) -> list[str]:
    """Return what in a text file belongs to one machine: personal paths, and where packages come from."""
    # Inside a container the paths are the image's own.
    in_container = Path(name).name.startswith(("Dockerfile", "docker-compose", "compose"))
    patterns = [INDEX_OPTION] if in_container else [INDEX_OPTION, MACHINE_PATH]
    if name in REQUIREMENT_FILES:
        patterns = [*patterns, ADDRESS]
    return [f"{name}: {match.group()}" for pattern in patterns for match in pattern.finditer(text)]


def _nodes(source: str) -> Iterator[ast.stmt | ast.expr]:
    return (node for node in ast.walk(parsed(source)) if isinstance(node, ast.stmt | ast.expr))


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _public(parent: ast.Module | ast.ClassDef) -> Iterator[FunctionNode | ast.ClassDef]:
    for node in parent.body:
        if not isinstance(node, FunctionNode | ast.ClassDef) or node.name.startswith("_"):
            continue
        decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
        if not decorators & {"overload", "override", "setter"}:
            yield node
        if isinstance(node, ast.ClassDef):
            yield from _public(node)


def _is_numpy_random(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "random" and isinstance(node.value, ast.Name) and node.value.id in {"np", "numpy"}
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        return module.startswith("numpy.random") or (module == "numpy" and any(a.name == "random" for a in node.names))
    return isinstance(node, ast.Import) and any(alias.name.startswith("numpy.random") for alias in node.names)


def test_modules_are_short() -> None:
    for name, source in modules(*CODE):
        limit = TEST_MODULE_LINES if name.startswith("tests/") else MODULE_LINES
        lines = len(source.splitlines())
        assert lines <= limit, f"{name} has {lines} lines, {limit} are allowed: split it by idea"


@pytest.mark.parametrize("rooms", [PACKAGES, pytest.param(CODE[len(PACKAGES) :], marks=pytest.mark.slow)])
def test_functions_are_short(rooms: tuple[str, ...]) -> None:
    complaints = [c for name, source in modules(*rooms) for c in long_functions(name, source)]
    assert not complaints, "\n".join(complaints)


def test_every_module_opens_with_a_docstring() -> None:
    bare = [name for name, source in modules(*CODE) if not ast.get_docstring(parsed(source))]
    assert not bare, "\n".join(bare)


def test_everything_public_has_a_docstring() -> None:
    complaints = [c for name, source in modules(*PACKAGES) for c in undocumented(name, source)]
    assert not complaints, "\n".join(complaints)


def test_numpy_random_lives_in_tests_and_benchmarks_only() -> None:
    rooms = [room for room in CODE if room not in NUMPY_RANDOM_ROOMS]
    complaints = [c for name, source in modules(*rooms) for c in numpy_random_uses(name, source)]
    assert not complaints, "\n".join(complaints)


def test_no_file_names_a_machine_or_where_packages_come_from() -> None:
    complaints = [c for name, text in texts() for c in machine_traces(name, text)]
    assert not complaints, "\n".join(complaints)


def test_the_makefile_fits_on_a_screen() -> None:
    assert len((ROOT / "Makefile").read_text("utf-8").splitlines()) <= 42


def test_the_files_of_this_project_are_found() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in files()}
    assert {
        "Makefile",
        "requirements.lock",
        "protocol/lintra_protocol/crypto/ring.py",
        "tests/architecture/test_sizes.py",
    } <= names
    assert not any(name.startswith((".venv/", ".git/")) for name in names)


def test_a_long_function_is_reported_and_its_docstring_is_not_counted() -> None:
    docstring = '    """' + "\n" * 80 + '    """\n'
    assert long_functions("f.py", "def f():\n" + "    x = 1\n" * 60)
    assert not long_functions("f.py", "def f():\n" + docstring + "    x = 1\n" * 59)


@pytest.mark.parametrize(
    "source",
    ["def f(): ...", "class C: ...", 'class C:\n    """A class."""\n    def f(self): ...', "async def f(): ..."],
)
def test_a_missing_docstring_is_reported(source: str) -> None:
    assert undocumented("f.py", source)
    assert not undocumented("f.py", source.replace("def f", "def _f").replace("class C: ...", "class _C: ..."))


@pytest.mark.parametrize(
    "source",
    [
        "rng = np.random.default_rng()",
        "import numpy.random",
        "from numpy.random import Generator",
        "from numpy import random",
    ],
)
def test_a_use_of_numpy_random_is_reported(source: str) -> None:
    assert numpy_random_uses("f.py", source)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docs/a.md", "see /" + "home/someone/notes"),
        ("deploy/a.toml", 'path = "/' + 'Users/someone"'),
        ("requirements.lock", "--index-" + "url somewhere"),
        ("requirements.lock", "--find-" + "links wheels"),
        ("requirements.lock", "lintra @ file:lintra"),
        ("requirements.lock", "numpy from https://example.org/simple"),
        ("pyproject.toml", '"lintra @ git+https://example.org/lintra"'),
        ("deploy/Dockerfile", "RUN pip install " + "-i https://example.org/simple lintra"),
        ("deploy/Dockerfile", "ENV PIP_INDEX" + "_URL=https://example.org/simple"),
        (".ci/run", "pip install --extra-index-" + "url=https://example.org lintra"),
    ],
)
def test_a_trace_of_a_machine_is_reported(name: str, text: str) -> None:
    assert machine_traces(name, text)


@pytest.mark.parametrize("text", ["https://example.org/home/page", "POST /v1/tasks", "~/work/lintra", "./root/file"])
def test_an_ordinary_path_is_not_reported(text: str) -> None:
    assert machine_traces("docs/a.md", text) == []
