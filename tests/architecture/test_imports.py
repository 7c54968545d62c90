"""The doors: who may import whom, as allow-lists. A new door is a visible change to this file.

Imports are read from the syntax tree: one inside a function or behind `TYPE_CHECKING` counts like any other. Which room
of a package may import which is a list in rooms.toml.
"""

import ast
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import pytest

from support.sources import parsed, statements

ROOT = Path(__file__).resolve().parents[2]

PROTOCOL = "lintra_protocol"
ROOMS = {
    PROTOCOL: "protocol",
    "lintra_service": "service",
    "lintra_client": "client",
    "lintra_server": "server",
    "lintra_analysis": "analyzer",
    "lintra_curator": "analyzer",
    "lintra_audit": "analyzer",
    "lintra_analyzer": "analyzer",
}
KNOWN_ROOMS = {
    PROTOCOL: frozenset[str](),
    "lintra_service": frozenset({PROTOCOL}),
    "lintra_client": frozenset({PROTOCOL}),
    "lintra_server": frozenset({PROTOCOL, "lintra_service"}),
    "lintra_analysis": frozenset({PROTOCOL}),
    "lintra_curator": frozenset({PROTOCOL, "lintra_analysis"}),
    "lintra_audit": frozenset({PROTOCOL, "lintra_analysis", "lintra_curator", "lintra_client", "lintra_server"}),
    "lintra_analyzer": frozenset({PROTOCOL, "lintra_service", "lintra_analysis"}),
}

TERMINAL = frozenset({"typer", "rich"})
HTTP_CLIENT = frozenset({"httpx2", "stamina"})
SHELL = frozenset({"fastapi", "starlette", "uvicorn", "prometheus_client", "pydantic_settings", "structlog"})
SERVICE = SHELL | {"sqlalchemy", "alembic", "scipy"}

# Of the extras `frames`, `plot` and `formulas`: inside functions only, so that nobody needs them to start.
FRAMES = frozenset({"pandas", "pyarrow"})
PLOT = frozenset({"matplotlib"})
FORMULAS = frozenset({"formulaic"})
# Of the extra `dask`: in one module, which is itself imported inside a function.
CLUSTER = frozenset({"dask", "distributed"})

# pydantic_core is pydantic's own other half: the schema of a table of mechanisms is made with it.
PROTOCOL_THIRD_PARTY = frozenset({"cryptography", "numpy", "pydantic", "pydantic_core"})
THIRD_PARTY = {
    PROTOCOL: PROTOCOL_THIRD_PARTY,
    "lintra_service": PROTOCOL_THIRD_PARTY | SHELL | {"alembic", "sqlalchemy"},
    # Parquet files of organisations, inside a function.
    "lintra_client": PROTOCOL_THIRD_PARTY | HTTP_CLIENT | TERMINAL | {"h11", "pyarrow"},
    "lintra_server": PROTOCOL_THIRD_PARTY | SERVICE | TERMINAL | CLUSTER,
    "lintra_analysis": PROTOCOL_THIRD_PARTY | HTTP_CLIENT | TERMINAL | FRAMES | PLOT | FORMULAS | {"scipy"},
    "lintra_curator": PROTOCOL_THIRD_PARTY | {"scipy"},
    "lintra_audit": PROTOCOL_THIRD_PARTY | TERMINAL | {"scipy"},
    # httpcore2 is what httpx2 opens connections with: the analyzer reads them in larger pieces.
    "lintra_analyzer": PROTOCOL_THIRD_PARTY | SERVICE | HTTP_CLIENT | TERMINAL | {"httpcore2", "jinja2"},
}

