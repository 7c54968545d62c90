"""Merged windows at a server: each report is in one inventory at most, whoever asks, in whatever order.

That holds however often a server is killed, and servers that did not merge the same windows release none of them.
"""

import shutil
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal

from faults.test_restores import HONEST, copy_data, put_data, restored
from faults.test_server_crashes import WRITES, crash_at
from lintra_protocol import ideal
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.messages.documents import AggregateRequest, Cohort, CohortRequest, Difference, Inventory, Signed
from lintra_protocol.task import Task
from lintra_server.storage.batch_states import BatchStates
from support.server_world import World, a_world, token
from support.windowed_world import HOUR, WINDOWS, at, close, freeze, frozen, opened, reports_of, shares_of, windowed

FEW, ENOUGH = 8, 14
"""Below the minimum of 12, and above it."""


def merging(task: Task) -> Task:
    """Six windows of two hours, of which up to three in a row are released together."""
    return windowed(task, WINDOWS.model_copy(update={"max_merge": 3}))


def world_of(folder: Path, kind: str = "osnap", witness: Path | None = None):  # type: ignore[no-untyped-def]
    return a_world(folder, kind, num_servers=2, change=merging, witness=witness)


async def collected(world: World, *sizes: int) -> None:
    """Send so many reports of each window, and let all of them end."""
    for window, size in enumerate(sizes):
        at(world, 2 * window + 0.5)
        if size:
            await world.upload_everywhere(reports_of(world, window, size))
    at(world, 2 * len(sizes) + 1)


async def run(world: World, batch: int, first: int | None) -> tuple[list[bytes], AggregateRequest]:
    """Do the whole exchange, and return everything that was said in it."""
    said, request = await frozen(world, batch, first)
    return [*said, *await shares_of(world, batch, request)], request


def states(world: World, server: int = 0) -> dict[int, str]:
    return {row.number: row.state for row in world.apps[server].node.states.rows()}


async def test_small_windows_are_released_with_the_next_as_the_ideal_release_of_all_their_reports(
    tmp_path: Path,
) -> None:
    async with world_of(tmp_path) as world:
        await collected(world, FEW, 0, FEW)  # nobody answered the second
        alone = await close(world, 0, 0)
        assert (alone.status_code, token(alone)) == (409, "cohort_too_small")
        said, request = await run(world, 2, 0)
        assert Signed[Inventory].from_canonical(said[0]).message.first == 0
        nonces = [parse_base64url(signed.message.nonce) for signed in request.cohorts]
        reports = [*reports_of(world, 0, FEW), *reports_of(world, 2, FEW)]
        wanted = ideal.release(world.task, reports, nonces, batch=2, first=0)
        assert_array_equal(opened(world, 2, said[4:], 0), wanted.sketch)
        assert states(world) == {0: "merged", 1: "merged", 2: "released"}
        for window in (0, 1):
            for first in (None, *range(window)):
                assert token(await close(world, 0, window, first)) == "abandoned"
        assert token(await close(world, 0, 2)) == "cohort_conflict"
        assert (await run(world, 2, 0))[0] == said
        node = world.apps[0].node
        # The keys of everything that was added up are gone.
        assert not node._parts.batch_keys.names()


@pytest.mark.parametrize(
    ("batch", "first", "refusal"),
    [(1, 1, "invalid_message"), (1, 2, "invalid_message"), (3, 0, "invalid_message"), (4, 2, "batch_open")],
)
@pytest.mark.grid(2)
async def test_what_a_task_does_not_merge_and_what_is_not_over_is_not_merged(
    tmp_path: Path, batch: int, first: int, refusal: str
) -> None:
    async with world_of(tmp_path, "sum") as world:
        await collected(world, FEW, FEW, FEW, FEW)
        at(world, 8.5)
        await world.upload_everywhere(reports_of(world, 4, FEW))
        at(world, 9)
        assert token(await close(world, 0, batch, first)) == refusal
        assert set(states(world).values()) == {"open"}


async def test_a_window_that_is_closed_is_never_merged_and_the_next_stays_open(tmp_path: Path) -> None:
    async with world_of(tmp_path, "sum") as world:
        await collected(world, ENOUGH, FEW, ENOUGH)
        assert (await close(world, 0, 0)).status_code == 200
        for batch in (1, 2):
            answer = await close(world, 0, batch, 0)
            assert (answer.status_code, token(answer)) == (409, "batch_closed")
        assert states(world) == {0: "closed", 1: "open", 2: "open"}
        assert (await close(world, 0, 2, 1)).status_code == 200
        assert states(world) == {0: "closed", 1: "merged", 2: "closed"}


@pytest.mark.parametrize("kind", ["closed alone before", "closed alone after", "other windows"])
@pytest.mark.grid(3)
async def test_servers_that_did_not_merge_the_same_windows_release_none_of_them(tmp_path: Path, kind: str) -> None:
    async with world_of(tmp_path, "sum") as world:
        await collected(world, ENOUGH, ENOUGH, ENOUGH)
        asked: dict[int, list[tuple[int, int | None]]] = {0: [(2, 0)], 1: [(2, 1)]}
        if kind != "other windows":
            asked[1] = [(0, None), (2, 1)] if kind.endswith("before") else [(2, None), (1, 0)]
        said = {}
        for server, requests in asked.items():
            for batch, first in requests:
                answer = await close(world, server, batch, first)
                assert answer.status_code == 200, answer.text
                said[server, batch] = answer.content
        for server in range(2):
            inventories = tuple(Signed[Inventory].from_canonical(said[each, 2]) for each in range(2))
            own = world.apps[server].node.store.report_ids(1, 2, 3)
            request = CohortRequest(inventories=inventories, differences=(Difference.between(1 - server, own, own),))
            path = "/batches/2/cohort"
            answer = await world.ask(server, "PUT", path, request.canonical(), "cohort-request")
            assert (answer.status_code, token(answer)) == (409, "inventory_mismatch")
        # Server 0 gave its reports of all three windows to one inventory, so no other ever lists them.
        for batch in (0, 1):
            for first in (None, *range(batch)):
                assert token(await close(world, 0, batch, first)) == "abandoned"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("step", ["close", pytest.param("release", marks=pytest.mark.slow)])
