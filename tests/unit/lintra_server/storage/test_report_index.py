"""What a store knows of its batches in memory: a table leads, and the rows decide."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lintra_server.storage.marks import End
from lintra_server.storage.segments import Written
from lintra_server.storage.store import StoredUpload
from support.stores import CAPACITY, add, an_id, empty, payload


def test_an_identifier_across_two_others_is_not_taken_for_one_that_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with empty("sqlite", tmp_path) as stored:
        store = stored.open()
        ids = [bytes(16) + b"a" * 16, b"b" * 16 + bytes(16)]
        between = b"a" * 16 + b"b" * 16
        store.add_reports([StoredUpload(1, ids, [payload(0)] * 2, CAPACITY)])
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
            store._known.add(1, [Written(2, [an_id(3)], (), {}, End(2, 3, bytes(28)))])
        assert add(store, 2, 1) == [False, False]


def test_rows_put_back_that_were_joined_since_are_still_known(tmp_path: Path) -> None:
    """They fit their chain as well; without the rule a report that comes again to a closed batch is called late."""
    with empty("sqlite", tmp_path) as stored, closing(sqlite3.connect(tmp_path / "a.sqlite")) as editor:
        store = stored.open()
        for number in range(4):
            add(store, number)
        apart = editor.execute("SELECT * FROM segments").fetchall()
        assert store.merge_segments(1, 10)
        assert add(store, 1) == [False]  # now the table leads to the joined row
        editor.execute("DELETE FROM segments")
        editor.executemany(f"INSERT INTO segments VALUES ({','.join('?' * len(apart[0]))})", apart)
        editor.commit()
        ids = [an_id(number) for number in range(5)]
        assert store.stored(1, ids) == set(ids[:4])


def test_a_deleted_batch_leaves_its_room_to_the_next(tmp_path: Path) -> None:
    sizes = []
    with empty("sqlite", tmp_path) as stored:
        store = stored.open()
        for batch in (1, 2, 3):
            store.add_task(bytes([batch - 1]) + bytes(31), b"{}", ends=9, retention=0)
            ids = [an_id(number) for number in range(40)]
            store.add_reports([StoredUpload(batch, ids, [bytes(20_000)] * 40, CAPACITY)])
            store.forget_key(batch)
            store.delete_shares(batch)
            store.delete_ids(batch)
            store.database.forget_log()
            sizes.append((tmp_path / "a.sqlite").stat().st_size)
    assert sizes[0] > 40 * 20_000
    assert sizes[2] <= sizes[1] <= sizes[0] + 8192
