"""The doors: who may import whom, as allow-lists. A new door is a visible change to this file.

Imports are read from the syntax tree: one inside a function or behind `TYPE_CHECKING` counts like any other.
"""

import ast
import sys
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
# Of the extra `postgres`: in one module, which is itself imported inside a function.
DRIVER = frozenset({"psycopg"})

# pydantic_core is pydantic's own other half: the schema of a table of mechanisms is made with it.
PROTOCOL_THIRD_PARTY = frozenset({"cryptography", "numpy", "pydantic", "pydantic_core"})
THIRD_PARTY = {
    PROTOCOL: PROTOCOL_THIRD_PARTY,
    "lintra_service": PROTOCOL_THIRD_PARTY | SHELL | {"alembic", "sqlalchemy"},
    # Parquet files of organisations, inside a function.
    "lintra_client": PROTOCOL_THIRD_PARTY | HTTP_CLIENT | TERMINAL | {"pyarrow"},
    "lintra_server": PROTOCOL_THIRD_PARTY | SERVICE | TERMINAL | CLUSTER | DRIVER,
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
    "randomness": frozenset({"os"}),
    "person_names": frozenset({"unicodedata"}),
    # Dates of a calendar, as they stand in files; the clock is not read.
    "cells": frozenset({"datetime"}),
    "__init__": frozenset({"importlib"}),
    "cli": frozenset(sys.stdlib_module_names),
    "command": frozenset(sys.stdlib_module_names),
}
PROTOCOL_EXTRA_THIRD_PARTY = {"cli": TERMINAL, "command": TERMINAL}

# A module imports from its own group and from the groups above it.
PROTOCOL_LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"errors"}),
    frozenset({"canonical", "receipts"}),
    frozenset({"documents"}),
    frozenset({"ring", "randomness"}),
    frozenset(
        {
            "sharing",
            "sealing",
            "signing",
            "http_signature",
            "manifest",
            "clipping",
            "noise",
            "frame",
            "privacy",
            "schema",
            "tokens",
            "row_order",
            "sorted_rows",
            "windows",
            "cells",
            "contributors",
            "verification",
            "batched",
        }
    ),
    frozenset({"missing", "person_names", "report_ids"}),
    frozenset({"differences"}),
    frozenset({"transforms"}),
    frozenset({"mechanisms"}),
    frozenset({"measured"}),
    frozenset({"task"}),
    frozenset({"blocks", "report", "messages", "check_messages", "proofs", "wire", "problems", "transport"}),
    frozenset({"rules", "verdicts", "judgement"}),
    frozenset({"ideal"}),
    frozenset({"cli", "command"}),
)
ADD_HERE = "add it to PROTOCOL_LAYERS in tests/architecture/test_imports.py"
LAYER_OF = {module: number for number, group in enumerate(PROTOCOL_LAYERS) for module in group}


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
    package, *inner = PurePosixPath(file).parts[1:]
    own = PurePosixPath(inner[0]).stem
    if package == PROTOCOL and own not in LAYER_OF and own != "__init__":
        return [f"{file}: {own!r} has no place yet; {ADD_HERE}"]
    complaints = []
    for line, name in imported_names(source):
        reason = _refusal(package, own, name)
        if reason:
            complaints.append(f"{file}:{line}: {name}: {reason}")
    return complaints


def _refusal(package: str, own: str, name: str) -> str | None:
    """Return why the module `own` of `package` may not import `name`, or None if it may."""
    first, _, rest = name.partition(".")
    if not first:
        return "imports are absolute, so that this test can read them"
    if first in ROOMS:
        return _refusal_between_rooms(package, own, first, rest.partition(".")[0])
    if first in sys.stdlib_module_names:
        extra = PROTOCOL_EXTRA_STANDARD_LIBRARY.get(own, frozenset())
        if package != PROTOCOL or first in PROTOCOL_STANDARD_LIBRARY | extra:
            return None
        return "protocol is pure: no clock, disk, network or state; see PROTOCOL_STANDARD_LIBRARY"
    allowed = THIRD_PARTY[package]
    if package == PROTOCOL:
        allowed = allowed | PROTOCOL_EXTRA_THIRD_PARTY.get(own, frozenset())
    return None if first in allowed else f"not a dependency of {ROOMS[package]}; a new one needs a decision record"


def _refusal_between_rooms(package: str, own: str, room: str, module: str) -> str | None:
    if package != PROTOCOL:
        allowed = KNOWN_ROOMS[package] | {package}
        return None if room in allowed else f"{package} may know {', '.join(sorted(allowed))} only"
    if room != PROTOCOL:
        return "protocol knows nobody"
    if module in {"", "__version__"} and own != "__init__":
        return None
    if module not in LAYER_OF:
        return f"unknown module; {ADD_HERE}"
    if own == "__init__" or LAYER_OF[module] > LAYER_OF[own]:
        return f"{own} lies below {module}"
    return None


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


