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
from lintra_server.storage.database import batches
from lintra_server.storage.kept import Kept
from lintra_server.storage.segments import read_serials
from lintra_server.storage.steps import ForkedError
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
    assert in_order(store.segments(1)) == [(number, number) for number in range(1, 9)]
    assert store.batch(1).num_reports == store.num_durable(1) == stored.open().num_durable(1) == 8


def test_new_reports_are_refused_once_their_batch_is_closed_full_or_not_for_them(stored: Stored) -> None:
    store = stored.open()
    assert add(store, 1) == [True]
    late = BatchClosedError("its window is over")
    assert store.add_reports([Upload(1, [an_id(5)], [payload(5)], late)]) == [[late]]
    for state, kind in (("closing", UnavailableError), ("closed", BatchClosedError)):
        with store.database.writing() as connection:
            connection.execute(update(batches).values(state=state))
        assert isinstance(add(store, 2)[0], kind)
    with store.database.writing() as connection:
        connection.execute(update(batches).values(state="open", capacity=3))
    assert add(store, 2) == [True]
    outcomes = add(store, 3, 4)
    assert outcomes[0] is True
    assert isinstance(outcomes[1], BatchClosedError)
    assert isinstance(add(store, 4)[0], BatchClosedError)
    assert store.batch(1).num_reports == 3


def test_what_another_process_stored_meanwhile_is_read_before_anything_is_written(stored: Stored) -> None:
    first, second = stored.open(), stored.open()
    for number in range(1, 20, 2):
        assert add(first, number) == add(second, number + 1) == [True]
        assert add(first, number + 1) == [False]
    assert first.report_ids(1) == [an_id(number) for number in range(1, 21)]
    assert first.batch(1).num_reports == 20
    with ways(first) as taken:
        for number in range(30, 33):
            add(first, number)
    assert taken[-1] == "short"  # the other one is quiet now


def test_reports_of_several_batches_and_segments_are_stored_together_or_not_at_all(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments_module, "MAX_SEGMENT_BYTES", 2 * len(payload(0)))  # two reports a segment
    store = stored.open()
    store.add_task(bytes([1]) * 32, b"{}", server=0, capacity=CAPACITY, ends=9, retention=0)

    def together(*numbers: int) -> list[list[Outcome]]:
        ids, payloads = [an_id(number) for number in numbers], [payload(number) for number in numbers]
        return store.add_reports([Upload(2, ids, payloads), Upload(1, ids[:1], payloads[:1])])

    assert together(1) == [[True], [True]]
    with ways(store) as taken:
        assert together(2, 3, 4, 5, 6) == [[True] * 5, [True]]
    with store.database.writing() as connection:
        connection.execute(update(batches).where(batches.c.batch == 2).values(capacity=8))
    with ways(store) as then:
        outcomes = together(7, 8, 9)
    assert (taken, then) == (["short"], ["declined", "long"])
    assert outcomes[0][:2] == [True, True]
    assert isinstance(outcomes[0][2], BatchClosedError)
    assert outcomes[1] == [True]
    assert [store.batch(batch).num_reports for batch in (1, 2)] == [3, 8]
    assert [number for number, _ in in_order(store.segments(2))] == list(range(1, 9))


def test_tokens_of_new_reports_are_used_once_also_by_one_statement(stored: Stored) -> None:
    store = stored.open()

    def used(report: int, *serials: int) -> list[Outcome]:
        reports = range(report, report + len(serials))
        ids, payloads = [an_id(number) for number in reports], [payload(number) for number in reports]
        return store.add_reports([Upload(1, ids, payloads, None, [bytes([serial]) * 16 for serial in serials])])[0]

    assert used(1, 1) == [True]
    with ways(store) as taken:
        assert used(2, 3, 2) == [True, True]
        assert isinstance(used(4, 2)[0], TokenSpentError)
        outcomes = used(4, 4, 4)
    assert taken == ["short", "long", "long"]
    assert outcomes[0] is True
    assert isinstance(outcomes[1], TokenSpentError)
    with store.database.reading() as connection:
        assert list(read_serials(connection, 1)) == [bytes([n]) * 16 for n in (1,)] + [
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
    assert store.num_durable(1) == 1
    assert add(store, 2, 3) == [False, True]
    assert add(store, 4) == [True]
    assert store.batch(1).num_reports == store.num_durable(1) == len(store.report_ids(1)) == 4


def test_a_batch_whose_inventory_was_given_out_and_that_is_open_again_ends_whoever_gave_it(stored: Stored) -> None:
    store = stored.open()
    add(store, 1)
    store.note_closed(1)
    with pytest.raises(ForkedError):
        add(store, 2)


def test_memory_that_lacks_a_segment_or_knows_one_more_does_not_show_that_a_report_is_new(stored: Stored) -> None:
    store = stored.open()
    add(store, 1)
    add(store, 2)
    assert [store._known.lacks(1, [an_id(9)], last) for last in (0, 1, 2)] == [False, True, False]
    assert not store._known.lacks(1, [an_id(9), an_id(1)], 1)
    assert not store._known.lacks(2, [an_id(9)], 1)
