"""A wrong clock destroys nothing, ends nothing and makes nothing; a right one may still be behind after a stop."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
import pytest

from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.crypto.sealing import CLASSICAL, HYBRID
from lintra_protocol.errors import UnavailableError
from lintra_protocol.messages.documents import KeyList, Signed
from lintra_server.clock import BUILT, DAY, SETTLING_SECONDS, STRAY_SECONDS, Clock, LastSeen, Overdue
from lintra_server.node import NOTE_SECONDS, Node
from lintra_server.serve import create_internal_app
from lintra_server.storage.key_folder import ACCEPT_FILE
from lintra_server.web.app import create_app
from support.server_world import START, World, a_world, token


class Machine:
    """Wall clock, running time and suspensions, each moved by hand."""

    def __init__(self, wall: float = START) -> None:
        self.wall = wall
        self.ran = 1000.0
        self.slept = 0.0

    def run(self, seconds: float) -> None:
        self.wall += seconds
        self.ran += seconds

    def clock(self, seen: LastSeen | None = None, max_step: float = 30 * DAY) -> Clock:
        return Clock(lambda: self.wall, lambda: self.ran, seen, max_step, lambda: self.slept)


def refused(clock: Clock) -> bool:
    try:
        clock.now()
    except UnavailableError:
        return True
    return False


@pytest.mark.parametrize("stray", [-STRAY_SECONDS, STRAY_SECONDS])
def test_while_running_the_clock_may_stray_by_an_hour(stray: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.run(100 * DAY)
    machine.wall += stray
    assert clock.now() == machine.wall
    machine.wall += 1 if stray > 0 else -1
    assert refused(clock)
    clock.accept()
    assert clock.now() == machine.wall


@pytest.mark.parametrize("days", [-400, -0.1, 0.1, 400])
def test_a_clock_that_is_put_right_is_believed_again_and_gained_nothing(days: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.run(DAY)
    before = clock.seen()
    machine.wall += days * DAY
    assert refused(clock)
    machine.run(DAY)
    assert refused(clock)
    assert clock.seen() == before
    machine.wall -= days * DAY
    assert clock.now() == machine.wall
    machine.wall += STRAY_SECONDS + 1  # still by the first anchor
    assert refused(clock)


def test_a_start_with_a_wrong_clock_is_judged_again_when_it_is_put_right() -> None:
    machine = Machine()
    seen = machine.clock().seen()
    machine.wall += 45 * DAY
    clock = machine.clock(seen)
    machine.run(5 * DAY)
    assert refused(clock)  # the time that it ran since is no part of the stop
    machine.wall -= 20 * DAY
    assert clock.now() == machine.wall
    # The stop took what a start with this clock would have taken.
    assert clock.seen().allowance == 5 * DAY
    machine.wall -= 40 * DAY
    assert refused(clock)


def test_what_ran_since_a_wrong_start_excuses_no_larger_step() -> None:
    machine = Machine()
    seen = machine.clock().seen()
    machine.wall += 31 * DAY
    clock = machine.clock(seen)
    machine.run(100 * DAY)
    assert refused(clock)


def test_a_suspension_beyond_the_allowance_stays_refused() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += 40 * DAY
    machine.slept += 40 * DAY
    for _ in range(3):
        assert refused(clock)


def test_many_small_steps_while_running_gain_no_more_than_one() -> None:
    machine = Machine()
    clock = machine.clock()
    for _ in range(6):
        machine.run(60)
        machine.wall += STRAY_SECONDS / 6
        assert not refused(clock)
    machine.wall += STRAY_SECONDS / 6
    assert refused(clock)


def test_across_a_stop_the_clock_may_advance_by_the_allowance_and_no_more() -> None:
    machine = Machine()
    seen = machine.clock().seen()
    machine.wall += 30 * DAY
    assert not refused(machine.clock(seen))
    machine.wall += 1
    assert refused(machine.clock(seen))
    machine.wall = START - STRAY_SECONDS - 1
    assert refused(machine.clock(seen))


def test_the_allowance_is_used_up_by_stops_and_refilled_by_running_only() -> None:
    machine = Machine()
    clock = machine.clock()
    for _ in range(3):
        machine.wall += 10 * DAY
        clock = machine.clock(clock.seen())
        assert not refused(clock)
    machine.wall += DAY
    assert refused(machine.clock(clock.seen()))
    machine.wall -= DAY
    clock = machine.clock(clock.seen())
    machine.run(2 * DAY)
    clock.now()
    machine.wall += 2 * DAY
    assert not refused(machine.clock(clock.seen()))
    machine.wall += DAY
    assert refused(machine.clock(clock.seen()))


def test_a_suspension_counts_like_a_stop() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += 20 * DAY
    machine.slept += 20 * DAY
    assert not refused(clock)
    machine.wall += 20 * DAY
    machine.slept += 20 * DAY
    assert refused(clock)


def test_a_clock_from_before_this_software_is_refused() -> None:
    assert refused(Machine(BUILT - 1).clock())
    assert not refused(Machine(BUILT).clock())


def test_a_refused_clock_does_not_move_what_the_next_process_is_told() -> None:
    machine = Machine()
    seen = machine.clock().seen()
    machine.wall += 400 * DAY
    wrong = machine.clock(seen)
    machine.run(DAY)
    assert wrong.seen() == seen


def test_a_deadline_counts_only_after_it_stayed_passed_for_an_hour_of_running() -> None:
    machine = Machine()
    overdue = Overdue(lambda: machine.ran)
    assert overdue.settled({"a"}) == set()
    machine.ran += SETTLING_SECONDS - 1
    assert overdue.settled({"a", "b"}) == set()
    machine.ran += 1
    assert overdue.settled({"a", "b"}) == {"a"}
    assert overdue.settled({"b"}) == set()  # the clock was put right again
    assert overdue.settled({"a"}) == set()


def files(world: World) -> set[str]:
    folders = (world.settings[0].key_dir / name for name in ("batches", "sealing"))
    return {path.name for folder in folders for path in folder.iterdir()}


async def wrong_start(world: World, days: float) -> None:
    """Start server 0 with its clock off by some days, and let it run for two hours."""
    world.kill(0)
    world.clock.seconds += days * DAY
    world.start(0)
    for _ in range(2):
        world.clock.seconds += SETTLING_SECONDS
        world.apps[0].node.maintain()


@pytest.mark.parametrize("days", [400, -400])
async def test_a_start_with_a_wrong_clock_destroys_nothing_and_refuses_no_report_for_good(
    tmp_path: Path, days: int
) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        body, new = [await world.body(0, each) for each in (world.reports(12), world.reports(13)[12:])]
        assert (await world.post(0, body)).status_code == 200
        secrets = files(world)
        await wrong_start(world, days)
        # What is stored is stored, and may be said; anything new is not judged by a clock that nobody believes.
        assert (await world.post(0, body)).status_code == 200
        answer = await world.post(0, new)
        assert (answer.status_code, token(answer)) == (503, "unavailable")
        assert "clock" in answer.text
        with pytest.raises(UnavailableError, match="clock"):
            world.apps[0].node.clock.check()
        assert files(world) == secrets
        # With the right clock everything is as it was.
        world.kill(0)
        world.clock.seconds = START + 60
        world.start(0)
        assert (await world.upload(0, world.reports(13))).failures == ()
        assert (await world.close_batch(0)).status_code == 200
        assert files(world) == secrets


async def test_a_clock_that_the_operator_accepts_destroys_what_is_due_after_an_hour(tmp_path: Path) -> None:
    # The rule switched off by hand: this is what one start with a wrong clock used to do at once.
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        await world.upload_everywhere(world.reports(12))
        before = files(world)
        await wrong_start(world, 400)
        node = world.apps[0].node
        (world.settings[0].key_dir / ACCEPT_FILE).touch(0o600)
        node.note()
        node.maintain()
        assert before <= files(world)
        world.clock.seconds += SETTLING_SECONDS
        node.maintain()
        assert not before & files(world)
        assert (await world.close_batch(0)).status_code == 410


async def test_a_sealing_key_from_the_future_never_counts_as_the_lasting_one(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        world.clock.seconds += 25 * DAY  # within the allowance: believed, and wrong
        world.kill(0)
        world.start(0)
        world.kill(0)
        world.clock.seconds = START + 60
        (world.settings[0].key_dir / ACCEPT_FILE).touch(0o600)
        world.start(0)
        # Now the first key is about to expire, and its successor is not valid yet: there must be another one.
        world.clock.seconds = START + 22 * DAY
        node = world.apps[0].node
        node.maintain()
        offered = Signed[KeyList].from_canonical(node.keys.signed_list).message.keys
        lasting = [key for key in offered if key.valid_until > world.clock.seconds + 7 * DAY]
        assert {key.suite for key in lasting} == {HYBRID, CLASSICAL}
        assert all(key.valid_from <= world.clock.seconds for key in lasting)


class Hands:
    """Wall clock and running time of one server, moved apart by hand."""

    def __init__(self) -> None:
        self.machine = Machine()

    def start(self, world: World) -> Node:
        world.kill(0)
        world.apps[0] = create_app(
            world.settings[0], random_bytes=system_randomness, now=lambda: self.machine.wall,
            running=lambda: self.machine.ran, halt=world.halts.append,
        )  # fmt: skip
        world.http[0] = httpx2.AsyncClient(transport=httpx2.ASGITransport(world.apps[0]), base_url="https://a.example")
        return world.apps[0].node


async def ready(node: Node) -> int:
    transport = httpx2.ASGITransport(create_internal_app(node))
    async with httpx2.AsyncClient(transport=transport, base_url="http://internal.test") as http:
        return (await http.get("/readyz")).status_code


async def soon(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(5 * NOTE_SECONDS):
        while not await condition():
            await asyncio.sleep(0.05)


async def test_a_jump_shows_at_once_and_when_it_is_put_right_the_server_goes_on_by_itself(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        hands = Hands()
        node, machine = hands.start(world), hands.machine
        assert (await world.upload(0, world.reports(12))).failures == ()
        before = files(world)
        assert await ready(node) == 200
        machine.wall += 400 * DAY
        assert await ready(node) == 503  # without another look at the disks
        answer = await world.post(0, await world.body(0, world.reports(13)[12:]))
        assert (answer.status_code, token(answer)) == (503, "unavailable")
        # Nothing is closed early, and what is overdue by the wrong clock is destroyed neither now nor later.
        assert (await world.close_batch(0)).status_code == 503
        for _ in range(3):
            machine.run(SETTLING_SECONDS)
            node.maintain()
        node.keys._sign(-1.0)  # as a start with this clock does: none is offered
        machine.wall -= 400 * DAY

        async def serves() -> bool:
            offered = Signed[KeyList].from_canonical(node.keys.signed_list).message.keys
            return bool(offered) and await ready(node) == 200

        await soon(serves)
        node.maintain()
        assert files(world) == before
        assert (await world.upload(0, world.reports(13))).failures == ()