# No clock, no disk, no network, no randomness of its own: what is missing here is the point of the list.
PROTOCOL_STANDARD_LIBRARY = frozenset(
    {
        "abc", "base64", "bisect", "collections", "dataclasses", "decimal", "enum", "fractions", "functools",
        "hashlib", "hmac", "itertools", "json", "math", "operator", "re", "struct", "types", "typing",
    }
)  # fmt: skip
PROTOCOL_EXTRA_STANDARD_LIBRARY = {
    "crypto.randomness": frozenset({"os"}),
    "fields.person_names": frozenset({"unicodedata"}),
    "fields.code_book": frozenset({"unicodedata"}),
    # Dates of a calendar, as they stand in files; the clock is not read.
    "encoding.csv_values": frozenset({"datetime"}),
    "tables.dates": frozenset({"datetime"}),
    "tables.doubts": frozenset({"datetime"}),
    # From bytes to lines: a text in memory, no file.
    "tables.text_file": frozenset({"csv", "io"}),
    "__init__": frozenset({"importlib"}),
    "cli": frozenset(sys.stdlib_module_names),
    "command": frozenset(sys.stdlib_module_names),
}
PROTOCOL_EXTRA_THIRD_PARTY = {"cli": TERMINAL, "command": TERMINAL}

ROOMS_INSIDE: dict[str, dict[str, list[str]]] = tomllib.loads((Path(__file__).parent / "rooms.toml").read_text("utf-8"))
ADD_HERE = "add it to tests/architecture/rooms.toml"


def imported_names(source: str, enters: Callable[[ast.AST], bool] = lambda _: True) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) of every import; a relative one starts with a dot. `enters` is for `statements`."""
    tree = parsed(source)
    for node in statements(tree, enters):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            # `from lintra_protocol import ring` names a module in its last part, so the parts are joined.
            joined = module in ROOMS
            yield from ((node.lineno, f"{module}.{alias.name}" if joined else module) for alias in node.names)
    if "__import__" in source:  # anywhere in an expression
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
        yield from ((node.lineno, node.id) for node in calls if node.id == "__import__")


def forbidden_imports(file: str, source: str) -> list[str]:
    """Return one complaint for each import that `file`, a path from the repository's root, may not make."""
    package, *inner = PurePosixPath(file).with_suffix("").parts[1:]
    module = ".".join(inner)
    if inner[0] not in ROOMS_INSIDE.get(package, inner) and module != "__init__":
        return [f"{file}: {inner[0]!r} has no place yet; {ADD_HERE}"]
    complaints = []
    for line, name in imported_names(source):
        reason = _refusal(package, module, name)
        if reason:
            complaints.append(f"{file}:{line}: {name}: {reason}")
    return complaints


def _refusal(package: str, module: str, name: str) -> str | None:
    """Return why a module of `package` may not import `name`, or None if it may."""
    first, _, rest = name.partition(".")
    if not first:
        return "imports are absolute, so that this test can read them"
    if first == package:
        return _refusal_between_rooms(package, module.partition(".")[0], rest.partition(".")[0])
    if first in ROOMS:
        allowed = KNOWN_ROOMS[package]
        return None if first in allowed else f"{package} may know {', '.join(sorted(allowed)) or 'nobody'} only"
    if first in sys.stdlib_module_names:
        extra = PROTOCOL_EXTRA_STANDARD_LIBRARY.get(module, frozenset())
        if package != PROTOCOL or first in PROTOCOL_STANDARD_LIBRARY | extra:
            return None
        return "protocol is pure: no clock, disk, network or state; see PROTOCOL_STANDARD_LIBRARY"
    allowed = THIRD_PARTY[package]
    if package == PROTOCOL:
        allowed = allowed | PROTOCOL_EXTRA_THIRD_PARTY.get(module, frozenset())
    return None if first in allowed else f"not a dependency of {ROOMS[package]}; a new one needs a decision record"


def _refusal_between_rooms(package: str, own: str, other: str) -> str | None:
    """Return why a room of `package` may not import another; the protocol's face imports nothing, others anything."""
    rooms = ROOMS_INSIDE.get(package)
    if rooms is None or other in {"", "__version__", own} or (own == "__init__" and package != PROTOCOL):
        return None
    if other not in rooms:
        return f"unknown room; {ADD_HERE}"
    return (
        None if other in rooms.get(own, ()) else f"{own} may import {', '.join(rooms.get(own, ())) or 'no room'} only"
    )


