"""The table in memory that says what is stored: exact whatever identifiers meet; a word leads, it never decides."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lintra_server.storage.known import IdTable
from lintra_server.storage.marks import End
from lintra_server.storage.segments import Written
from lintra_server.storage.store import Upload
from support.server_world import seeded
from support.stores import CAPACITY, add, an_id, empty, payload

# --- the table ----------------------------------------------------------------------------------------------------

ODD = 0x9E3779B97F4A7C15


def factors(for_slot: int, for_tag: int) -> Callable[[int], bytes]:
    """Return the randomness that gives a table two factors which somebody knows."""
    return lambda _: np.array([for_slot, for_tag], np.uint64).tobytes()


def parts(before: np.ndarray, last: np.ndarray) -> bytes:
    """Return identifiers, joined, whose last two parts are given, shape `(n,)` each."""
    joined = np.zeros((len(last), 4), np.uint64)
    joined[:, 2], joined[:, 3] = before, last
    return joined.tobytes()


def apart(ids: bytes) -> list[bytes]:
    return [ids[start : start + 32] for start in range(0, len(ids), 32)]


def filled(random_bytes: Callable[[int], bytes], ids: bytes) -> IdTable:
    table = IdTable(random_bytes, len(ids) // 32)
    table.add(np.arange(len(ids) // 32, dtype=np.uint32), ids)
    return table


def longest_run(table: IdTable) -> int:
    """Return how many slots in a row are taken at most: so many are walked along."""
    slots = len(table._entries)
    free = np.flatnonzero(table._tags[:slots] == 0)
    return int(np.diff(free, append=free[0] + slots).max()) - 1


@pytest.mark.parametrize("chosen", [(0, 0), (0, ODD), (1 << 60, 0)])
def test_the_table_leads_to_every_segment_that_holds_an_identifier_while_it_grows(chosen: tuple[int, int]) -> None:
    # Words of no bits, and of four: nearly everything meets, so that only looking into the segments tells.
    table, plain, draw = IdTable(factors(*chosen), 0), dict[bytes, int](), random.Random(5)
    for number, size in enumerate((1, 40, 300, 5, 700)):
        ids = [draw.randbytes(32) for _ in range(size)]
        table.add(np.full(size, number, np.uint32), b"".join(ids))
        plain |= dict.fromkeys(ids, number)
        known = list(plain)
        assert set(table.candidates(known)) >= set(enumerate(plain.values()))
        # One alone, and a few, are looked for in another way, which finds the same.
        for some in (known[:1], known[-7:]):
            alike = known[:1] * 80 + some
            together = [(place - 80, number) for place, number in table.candidates(alike) if place >= 80]
            assert sorted(table.candidates(some)) == sorted(together)
        assert (len(table), table.last) == (len(plain), number)


def test_identifiers_that_begin_at_one_slot_are_found_at_every_place_of_their_run() -> None:
    # The last slots of the table, so that the run goes on at its beginning; the words differ in the low bits.
    draw = np.random.default_rng(7)
    words = (2**64 - 1 << 40 & 2**64 - 1) + draw.choice(2**40, 100, replace=False).astype(np.uint64)
    for last in words, words - np.uint64(3 << 56):  # the run begins at the last slot of 256, or three before
        table, ids = IdTable(factors(1, 1), 90), apart(parts(draw.integers(0, 2**64, 100, np.uint64), last))
        table.add(np.arange(90, dtype=np.uint32), b"".join(ids[:90]))
        assert len(table._entries) == 256
        assert sorted(table.candidates(ids)) == [(place, place) for place in range(90)]
        assert [table.candidates([one]) for one in ids] == [[(0, place)] for place in range(90)] + [[]] * 10


def test_one_entry_leads_to_all_that_are_alike_in_one_segment_and_each_segment_has_its_own() -> None:
    ids = bytes(32) * 50  # all of one word
    for numbers in ([0] * 50, [0] * 20 + [1] * 30):
        together, alone = IdTable(seeded("factors"), 0), IdTable(seeded("factors"), 0)
        together.add(np.array(numbers, np.uint32), ids)
        for number in numbers:
            alone.add(np.array([number], np.uint32), bytes(32))
        for table in together, alone:
            assert sorted(table.candidates([bytes(32)])) == [(0, number) for number in sorted(set(numbers))]


def test_an_identifier_that_is_not_there_leads_nowhere_and_the_table_is_at_most_three_eighths_full() -> None:
    table, draw = IdTable(seeded("factors"), 10), random.Random(6)
    table.add(np.zeros(3000, np.uint32), draw.randbytes(32 * 3000))
    new = [draw.randbytes(32) for _ in range(3000)]
    assert table.candidates(new) == [pair for one in new for pair in table.candidates([one])] == []
    slots = len(table._entries)
    assert 8 * len(table) <= 3 * slots <= 16 * len(table)
    assert table.nbytes == 9 * slots + 8
    grown, made = IdTable(seeded("factors"), 0), []
    for number in range(30):
        grown.add(np.array([number], np.uint32), draw.randbytes(32))
        made.append(len(grown._entries))
    assert made == [64] * 24 + [128] * 6
    # A table that was made for so many has room for them from the beginning.
    assert [len(IdTable(seeded("factors"), count)._entries) for count in (24, 25, 96, 97)] == [64, 128, 256, 512]


# --- against somebody who grinds ------------------------------------------------------------------------------------

GROUND = 3000
LONGEST = 60
"""In 7,000 such tables with factors of the system's randomness no run was longer than 33."""


