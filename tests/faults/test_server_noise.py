"""Noise by servers is drawn once for a cohort: exact, stored with the share, and after any crash or restore the same.

A share less what it would be without noise is the noise that left; no two ever leave for the same reports.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from faults.test_restores import copy_data, put_data, reach, release, restored, rules_off
from faults.test_server_crashes import WRITES, crash_at
from lintra_protocol import ideal
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import IntArray, RingArray, from_ring
from lintra_protocol.crypto.sharing import combine
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.errors import RowUnderfilledError
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.task import Task
from lintra_server.storage.batch_states import BatchStates
from lintra_server.storage.server_resources import NotStartedError
from support.measured import measurement_of, noise_sigmas, reports_without_noise, with_server_noise
from support.server_world import World, a_world, noised_by_servers

REPORTS = 14
FAR = 10
"""Deviations: beyond it noise lies once in 10^22 words."""


def noise_in(world: World, server: int, content: bytes, reports: int = REPORTS) -> IntArray:
    """Return what a server's share holds beside the sum of its shares of all reports."""
    record, share = world.opened(server, content)
    ordered = sorted(world.reports(reports), key=lambda report: report.report_id)
    matrix = world.task.mechanism.public_matrix(reports, parse_base64url(record.seed))
    return from_ring(share - ideal.server_sketch_share(world.task, server, ordered, matrix))


def require_noise(world: World, found: IntArray) -> None:
    """Check that every word has noise of its own deviation: none is far out, and hardly any is 0."""
    sigmas = noise_sigmas(world.task, world.task.num_columns)
    assert np.abs(found / sigmas).max() < FAR
    # Of words with a deviation of 100 and more, one in 250 is 0, so that half of them hardly ever are.
    assert sigmas.min() >= 4
    assert np.count_nonzero(found) > found.size / 2


@pytest.mark.parametrize("kind", ["sum", "osnap", "overlapping", "second_moment"])
@pytest.mark.grid(4)
async def test_every_server_adds_noise_of_its_own_to_every_word_once_and_gives_it_out_again(
    tmp_path: Path, kind: str
) -> None:
    async with a_world(tmp_path, kind, change=noised_by_servers) as world:
        await world.upload_everywhere(world.reports(REPORTS))
        request = await world.aggregate_request()
        given = [(await world.release(server, request)).content for server in range(3)]
        noise = [noise_in(world, server, content) for server, content in enumerate(given)]
        for one in noise:
            require_noise(world, one)
        assert not np.array_equal(noise[0], noise[1])
        assert not np.array_equal(noise[1], noise[2])
        # What the analyzer reads is the rows and the sum of all three.
        shares = [world.opened(server, content)[1] for server, content in enumerate(given)]
        nonces = [parse_base64url(signed.message.nonce) for signed in request.cohorts]
        none: list[RandomBytes] = [bytes] * 3

        def silent(measurement: Measurement, share: RingArray, random_bytes: RandomBytes) -> None:
            del measurement, share, random_bytes

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Measurement, "add_server_noise", silent)
            exact = ideal.run(world.task, world.rows(REPORTS), nonces, smoothing=none)
        assert_array_equal(from_ring(combine(np.stack(shares))), exact.sketch + sum(noise))
        world.reopen(0)
        assert (await world.release(0, request)).content == given[0]


