"""Rows of segments that somebody edits while the server runs, and commits whose outcome is known late."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import delete, insert, select, update

from lintra_protocol.errors import UnavailableError
from lintra_server.storage import store as store_module
from lintra_server.storage.database import SPAN, segments
from lintra_server.storage.raw_statement import Value
from lintra_server.storage.segments import Written
from lintra_server.storage.store import Store
from support.stores import KINDS, Stored, add, an_id, empty, in_order

Rows = list[Mapping[str, Value]]


@pytest.fixture(params=KINDS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stored]:
    with empty(request.param, tmp_path) as made:
        yield made


def rows(store: Store) -> Rows:
    with store.database.reading() as connection:
        return [dict(row) for row in connection.execute(select(segments).order_by(segments.c.key)).mappings()]


def put(store: Store, table: Rows) -> None:
    with store.database.writing() as connection:
        connection.execute(delete(segments))
        connection.execute(insert(segments), table)


class LostError(Exception):
    """The answer to a commit does not come."""


def seen_and_failed(store: Store, *numbers: int) -> Rows:
    """Send reports whose commit fails; return the rows that an editor saw of it."""
    seen: Rows = []

    def fail(_connection: object, written: Sequence[Written]) -> None:
        seen.extend(each.row for each in written)
        raise LostError

    with patch.object(store_module, "write_segments", fail), pytest.raises(LostError):
        add(store, *numbers)
    return seen


def test_a_report_is_not_taken_twice_while_the_row_of_a_failed_commit_stands_in_the_place_of_its_own(
    stored: Stored,
) -> None:
    store = stored.open()
    add(store, 1)
    add(store, 2)
    failed = seen_and_failed(store, 3)
    add(store, 4)  # in the same place, and acknowledged
    add(store, 5)
    true = rows(store)
    put(store, [*true[:2], *failed, *true[3:]])
    with pytest.raises(UnavailableError):
        store.stored(1, [an_id(4)])
    assert isinstance(add(store, 4)[0], UnavailableError)
    put(store, true)


def test_a_commit_that_reaches_the_database_after_somebody_looked_is_no_loss(stored: Stored) -> None:
    store = stored.open()
    add(store, 1)
    add(store, 2)
    late = seen_and_failed(store, 3)
    assert store.num_reports(1) == 2  # it is not there yet: its own process in the database still waits
    with store.database.writing() as connection:
        connection.execute(insert(segments), late)
    assert add(store, 3, 4) == [False, True]
    assert [number for number, _ in in_order(store)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "values",
    [{"total": -1}, {"total": 0}, {"total": 2**62}, {"ids": b""}, {"mark": b""}, {"serials": bytes(5)}],
    ids=lambda values: "{0[0]}: {0[1]}".format(*list(values.items())),
)
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.grid(3)
def test_a_row_with_a_value_that_was_never_stored_is_named(
    stored: Stored, which: int, values: Mapping[str, Value]
) -> None:
    store = stored.open()
    for number in (1, 2, 3):
        add(store, number)
    with store.database.writing() as connection:
        connection.execute(update(segments).where(segments.c.key == SPAN + which).values(**values))
    for fresh in (store, stored.open()):
        with pytest.raises(UnavailableError, match=r"of 3 are gone|at least one report is gone"):
            fresh.held(1)
        assert isinstance(add(fresh, 4)[0], UnavailableError)


def test_numbers_before_a_row_that_no_mark_can_hold_are_no_mark(stored: Stored) -> None:
    store = stored.open()
    for number in (1, 2, 3):
        add(store, number)
    with store.database.writing() as connection:
        connection.execute(update(segments).where(segments.c.key == SPAN).values(total=-1))
        connection.execute(update(segments).where(segments.c.key == SPAN + 1).values(total=0))
    with pytest.raises(UnavailableError):
        store.stored(1, [an_id(2)])


def test_text_and_fractions_in_the_place_of_numbers_and_bytes_are_named(tmp_path: Path) -> None:
    for column in ("total", "ids", "serials", "mark", "payloads"):
        for value in ("text", "''", 1.5, 7):
            folder = tmp_path / f"{column} {value}"
            folder.mkdir()
            with empty("sqlite", folder) as stored:
                store = stored.open()
                for number in (1, 2, 3):
                    add(store, number)
                with store.database.writing() as connection:
                    change = f"UPDATE segments SET {column} = ? WHERE key = ?"
                    connection.exec_driver_sql(change, (value, SPAN + 1))
                for fresh in (store, stored.open()):
                    fresh.check_ends()
                    with pytest.raises(UnavailableError):
                        fresh.merge_segments(1, 9)
                    if column != "payloads":
                        with pytest.raises(UnavailableError, match="are gone"):
                            fresh.held(1)
                    with store.database.reading() as connection:
                        store._require_ends(connection)
