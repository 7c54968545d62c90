"""The table of keys in memory: it leads to every number that a key has, whatever keys meet, and is never too full."""

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_server.storage.hash_table import HashTable
from support import few
from support.server_world import seeded

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


def filled(random_bytes: Callable[[int], bytes], ids: bytes) -> HashTable:
    table = HashTable(random_bytes, len(ids) // 32, 32)
    table.add(np.arange(len(ids) // 32, dtype=np.uint32), ids)
    return table


def longest_run(table: HashTable) -> int:
    """Return how many slots in a row are taken at most: so many are walked along."""
    slots = len(table._entries)
    free = np.flatnonzero(table._tags[:slots] == 0)
    return int(np.diff(free, append=free[0] + slots).max()) - 1


@pytest.mark.parametrize("chosen", [(0, 0), (0, ODD), (1 << 60, 0)])
def test_the_table_leads_to_every_segment_that_holds_an_identifier_while_it_grows(chosen: tuple[int, int]) -> None:
    # Words of no bits, and of four: nearly everything meets, so that only looking into the segments tells.
    table, plain, draw = HashTable(factors(*chosen), 0, 32), dict[bytes, int](), random.Random(5)
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
        assert len(table) == len(plain)


def test_identifiers_that_begin_at_one_slot_are_found_at_every_place_of_their_run() -> None:
    # The last slots of the table, so that the run goes on at its beginning; the words differ in the low bits.
    draw = np.random.default_rng(7)
    words = (2**64 - 1 << 40 & 2**64 - 1) + draw.choice(2**40, 100, replace=False).astype(np.uint64)
    for last in words, words - np.uint64(3 << 56):  # the run begins at the last slot of 256, or three before
        table, ids = HashTable(factors(1, 1), 90, 32), apart(parts(draw.integers(0, 2**64, 100, np.uint64), last))
        table.add(np.arange(90, dtype=np.uint32), b"".join(ids[:90]))
        assert len(table._entries) == 256
        assert sorted(table.candidates(ids)) == [(place, place) for place in range(90)]
        assert [table.candidates([one]) for one in ids] == [[(0, place)] for place in range(90)] + [[]] * 10


def test_one_entry_leads_to_all_that_are_alike_in_one_segment_and_each_segment_has_its_own() -> None:
    ids = bytes(32) * 50  # all of one word
    for numbers in ([0] * 50, [0] * 20 + [1] * 30):
        together, alone = HashTable(seeded("factors"), 0, 32), HashTable(seeded("factors"), 0, 32)
        together.add(np.array(numbers, np.uint32), ids)
        for number in numbers:
            alone.add(np.array([number], np.uint32), bytes(32))
        for table in together, alone:
            assert sorted(table.candidates([bytes(32)])) == [(0, number) for number in sorted(set(numbers))]


def test_an_identifier_that_is_not_there_leads_nowhere_and_the_table_is_at_most_three_eighths_full() -> None:
    table, draw = HashTable(seeded("factors"), 10, 32), random.Random(6)
    table.add(np.zeros(3000, np.uint32), draw.randbytes(32 * 3000))
    new = [draw.randbytes(32) for _ in range(3000)]
    assert table.candidates(new) == [pair for one in new for pair in table.candidates([one])] == []
    slots = len(table._entries)
    assert 8 * len(table) <= 3 * slots <= 16 * len(table)
    assert table.nbytes == 9 * slots + 8
    grown, made = HashTable(seeded("factors"), 0, 32), []
    for number in range(30):
        grown.add(np.array([number], np.uint32), draw.randbytes(32))
        made.append(len(grown._entries))
    assert made == [64] * 24 + [128] * 6
    # A table that was made for so many has room for them from the beginning.
    assert [len(HashTable(seeded("factors"), count, 32)._entries) for count in (24, 25, 96, 97)] == [64, 128, 256, 512]


# --- against somebody who grinds ------------------------------------------------------------------------------------

GROUND = 3000
LONGEST = 60
"""In 7,000 such tables with factors of the system's randomness no run was longer than 33."""


def ground_for(known: int) -> bytes:
    """Return identifiers of one slot of 2^20 for somebody who knows both factors, which are odd and so have inverses.

    The tag's factor is `ODD`. The last part makes good what the part before it adds.
    """
    draw = np.random.default_rng(9)
    wanted, before = draw.integers(0, 2**44, GROUND, np.uint64), draw.integers(0, 2**64, GROUND, np.uint64)
    return parts(before, (wanted - before * np.uint64(ODD)) * np.uint64(pow(known, -1, 2**64)))


def ground_sets() -> dict[str, bytes]:
    """Return what somebody could make who hashes 2^43 times for each identifier, and sets for factors that are known.

    They are solved for, not ground: that is the same and costs nothing.
    """
    draw = np.random.default_rng(10)
    free, last = (draw.integers(0, 2**64, GROUND, np.uint64) for _ in range(2))
    return {
        "random": parts(free, last),
        "all but the last part": parts(free * 0, last),
        "all but the part before it": parts(free, last * 0),
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


def test_keys_that_agree_in_sixteen_bytes_make_a_run_but_no_mistake() -> None:
    # What 2^128 trials for each identifier would buy; serials have no other bytes.
    ids = parts(np.full(GROUND, 7, np.uint64), np.full(GROUND, 5, np.uint64))
    table = filled(seeded("factors"), ids)
    assert longest_run(table) == GROUND
    assert sorted(table.candidates(apart(ids)[:1])) == [(0, number) for number in range(GROUND)]


@pytest.mark.parametrize("first", [False, True])
def test_serials_that_an_author_chose_to_meet_are_spread_by_secret_factors(first: bool) -> None:
    # They would all lie in one slot if the slot were a part of the serial, or a product of one part.
    numbers = [number.to_bytes(8, "big") for number in range(4000)]
    serials = b"".join([number + bytes(8) if first else bytes(8) + number for number in numbers])
    for seed in range(5):
        table = HashTable(seeded(f"factors {seed}"), 0, 16)
        table.add(np.arange(4000, dtype=np.uint32), serials)
        assert longest_run(table) < LONGEST


# --- the load -------------------------------------------------------------------------------------------------------


@few
@given(
    st.sampled_from([16, 32]),
    st.lists(st.integers(0, 40), max_size=30),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_a_table_that_is_full_grows_and_ends(size: int, counts: list[int], kinds: int, draw: random.Random) -> None:
    """Whatever is added: at most three eighths are taken, so every search finds a free slot and comes to an end."""
    table, used = HashTable(seeded("factors"), 0, size), list[bytes]()
    for count in counts:
        # Few different parts, so that many meet in one slot.
        drawn = {bytes([draw.randrange(kinds)]) * (size - 1) + draw.randbytes(1) for _ in range(count)}
        new = list(drawn - set(used))
        table.add(np.arange(len(used), len(used) + len(new), dtype=np.uint32), b"".join(new))
        used += new
        slots = len(table._entries)
        assert len(table) == len(used) == np.count_nonzero(table._tags[:slots])
        assert 8 * len(used) <= 3 * slots <= max(3 * 64, 16 * len(used))
        assert set(table.candidates(used)) >= {(place, place) for place in range(len(used))}
        for other in [draw.randbytes(size) for _ in range(4)]:  # it may meet one of them, and leads there
            assert all(number < len(used) for _, number in table.candidates([other]))
