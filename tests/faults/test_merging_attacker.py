"""An analyzer and a server together try to get one window's sum out of merged ones, or one report into two sums.

The attacker signs for the analyzer and for server 1, knows every report's identifier, and asks the honest server for
anything in any order, under any number, with inventories and cohorts of its own making, also after a restart. Whatever
it is given is kept; at the end no two shares may have reports of one window. So of merged windows there is one sum, and
none can be taken out of it. Before that a corrupt server can leave out reports, as of any batch; then they are in no
other sum either.
"""

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx2
import pytest

from faults.test_merged_windows import ENOUGH, FEW, merging
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.messages.documents import (
    AggregateRequest,
    Cohort,
    CohortRequest,
    Difference,
    Inventory,
    Signed,
    SketchShareRecord,
    inventory_of,
    sign,
)
from lintra_protocol.report.wire import decode_sealed_document
from lintra_server.batches.gate import Gate
from lintra_server.batches.registry import RegisteredBatch
from lintra_server.durability.journal import JournalEntry
from lintra_server.storage.batch_states import BatchStates
from lintra_server.storage.history import BatchHistory
from lintra_server.storage.transition_log import Stepper
from support.server_world import World, a_world, token
from support.windowed_world import at, reports_of

HONEST, CORRUPT = 0, 1
SIZES = (FEW, FEW, ENOUGH, FEW, FEW, ENOUGH)
MOVES = 90
SEEDS = range(6)


@dataclass
class Attacker:
    """What it knows, and what it was given.

    Attributes:
        windows: identifiers of the reports of each window.
        lists: what the honest server signed, with the list, by batch.
        cohorts: what it froze, with the reports, by batch.
        shares: every different share that it gave out, by the batch it was asked of, with the root of its reports.
        refused: how often it said what.
    """

    world: World
    moves: random.Random
    windows: list[list[bytes]]
    lists: dict[int, tuple[Signed[Inventory], ReportIds]] = field(default_factory=dict)
    cohorts: dict[int, tuple[Signed[Cohort], frozenset[bytes]]] = field(default_factory=dict)
    shares: dict[int, dict[bytes, str]] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)

    def note(self, answer: httpx2.Response) -> bool:
        if answer.status_code == 200:
            return True
        self.refused[token(answer)] += 1
        return False

    def any_window(self) -> int:
        return self.moves.randrange(len(self.windows))

    def one_of(self, known: dict[int, object]) -> int:
        """Return the number of something known, mostly; or of any window."""
        return self.moves.choice(sorted(known)) if known and self.moves.random() < 0.9 else self.any_window()

    async def close(self) -> None:
        batch = self.any_window()
        first = self.moves.choice([None, *range(max(batch - 3, 0), batch)])
        query = "" if first is None else f"?first={first}"
        answer = await self.world.ask(HONEST, "POST", f"/batches/{batch}/inventory{query}")
        if self.note(answer):
            own = Signed[Inventory].from_canonical(answer.content)
            listed = await self.world.ask(HONEST, "GET", f"/batches/{batch}/inventory/ids")
            if self.note(listed):
                self.lists[batch] = own, ReportIds.parse(listed.content, 999)

    def claimed(self, batch: int, own: ReportIds) -> list[bytes]:
        """Return the list that the corrupt server signs: all, all but a few, or those of some windows only."""
        everything = list(own)
        match self.moves.randrange(5):
            case 0:
                return self.windows[self.any_window()]
            case 1:
                return self.windows[batch]
            case 2:
                return sorted(self.moves.sample(everything, max(len(everything) - self.moves.randrange(1, 9), 0)))
        return everything

    async def freeze(self) -> None:
        batch = self.one_of(dict(self.lists))
        if batch not in self.lists:
            return
        own, ids = self.lists[batch]
        named = batch if self.moves.random() < 0.8 else self.any_window()
        first = own.message.first if self.moves.random() < 0.8 else None
        claimed = ReportIds.of(self.claimed(batch, ids))
        task, key = self.world.task, self.world.apps[CORRUPT].node.identity
        forged = sign(key, inventory_of(task, named, CORRUPT, claimed, bytes(32), own.message.closed_at, 1, first))
        difference = Difference.between(CORRUPT, ids, claimed)
        body = CohortRequest(inventories=(own, forged), differences=(difference,)).canonical()
        answer = await self.world.ask(HONEST, "PUT", f"/batches/{named}/cohort", body, "cohort-request")
        if self.note(answer):
            frozen = Signed[Cohort].from_canonical(answer.content)
            self.cohorts[named] = frozen, frozenset(ids) & frozenset(claimed)

    async def release(self) -> None:
        batch = self.one_of(dict(self.cohorts))
        if batch not in self.cohorts:
            return
        frozen = self.cohorts[batch][0]
        named = batch if self.moves.random() < 0.8 else self.any_window()
        mine = frozen.message.model_copy(update={"server": CORRUPT, "nonce": base64url(bytes(32))})
        body = AggregateRequest(cohorts=(frozen, sign(self.world.apps[CORRUPT].node.identity, mine))).canonical()
        answer = await self.world.ask(HONEST, "PUT", f"/batches/{named}/aggregate", body, "aggregate-request")
        if self.note(answer):
            record = Signed[SketchShareRecord].from_canonical(decode_sealed_document(answer.content)[0]).message
            self.shares.setdefault(named, {})[answer.content] = record.cohort_root

    async def send_again(self) -> None:
        window = self.any_window()
        await self.world.upload(HONEST, self.moves.sample(reports_of(self.world, window, FEW), 3))

    async def restart(self) -> None:
        self.world.kill(HONEST)
        self.world.start(HONEST)

    def found(self) -> list[str]:
        """Return everything that must not be."""
        wrong = [f"window {batch} was released {len(own)} times" for batch, own in self.shares.items() if len(own) > 1]
        reports = {batch: self.cohorts[batch][1] for batch in self.shares}
        for batch, own in self.shares.items():
            root = base64url(ReportIds.of(reports[batch]).root)
            wrong += [f"the share of {batch} is of other reports" for said in own.values() if said != root]
            if len(reports[batch]) < self.world.task.claim.min_clients:
                wrong.append(f"the share of {batch} is of {len(reports[batch])} reports")
        touched = {batch: {w for w, ids in enumerate(self.windows) if own & set(ids)} for batch, own in reports.items()}
        return wrong + [
            f"the shares of {one} and {other} both have reports of {sorted(touched[one] & touched[other])}"
            for one in touched for other in touched if one < other and touched[one] & touched[other]
        ]  # fmt: skip


