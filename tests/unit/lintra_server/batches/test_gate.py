"""From the first upload to the release: the services give exactly what the ideal protocol gives."""

import errno
import json
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol import ideal
from lintra_protocol.cohort.merkle import InclusionProof, verify_inclusion
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import from_ring
from lintra_protocol.crypto.sealing import HYBRID
from lintra_protocol.crypto.sharing import combine
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.errors import InventoryMismatchError
from lintra_protocol.messages.documents import AggregateRequest, Cohort, Receipt, Signed, TaskRecord, receipt_hash
from lintra_protocol.messages.inclusion import Inclusion
from lintra_server.batches import transform
from lintra_server.batches.gate import Gate
from lintra_server.clock import SETTLING_SECONDS
from lintra_server.storage import segments
from lintra_server.storage.store import Store
from support.measured import measurement_of
from support.server_world import BASE, PRECISION, World, a_world, seeded, text
from support.stores import opened


async def released(world: World, request: AggregateRequest) -> np.ndarray:
    """Return what the analyzer decodes."""
    shares = []
    for server in range(len(world.apps)):
        answer = await world.release(server, request)
        assert answer.status_code == 200, answer.text
        shares.append(world.opened(server, answer.content)[1])
    return measurement_of(world.task, world.task.num_columns).decode(from_ring(combine(np.stack(shares))))


def nonces(request: AggregateRequest) -> list[bytes]:
    return [parse_base64url(signed.message.nonce) for signed in request.cohorts]


@pytest.mark.parametrize("share_form", ["uniform", "seeded", "spread"])
@pytest.mark.parametrize("mechanism", ["osnap", "sum", "second_moment"])
@pytest.mark.grid(4)
async def test_three_servers_release_exactly_what_the_ideal_protocol_releases(
    tmp_path: Path, mechanism: str, share_form: str
) -> None:
    form = {"share_form": share_form}
    async with a_world(tmp_path, mechanism, change=lambda task: task.model_copy(update=form)) as world:
        await world.upload_everywhere(world.reports(15))
        request = await world.aggregate_request()
        expected = ideal.run(world.task, world.rows(15), nonces(request))
        assert_array_equal(await released(world, request), expected.values)


class Recorded:
    """A source that remembers what it gave, and gives it again from the beginning."""

    def __init__(self, random_bytes: RandomBytes) -> None:
        self._random_bytes = random_bytes
        self.given = b""

    def __call__(self, count: int) -> bytes:
        self.given += (data := self._random_bytes(count))
        return data

    def again(self) -> RandomBytes:
        left = BytesIO(self.given)
        return left.read


async def test_servers_smooth_a_sketch_whose_rows_overlap_once_and_keep_what_they_gave(tmp_path: Path) -> None:
    async with a_world(tmp_path, "overlapping") as world:
        await world.upload_everywhere(world.reports(15))
        request = await world.aggregate_request()
        sources = [Recorded(seeded(f"smoothing {server}")) for server in range(3)]
        for app, random_bytes in zip(world.apps, sources, strict=True):
            app.node.gate = Gate(
                app.node.store,
                app.node.states,
                app.node.stepper,
                app.node.identity,
                random_bytes,
                world.clock,
                app.node.lists,
            )
        values = await released(world, request)
        drawn = [one.given for one in sources]
        assert all(drawn)
        expected = ideal.run(world.task, world.rows(15), nonces(request), smoothing=[one.again() for one in sources])
        assert_array_equal(values, expected.values)
        # Asked again, also after a restart, a server gives the same bytes and draws nothing.
        assert_array_equal(await released(world, request), values)
        assert [one.given for one in sources] == drawn
        first = await world.release(0, request)
        world.reopen(0)
        assert (await world.release(0, request)).content == first.content
        unsmoothed = ideal.run(
            world.task, world.rows(15), nonces(request), smoothing=[seeded(f"other {index}") for index in range(3)]
        )
        assert not np.array_equal(unsmoothed.values, values)


async def test_every_server_draws_smoothing_noise_of_its_own(tmp_path: Path) -> None:
    async with a_world(tmp_path, "overlapping") as world:
        await world.upload_everywhere(world.reports(15))
        request = await world.aggregate_request()
        reports = sorted(world.reports(15), key=lambda report: report.report_id)
        noise = []
        for server in range(3):
            record, share = world.opened(server, (await world.release(server, request)).content)
            matrix = world.task.mechanism.public_matrix(15, parse_base64url(record.seed))
            exact = ideal.server_sketch_share(world.task, server, reports, matrix)
            noise.append(from_ring(share - exact))
        # Twelve draws of parameter 3: fifteen deviations off is impossible, all zero or all equal too.
        for one in noise:
            assert 0 < np.abs(one).max() < 45
        assert not np.array_equal(noise[0], noise[1])
        assert not np.array_equal(noise[1], noise[2])


