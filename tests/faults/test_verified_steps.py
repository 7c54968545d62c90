"""A server of a verified task that dies in a step says the same afterwards; one that was set back says nothing more."""

from pathlib import Path

import pytest

from faults.test_restores import copy_data, put_data, restored
from faults.test_server_crashes import WRITES, crash_at, journal_states
from lintra_server.storage.batch_states import BatchStates
from lintra_server.storage.server_resources import NotStartedError
from lintra_service.spooled_bodies import BodyWriter
from support.checked_world import (
    CHECKS,
    VERDICT,
    check,
    check_shares,
    checks_request,
    hostile,
    judge,
    release,
    verified,
)
from support.server_world import World, a_world, token

SEAMS: dict[str, tuple[type, str]] = {
    "body": (BodyWriter, "finish"),
    **{name: write for name, write in WRITES.items() if name not in ("uploads stopped", "secret")},
}
"""The writes of both steps, in their order; only a check share has a body."""


async def run(world: World) -> list[bytes]:
    """Take the whole exchange with server 0, and return everything that server said in it."""
    shares, bodies = await check_shares(world)
    verdict = await judge(world, 0, shares, bodies)
    released = await release(world, 0)
    assert released.status_code == 200, released.text
    return [shares[0].canonical(), bodies[0], verdict.content, released.content]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", SEAMS)
@pytest.mark.parametrize("step", ["check", "judge"])
@pytest.mark.grid(27)
async def test_a_crash_between_any_two_writes_of_a_check_or_a_verdict_changes_no_byte_of_what_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, write: str, after: bool
) -> None:
    if write == "body" and step == "judge":
        return  # the bodies that come with a request are written before the step
    async with a_world(tmp_path, "sum", num_servers=2, witness=tmp_path / "witness", change=verified) as world:
        await world.upload_everywhere([*world.reports(18), *hostile(world, 1)])
        request = await checks_request(world)
        shares, bodies = await check_shares(world) if step == "judge" else ((), [])
        with monkeypatch.context() as patched:
            crash_at(patched, [*SEAMS.values(), (BatchStates, "mark_destroyed")], SEAMS[write], after)
            answer = await (check(world, 0, request) if step == "check" else judge(world, 0, shares, bodies))
            assert answer.status_code >= 500
            world.kill(0)
        last = (journal_states(world) or [""])[-1]
        world.start(0)
        named = {"check": "checked", "judge": "judged"}[step]
        # If the journal has the step, it happened, and its document is there without being asked for again.
        written = list(SEAMS).index(write) > 2 or (write == "journal line" and after)
        assert (last == named) == written
        found = await world.ask(0, "GET", CHECKS if step == "check" else VERDICT)
        assert (found.status_code == 200) == written
        said = await run(world)
        assert not written or found.content in said
        assert journal_states(world).count(named) == 1
        world.reopen(0)
        assert [(await world.ask(0, "GET", path)).content for path in (CHECKS, VERDICT)] == [said[0], said[2]]
        assert world.halts == []


@pytest.mark.parametrize("stage", ["frozen", pytest.param("checked", marks=pytest.mark.slow)])
async def test_a_database_from_before_a_check_or_a_verdict_never_gives_a_second_one(tmp_path: Path, stage: str) -> None:
    async with a_world(tmp_path, "sum", num_servers=2, change=verified) as world:
        await world.upload_everywhere([*world.reports(18), *hostile(world, 1)])
        request = await checks_request(world)
        if stage == "checked":
            shares, bodies = await check_shares(world)
        copy = copy_data(world, tmp_path / "copy")
        if stage == "frozen":
            assert (await check(world, 0, request)).status_code == 200
        else:
            assert (await judge(world, 0, shares, bodies)).status_code == 200
        world.kill(0)
        put_data(world, copy)
        with pytest.raises(NotStartedError, match="lintra server restore"):
            world.start(0)
        # Even who vouches for the journal: it has a line that the copy lacks, and nobody kept what that line gave out.
        assert restored(world, never_copied=True).abandoned == 1
        world.start(0)
        for path in (CHECKS, VERDICT, "/batches/0/cohort"):
            assert token(await world.ask(0, "GET", path)) == "abandoned"
        assert token(await check(world, 0, request)) == "abandoned"


@pytest.mark.parametrize("stage", ["frozen", "checked"])
async def test_a_release_that_a_restore_stored_again_alone_gives_no_check_share_and_no_verdict(
    tmp_path: Path, stage: str
) -> None:
    async with a_world(tmp_path, "sum", num_servers=2, change=verified) as world:
        await world.upload_everywhere([*world.reports(18), *hostile(world, 1)])
        request = await checks_request(world)
        if stage == "checked":
            await check(world, 0, request)
        copy = copy_data(world, tmp_path / "copy")
        shares, bodies = await check_shares(world)
        assert (await judge(world, 0, shares, bodies)).status_code == 200
        assert (await release(world, 0)).status_code == 200
        world.kill(0)
        put_data(world, copy)
        assert restored(world).released == 1
        world.start(0)
        answer = await (check(world, 0, request) if stage == "frozen" else judge(world, 0, shares, bodies))
        assert (answer.status_code, token(answer)) == (404, "not_found")
        assert "a restore lost its" in answer.json()["detail"]
