"""A release in parts: any parts, any order, whoever computes them, the same bits."""

import multiprocessing
import os
import pickle
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from structlog.testing import capture_logs

from lintra_protocol.crypto.ring import IntArray, RingArray, ring_bytes
from lintra_protocol.errors import UnavailableError
from lintra_protocol.transforms.osnap import BalancedOsnap
from lintra_server.batches.cluster import compute_on_worker
from lintra_server.batches.executor import InProcessExecutor, PartShare, ReleaseRequest, sketch_share, tree_sum
from lintra_server.batches.executors import DaskExecutor, ProcessExecutor, executor_of
from lintra_server.batches.key_broker import BrokeredKeys, enter, open_broker
from lintra_server.batches.partial_release import behind_the_door, compute, remote_parts
from lintra_server.batches.transform import is_right, part_share, runs
from lintra_server.storage.segments import EXCLUDED, SPAN, SegmentTable, sort_ids
from lintra_server.storage.store import StoredUpload
from lintra_service.settings import InvalidSettingsError
from support import few
from support.certificates import certificates
from support.server_world import World, a_world
from support.tasks import make_task

REPORTS, SEGMENT = 60, 7
CALM = {"distributed.worker.memory.target": False, "distributed.worker.memory.spill": False}


@dataclass
class InMemory:
    """Segments of fixed sizes that lie in memory, numbers with gaps as after rewriting."""

    sizes: list[int]
    shares: RingArray

    @property
    def totals(self) -> IntArray:
        return np.cumsum(np.array(self.sizes, np.int64))

    @property
    def numbers(self) -> IntArray:
        return np.arange(len(self.sizes)) * 3 + 2

    def payloads(self, first: int = 0, last: int = SPAN - 1) -> Iterator[tuple[int, bytes]]:
        for number, size, total in zip(self.numbers.tolist(), self.sizes, self.totals.tolist(), strict=True):
            if first <= number <= last:
                yield number, ring_bytes(self.shares[total - size : total])

    def table(self, first: int, last: int) -> SegmentTable:
        raise NotImplementedError

    def elsewhere(self) -> tuple[str, bytes]:
        raise NotImplementedError


TASK = make_task("osnap", rows=4, sparsity=2)