async def attacked(folder: Path, seed: int) -> Attacker:
    """Return an attacker after all its moves against servers that hold six windows, three of them small in a row."""
    moves = random.Random(seed)
    async with a_world(folder, "sum", num_servers=2, change=merging) as world:
        sizes = SIZES[seed % 3 :] + SIZES[: seed % 3]
        for window, size in enumerate(sizes):
            at(world, 2 * window + 0.5)
            await world.upload_everywhere(reports_of(world, window, size))
        windows = [[own.report_id for own in reports_of(world, window, size)] for window, size in enumerate(sizes)]
        at(world, 2 * len(sizes) + 1)
        attacker = Attacker(world, moves, windows)
        steps = [attacker.close, attacker.freeze, attacker.release, attacker.restart, attacker.send_again]
        for _ in range(MOVES):
            await moves.choices(steps, [8, 8, 8, 0.5, 0.5])[0]()
        return attacker


@pytest.mark.slow
async def test_no_window_is_released_alone_out_of_merged_ones_and_no_report_twice(tmp_path: Path) -> None:
    refused: Counter[str] = Counter()
    merged = alone = 0
    for seed in SEEDS:
        attacker = await attacked(tmp_path / str(seed), seed)
        assert attacker.found() == []
        refused += attacker.refused
        firsts = [attacker.lists[batch][0].message.first for batch in attacker.shares]
        merged += sum(first is not None for first in firsts)
        alone += sum(first is None for first in firsts)
    # It tried what it should, and was given what anybody may have.
    assert merged > 0
    assert alone > 0
    assert {
        "abandoned",
        "batch_closed",
        "cohort_conflict",
        "cohort_too_small",
        "inventory_mismatch",
    } <= refused.keys(), refused


@pytest.mark.slow
async def test_a_report_in_two_shares_would_be_noticed(tmp_path: Path) -> None:
    attacker = await attacked(tmp_path, 0)
    one, other = sorted(attacker.shares)[:2]
    frozen, reports = attacker.cohorts[other]
    attacker.cohorts[other] = frozen, reports | set(list(attacker.cohorts[one][1])[:1])
    wrong = attacker.found()
    assert len(wrong) == 2
    assert wrong[0] == f"the share of {other} is of other reports"
    assert wrong[1].startswith(f"the shares of {one} and {other} both have reports of")


@pytest.mark.slow
async def test_the_attacker_gets_a_report_twice_out_of_a_server_that_forgets_what_it_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the rule off: a window never learns that another one took it in, and its keys stay, also after a start."""
    apply, rows = BatchHistory.apply, BatchStates.rows

    def forgetful(self: BatchHistory, line: JournalEntry) -> None:
        if line.of == self.batch:
            apply(self, line)

    def keeping(self: Gate, held: RegisteredBatch, aggregate: bytes) -> bytes:
        self._store.forget_key(held.number)
        return aggregate

    monkeypatch.setattr(BatchHistory, "apply", forgetful)
    monkeypatch.setattr(BatchStates, "may", lambda *_: True)  # else it waits for windows that it forgot
    monkeypatch.setattr(Stepper, "_require_known", lambda *_: None)
    monkeypatch.setattr(Gate, "_alone", keeping)
    monkeypatch.setattr(BatchStates, "rows", lambda self: [replace(row, into=None) for row in rows(self)])
    wrong = [line for seed in SEEDS for line in (await attacked(tmp_path / str(seed), seed)).found()]
    assert wrong
    assert all("both have reports of" in line for line in wrong), wrong
