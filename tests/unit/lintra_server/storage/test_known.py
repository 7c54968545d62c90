"""Which reports are stored: the table in memory is exact whatever identifiers meet, and follows what the disk has."""

import random
import threading
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import event, select, update

from lintra_protocol.errors import UnavailableError
from lintra_protocol.randomness import system_randomness
from lintra_server.disk.batch_secrets import Secrets
from lintra_server.disk.vault import Vault
from lintra_server.storage import segments as segments_module
from lintra_server.storage.database import Database, batches, segments
from lintra_server.storage.known import IdTable
from lintra_server.storage.segments import StoredSegments
from lintra_server.storage.store import EXCLUDED, Store, Upload
from support.server_world import seeded

PAYLOAD = 16


def a_store(folder: Path) -> Store:
    (folder / "keys").mkdir(exist_ok=True)
    vault = Vault([bytes(32)], system_randomness)
    store = Store(Database(folder / "a.sqlite"), vault, Secrets(folder / "keys", system_randomness), system_randomness)
    store.add_task(bytes(32), b"{}", server=0, capacity=999, ends=9, retention=0)
    return store


def an_id(number: int) -> bytes:
    return number.to_bytes(32, "big")


def add(store: Store, *numbers: int) -> list[object]:
    ids = [an_id(number) for number in numbers]
    return list(store.add_reports([Upload(1, ids, [payload(number) for number in numbers])])[0])


def payload(number: int) -> bytes:
    return number.to_bytes(PAYLOAD, "big")