def arrows(package: str) -> dict[str, set[str]]:
    """Return which rooms of a package import which, as their files say."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / ROOMS[package] / package).rglob("*.py")):
        own = path.relative_to(ROOT / ROOMS[package] / package).with_suffix("").parts[0]
        for _, name in imported_names(path.read_text("utf-8")):
            first, _, rest = name.partition(".")
            other = rest.partition(".")[0]
            if first == package and own != "__init__" and other not in {"", "__version__", own}:
                found.setdefault(own, set()).add(other)
    return found


def printed(rooms: dict[str, list[str]]) -> str:
    """Return the list of rooms as CONTRIBUTING.md prints it."""
    width = max(map(len, rooms)) + 2
    lines = (f"    {room:{width}}{' '.join(others)}".rstrip() for room, others in rooms.items())
    return "\n".join(lines)


def package_files() -> list[str]:
    return [
        path.relative_to(ROOT).as_posix()
        for package, room in ROOMS.items()
        for path in sorted((ROOT / room / package).rglob("*.py"))
    ]


def test_every_import_goes_through_a_door() -> None:
    complaints = [c for file in package_files() for c in forbidden_imports(file, (ROOT / file).read_text("utf-8"))]
    assert not complaints, "\n".join(complaints)


def test_all_eight_packages_are_looked_at() -> None:
    assert {PurePosixPath(file).parts[1] for file in package_files()} == set(ROOMS)


def test_plots_are_not_drawn_by_the_tests_themselves() -> None:
    # Who tests what estimates draw gives them axes, and closes the figures; it draws nothing either.
    for path in sorted(set((ROOT / "tests").rglob("*.py")) - set((ROOT / "tests").rglob("test_plots.py"))):
        source = path.read_text("utf-8")
        names = {name.partition(".")[0] for _, name in imported_names(source)} if "matplotlib" in source else ()
        assert "matplotlib" not in names, path.relative_to(ROOT)


def test_data_frames_and_plots_are_imported_inside_functions_only() -> None:
    def when_loaded(node: ast.AST) -> bool:
        # What only a type checker reads is never imported.
        annotations = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        return not annotations and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)

    for file in package_files():
        found = imported_names((ROOT / file).read_text("utf-8"), when_loaded)
        assert not {name.partition(".")[0] for _, name in found} & (FRAMES | PLOT | FORMULAS), file


def test_an_extra_of_servers_is_imported_by_one_module_which_is_imported_inside_a_function_only() -> None:
    """Dask is meant; the driver of PostgreSQL is imported by SQLAlchemy only."""

    def when_loaded(node: ast.AST) -> bool:
        return not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)

    for file in package_files():
        source = (ROOT / file).read_text("utf-8")
        names = {name for _, name in imported_names(source)}
        alone = file == "server/lintra_server/batches/cluster.py"
        assert alone or not {name.partition(".")[0] for name in names} & CLUSTER, file
        loaded = {name for _, name in imported_names(source, when_loaded)}
        assert "lintra_server.batches.cluster" not in loaded, file


@pytest.mark.parametrize("package", sorted(ROOMS_INSIDE))
def test_rooms_stand_above_those_that_import_them_and_no_permission_is_left_over(package: str) -> None:
    rooms = ROOMS_INSIDE[package]
    names = list(rooms)
    for place, (room, others) in enumerate(rooms.items()):
        assert others == sorted(others), room
        assert set(others) <= set(names[:place]), room
        assert set(others) == arrows(package).get(room, set()), room


@pytest.mark.parametrize("package", sorted(ROOMS_INSIDE))
def test_contributing_prints_the_rooms(package: str) -> None:
    assert printed(ROOMS_INSIDE[package]) in (ROOT / "CONTRIBUTING.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("protocol/lintra_protocol/crypto/ring.py", "import time"),
        ("protocol/lintra_protocol/crypto/ring.py", "import os"),
        ("protocol/lintra_protocol/noise/discrete_gaussian.py", "import numpy, random"),
        ("protocol/lintra_protocol/noise/discrete_gaussian.py", "import scipy.stats"),
        ("protocol/lintra_protocol/report/wire.py", "def f():\n    from pathlib import Path"),
        ("protocol/lintra_protocol/task.py", "if TYPE_CHECKING:\n    from lintra_server.storage.store import Store"),
        ("protocol/lintra_protocol/crypto/ring.py", "from lintra_protocol import task"),
        ("protocol/lintra_protocol/crypto/ring.py", "from lintra_protocol.task import Task"),
        ("protocol/lintra_protocol/crypto/ring.py", "import lintra_protocol.mechanisms.base"),
        (
            "protocol/lintra_protocol/transforms/osnap.py",
            "from lintra_protocol.mechanisms.base import Mechanism",
        ),
        ("protocol/lintra_protocol/transforms/osnap.py", "from .base import PublicMatrix"),
        ("protocol/lintra_protocol/__init__.py", "from lintra_protocol.crypto.ring import to_ring"),
        ("protocol/lintra_protocol/crypto/ring.py", "import importlib"),
        ("protocol/lintra_protocol/crypto/ring.py", "time = __import__('time')"),
        ("protocol/lintra_protocol/novelty.py", ""),
        ("protocol/lintra_protocol/cli.py", "import httpx2"),
        ("analyzer/lintra_analysis/estimators/path.py", "import fastapi"),
        ("analyzer/lintra_analysis/estimators/path.py", "from lintra_curator.claims.claim import curator_claim"),
        ("analyzer/lintra_curator/claims/claim.py", "from lintra_audit.trials import case"),
        ("client/lintra_client/sending/delivery.py", "from lintra_server.web.app import create_app"),
        ("client/lintra_client/sending/delivery.py", "from scipy import sparse"),
        ("server/lintra_server/web/app.py", "import lintra_analyzer"),
        ("service/lintra_service/process.py", "from lintra_server.node import Node"),
        ("service/lintra_service/process.py", "import scipy"),
        ("client/lintra_client/sending/delivery.py", "from lintra_service.responses import problem"),
        ("server/lintra_server/web/app.py", "import httpx2"),
        ("server/lintra_server/web/app.py", "import uvloop"),
        ("client/lintra_client/sending/delivery.py", "def f():\n    import pandas"),
        ("analyzer/lintra_analyzer/web/app.py", "from lintra_client.upload.client import Client"),
        ("analyzer/lintra_analyzer/console/charts.py", "import matplotlib.pyplot as plt"),
    ],
)
def test_a_forbidden_import_is_reported(file: str, source: str) -> None:
    assert forbidden_imports(file, source)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("protocol/lintra_protocol/crypto/randomness.py", "import os"),
        (
            "protocol/lintra_protocol/cli.py",
            "import pathlib, datetime, typer",
        ),
        (
            "protocol/lintra_protocol/crypto/sharing.py",
            "from lintra_protocol.crypto import ring\nfrom lintra_protocol.encoding import canonical",
        ),
        ("protocol/lintra_protocol/privacy/sketch.py", "from lintra_protocol.privacy.gaussian import delta"),
        ("client/lintra_client/sending/delivery.py", "import asyncio, httpx2\nfrom lintra_protocol.task import Task"),
        ("server/lintra_server/web/app.py", "from scipy import sparse\nfrom lintra_server.storage.store import Store"),
        ("server/lintra_server/serve.py", "from lintra_service.process import run"),
        ("analyzer/lintra_analyzer/exchange/collect.py", "import httpx2, fastapi"),
        ("analyzer/lintra_analysis/synthetic/rows.py", "def f():\n    import pandas"),
    ],
)
def test_an_allowed_import_is_not_reported(file: str, source: str) -> None:
    assert forbidden_imports(file, source) == []