@few
@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(1, 40), st.randoms(use_true_random=False))
def test_any_runs_in_any_order_add_up_to_the_plain_product(sizes: list[int], most: int, random: object) -> None:
    count, rng = sum(sizes), np.random.default_rng(sum(sizes) + most)
    stored = InMemory(sizes, rng.integers(0, 2**64, (count, TASK.num_words), np.uint64))
    chosen = np.sort(rng.permutation(count)[: count * 3 // 4])
    ranks = np.full(count, EXCLUDED, np.uint32)
    ranks[chosen] = rng.permutation(len(chosen)).astype(np.uint32)
    matrix = BalancedOsnap(4, len(chosen), bytes(32), 2)
    expected = np.zeros((4, TASK.sketch_words), np.uint64)
    matrix.add_reports(expected, ranks[chosen].astype(np.int64), stored.shares[chosen])
    parts = runs(stored, most)
    assert [part.begins for part in parts] == [0, *(part.ends for part in parts[:-1])][: len(parts)]
    assert all(part.ends - part.begins <= most or part.first == part.last for part in parts if most > 9)
    sums = [part_share(TASK, 0, matrix, ranks[p.begins : p.ends], stored, p) for p in parts]
    rng.shuffle(sums)
    total, done = tree_sum([(np.zeros((4, TASK.sketch_words + 1), np.uint64), 0), *sums])
    assert_array_equal(total[:, :-1], expected)
    assert is_right(total)
    assert done == len(chosen)
    assert random is not None


async def released(world: World, reports: int = REPORTS, part_reports: int = 14) -> ReleaseRequest:
    """Store shares at server 0 in small segments, freeze most of them, and return what there is to add up."""
    app = world.apps[0]
    held, rng = app.node.registry.find_batch(world.task.task_id), np.random.default_rng(1)
    for start in range(0, reports, SEGMENT):
        ids = [rng.bytes(32) for _ in range(min(SEGMENT, reports - start))]
        app.node.store.add_reports(
            [StoredUpload(held.number, ids, [rng.bytes(8 * world.task.num_words) for _ in ids], 999)]
        )
    seed = bytes(range(32))
    matrix = world.task.mechanism.public_matrix(reports, seed)
    store = app.node.store
    ids, table = store.held(held.number)
    ranks = np.empty(len(ids), np.uint32)
    ranks[sort_ids(ids)[1]] = np.arange(len(ids), dtype=np.uint32)
    return ReleaseRequest(
        world.task, 0, matrix, seed, held.number, ranks, store.segments(held.number, table), part_reports
    )


async def test_what_another_process_is_told_leads_it_to_the_same_bits_and_holds_no_key(tmp_path: Path) -> None:
    async with a_world(tmp_path, "overlapping") as world:
        release = await released(world)
        expected = sketch_share(release, InProcessExecutor())
        whole = sketch_share(replace(release, part_reports=1000), InProcessExecutor())
        assert_array_equal(expected, whole)
        behind = behind_the_door(release)
        with open_broker(behind) as door:
            parts = remote_parts(release, door)
            assert len(parts) > 3
            for part in parts:
                for told in (pickle.dumps(part), repr(part).encode()):
                    assert behind.key not in told
                    assert behind.database.encode() not in told
            shares = [compute(pickle.loads(pickle.dumps(part))) for part in reversed(parts)]
        total, _ = tree_sum(shares)
        assert_array_equal(total[:, :-1], expected)
        assert is_right(total)
        with pytest.raises(UnavailableError, match="no way through the door"):
            compute(parts[0])
        assert behind.key.hex() not in repr(behind)


async def test_a_share_that_is_missing_is_no_release(tmp_path: Path) -> None:
    async with a_world(tmp_path, "overlapping") as world:
        release = await released(world)
        fewer = replace(release, ranks=np.where(release.ranks == 5, np.uint32(EXCLUDED), release.ranks))
        with pytest.raises(ValueError, match="1 stored shares of the cohort are missing"):
            sketch_share(fewer, InProcessExecutor())


def test_a_door_between_machines_opens_to_certificates_of_one_authority_only(tmp_path: Path) -> None:
    own, strange = certificates(tmp_path, "own"), certificates(tmp_path, "strange")
    behind = BrokeredKeys("sqlite:////nowhere", bytes(range(32)))
    with open_broker(behind, own, "127.0.0.1") as door:
        assert enter(door, own) == behind
        with pytest.raises(UnavailableError, match="no certificate to show"):
            enter(door)
        for wrong in (strange, replace(strange, authority=own.authority)):
            with pytest.raises(UnavailableError, match="no way through the door"):
                enter(door, wrong)
    with pytest.raises(UnavailableError, match="no way through the door"):
        enter(door, own)


async def test_a_cluster_elsewhere_is_refused_without_certificates_and_names_are_checked(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        settings = world.settings[0]
        assert isinstance(executor_of(settings), InProcessExecutor)
        assert executor_of(settings.model_copy(update={"executor": "processes:3"})) == ProcessExecutor(3)
        for host in ("127.0.0.1", "localhost"):
            assert isinstance(
                executor_of(settings.model_copy(update={"executor": f"dask://{host}:8786"})), DaskExecutor
            )
        elsewhere = settings.model_copy(update={"executor": "dask://cluster.example:8786"})
        with pytest.raises(InvalidSettingsError, match="needs mutual TLS"):
            executor_of(elsewhere)
        with pytest.raises(InvalidSettingsError, match="set together"):
            executor_of(elsewhere.model_copy(update={"cluster_key_file": tmp_path}))
        files = {f"cluster_{name}_file": tmp_path / name for name in ("authority", "certificate", "key")}
        assert isinstance(executor_of(elsewhere.model_copy(update=files)), DaskExecutor)
        for wrong in ("processes:0", "dask://", "threads:4", "processes"):
            with pytest.raises(ValueError, match="executor"):
                type(settings).model_validate(settings.model_dump() | {"executor": wrong})


async def test_a_worker_that_may_spill_to_disk_computes_nothing(tmp_path: Path) -> None:
    import dask  # here, since every process that collects tests would wait for it

    async with a_world(tmp_path, "overlapping") as world:
        release = await released(world)
        with open_broker(behind_the_door(release)) as door:
            part = remote_parts(release, door)[0]
            for name in ("target", "spill"):
                spilling = CALM | {f"distributed.worker.memory.{name}": 0.7}
                with dask.config.set(spilling), pytest.raises(UnavailableError, match=f"memory.{name} to false"):
                    compute_on_worker(part)


class Faulty(InProcessExecutor):
    """Turns one bit of the sum of its second part."""

    def __init__(self, row: int, word: int, bit: int) -> None:
        self.fault = row, word, np.uint64(1 << bit)

    def part_shares(self, release: ReleaseRequest) -> Iterator[PartShare]:
        for number, (sketch, done) in enumerate(super().part_shares(release)):
            row, word, bit = self.fault
            if number == 1:
                sketch[row, word] ^= bit
            yield sketch, done


@pytest.mark.parametrize("kind", ["overlapping", "sum"])
async def test_no_sum_leaves_of_which_a_fault_of_memory_turned_one_bit(tmp_path: Path, kind: str) -> None:
    async with a_world(tmp_path, kind) as world:
        release = await released(world)
        right = sketch_share(release, InProcessExecutor())
        rows, words = right.shape
        for row, word, bit in [(0, 0, 0), (rows - 1, words - 1, 63), (0, words - 1, 63), (rows - 1, words // 2, 17)]:
            with pytest.raises(UnavailableError, match="own check"):
                sketch_share(release, Faulty(row, word, bit))
        assert_array_equal(sketch_share(release, InProcessExecutor()), right)


@pytest.mark.slow
async def test_processes_give_the_same_bits_also_if_one_is_killed_in_the_middle(tmp_path: Path) -> None:
    async with a_world(tmp_path, "overlapping") as world:
        release = await released(world, 400, 14)
        expected = sketch_share(release, InProcessExecutor())
        assert_array_equal(sketch_share(release, ProcessExecutor(2)), expected)
        shares = []
        with capture_logs() as logs:
            for number, share in enumerate(ProcessExecutor(2).part_shares(release)):
                shares.append(share)
                if number == 2:
                    victim = multiprocessing.active_children()[0].pid
                    assert victim is not None
                    os.kill(victim, signal.SIGKILL)
        assert [entry["event"] for entry in logs] == ["a process of a release ended"]
        total, _ = tree_sum(shares)
        assert_array_equal(total[:, :-1], expected)
        assert is_right(total)
        assert len(shares) == len(release.parts())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
async def test_dask_gives_the_same_bits_also_if_a_worker_is_killed_in_the_middle(tmp_path: Path) -> None:
    import dask
    import distributed

    async with a_world(tmp_path, "overlapping") as world:
        release = await released(world, 400, 14)
        expected = sketch_share(release, InProcessExecutor())
        with dask.config.set(CALM):
            cluster = distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
            )
            with cluster:
                executor = DaskExecutor(cluster.scheduler_address.replace("tcp://", "dask://"), None)
                assert_array_equal(sketch_share(release, executor), expected)
                with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
                    held = client.submit(_die_once, str(tmp_path / "died"), pure=False, retries=2)
                    assert_array_equal(sketch_share(release, executor), expected)
                    assert held.result(60) == "survived"


def _die_once(note: str) -> str:
    """Kill the worker that this runs on, the first time."""
    if Path(note).exists():
        return "survived"
    Path(note).write_text("killed")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"
