"""Commits of new reports, in every kind of database: what is stored, what is refused, and what becomes of tokens."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import Connection, update

from lintra_protocol.errors import BatchClosedError, TokenSpentError, UnavailableError
from lintra_server.storage import segments as segments_module
from lintra_server.storage.chains import raw_rows
from lintra_server.storage.database import batches, segments
from lintra_server.storage.raw_statement import KeptConnection
from lintra_server.storage.report_index import BatchKeys
from lintra_server.storage.store import Outcome, Store, StoredUpload
from support.stores import CAPACITY, KINDS, Stored, add, an_id, empty, in_order, no_commits, payload


@pytest.fixture(params=KINDS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stored]:
    with empty(request.param, tmp_path) as made:
        yield made


def test_new_reports_and_such_as_come_again_are_told_apart(stored: Stored) -> None:
    store = stored.open()
    assert add(store, 1) == [True]  # nothing is known of the batch yet
    assert add(store, 3, 2) == add(store, 4, 5) == [True, True]
    assert add(store, 6, 6) == add(store, 7, 1) == [True, False]
    assert add(store, 8) == [True]
    assert in_order(store, 1) == [(number, number) for number in range(1, 9)]
    assert store.num_reports(1) == stored.open().num_reports(1) == 8


def test_new_reports_are_refused_once_their_batch_is_closed_full_or_not_for_them(stored: Stored) -> None:
    store = stored.open()
    assert add(store, 1) == [True]
    late = BatchClosedError("its window is over")
    assert store.add_reports([StoredUpload(1, [an_id(5)], [payload(5)], CAPACITY, late)]) == [[late]]
    store.history.closing.add(1)
    assert isinstance(add(store, 2)[0], UnavailableError)
    store.history.closing.clear()
    with store.database.writing() as connection:
        connection.execute(update(batches).values(state="closed"))
    assert isinstance(add(store, 2)[0], UnavailableError)
    with store.database.writing() as connection:
        connection.execute(update(batches).values(state="open"))
    outcomes = store.add_reports([StoredUpload(1, [an_id(n) for n in (2, 3, 4)], [payload(n) for n in (2, 3, 4)], 3)])[
        0
    ]
    assert outcomes[:2] == [True, True]
    assert isinstance(outcomes[2], BatchClosedError)
    assert store.num_reports(1) == 3


def test_nothing_is_stored_if_the_last_row_is_not_the_one_that_memory_knows(stored: Stored) -> None:
    store = stored.open()
    add(store, 1)
    add(store, 2)
    with store.database.writing() as connection:
        connection.execute(update(segments).where(segments.c.total == 2).values(mark=bytes(28)))
    (refusal,) = add(store, 3)
    assert isinstance(refusal, UnavailableError)
    assert "reports 2 to 2 of 2 are gone" in refusal.detail


def test_reports_of_several_batches_and_segments_are_stored_together_or_not_at_all(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments_module, "MAX_SEGMENT_BYTES", 2 * len(payload(0)))  # two reports a segment
    store = stored.open()
    store.add_task(bytes([1]) * 32, b"{}", ends=9, retention=0)

    def together(*numbers: int, most: int = CAPACITY) -> list[list[Outcome]]:
        ids, payloads = [an_id(number) for number in numbers], [payload(number) for number in numbers]
        return store.add_reports(
            [StoredUpload(2, ids, payloads, most), StoredUpload(1, ids[:1], payloads[:1], CAPACITY)]
        )

    assert together(1) == [[True], [True]]
    assert together(2, 3, 4, 5, 6) == [[True] * 5, [True]]
    outcomes = together(7, 8, 9, most=8)
    assert outcomes[0][:2] == [True, True]
    assert isinstance(outcomes[0][2], BatchClosedError)
    assert outcomes[1] == [True]
    assert [store.num_reports(batch) for batch in (1, 2)] == [3, 8]
    assert [number for number, _ in in_order(store, 2)] == list(range(1, 9))


def test_tokens_of_new_reports_are_used_once(stored: Stored) -> None:
    store = stored.open()

    def used(report: int, *serials: int) -> list[Outcome]:
        reports = range(report, report + len(serials))
        ids, payloads = [an_id(number) for number in reports], [payload(number) for number in reports]
        return store.add_reports(
            [StoredUpload(1, ids, payloads, CAPACITY, None, [bytes([serial]) * 16 for serial in serials])]
        )[0]

    assert used(1, 1) == [True]
    assert used(2, 3, 2) == [True, True]
    assert isinstance(used(4, 2)[0], TokenSpentError)
    assert used(2, 2, 2) == [False, False]  # with whatever token: they are stored
    outcomes = used(4, 4, 4)
    assert outcomes[0] is True
    assert isinstance(outcomes[1], TokenSpentError)
    with store.database.reading() as connection:
        assert [row.serials for row in raw_rows(connection, 1)] == [bytes([n]) * 16 for n in (1,)] + [
            bytes([3]) * 16 + bytes([2]) * 16,
            bytes([4]) * 16,
        ]


def test_a_report_whose_answer_was_lost_is_stored_once(stored: Stored) -> None:
    store = stored.open()
    add(store, 1)
    commit = KeptConnection._commit

    def lost(kept: KeptConnection, connection: Connection) -> None:
        commit(kept, connection)
        raise OSError("no answer")

    with patch.object(KeptConnection, "_commit", lost), pytest.raises(OSError, match="no answer"):
        add(store, 2)
    assert store.num_reports(1) == 2  # who asks looks at the last row
    assert add(store, 2, 3) == [False, True]
    assert add(store, 4) == [True]
    assert store.num_reports(1) == len(store.report_ids(1)) == 4


# --- tokens ---------------------------------------------------------------------------------------------------------


def used(store: Store, report: int, serial: int) -> object:
    upload = StoredUpload(1, [bytes([report]) * 32], [payload(report)], 99, None, [bytes([serial]) * 16])
    return store.add_reports([upload])[0][0]


def test_a_token_is_free_again_if_its_commit_failed_and_used_for_ever_if_it_did_not(stored: Stored) -> None:
    store = stored.open()
    assert used(store, 1, 1) is True

    with no_commits(store), pytest.raises(OSError, match="full"):
        used(store, 2, 2)
    for _ in range(2):
        assert used(store, 2, 2) in (True, False)  # now, and once more the same
        assert isinstance(used(store, 3, 2), TokenSpentError)
        assert isinstance(used(store, 3, 1), TokenSpentError)
        store = stored.open()


def test_a_token_stays_used_if_the_memory_fails_after_the_commit(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_keys: BatchKeys, _segment: object) -> None:
        raise MemoryError

    store = stored.open()
    assert used(store, 1, 1) is True
    with monkeypatch.context() as patched:
        patched.setattr(BatchKeys, "note", fail)
        with pytest.raises(MemoryError):
            used(store, 2, 2)
    assert used(store, 2, 2) is False
    assert isinstance(used(store, 3, 2), TokenSpentError)


def test_a_failed_commit_leaves_no_table_in_memory(stored: Stored) -> None:
    """What became of it only the disk knows, so used tokens and identifiers are read from there again."""
    store = stored.open()
    assert used(store, 1, 1) is True
    assert isinstance(used(store, 3, 1), TokenSpentError)  # whoever looks has both tables in memory
    assert used(store, 1, 1) is False
    assert 1 in store._spent._tables
    assert 1 in store._known._tables
    with no_commits(store), pytest.raises(OSError, match="full"):
        used(store, 2, 2)
    assert store._spent._tables == store._known._tables == {}
    assert used(store, 2, 2) in (True, False)
    assert isinstance(used(store, 3, 2), TokenSpentError)


def test_two_reports_of_one_upload_cannot_share_a_token(stored: Stored) -> None:
    store = stored.open()
    both = StoredUpload(1, [b"a" * 32, b"b" * 32], [payload(1)] * 2, 99, None, [bytes(16)] * 2)
    first, second = store.add_reports([both])[0]
    assert first is True
    assert isinstance(second, TokenSpentError)
