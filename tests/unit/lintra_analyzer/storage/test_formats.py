"""Formats are kept: what an analyzer of any tagged version left on its disk is listed, opened and analysed."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from lintra_analyzer.commands.doctor import examine
from support.analyzer_world import Life, living
from support.frozen_analyzer import SAID, said, thaw, versions

VERSIONS = versions()


@pytest_asyncio.fixture(params=VERSIONS, ids=[path.name for path in VERSIONS])
async def thawed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Life, Path]]:
    """Return an analyzer of today on the files of an earlier version."""
    thaw(request.param, tmp_path / "analyzer")
    async with living(tmp_path) as life:
        yield life, request.param


def same(today: Any, then: Any, where: str = "") -> None:
    """Check that what was said then is said today, to the last digits of numbers; more may be said."""
    if isinstance(then, dict):
        assert then.keys() <= today.keys(), where
        for name, value in then.items():
            same(today[name], value, f"{where}.{name}")
    elif isinstance(then, list):
        assert len(today) == len(then), where
        for place, value in enumerate(then):
            same(today[place], value, f"{where}[{place}]")
    elif isinstance(then, float):
        assert today == pytest.approx(then, rel=1e-9, abs=1e-12), where
    else:
        assert today == then, where


async def test_old_tasks_and_releases_are_listed_opened_and_analysed_as_then(thawed: tuple[Life, Path]) -> None:
    life, frozen = thawed
    then = json.loads((frozen / SAID).read_text("utf-8"))
    assert len(then["answers"]) > 20
    same(await said(life), then)


async def test_every_page_about_old_data_is_shown(thawed: tuple[Life, Path]) -> None:
    life, frozen = thawed
    then = json.loads((frozen / SAID).read_text("utf-8"))
    async with life.rest() as rest:
        paths = ["/", "/releases", "/privacy", "/tokens"]
        for task in then["tasks"]:
            paths += [f"/tasks/{task['task_id']}", f"/v1/tasks/{task['task_id']}"]
        for release in then["releases"]:
            paths += [f"/releases/{release['release_id']}", f"/v1/releases/{release['release_id']}"]
            paths.append(f"/v1/releases/{release['release_id']}/cohort")
        for path in paths:
            answer = await rest.get(path)
            assert answer.status_code == 200, (path, answer.text)
            assert "unreadable" not in answer.text, path


async def test_the_doctor_finds_nothing_wrong_with_old_data(thawed: tuple[Life, Path]) -> None:
    life, _ = thawed
    found = [one for one in examine(life.settings, Path("analyzer.toml")) if one.severity == "trouble"]
    # The private keys of this world are in the test, and not on the disk.
    assert [one.what for one in found if "identity.key is missing" not in one.what] == []