@pytest.mark.grid(9)
async def test_a_crash_between_any_two_writes_of_a_merge_changes_no_byte_of_what_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, write: str, after: bool
) -> None:
    if (write == "uploads stopped" and step != "close") or (write == "secret" and step != "release"):
        return  # this step has no such write
    async with world_of(tmp_path, "sum", tmp_path / "witness") as world:
        await collected(world, FEW, FEW)
        before = [(await freeze(world, 1, server, 0)).content for server in range(2)] if step == "release" else []
        request = AggregateRequest(cohorts=tuple(map(Signed[Cohort].from_canonical, before)))
        with monkeypatch.context() as patched:
            seams = [*WRITES.values(), (BatchStates, "reopen"), (BatchStates, "mark_destroyed")]
            crash_at(patched, seams, WRITES[write], after)
            if step == "close":
                answer = await close(world, 0, 1, 0)
            else:
                path = "/batches/1/aggregate"
                answer = await world.ask(0, "PUT", path, request.canonical(), "aggregate-request")
            assert (answer.status_code >= 500) == (write != "step file removed" or step != "release")
            world.kill(0)
        world.start(0)
        if step == "close" and states(world)[1] == "open":
            # Nothing happened: both are still open, and can go either way.
            assert states(world) == {0: "open", 1: "open"}
        else:
            assert states(world)[0] == "merged"
        said, _ = await run(world, 1, 0)
        assert said[2:4] == before or step == "close"
        world.reopen(0)
        assert (await run(world, 1, 0))[0] == said
        lines = [
            (line.state, line.batch, line.first)
            for line in world.apps[0].node._parts.journal.lines
            if line.step and line.task_id
        ]
        assert lines == [(state, 1, 0) for state in ("closed", "frozen", "released")]
        assert world.halts == []


@pytest.mark.parametrize("stage", ["open", "closed", "frozen"])
@pytest.mark.grid(3)
async def test_an_old_copy_never_releases_alone_what_was_merged(tmp_path: Path, stage: str) -> None:
    async with world_of(tmp_path, "sum") as world:
        await collected(world, FEW, FEW)
        if stage == "frozen":
            for server in range(2):
                await freeze(world, 1, server, 0)
        if stage == "closed":
            await close(world, HONEST, 1, 0)
        copy = copy_data(world, tmp_path / "copy")
        said, _ = await run(world, 1, 0)
        world.kill(HONEST)
        put_data(world, copy)
        done = restored(world, never_copied=True)
        world.start(HONEST)
        assert done.released == 1
        assert states(world, HONEST) == {0: "merged", 1: "scrubbed"}
        assert token(await close(world, HONEST, 0)) == "abandoned"
        answer = await world.ask(HONEST, "GET", "/batches/1/aggregate")
        assert answer.content == said[4 + HONEST]


async def test_a_restored_merge_goes_on_or_is_given_up_as_a_whole(tmp_path: Path) -> None:
    for trusted, kept in ((True, {0: "merged", 1: "closed"}), (False, {0: "abandoned", 1: "abandoned"})):
        async with world_of(tmp_path / str(trusted), "sum") as world:
            await collected(world, FEW, FEW)
            await close(world, HONEST, 1, 0)
            copy = copy_data(world, tmp_path / str(trusted) / "copy")
            world.kill(HONEST)
            put_data(world, copy)
            restored(world, never_copied=trusted)
            world.start(HONEST)
            assert states(world, HONEST) == kept
            shutil.rmtree(copy)


async def test_what_was_merged_is_given_up_and_destroyed_with_the_window_it_is_in(tmp_path: Path) -> None:
    async with world_of(tmp_path, "sum") as world:
        await collected(world, FEW, FEW)
        await close(world, 0, 1, 0)
        node = world.apps[0].node
        for _ in range(8):  # a clock that leaps is not believed
            world.clock.seconds += 13 * 24 * HOUR
            node.note()
            for _ in range(2):
                world.clock.seconds += 2 * HOUR
                node.maintain()
        assert states(world) == {0: "merged", 1: "abandoned"}
        assert all(row.is_destroyed for row in node.states.rows())


async def test_without_its_state_a_closed_window_would_be_released_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the rule off: merging what was closed puts its reports into a second inventory."""
    monkeypatch.setattr(BatchStates, "begin_closing", lambda *_: True)
    monkeypatch.setattr(BatchStates, "may", lambda *_: True)
    monkeypatch.setattr("lintra_server.storage.transition_log.Stepper._require_known", lambda *_: None)
    monkeypatch.setattr("lintra_server.storage.batch_states.BatchStates._apply", lambda *_: True)
    async with world_of(tmp_path, "sum") as world:
        await collected(world, ENOUGH, FEW)
        alone = Signed[Inventory].from_canonical((await close(world, 0, 0)).content).message
        both = Signed[Inventory].from_canonical((await close(world, 0, 1, 0)).content).message
        assert (alone.count, both.count) == (ENOUGH, ENOUGH + FEW)