@pytest.mark.parametrize(
    ("only", "extra"), [("batches/cluster", CLUSTER), ("storage/kept_postgres", DRIVER)], ids=["dask", "postgres"]
)
def test_an_extra_of_servers_is_imported_by_one_module_which_is_imported_inside_a_function_only(
    only: str, extra: frozenset[str]
) -> None:
    def when_loaded(node: ast.AST) -> bool:
        return not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)

    for file in package_files():
        source = (ROOT / file).read_text("utf-8")
        names = {name for _, name in imported_names(source)}
        assert file == f"server/lintra_server/{only}.py" or not {name.partition(".")[0] for name in names} & extra, file
        loaded = {name for _, name in imported_names(source, when_loaded)}
        assert f"lintra_server.{only.replace('/', '.')}" not in loaded, file


def test_no_module_stands_in_two_layers() -> None:
    assert len(LAYER_OF) == sum(len(group) for group in PROTOCOL_LAYERS)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("protocol/lintra_protocol/ring.py", "import time"),
        ("protocol/lintra_protocol/ring.py", "import os"),
        ("protocol/lintra_protocol/noise.py", "import numpy, random"),
        ("protocol/lintra_protocol/noise.py", "import scipy.stats"),
        ("protocol/lintra_protocol/wire.py", "def f():\n    from pathlib import Path"),
        ("protocol/lintra_protocol/task.py", "if TYPE_CHECKING:\n    from lintra_server.storage.store import Store"),
        ("protocol/lintra_protocol/ring.py", "from lintra_protocol import task"),
        ("protocol/lintra_protocol/ring.py", "from lintra_protocol.task import Task"),
        ("protocol/lintra_protocol/ring.py", "import lintra_protocol.mechanisms.base"),
        (
            "protocol/lintra_protocol/transforms/osnap.py",
            "from lintra_protocol.mechanisms.base import Mechanism",
        ),
        ("protocol/lintra_protocol/transforms/osnap.py", "from .base import PublicMatrix"),
        ("protocol/lintra_protocol/__init__.py", "from lintra_protocol.ring import to_ring"),
        ("protocol/lintra_protocol/ring.py", "import importlib"),
        ("protocol/lintra_protocol/ring.py", "time = __import__('time')"),
        ("protocol/lintra_protocol/novelty.py", ""),
        ("protocol/lintra_protocol/cli.py", "import httpx2"),
        ("analyzer/lintra_analysis/estimators/path.py", "import fastapi"),
        ("analyzer/lintra_analysis/estimators/path.py", "from lintra_curator.promise.claim import curator_claim"),
        ("analyzer/lintra_curator/promise/claim.py", "from lintra_audit.trials import case"),
        ("client/lintra_client/upload.py", "from lintra_server.web.app import create_app"),
        ("client/lintra_client/upload.py", "from scipy import sparse"),
        ("server/lintra_server/web/app.py", "import lintra_analyzer"),
        ("service/lintra_service/serve.py", "from lintra_server.node import Node"),
        ("service/lintra_service/serve.py", "import scipy"),
        ("client/lintra_client/upload.py", "from lintra_service.answers import problem"),
        ("server/lintra_server/web/app.py", "import httpx2"),
        ("server/lintra_server/web/app.py", "import uvloop"),
        ("client/lintra_client/upload.py", "def f():\n    import pandas"),
        ("analyzer/lintra_analyzer/web/app.py", "from lintra_client.client import Client"),
        ("analyzer/lintra_analyzer/console/charts.py", "import matplotlib.pyplot as plt"),
    ],
)
def test_a_forbidden_import_is_reported(file: str, source: str) -> None:
    assert forbidden_imports(file, source)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("protocol/lintra_protocol/randomness.py", "import os"),
        (
            "protocol/lintra_protocol/cli.py",
            "import pathlib, datetime, typer",
        ),
        (
            "protocol/lintra_protocol/sharing.py",
            "from lintra_protocol import ring\nfrom lintra_protocol.noise import x",
        ),
        ("protocol/lintra_protocol/privacy/sketch.py", "from lintra_protocol.privacy.gaussian import delta"),
        ("client/lintra_client/upload.py", "import asyncio, httpx2\nfrom lintra_protocol.task import Task"),
        ("server/lintra_server/web/app.py", "from scipy import sparse\nfrom lintra_server.storage.store import Store"),
        ("server/lintra_server/serve.py", "from lintra_service.serve import run"),
        ("analyzer/lintra_analyzer/exchange/collect.py", "import httpx2, fastapi"),
        ("analyzer/lintra_analysis/synthetic/rows.py", "def f():\n    import pandas"),
    ],
)
def test_an_allowed_import_is_not_reported(file: str, source: str) -> None:
    assert forbidden_imports(file, source) == []