async def test_the_default_hybrid_suite_gives_the_same(tmp_path: Path) -> None:
    async with a_world(tmp_path, suite=HYBRID) as world:
        await world.upload_everywhere(world.reports(13))
        request = await world.aggregate_request()
        assert_array_equal(
            await released(world, request), ideal.run(world.task, world.rows(13), nonces(request)).values
        )


async def test_many_small_segments_and_blocks_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MAX_SEGMENT_BYTES", 50)
    monkeypatch.setattr(transform, "BLOCK_BYTES", 100)
    async with a_world(tmp_path) as world:
        await world.upload_everywhere(world.reports(15))
        request = await world.aggregate_request()
        assert_array_equal(
            await released(world, request), ideal.run(world.task, world.rows(15), nonces(request)).values
        )


async def test_closing_rewrites_small_segments_unless_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    async with a_world(tmp_path) as world:
        reports = world.reports(14)
        for start in range(0, 14, 5):
            await world.upload_everywhere(reports[start : start + 5])
        with monkeypatch.context() as patched:
            patched.setattr(Store, "merge_segments", full)
            assert (await world.close_batch(0)).status_code == 200
        assert (await world.close_batch(1)).status_code == 200
        assert [len(world.apps[server].node.store.held(1)[1].numbers) for server in (0, 1)] == [3, 1]
        request = await world.aggregate_request()
        assert_array_equal(
            await released(world, request), ideal.run(world.task, world.rows(14), nonces(request)).values
        )


