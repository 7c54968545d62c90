"""The short way of a commit, in every kind of database: what it may store, it stores; all else takes the long way."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import Connection, update

from lintra_protocol.errors import BatchClosedError, TokenSpentError, UnavailableError
from lintra_server.storage import segments as segments_module
from lintra_server.storage.chains import raw_rows
from lintra_server.storage.database import batches, segments
from lintra_server.storage.kept import Kept
from lintra_server.storage.store import Outcome, Store, Upload
from support.stores import CAPACITY, KINDS, Stored, add, an_id, empty, in_order, payload


@pytest.fixture(params=KINDS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stored]:
    with empty(request.param, tmp_path) as made:
        yield made


@contextmanager
def ways(store: Store) -> Iterator[list[str]]:
    """Give a list to which every commit adds whether it was the statement alone, or a transaction that looks first."""
    taken: list[str] = []
    at_once, appending = store.database.at_once, store.database.appending

    def watched_statement(*arguments: Any) -> bool:
        done = at_once(*arguments)
        taken.append("short" if done else "declined")
        return done

    @contextmanager
    def watched_transaction() -> Iterator[Connection]:
        taken.append("long")
        with appending() as connection:
            yield connection

    with (
        patch.object(store.database, "at_once", watched_statement),
        patch.object(store.database, "appending", watched_transaction),
    ):
        yield taken


def test_new_reports_are_stored_by_one_statement_and_what_may_be_stored_is_looked_for(stored: Stored) -> None:
    store = stored.open()
    with ways(store) as taken:
        assert add(store, 1) == [True]  # nothing is known of the batch yet
        assert add(store, 3, 2) == add(store, 4, 5) == [True, True]
        assert add(store, 6, 6) == add(store, 7, 1) == [True, False]
        assert add(store, 8) == [True]
    assert taken == ["long", "short", "short", "long", "long", "short"]
    assert in_order(store, 1) == [(number, number) for number in range(1, 9)]
    assert store.num_reports(1) == stored.open().num_reports(1) == 8


def test_new_reports_are_refused_once_their_batch_is_closed_full_or_not_for_them(stored: Stored) -> None:
    store = stored.open()
    assert add(store, 1) == [True]
    late = BatchClosedError("its window is over")
    assert store.add_reports([Upload(1, [an_id(5)], [payload(5)], CAPACITY, late)]) == [[late]]
    store.history.closing.add(1)
    assert isinstance(add(store, 2)[0], UnavailableError)
    store.history.closing.clear()
    with store.database.writing() as connection:
        connection.execute(update(batches).values(state="closed"))
    with ways(store) as taken:
        assert isinstance(add(store, 2)[0], UnavailableError)
    assert taken == ["declined", "long"]
    with store.database.writing() as connection:
        connection.execute(update(batches).values(state="open"))
    outcomes = store.add_reports([Upload(1, [an_id(n) for n in (2, 3, 4)], [payload(n) for n in (2, 3, 4)], 3)])[0]
    assert outcomes[:2] == [True, True]
    assert isinstance(outcomes[2], BatchClosedError)
    assert store.num_reports(1) == 3


def test_a_statement_declines_if_the_last_row_is_not_the_one_that_memory_knows(stored: Stored) -> None:
    store = stored.open()
    add(store, 1)
    add(store, 2)
    with store.database.writing() as connection:
        connection.execute(update(segments).where(segments.c.total == 2).values(mark=bytes(28)))
    with ways(store) as taken:
        (refusal,) = add(store, 3)
    assert taken == ["declined", "long"]
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
        return store.add_reports([Upload(2, ids, payloads, most), Upload(1, ids[:1], payloads[:1], CAPACITY)])

    assert together(1) == [[True], [True]]
    with ways(store) as taken:
        assert together(2, 3, 4, 5, 6) == [[True] * 5, [True]]
    with ways(store) as then:
        outcomes = together(7, 8, 9, most=8)
    assert (taken, then) == (["short"], ["long"])
    assert outcomes[0][:2] == [True, True]
    assert isinstance(outcomes[0][2], BatchClosedError)
    assert outcomes[1] == [True]
    assert [store.num_reports(batch) for batch in (1, 2)] == [3, 8]
    assert [number for number, _ in in_order(store, 2)] == list(range(1, 9))


def test_tokens_of_new_reports_are_used_once_also_by_one_statement(stored: Stored) -> None:
    store = stored.open()

    def used(report: int, *serials: int) -> list[Outcome]:
        reports = range(report, report + len(serials))
        ids, payloads = [an_id(number) for number in reports], [payload(number) for number in reports]
        return store.add_reports(
            [Upload(1, ids, payloads, CAPACITY, None, [bytes([serial]) * 16 for serial in serials])]
        )[0]

    assert used(1, 1) == [True]
    with ways(store) as taken:
        assert used(2, 3, 2) == [True, True]
        assert isinstance(used(4, 2)[0], TokenSpentError)
        outcomes = used(4, 4, 4)
    assert taken == ["short", "long", "long"]
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
    all_of = Kept._all

    def lost(*arguments: Any) -> bool:
        all_of(*arguments)
        raise OSError("no answer")

    with patch.object(Kept, "_all", lost), pytest.raises(OSError, match="no answer"):
        add(store, 2)
    assert store.num_reports(1) == 2  # who asks looks at the last row
    assert add(store, 2, 3) == [False, True]
    assert add(store, 4) == [True]
    assert store.num_reports(1) == len(store.report_ids(1)) == 4


def test_memory_that_lacks_a_segment_or_knows_one_more_does_not_show_that_a_report_is_new(stored: Stored) -> None:
    store = stored.open()
    add(store, 1)
    add(store, 2)
    assert [store._known.lacks(1, [an_id(9)], last) for last in (0, 1, 2)] == [False, True, False]
    assert not store._known.lacks(1, [an_id(9), an_id(1)], 1)
    assert not store._known.lacks(2, [an_id(9)], 1)