def in_order(stored: StoredSegments) -> list[tuple[int, int]]:
    """Return number and payload of every report in the order of storing."""
    payloads = dict(stored.payloads())
    found = []
    for number, ids in stored.ids():
        for place in range(len(ids) // 32):
            own = payloads[number][place * PAYLOAD : (place + 1) * PAYLOAD]
            found.append((int.from_bytes(ids[32 * place : 32 * place + 32], "big"), int.from_bytes(own, "big")))
    return found


# --- the table ----------------------------------------------------------------------------------------------------


def test_the_table_leads_to_every_segment_that_holds_an_identifier_while_it_grows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Words of four bits: nearly everything meets, so that only looking into the segments tells.
    hashed = IdTable._hashed
    monkeypatch.setattr(IdTable, "_hashed", lambda self, ids: np.maximum(hashed(self, ids) >> 60 << 60, 1))
    table, plain, draw = IdTable(seeded("factors"), 0), dict[bytes, int](), random.Random(5)
    for number, size in enumerate((1, 40, 300, 5, 700)):
        ids = [draw.randbytes(32) for _ in range(size)]
        table.add(np.full(size, number, np.uint32), b"".join(ids))
        plain |= dict.fromkeys(ids, number)
        places, numbers = table.candidates(b"".join(plain))
        found = set(zip(places.tolist(), numbers.tolist(), strict=True))
        assert found >= set(enumerate(plain.values()))
        assert (len(table), table.last) == (len(plain), number)


def test_an_identifier_that_is_not_there_leads_nowhere_and_the_table_is_at_most_half_full() -> None:
    table, draw = IdTable(seeded("factors"), 10), random.Random(6)
    table.add(np.zeros(3000, np.uint32), draw.randbytes(32 * 3000))
    assert len(table.candidates(draw.randbytes(32 * 3000))[0]) == 0
    assert 2 * len(table) <= len(table._words) <= 4 * len(table)


def test_identifiers_that_begin_alike_are_spread_by_secret_factors() -> None:
    # With plain prefixes all of them would lie in one run of slots, which every upload would walk along.
    table = IdTable(seeded("factors"), 4000)
    words = table._hashed(b"".join(bytes(8) + an_id(number)[8:] for number in range(4000)))
    assert np.bincount(table._slots(words)).max() < 12


# --- in the store -------------------------------------------------------------------------------------------------


def test_a_report_is_stored_once_however_it_comes_again(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    assert add(store, 1, 2, 1) == [True, True, False]
    assert add(store, 3, 2) == [True, False]
    store.database.close()
    store = a_store(tmp_path)
    assert add(store, 1, 4, 3) == [False, True, False]
    assert store.stored(1, [an_id(number) for number in (1, 4, 5)]) == {an_id(1), an_id(4)}
    assert store.report_ids(1) == [an_id(number) for number in (1, 2, 3, 4)]
    assert store.num_durable(1) == store.batch(1).num_reports == 4
    store.database.close()


def test_which_reports_came_together_and_in_which_order_is_not_stored(tmp_path: Path) -> None:
    stored = []
    for name, uploads in {"a": [[5, 1, 9], [3], [7, 2]], "b": [[2, 3], [9, 7, 1], [5]]}.items():
        (tmp_path / name).mkdir()
        store = a_store(tmp_path / name)
        ids = [[an_id(number) for number in upload] for upload in uploads]
        payloads = [[payload(number) for number in upload] for upload in uploads]
        serials = [[bytes([number]) * 16 for number in upload] for upload in uploads]
        store.add_reports([Upload(1, *each) for each in zip(ids, payloads, [None] * 3, serials, strict=True)])
        with store.database.reading() as connection:
            spent = connection.execute(select(segments.c.serials)).scalars().all()
        stored.append((in_order(store.segments(1)), spent))
        store.database.close()
    order = [1, 2, 3, 5, 7, 9]
    assert stored == [([(number, number) for number in order], [b"".join(bytes([n]) * 16 for n in order)])] * 2


def test_memory_alone_says_of_a_new_report_that_it_is_new_and_of_no_stored_one(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    assert not store._known.are_new(1, [an_id(1)])
    add(store, 1, 2)
    add(store, 3)
    assert store._known.are_new(1, [an_id(4), an_id(5)])
    for known in (1, 2, 3):
        assert not store._known.are_new(1, [an_id(4), an_id(known)])
        assert store.stored(1, [an_id(4), an_id(known)]) == {an_id(known)}
    store._known.forget(1)
    assert not store._known.are_new(1, [an_id(4)])


def test_an_identifier_across_two_others_is_not_taken_for_one_that_is_stored(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    ids = [bytes(16) + b"a" * 16, b"b" * 16 + bytes(16)]
    between = b"a" * 16 + b"b" * 16
    store.add_reports([Upload(1, ids, [payload(0)] * 2)])
    assert store.stored(1, [between, ids[1]]) == {ids[1]}
    # Even if the table leads there.
    store._known._tables[1].candidates = lambda _: (np.array([0, 1]), np.array([0, 0]))  # type: ignore[method-assign]
    assert store.stored(1, [between, ids[1]]) == {ids[1]}
    store.database.close()


def test_what_a_failed_commit_would_have_stored_comes_again_and_counts_once(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    add(store, 1)

    def fail(_connection: object) -> None:
        raise OSError("the disk is full")

    event.listen(store.database._engine, "commit", fail)
    with pytest.raises(OSError, match="full"):
        add(store, 2)
    event.remove(store.database._engine, "commit", fail)
    assert store.num_durable(1) == 1
    assert add(store, 2, 1) == [True, False]
    assert store.num_durable(1) == 2
    store.database.close()


def test_a_report_stays_known_if_the_memory_fails_after_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    store = a_store(tmp_path)
    add(store, 1)
    add(store, 2)
    with monkeypatch.context() as patched:
        patched.setattr(IdTable, "add", fail)
        with pytest.raises(MemoryError):
            add(store, 3)
    assert add(store, 3, 2) == [False, False]
    store.database.close()


def test_a_table_that_another_thread_made_of_an_older_state_is_not_built_upon(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    add(store, 1)
    with store.database.reading() as old:
        old.exec_driver_sql("SELECT 1 FROM segments").all()  # from here on this transaction sees one segment
        add(store, 2)
        store._known.forget(1)
        assert store._known.among(old, 1, [an_id(1), an_id(2)], 1) == {an_id(1)}
        # As if a commit that had looked before were added now: it is the third, and the second is not in the table.
        store._known.add(1, [segments_module.Written(2, an_id(3))])
    assert add(store, 2, 1) == [False, False]
    store.database.close()


def test_uploads_in_many_threads_and_lookups_meanwhile_count_every_report_once(tmp_path: Path) -> None:
    store, lock, stored = a_store(tmp_path), threading.Lock(), [0]

    def send(first: int) -> None:
        for number in range(first, first + 10):
            outcomes = add(store, number, number + 1)
            store.stored(1, [an_id(number)])
            with lock:
                stored[0] += outcomes.count(True)

    threads = [threading.Thread(target=send, args=(first,)) for first in (0, 4, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stored[0] == len(store.report_ids(1)) == 19
    store.database.close()


def test_closing_refuses_a_database_that_holds_a_report_twice_or_lacks_some(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    add(store, 1, 2)
    add(store, 3)
    with store.database.writing() as connection:
        connection.execute(update(segments).where(segments.c.total == 3).values(ids=an_id(1)))
    with pytest.raises(UnavailableError, match="a report twice"):
        store.report_ids(1)
    with store.database.writing() as connection:
        connection.execute(update(segments).where(segments.c.total == 3).values(ids=b""))
    with pytest.raises(UnavailableError, match="1 reports are not there"):
        store.ranks(1)
    store.database.close()


# --- reading, rewriting, deleting ---------------------------------------------------------------------------------


@pytest.fixture
def many(tmp_path: Path) -> Store:
    """Return a store with 40 reports in segments of one to three, none of them in order."""
    store, numbers = a_store(tmp_path), list(range(100, 140))
    random.Random(3).shuffle(numbers)
    while numbers:
        add(store, *numbers[: (size := 1 + len(numbers) % 3)])
        del numbers[:size]
    return store


def test_the_order_of_storing_and_every_payload_survive_rewriting_at_every_moment(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments_module, "MAX_REWRITTEN", 3)
    before = in_order(many.segments(1))
    assert [own for number, own in before] == [number for number, _ in before]
    counts = [len(many.segments(1).numbers)]
    ticks = iter(range(100))
    while not many.merge_segments(1, 3, lambda: next(ticks)):  # two steps at a time
        assert in_order(many.segments(1)) == before
        assert many.segments(1).totals[-1] == many.num_durable(1) == 40
        counts.append(len(many.segments(1).numbers))
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 1
    assert len(counts) > 3
    assert add(many, 100, 139, 140) == [False, False, True]
    many.database.close()


def test_segments_are_rewritten_up_to_a_size_and_a_number_at_once(many: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments_module, "MAX_SEGMENT_BYTES", 10 * (32 + PAYLOAD + 28))
    before = in_order(many.segments(1))
    assert many.merge_segments(1, 60)
    sizes = np.diff(many.segments(1).totals, prepend=0)
    assert sizes.min() >= 5
    assert sizes.max() <= 12
    assert in_order(many.segments(1)) == before
    many.database.close()


def test_runs_of_segments_are_read_by_themselves(many: Store) -> None:
    stored = many.segments(1)
    numbers = stored.numbers.tolist()
    first, last = numbers[3], numbers[-4]
    assert list(stored.payloads(first, last)) == list(stored.payloads())[3:-3]
    assert list(stored.ids(first, last)) == list(stored.ids())[3:-3]
    assert list(stored.payloads(last + 1, last)) == []
    many.database.close()


def test_a_rank_is_the_place_among_those_that_are_not_excluded(many: Store) -> None:
    gone = [an_id(100), an_id(117), an_id(139)]
    with many.database.writing() as connection:
        connection.execute(update(batches).values(excluded=b"".join(gone)))
    numbers = [number for number, _ in in_order(many.segments(1))]
    kept = sorted(set(numbers) - {100, 117, 139})
    expected = [kept.index(number) if number in kept else EXCLUDED for number in numbers]
    assert many.ranks(1).tolist() == expected
    many.database.close()


def test_deleted_shares_leave_identifiers_and_deleted_identifiers_leave_their_number(many: Store) -> None:
    ids = list(many.report_ids(1))
    many.delete_shares(1)
    assert list(many.segments(1).payloads()) == []
    assert many.report_ids(1) == ids
    many.delete_ids(1)
    assert (many.batch(1).num_reports, many.database.num_reports()) == (40, {1: 40})
    with pytest.raises(UnavailableError, match="40 reports are not there"):
        many.report_ids(1)
    many.delete_ids(1)
    assert many.batch(1).num_reports == 40
    many.database.close()


def test_a_deleted_batch_leaves_its_room_to_the_next(tmp_path: Path) -> None:
    store, sizes = a_store(tmp_path), []
    for batch in (1, 2, 3):
        store.add_task(bytes([batch]) + bytes(31), b"{}", server=0, capacity=99, ends=9, retention=0)
        ids = [an_id(number) for number in range(40)]
        store.add_reports([Upload(batch, ids, [bytes(20_000)] * 40)])
        store.delete_shares(batch)
        store.delete_ids(batch)
        store.database.forget_log()
        sizes.append(store.database.path.stat().st_size)
    assert sizes[0] > 40 * 20_000
    assert sizes[2] <= sizes[1] <= sizes[0] + 8192
    store.database.close()