async def test_reports_missing_at_some_server_are_left_out_by_all(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(16)
        await world.upload(0, reports[1:])
        await world.upload(1, reports[:-1])
        await world.upload(2, reports)
        request = await world.aggregate_request()
        assert {signed.message.count for signed in request.cohorts} == {14}
        expected = ideal.run(world.task, world.rows(16)[1:-1], nonces(request))
        assert_array_equal(await released(world, request), expected.values)


async def test_every_step_repeated_gives_the_same_bytes(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        await world.upload_everywhere(world.reports(12))
        assert (await world.close_batch(0)).content == (await world.close_batch(0)).content
        request = await world.cohort_request(0)
        assert (await world.freeze(0, request)).content == (await world.freeze(0, request)).content
        aggregate = await world.aggregate_request()
        first = await world.release(0, aggregate)
        world.reopen(0)
        again = await world.release(0, aggregate)
        assert first.status_code == 200
        assert again.content == first.content
        for resource, made in [("inventory", None), ("cohort", None), ("aggregate", first.content)]:
            got = await world.ask(0, "GET", f"/batches/0/{resource}")
            assert got.status_code == 200
            assert made in (None, got.content)


async def test_a_receipt_covers_what_was_stored_in_order_of_upload(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(3)
        answer = await world.upload(1, reports)
        receipt: Receipt = answer.receipt.verified(world.task.servers[1].identity_key)
        assert (receipt.task_id, receipt.server, receipt.count) == (world.task.task_id, 1, 3)
        assert receipt.reports == receipt_hash([report.report_id for report in reports])


async def test_a_task_is_served_under_the_servers_own_signature(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        answer = await world.http[2].get(f"/v1/tasks/{world.task.task_id}")
        record = Signed[TaskRecord].from_canonical(answer.content).verified(world.task.servers[2].identity_key)
        assert record.definition == world.task
        assert (await world.register(2)).status_code == 200
        assert (await world.register(2)).content == answer.content


async def test_states_and_counts_are_shown_to_the_analyzer(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:

        async def state() -> tuple[str, int]:
            (batch,) = json.loads((await world.ask(0, "GET", "/batches")).content)["batches"]
            return batch["state"], batch["count"]

        assert await state() == ("open", 0)
        await world.upload_everywhere(world.reports(12))
        assert await state() == ("open", 0)  # counted once per time unit
        world.clock.seconds += PRECISION
        assert await state() == ("open", 12)
        await world.close_batch(0)
        assert await state() == ("closed", 12)
        request = await world.aggregate_request()
        assert await state() == ("frozen", 12)
        await world.release(0, request)
        assert await state() == ("released", 12)


async def test_a_client_can_prove_that_its_report_is_in_the_cohort(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(13)
        await world.upload_everywhere(reports)
        request = await world.aggregate_request()
        cohort = request.cohorts[0].message
        root = parse_base64url(cohort.root)
        for report in reports:
            answer = await world.http[0].get(f"{BASE.format(world.task.task_id)}/inclusion/{text(report)}")
            found = Inclusion.from_canonical(answer.content)
            assert (found.root, found.count) == (cohort.root, cohort.count)
            siblings = tuple(map(parse_base64url, found.siblings))
            proof = InclusionProof(found.leaf, parse_base64url(found.leaf_ids), siblings)
            verify_inclusion(root, cohort.count, report.report_id, proof)
            found.verify(cohort, report.report_id)
        with pytest.raises(InventoryMismatchError):
            found.verify(cohort, bytes(32))
        with pytest.raises(InventoryMismatchError, match="another cohort"):
            found.verify(cohort.model_copy(update={"count": cohort.count + 1}), report.report_id)


async def test_counters_add_up(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(4)
        await world.upload(0, reports[:3])
        late = world.reports(1, "late", time=world.task.not_after)
        await world.upload(0, [*reports, *late])
        assert json.loads((await world.ask(0, "GET", "/counters")).content) == {
            "received": 8,
            "accepted": 4,
            "repeated": 3,
            "refused": {"report_too_late": 1},
        }


async def test_what_the_counters_said_outlives_the_process_and_only_grows(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        late = world.reports(1, "late", time=world.task.not_after)
        for round_ in range(1, 4):
            await world.upload(0, [*world.reports(2), *late])
            counters = (await world.ask(0, "GET", "/counters")).json()
            assert counters["refused"] == {"report_too_late": round_}
            assert (counters["accepted"], counters["repeated"]) == (2, 2 * (round_ - 1))
            world.clock.seconds += PRECISION
            if round_ == 2:
                world.reopen(0)


async def test_a_released_batch_is_scrubbed_after_its_retention_and_not_before(tmp_path: Path) -> None:
    kept = {"retention": 604_800}
    async with a_world(tmp_path, change=lambda task: task.model_copy(update=kept)) as world:
        reports = world.reports(14)
        await world.upload(0, reports)
        await world.upload(1, reports[1:])
        await world.upload(2, reports[1:])
        request = await world.aggregate_request()
        first = await world.release(0, request)
        node = world.apps[0].node
        world.clock.seconds += world.task.retention - 1
        node.maintain()
        assert opened(node.store)
        world.clock.seconds += 1
        node.maintain()
        world.clock.seconds += SETTLING_SECONDS - 1
        node.maintain()
        assert opened(node.store)
        world.clock.seconds += 1
        node.maintain()
        (batch,) = json.loads((await world.ask(0, "GET", "/batches")).content)["batches"]
        assert batch["state"] == "scrubbed"
        # What was given out stays the same, and a client that repeats itself is still answered.
        assert (await world.release(0, request)).content == first.content
        assert (await world.upload(0, reports)).failures == ()


async def test_nothing_of_a_scrubbed_batch_is_left_on_the_disk(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        await world.upload_everywhere(world.reports(14))
        node = world.apps[0].node
        with node.database.reading() as connection:
            (segment,) = connection.exec_driver_sql("SELECT payloads FROM segments").scalars()
        folders = world.settings[0].data_dir, world.settings[0].key_dir
        (secret,) = [path.read_bytes() for path in (folders[1] / "batches").iterdir()]

        def on_disk(data: bytes) -> bool:
            paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
            return any(data in path.read_bytes() for path in paths)

        assert [on_disk(data) for data in (segment, secret)] == [True] * 2
        await world.release(0)
        # Without retention the keys go at once, and with it whatever copies there are.
        assert not on_disk(secret)
        node.maintain()
        assert [on_disk(data) for data in (segment, secret)] == [False] * 2


async def test_a_batch_that_nobody_released_is_abandoned_long_after_the_task(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        await world.upload_everywhere(world.reports(12))
        request = await world.aggregate_request()
        world.clock.seconds = world.task.not_after * world.task.time_precision + 90 * 86_400 - 1
        world.apps[0].node.maintain()
        assert (await world.ask(0, "GET", "/batches/0/cohort")).status_code == 200
        world.clock.seconds += 1
        world.apps[0].node.maintain()
        assert (await world.ask(0, "GET", "/batches/0/cohort")).status_code == 200
        world.clock.seconds += SETTLING_SECONDS
        world.apps[0].node.maintain()
        for answer in (
            await world.ask(0, "GET", "/batches/0/cohort"),
            await world.release(0, request),
            await world.close_batch(0),
        ):
            assert answer.status_code == 410
        assert (await world.release(1, request)).status_code == 200


async def test_the_identifiers_of_an_inventory_are_those_uploaded(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(12)
        await world.upload_everywhere(reports)
        inventories = await world.inventories()
        assert await world.ids(1) == sorted(report.report_id for report in reports)
        assert [signed.message.server for signed in inventories] == [0, 1, 2]
        assert len({signed.message.nonce_commitment for signed in inventories}) == 3
        cohort = Signed[Cohort].from_canonical((await world.freeze(1)).content).message
        assert cohort.nonce != base64url(bytes(32))