def ground_for(known: int) -> bytes:
    """Return identifiers of one slot of 2^20 for somebody who knows the factor, which is odd and so has an inverse."""
    draw = np.random.default_rng(9)
    wanted = draw.integers(0, 2**44, GROUND, np.uint64)
    return parts(draw.integers(0, 2**64, GROUND, np.uint64), wanted * np.uint64(pow(known, -1, 2**64)))


def ground_sets() -> dict[str, bytes]:
    """Return what somebody could make who hashes 2^43 times for each identifier, and sets for factors that are known.

    They are solved for, not ground: that is the same and costs nothing.
    """
    draw = np.random.default_rng(10)
    free, last = (draw.integers(0, 2**64, GROUND, np.uint64) for _ in range(2))
    return {
        "random": parts(free, last),
        "all but the last part": parts(free * 0, last),
        "43 low bits of the last part": parts(free, last >> np.uint64(43) << np.uint64(43)),
        "24 high bits of the last part": parts(free, last >> np.uint64(24)),
        "both": parts(free, last >> np.uint64(40) << np.uint64(20)),
        "for plain prefixes": ground_for(1),
        "for a factor that leaked": ground_for(ODD),
    }


def test_nobody_can_grind_a_long_run_without_the_factors() -> None:
    for seed in range(20):
        for ids in ground_sets().values():
            assert longest_run(filled(seeded(f"factors {seed}"), ids)) < LONGEST


@pytest.mark.parametrize(("known", "bad"), [(1, "for plain prefixes"), (ODD, "for a factor that leaked")])
def test_a_run_is_ground_for_a_factor_that_somebody_knows(known: int, bad: str) -> None:
    assert longest_run(filled(factors(known, ODD), ground_sets()[bad])) > GROUND // 2


def test_identifiers_that_agree_in_eight_bytes_make_a_run_but_no_mistake() -> None:
    # What 2^64 trials for each would buy. That is known, and told in docs/explanation/benchmarks.md#look-ups.
    same = np.full(GROUND, 5, np.uint64)
    ids = parts(np.arange(GROUND, dtype=np.uint64) * np.uint64(ODD), same)
    table = filled(seeded("factors"), ids)
    assert longest_run(table) == GROUND
    wanted = apart(ids)[:700:7]
    assert set(table.candidates(wanted)) >= {(place, 7 * place) for place in range(len(wanted))}
    assert (0, 7) in table.candidates(wanted[1:2])


# --- in a store ---------------------------------------------------------------------------------------------------


def test_an_identifier_across_two_others_is_not_taken_for_one_that_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with empty("sqlite", tmp_path) as stored:
        store = stored.open()
        ids = [bytes(16) + b"a" * 16, b"b" * 16 + bytes(16)]
        between = b"a" * 16 + b"b" * 16
        store.add_reports([Upload(1, ids, [payload(0)] * 2, CAPACITY)])
        assert store.stored(1, [between, ids[1]]) == {ids[1]}
        # Even if the table leads there.
        monkeypatch.setattr(store._known._tables[1], "candidates", lambda _: [(0, 0), (1, 0)])
        assert store.stored(1, [between, ids[1]]) == {ids[1]}


def test_a_table_that_another_thread_made_of_an_older_state_is_not_built_upon(tmp_path: Path) -> None:
    with empty("sqlite", tmp_path) as stored:
        store = stored.open()
        add(store, 1)
        before = store.chains.end(1)
        with store.database.reading() as old:
            old.exec_driver_sql("SELECT 1 FROM segments").all()  # from here on this transaction sees one segment
            add(store, 2)
            store._known.forget(1)
            assert store._known.among(old, 1, [an_id(1), an_id(2)], before) == {an_id(1)}
            # As if a commit that had looked before were added now: it is the third, the second is not in the table.
            store._known.add(1, [Written(2, [an_id(3)], {}, End(2, 3, bytes(28)))])
        assert add(store, 2, 1) == [False, False]


def test_a_deleted_batch_leaves_its_room_to_the_next(tmp_path: Path) -> None:
    sizes = []
    with empty("sqlite", tmp_path) as stored:
        store = stored.open()
        for batch in (1, 2, 3):
            store.add_task(bytes([batch - 1]) + bytes(31), b"{}", ends=9, retention=0)
            ids = [an_id(number) for number in range(40)]
            store.add_reports([Upload(batch, ids, [bytes(20_000)] * 40, CAPACITY)])
            store.forget_key(batch)
            store.delete_shares(batch)
            store.delete_ids(batch)
            store.database.forget_log()
            sizes.append((tmp_path / "a.sqlite").stat().st_size)
    assert sizes[0] > 40 * 20_000
    assert sizes[2] <= sizes[1] <= sizes[0] + 8192
