"""What an analyzer of some tagged version left on its disk: frozen once at its tag, and opened by every later version.

    PYTHONPATH=tests .venv/bin/python -m support.frozen_analyzer 0.1.0

writes `tests/support/frozen/analyzer-0.1.0/` from the present code: a task in every state and a release of every kind
of mechanism. A frozen folder is never changed again: a new tag adds one.
"""

import asyncio
import base64
import json
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lintra_analyzer.settings import Settings
from lintra_analyzer.storage.access_tokens import Scope
from lintra_analyzer.storage.store import DATABASE
from support.analyzer_world import Life, living
from support.console_world import furnish

FROZEN = Path(__file__).with_name("frozen")
SCHEMA, FILES, SAID = "database.sql", "files.json", "said.json"
ASKED = ("means", "correlation", "pca")
"""Analyses that are asked of every release; what a release cannot answer stays unanswered."""


def versions() -> list[Path]:
    """Return the frozen folders, the oldest first."""
    return sorted(FROZEN.glob("analyzer-*"), key=lambda path: [int(part) for part in path.name[9:].split(".")])


def thaw(frozen: Path, data_dir: Path) -> None:
    """Write a frozen analyzer's files as they were."""
    data_dir.mkdir(parents=True)
    with closing(sqlite3.connect(data_dir / DATABASE)) as connection:
        connection.executescript((frozen / SCHEMA).read_text("utf-8"))
    for name, content in json.loads((frozen / FILES).read_text("utf-8")).items():
        path = data_dir / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(content))
        path.chmod(0o600)


def freeze(settings: Settings, frozen: Path) -> None:
    """Write what an analyzer that stands still has on its disk, as text."""
    frozen.mkdir(parents=True)
    with closing(sqlite3.connect(settings.data_dir / DATABASE)) as connection:
        (frozen / SCHEMA).write_text("\n".join(connection.iterdump()) + "\n", "utf-8")
    files = {
        path.relative_to(settings.data_dir).as_posix(): base64.b64encode(path.read_bytes()).decode()
        for path in sorted(settings.data_dir.rglob("*"))
        if path.is_file() and not path.name.startswith((DATABASE, ".")) and path.suffix != ".lock"
    }
    (frozen / FILES).write_text(json.dumps(files, indent=1) + "\n", "utf-8")


async def said(life: Life) -> dict[str, Any]:
    """Return what the analyzer says of all that it holds: lists, tasks, records, and answers of analyses."""
    async with life.rest() as rest:
        lists: dict[str, list[dict[str, Any]]] = {}
        for name in ("tasks", "releases"):
            found, query = [], ""
            while True:
                answer = await rest.get(f"/v1/{name}{query}")
                found += answer.json()
                query = answer.links.get("next", {}).get("url", "")
                if not query:
                    break
            lists[name] = found
        answers: dict[str, Any] = {}
        for release in lists["releases"]:
            path = f"/v1/releases/{release['release_id']}"
            for kind in ASKED:
                answer = await rest.post(f"{path}/analyses", json={"kind": kind})
                if answer.status_code == 200:
                    answers[f"{release['release_id']} {kind}"] = answer.json()["result"]
    tokens = sorted((token.name, token.role, token.revoked_at is None) for token in life.service.access.tokens())
    return {**lists, "answers": answers, "tokens": [list(token) for token in tokens]}


async def _freeze_new(frozen: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as clock:
        async with living(Path(folder)) as life:
            await furnish(life, clock)
            life.service.access.add("Ada", "viewer", Scope((), ("everybody",)), None)
            _, revoked = life.service.access.add("Bob", "operator", Scope(), None)
            life.service.access.revoke(revoked.token_id)
            heard = await said(life)
            await life.service.jobs.stop()
            life.service.store.close()
            freeze(life.settings, frozen)
        (frozen / SAID).write_text(json.dumps(heard, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    asyncio.run(_freeze_new(FROZEN / f"analyzer-{sys.argv[1]}"))
