"""The table in memory that says what is stored: exact whatever identifiers meet; a word leads, it never decides."""

import random
from pathlib import Path

import numpy as np
import pytest

from lintra_server.storage.known import IdTable
from lintra_server.storage.segments import Tail, Written
from lintra_server.storage.store import Upload
from support.server_world import seeded
from support.stores import add, an_id, empty, payload

# --- the table ----------------------------------------------------------------------------------------------------


def test_the_table_leads_to_every_segment_that_holds_an_identifier_while_it_grows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Words of four bits: nearly everything meets, so that only looking into the segments tells.
    hashed, word = IdTable._hashed, IdTable._word
    monkeypatch.setattr(IdTable, "_hashed", lambda self, ids: np.maximum(hashed(self, ids) >> 60 << 60, 1))
    monkeypatch.setattr(IdTable, "_word", lambda self, one: max(word(self, one) >> 60 << 60, 1))
    table, plain, draw = IdTable(seeded("factors"), 0), dict[bytes, int](), random.Random(5)
    for number, size in enumerate((1, 40, 300, 5, 700)):
        ids = [draw.randbytes(32) for _ in range(size)]
        table.add(np.full(size, number, np.uint32), b"".join(ids))
        plain |= dict.fromkeys(ids, number)
        known = list(plain)
        assert set(table.candidates(known)) >= set(enumerate(plain.values()))
        # One alone, and a few, are looked for in another way, which finds the same.
        for some in (known[:1], known[-7:]):
            alike = known[:1] * 20 + some
            together = [(place - 20, number) for place, number in table.candidates(alike) if place >= 20]
            assert sorted(table.candidates(some)) == sorted(together)
        assert (len(table), table.last) == (len(plain), number)


def test_identifiers_that_begin_at_one_slot_are_found_at_every_place_of_their_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The last slot of the table, so that the run goes on at its beginning; the words differ in the low bits.
    hashed, word, first = IdTable._hashed, IdTable._word, 2**64 - 2**40
    monkeypatch.setattr(IdTable, "_hashed", lambda self, ids: hashed(self, ids) >> 24 | first)
    monkeypatch.setattr(IdTable, "_word", lambda self, one: word(self, one) >> 24 | first)
    table, draw = IdTable(seeded("factors"), 64), random.Random(7)
    ids = [draw.randbytes(32) for _ in range(100)]
    table.add(np.arange(90, dtype=np.uint32), b"".join(ids[:90]))
    assert sorted(table.candidates(ids)) == [(place, place) for place in range(90)]
    assert [table.candidates([one]) for one in ids] == [[(0, place)] for place in range(90)] + [[]] * 10


def test_an_identifier_that_is_not_there_leads_nowhere_and_the_table_is_at_most_half_full() -> None:
    table, draw = IdTable(seeded("factors"), 10), random.Random(6)
    table.add(np.zeros(3000, np.uint32), draw.randbytes(32 * 3000))
    new = [draw.randbytes(32) for _ in range(3000)]
    assert table.candidates(new) == [pair for one in new for pair in table.candidates([one])] == []
    assert 2 * len(table) <= len(table._words) <= 4 * len(table)


def test_identifiers_that_begin_alike_are_spread_by_secret_factors() -> None:
    # With plain prefixes all of them would lie in one run of slots, which every upload would walk along.
    table = IdTable(seeded("factors"), 4000)
    ids = [bytes(8) + an_id(number)[8:] for number in range(4000)]
    words = table._hashed(b"".join(ids))
    assert np.bincount(table._slots(words)).max() < 12
    assert words.tolist() == [table._word(one) for one in ids]


# --- in a store ---------------------------------------------------------------------------------------------------


def test_an_identifier_across_two_others_is_not_taken_for_one_that_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with empty("sqlite", tmp_path) as stored:
        store = stored.open()
        ids = [bytes(16) + b"a" * 16, b"b" * 16 + bytes(16)]
        between = b"a" * 16 + b"b" * 16
        store.add_reports([Upload(1, ids, [payload(0)] * 2)])
        assert store.stored(1, [between, ids[1]]) == {ids[1]}
        # Even if the table leads there.
        monkeypatch.setattr(store._known._tables[1], "candidates", lambda _: [(0, 0), (1, 0)])
        assert store.stored(1, [between, ids[1]]) == {ids[1]}


def test_a_table_that_another_thread_made_of_an_older_state_is_not_built_upon(tmp_path: Path) -> None:
    with empty("sqlite", tmp_path) as stored:
        store = stored.open()
        add(store, 1)
        with store.database.reading() as old:
            old.exec_driver_sql("SELECT 1 FROM segments").all()  # from here on this transaction sees one segment
            add(store, 2)
            store._known.forget(1)
            assert store._known.among(old, 1, [an_id(1), an_id(2)], Tail(0, 1)) == {an_id(1)}
            # As if a commit that had looked before were added now: it is the third, the second is not in the table.
            store._known.add(1, [Written(2, [an_id(3)], {})])
        assert add(store, 2, 1) == [False, False]


def test_a_deleted_batch_leaves_its_room_to_the_next(tmp_path: Path) -> None:
    sizes = []
    with empty("sqlite", tmp_path) as stored:
        store = stored.open()
        for batch in (1, 2, 3):
            store.add_task(bytes([batch - 1]) + bytes(31), b"{}", server=0, capacity=99, ends=9, retention=0)
            ids = [an_id(number) for number in range(40)]
            store.add_reports([Upload(batch, ids, [bytes(20_000)] * 40)])
            store.delete_shares(batch)
            store.delete_ids(batch)
            store.database.forget_log()
            sizes.append((tmp_path / "a.sqlite").stat().st_size)
    assert sizes[0] > 40 * 20_000
    assert sizes[2] <= sizes[1] <= sizes[0] + 8192
