"""Real processes that get SIGKILL before any one of their writes, or lose power, from the start to the release.

Afterwards the server starts, without a restore, and says the same bytes that were said, or says them for the first
time; no report is lost.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from sqlalchemy import event

from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.messages.documents import Cohort, Inventory, Signed
from lintra_server.node import Node
from lintra_server.storage.key_folder import JOURNAL_FILE
from support.killed_gate import settings_in
from support.power_cut import Disk, watched
from support.server_world import World, a_world

TESTS = Path(__file__).parents[1]
REPORTS = 14
START, CLOSED = 0, 3
"""How often the journal was synchronised: not yet, and with the line of the batch's closing (see `power_cut`)."""


async def prepared(folder: Path) -> World:
    """Leave the folders of three servers behind, each with an open batch of reports."""
    async with a_world(folder, "sum") as world:
        await world.upload_everywhere(world.reports(REPORTS))
        (folder / "task.json").write_bytes(world.task.canonical())
    return world


def killed_at(folder: Path, first: int, last: int, step: int = 1) -> list[dict[str, object]]:
    return run("killed_gate", folder, first, last, step)


def run(module: str, folder: Path, *numbers: int, lying: str = "") -> list[dict[str, object]]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [sys.executable, "-m", f"support.{module}", str(folder), *map(str, numbers), *([lying] if lying else [])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" or lying
    return [json.loads(line) for line in done.stdout.splitlines()]


def require_once(found: dict[str, object]) -> None:
    """Check that a process was killed, and that the next one said the same and the rest, of all reports."""
    said, after = found["said"], found["after"]
    assert isinstance(said, list)
    assert isinstance(after, list)
    assert (found["ended"], found["again"]) == (-signal.SIGKILL, 0), found["at"]
    assert after[: len(said)] == said
    assert len(after) == 3
    assert Signed[Inventory].from_canonical(bytes.fromhex(after[0])).message.count == REPORTS
    assert Signed[Cohort].from_canonical(bytes.fromhex(after[1])).message.count == REPORTS


async def test_a_process_killed_at_some_of_its_writes_says_the_same_afterwards(tmp_path: Path) -> None:
    await prepared(tmp_path)
    found = killed_at(tmp_path, 9, 37, 14)
    assert len(found) == 3
    for each in found:
        require_once(each)


@pytest.mark.parametrize("torn", [False, True], ids=["lost", "torn"])
async def test_after_a_power_cut_between_journal_and_database_a_server_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torn: bool
) -> None:
    left, folder = tmp_path / "left", tmp_path / "world"
    folder.mkdir()
    async with a_world(folder, "sum", num_servers=2) as world:
        await world.upload_everywhere(world.reports(REPORTS))
        node = world.apps[0].node
        before = (folder / "keys0" / JOURNAL_FILE).read_bytes()
        disk = Disk(folder)
        cut = Mock(side_effect=lambda number: number == 1 and disk.left(left, torn=torn))
        # The journal is synchronised once, with the line of the closing; then the database would get it.
        synchronising, count = watched(disk, 1, "", cut)
        monkeypatch.setattr(os, "fsync", synchronising)
        event.listen(node.database._engine, "commit", count)
        closed = await world.close_batch(0)
        monkeypatch.undo()
        event.remove(node.database._engine, "commit", count)
        assert len((left / "keys0" / JOURNAL_FILE).read_bytes()) > len(before)
        again = Node(settings_in(left), system_randomness, world.clock, world.clock, pytest.fail)
        held = again.registry.find_batch(world.task.task_id)
        assert again.gate.inventory(held) == closed.content
        again.close()


async def test_a_crash_between_overwriting_a_secret_and_removing_it_does_not_stop_the_next_start(
    tmp_path: Path,
) -> None:
    async with a_world(tmp_path, "sum") as world:
        await world.upload_everywhere(world.reports(REPORTS))
        (secret,) = (world.settings[0].key_dir / "batches").iterdir()
        released = await world.release(0)
        assert not secret.exists()
        world.kill(0)
        secret.write_bytes(bytes(32))
        secret.chmod(0o600)
        world.start(0)
        assert not secret.exists()
        assert (await world.ask(0, "GET", "/batches/0/aggregate")).content == released.content


@pytest.mark.slow
async def test_a_process_killed_at_any_of_its_writes_says_the_same_afterwards(tmp_path: Path) -> None:
    await prepared(tmp_path)
    found = killed_at(tmp_path, 1, 1000)
    *killed, whole = found
    assert len(killed) > 40
    assert (whole["ended"], whole["said"]) == (0, whole["after"])
    for each in killed:
        require_once(each)
    # Every answer was cut off once before it was said, and once after.
    assert {len(each["said"]) for each in killed} == {0, 1, 2, 3}  # type: ignore[arg-type]


@pytest.mark.slow
async def test_after_a_power_cut_at_any_moment_a_server_says_the_same(tmp_path: Path) -> None:
    await prepared(tmp_path)
    found = run("power_cut", tmp_path, 1, 1000, 1, START)
    *cut, _, whole = found
    assert len(cut) > 80  # each moment at which the server synchronises something or commits what it wrote, twice
    assert (whole["ended"], whole["said"]) == (0, whole["after"])
    for each in cut:
        require_once(each)
    assert {len(each["said"]) for each in cut} == {0, 1, 2, 3}  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("lying", ["steps", "journal"])
async def test_attack_a_server_that_synchronises_less_is_found_by_a_power_cut(tmp_path: Path, lying: str) -> None:
    await prepared(tmp_path)
    found = run("power_cut", tmp_path, 1, 5, 1, CLOSED, lying=lying)
    refused = [each for each in found if (each["again"], each["after"]) == (1, [])]
    assert refused
    # What is not refused in words says the same bytes still: nothing is ever said twice.
    for each in found:
        if each not in refused:
            require_once(each)
