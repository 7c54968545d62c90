"""A second reader attacks privacy across the windows of a stream, and chooses as it goes.

It signs for the analyzer and for server 1. It asks the honest server for anything in any order, leaves out reports,
abandons windows by releasing later ones, has the server killed, restored from an old copy, or robbed of its memory. At
the end it holds shares. From what they name as remembered follows the matrix that the server really used. The attacker
then chooses the windows in which a source's reports tell most: that is never more than S_k, which the task was charged
for. Every share is one draw of fresh noise, and no two have the same.
"""

import random
import shutil
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import httpx2
import numpy as np
import pytest

from faults.test_restores import copy_data, put_data, restored
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.ring import IntArray, from_ring
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.errors import LintraError
from lintra_protocol.ideal import server_sketch_share
from lintra_protocol.mechanisms.stream_noise import carried
from lintra_protocol.messages.documents import (
    AggregateRequest,
    Cohort,
    CohortRequest,
    Difference,
    Inventory,
    Signed,
    inventory_of,
    sign,
)
from lintra_protocol.privacy.stream_matrix import STEPS
from lintra_server.batches import stream_rows
from support.server_world import World, a_world, token
from support.streamed_world import Draws, collected, opened_share, streamed
from support.windowed_world import close, reports_of

HONEST, CORRUPT = 0, 1
MOVES = 40
SEEDS = range(4)

pytestmark = pytest.mark.slow


@dataclass
class Attacker:
    """What it knows, and what it was given: shares by window, as bytes, and the reports that it froze for each."""

    world: World
    moves: random.Random
    folder: Path
    copies: list[Path] = field(default_factory=list)
    lists: dict[int, tuple[Signed[Inventory], ReportIds]] = field(default_factory=dict)
    cohorts: dict[int, tuple[Signed[Cohort], frozenset[bytes]]] = field(default_factory=dict)
    shares: dict[int, dict[bytes, frozenset[bytes]]] = field(default_factory=dict)
    did: Counter[str] = field(default_factory=Counter)

    def note(self, answer: httpx2.Response) -> bool:
        if answer.status_code != 200:
            self.did[token(answer)] += 1
        return answer.status_code == 200

    def window(self) -> int:
        return self.moves.randrange(6)

    async def freeze(self) -> None:
        window = self.window()
        answer = await close(self.world, HONEST, window)
        if not self.note(answer):
            return
        own = Signed[Inventory].from_canonical(answer.content)
        listed = await self.world.ask(HONEST, "GET", f"/batches/{window}/inventory/ids")
        if not self.note(listed):
            return
        ids = ReportIds.parse(listed.content, 999)
        left_out = self.moves.randrange(3)
        claimed = ReportIds.of(sorted(self.moves.sample(list(ids), len(ids) - left_out)))
        key = self.world.apps[CORRUPT].node.identity
        forged = sign(key, inventory_of(self.world.task, window, CORRUPT, claimed, bytes(32), own.message.closed_at, 1))
        body = CohortRequest(
            inventories=(own, forged), differences=(Difference.between(CORRUPT, ids, claimed),)
        ).canonical()
        answer = await self.world.ask(HONEST, "PUT", f"/batches/{window}/cohort", body, "cohort-request")
        if self.note(answer):
            self.did["left out"] += left_out > 0
            frozen = Signed[Cohort].from_canonical(answer.content)
            self.cohorts[window] = frozen, frozenset(claimed)

    async def release(self) -> None:
        if not self.cohorts:
            return
        window = self.moves.choice(sorted(self.cohorts))
        frozen, reports = self.cohorts[window]
        mine = frozen.message.model_copy(update={"server": CORRUPT, "nonce": base64url(bytes(32))})
        body = AggregateRequest(cohorts=(frozen, sign(self.world.apps[CORRUPT].node.identity, mine))).canonical()
        answer = await self.world.ask(HONEST, "PUT", f"/batches/{window}/aggregate", body, "aggregate-request")
        if self.note(answer):
            self.shares.setdefault(window, {})[answer.content] = reports

    async def kill(self) -> None:
        self.world.kill(HONEST)
        self.world.start(HONEST)

    async def copy(self) -> None:
        self.copies.append(copy_data(self.world, self.folder / f"copy {len(self.copies)}"))

    async def restore(self) -> None:
        """Put back what the database was, as an operator does who lost a disk; the key folder is as it is."""
        if not self.copies:
            return
        self.world.kill(HONEST)
        put_data(self.world, self.moves.choice(self.copies))
        try:
            restored(self.world, never_copied=True)
            self.did["restored"] += 1
        except LintraError as error:
            self.did[error.token] += 1
        self.world.start(HONEST)

    async def rob(self) -> None:
        """Take from the server what it remembers of its noise."""
        shutil.rmtree(self.world.settings[HONEST].key_dir / "streams", ignore_errors=True)
        self.did["robbed"] += 1

    def noise(self, window: int, body: bytes, reports: frozenset[bytes]) -> IntArray:
        """Return what a share holds beside the reports, shape `(w,)`."""
        record, share = opened_share(self.world, window, HONEST, body)
        task = self.world.task
        ordered = [one for one in sorted(reports_of(self.world, window), key=lambda report: report.report_id)
                   if one.report_id in reports]  # fmt: skip
        matrix = task.mechanism.public_matrix(len(ordered), parse_base64url(record.seed))
        return from_ring(share - server_sketch_share(task, HONEST, ordered, matrix))[0]

    def used(self) -> dict[int, tuple[int, ...]]:
        """Return which windows' memory entered each share."""
        return {
            window: opened_share(self.world, window, HONEST, next(iter(own)))[0].remembered or ()
            for window, own in sorted(self.shares.items())
        }

    def most_seen(self) -> float:
        """Return the largest squared shift over sigma squared of a report each in k windows: at most S_k^2."""
        stream = self.world.task.stream
        assert stream is not None
        numbers, used = sorted(self.shares), self.used()
        matrix = np.array([[1.0 if row == column else stream.steps[row - column] / STEPS if column in used[row] else 0.0
                            for column in numbers] for row in numbers])  # fmt: skip
        gram = matrix.T @ matrix
        places = range(len(numbers))
        sets = [list(one) for k in range(1, stream.reports + 1) for one in combinations(places, k)]
        return max((float(gram[np.ix_(one, one)].sum()) for one in sets), default=0.0)

    def found(self, draws: Draws) -> list[str]:
        """Return everything that must not be."""
        stream = self.world.task.stream
        assert stream is not None
        wrong = [f"window {window} left {len(own)} times" for window, own in self.shares.items() if len(own) > 1]
        left = {window: [self.noise(window, *share) for share in own.items()] for window, own in self.shares.items()}
        fresh = list[IntArray]()
        for window, noises in sorted(left.items()):
            for noise in noises:
                made = [draw for draw in draws.made if draw.row == window and np.array_equal(draw.noise, noise)]
                if len(made) != 1:
                    wrong.append(f"window {window} is {len(made)} draws")
                    continue
                for earlier, memory in made[0].memories.items():
                    of = [draw for draw in draws.made if draw.row == earlier and np.array_equal(draw.memory, memory)]
                    if not any(np.array_equal(draw.noise, own) for draw in of for own in left.get(earlier, [])):
                        wrong.append(f"window {window} took back what window {earlier} never gave out")
                own = noise + carried(stream, window, made[0].memories, noise.size)
                wrong += [f"the fresh noise of {window} is another's"] * any(np.array_equal(own, one) for one in fresh)
                fresh.append(own)
        if self.most_seen() > float(stream.squared_norm) * (1 + 1e-12):
            wrong.append("a source is seen better than it was charged for")
        return wrong