async def test_reports_of_such_a_task_are_the_rows_themselves(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", change=noised_by_servers) as world:
        task = world.task
        rows = np.stack([row for row, _ in world.rows(3)])
        exact = reports_without_noise(task, task.schema_arrays.normalise(rows))
        payloads = [[share[33:] for share in report.shares] for report in world.reports(3)]
        for row, of_servers in zip(exact, payloads, strict=True):
            shares = [np.frombuffer(payload, "<u8") for payload in of_servers]
            assert_array_equal(from_ring(combine(np.stack(shares))), row)


class Drawn:
    """Every sketch share that got its noise, as it was then."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.shares: list[RingArray] = []
        original: Callable[..., None] = Measurement.add_server_noise

        def watched(measurement: Measurement, share: RingArray, random_bytes: RandomBytes) -> None:
            original(measurement, share, random_bytes)
            self.shares.append(share.copy())

        patched.setattr(Measurement, "add_server_noise", watched)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", [write for write in WRITES if write != "uploads stopped"])
@pytest.mark.grid(6)
async def test_a_crash_between_drawing_noise_and_storing_it_lets_one_noise_out_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str, after: bool
) -> None:
    async with a_world(tmp_path, "sum", num_servers=2, witness=tmp_path / "witness", change=noised_by_servers) as world:
        drawn = Drawn(monkeypatch)
        await world.upload_everywhere(world.reports(REPORTS))
        request = await world.aggregate_request()
        with monkeypatch.context() as patched:
            seams = [*WRITES.values(), (BatchStates, "reopen"), (BatchStates, "mark_destroyed")]
            crash_at(patched, seams, WRITES[write], after)
            answer = await world.release(0, request)
            world.kill(0)
        left = [answer.content] if answer.status_code == 200 else []
        for _ in range(2):
            world.start(0)
            left.append((await world.release(0, request)).content)
            world.kill(0)
        world.start(0)
        # Nothing left before the crash, or what left afterwards too, byte for byte: one draw, of at most two.
        assert len(set(left)) == 1
        share = world.opened(0, left[0])[1]
        assert len(drawn.shares) <= 2
        assert_array_equal(share, drawn.shares[-1])
        # Once the journal has the step, what was drawn before the crash is what leaves.
        written = list(WRITES).index(write) > 2 or (write == "journal line" and after)
        assert len(drawn.shares) == (1 if written else 2)
        require_noise(world, noise_in(world, 0, left[0]))


@pytest.mark.parametrize("rule", [True, False], ids=["on", "off"])
async def test_a_restored_copy_draws_no_second_noise_for_the_same_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    async with a_world(tmp_path, "sum", change=noised_by_servers) as world:
        if not rule:
            rules_off(monkeypatch)
        own, ids = await reach(world, "closed")
        copy = copy_data(world, tmp_path / "copy")
        first = await release(world, own, ids, ids)
        world.kill(0)
        put_data(world, copy)
        if not rule:
            # The attack: the same reports with fresh noise, of which the mean of two has half the variance.
            world.start(0)
            second = await release(world, own, ids, ids)
            difference = from_ring(first - second)
            require_noise(world, difference)
            return
        with pytest.raises(NotStartedError, match="lintra server restore"):
            world.start(0)
        assert restored(world).released == 1
        world.start(0)
        again = (await world.ask(0, "GET", "/batches/0/aggregate")).content
        assert_array_equal(world.opened(0, again)[1], first)


@pytest.mark.slow
async def test_a_full_disk_after_the_draw_lets_nothing_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_world(tmp_path, "sum", num_servers=2, change=noised_by_servers) as world:
        drawn = Drawn(monkeypatch)
        await world.upload_everywhere(world.reports(REPORTS))
        request = await world.aggregate_request()

        def full(*_: object) -> None:
            raise OSError(28, "no space left on device")

        owner, method = WRITES["step file"]
        with monkeypatch.context() as patched:
            patched.setattr(owner, method, full)
            answer = await world.release(0, request)
            assert answer.status_code >= 500
        assert len(drawn.shares) == 1
        released = await world.release(0, request)
        assert released.status_code == 200
        assert_array_equal(world.opened(0, released.content)[1], drawn.shares[-1])


async def test_one_row_may_be_filled_by_a_single_client_and_the_gate_stays_open(tmp_path: Path) -> None:
    # As many rows as reports: noise of clients would have one draw in a row, against no coalition at all.
    def thin(task: Task) -> Task:
        claim = task.claim.model_copy(update={"max_corrupt_clients": 11})
        mechanism = task.mechanism.model_copy(update={"rows": 12})
        return noised_by_servers(task.model_copy(update={"claim": claim, "mechanism": mechanism}))

    async with a_world(tmp_path, "osnap", change=thin) as world:
        await world.upload_everywhere(world.reports(12))
        request = await world.aggregate_request()
        answer = await world.release(0, request)
        assert answer.status_code == 200
        require_noise(world, noise_in(world, 0, answer.content, 12))
        by_clients = with_server_noise(world.task, 0)
        with pytest.raises(RowUnderfilledError):
            measurement_of(by_clients, world.task.num_columns, world.task.claim).privacy(12)