async def attacked(folder: Path, seed: int, patched: pytest.MonkeyPatch) -> tuple[list[str], Attacker]:
    """Return what was found wrong after all moves against servers that hold six windows."""
    moves, draws = random.Random(seed), Draws()
    draws.watch(patched)
    async with a_world(folder, "sum", num_servers=2, change=streamed) as world:
        await collected(world, *range(6))
        attacker = Attacker(world, moves, folder)
        steps = [attacker.freeze, attacker.release, attacker.kill, attacker.copy, attacker.restore, attacker.rob]
        for _ in range(MOVES):
            await moves.choices(steps, [10, 8, 0.5, 0.7, 0.7, 0.7])[0]()
        return attacker.found(draws), attacker


async def test_no_choice_of_windows_reports_restores_and_lost_memory_shows_more_than_was_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    did, windows = Counter[str](), 0
    for seed in SEEDS:
        with monkeypatch.context() as patched:
            wrong, attacker = await attacked(tmp_path / str(seed), seed, patched)
        assert wrong == []
        did += attacker.did
        windows += len(attacker.shares)
    # It tried what it should, and was given what anybody may have.
    assert windows >= len(SEEDS)
    assert {"left out", "robbed", "abandoned"} <= did.keys(), did


async def test_a_server_that_gives_earlier_windows_after_later_ones_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With rule R-S3 off: what was remembered of a draw that never left is taken back as if it had."""

    def any_memory(self: object, batch: object, _released: object) -> IntArray:
        return np.full(3, 7, np.int64)

    monkeypatch.setattr(stream_rows.StreamMemory, "read", any_memory)
    found = []
    for seed in SEEDS:
        with monkeypatch.context() as patched:
            found += (await attacked(tmp_path / str(seed), seed, patched))[0]
    assert any("never gave out" in line for line in found)
