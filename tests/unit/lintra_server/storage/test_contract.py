"""What a server counts on in its store, whatever database is behind it: every kind passes every test here."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO
from unittest.mock import patch

import numpy as np
import pytest
from sqlalchemy import Connection, event, select, update

from lintra_protocol.errors import BatchClosedError, TokenSpentError, UnavailableError
from lintra_server.durability.journal import EMPTY
from lintra_server.storage import batch_states
from lintra_server.storage import database as database_module
from lintra_server.storage import segments as segments_module
from lintra_server.storage.batch_states import BatchStates, StoredBatchState
from lintra_server.storage.chains import raw_rows
from lintra_server.storage.database import BUSY_SECONDS, batches, segments
from lintra_server.storage.raw_statement import Direct, KeptConnection, Value
from lintra_server.storage.report_index import BatchKeys
from lintra_server.storage.store import Store, StoredUpload
from lintra_server.storage.tasks import enter
from lintra_server.storage.transition_log import ForkedError, Step
from support.stores import CAPACITY, KINDS, Stored, add, an_id, empty, in_order, no_commits, payload


@pytest.fixture(params=KINDS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stored]:
    with empty(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def many(stored: Stored) -> Store:
    """Return a store with 40 reports in segments of one to seven, none of them in order."""
    store, numbers = stored.open(), list(range(100, 140))
    random.Random(3).shuffle(numbers)
    while numbers:
        add(store, *numbers[: (size := 1 + len(numbers) % 7)])
        del numbers[:size]
    return store


class CrashError(Exception):
    """The process ends here, as far as the database knows."""


def crash_at(store: Store, number: int, work: Callable[[], object]) -> bool:
    """Do some work and let it end before its statement or commit of a number; return whether it came so far."""
    counted = 0

    def count(*_: object) -> None:
        nonlocal counted
        counted += 1
        if counted == number:
            raise CrashError

    run = Direct.run

    def counted_run(statement: Direct, connection: Connection, values: Mapping[str, Value]) -> object:
        count()
        return run(statement, connection, values)

    commit = KeptConnection._commit

    def counted_commit(kept: KeptConnection, connection: Connection) -> None:
        count()
        commit(kept, connection)

    engine = store.database._engine
    hooks = ("before_cursor_execute", "commit")
    for hook in hooks:
        event.listen(engine, hook, count)
    try:
        with patch.object(Direct, "run", counted_run), patch.object(KeptConnection, "_commit", counted_commit):
            work()
    except CrashError:
        return True
    finally:
        for hook in hooks:
            event.remove(engine, hook, count)
    return False


# --- once ---------------------------------------------------------------------------------------------------------


def test_a_report_is_stored_once_however_it_comes_again(stored: Stored) -> None:
    store = stored.open()
    assert add(store, 1, 2, 1) == [True, True, False]
    assert add(store, 3, 2) == [True, False]
    store = stored.open()
    assert add(store, 1, 4, 3) == [False, True, False]
    assert store.stored(1, [an_id(number) for number in (1, 4, 5)]) == {an_id(1), an_id(4)}
    assert store.report_ids(1) == [an_id(number) for number in (1, 2, 3, 4)]
    assert store.num_reports(1) == 4


def test_uploads_in_many_threads_and_lookups_meanwhile_count_every_report_once(stored: Stored) -> None:
    store, lock, counted = stored.open(), threading.Lock(), [0]

    def send(first: int) -> None:
        for number in range(first, first + 10):
            outcomes = add(store, number, number + 1)
            store.stored(1, [an_id(number)])
            with lock:
                counted[0] += outcomes.count(True)

    threads = [threading.Thread(target=send, args=(first,)) for first in (0, 4, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted[0] == len(store.report_ids(1)) == 19


def test_a_task_is_entered_once(stored: Stored) -> None:
    store = stored.open()
    again = store.add_task(bytes(32), b"{}", ends=9, retention=0)
    assert (again, list(store.history.batches), len(store.history.tasks)) == (False, [1], 1)


def test_which_reports_came_together_and_in_which_order_is_not_stored(stored: Stored) -> None:
    store, found = stored.open(), []
    store.add_task(bytes([1]) * 32, b"{}", ends=9, retention=0)
    for batch, uploads in {1: [[5, 1, 9], [3], [7, 2]], 2: [[2, 3], [9, 7, 1], [5]]}.items():
        sent = [
            StoredUpload(
                batch,
                [an_id(n) for n in numbers],
                [payload(n) for n in numbers],
                CAPACITY,
                None,
                [bytes([n]) * 16 for n in numbers],
            )
            for numbers in uploads
        ]
        store.add_reports(sent)
        with store.database.reading() as connection:
            spent = b"".join(row.serials for row in raw_rows(connection, batch))
        found.append((in_order(store, batch), spent))
    order = [1, 2, 3, 5, 7, 9]
    assert found == [([(number, number) for number in order], b"".join(bytes([n]) * 16 for n in order))] * 2


def test_a_new_report_is_known_to_be_new_without_a_query_and_a_stored_one_by_its_segment_alone(stored: Stored) -> None:
    store = stored.open()
    reading, asked = store.database.reading, list[bool]()

    @contextmanager
    def watched() -> Iterator[Connection]:
        asked.append(True)
        with reading() as connection:
            yield connection

    def remembered(*numbers: int) -> set[bytes] | None:
        asked.clear()
        return store._known.remembered(watched, 1, [an_id(number) for number in numbers])

    assert remembered(1) is None
    add(store, 1, 2)
    add(store, 3)
    assert remembered(4, 5) == set()
    assert not asked
    assert store.are_new(1, [an_id(4), an_id(5)])
    assert not store.are_new(1, [an_id(4), an_id(3)])
    for known in (1, 2, 3):
        assert remembered(4, known) == {an_id(known)}
        assert len(asked) == 1
        assert store.stored(1, [an_id(4), an_id(known)]) == {an_id(known)}
    store._known.forget(1)
    assert remembered(4) is None
    assert not store.are_new(1, [an_id(4)])
    assert store.stored(1, [an_id(2)]) == {an_id(2)}


def test_a_batch_takes_its_maximum_and_not_one_report_more(stored: Stored) -> None:
    store = stored.open()
    ids, payloads = [an_id(number) for number in (1, 2, 2, 3, 4)], [payload(number) for number in (1, 2, 2, 3, 4)]
    outcomes = store.add_reports([StoredUpload(1, ids, payloads, 3)])[0]
    assert outcomes[:4] == [True, True, False, True]
    assert isinstance(outcomes[4], BatchClosedError)
    assert add(store, 3) == [False]
    assert store.num_reports(1) == 3


def test_a_closed_batch_takes_nothing_and_still_knows_what_it_holds(stored: Stored) -> None:
    store = stored.open()
    add(store, 1)
    store.history.closing.add(1)
    outcomes = add(store, 1, 2)
    assert outcomes[0] is False
    assert isinstance(outcomes[1], UnavailableError)
    store.history.closing.clear()
    closed(store)
    outcomes = add(store, 1, 2)
    assert outcomes[0] is False
    assert isinstance(outcomes[1], BatchClosedError)


def test_a_closed_batch_takes_nothing_though_somebody_writes_to_the_database_that_it_is_open(stored: Stored) -> None:
    store = stored.open()
    add(store, 1)
    closed(store)
    with store.database.writing() as connection:
        connection.execute(update(batches).values(state="open"))
    assert isinstance(add(store, 2)[0], BatchClosedError)
    assert store.num_reports(1) == 1


def test_an_open_batch_takes_nothing_while_the_database_says_that_it_is_not(stored: Stored) -> None:
    store = stored.open()
    add(store, 1)
    with store.database.writing() as connection:
        connection.execute(update(batches).values(state="released"))
    (refusal,) = add(store, 2)
    assert isinstance(refusal, UnavailableError)
    assert "table batches, row 1" in refusal.detail


def test_a_token_is_good_for_one_report_also_after_a_start(stored: Stored) -> None:
    store = stored.open()

    def used(report: int, serial: int) -> object:
        return store.add_reports(
            [StoredUpload(1, [an_id(report)], [payload(report)], CAPACITY, None, [bytes([serial]) * 16])]
        )[0][0]

    assert used(1, 1) is True
    assert isinstance(used(2, 1), TokenSpentError)
    store = stored.open()
    assert isinstance(used(2, 1), TokenSpentError)
    assert used(2, 2) is True


# --- all or nothing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reopen", [False, True], ids=["goes on", "starts again"])
@pytest.mark.grid(2)
def test_an_upload_that_ends_before_any_write_is_stored_whole_or_not_at_all(
    stored: Stored, monkeypatch: pytest.MonkeyPatch, reopen: bool
) -> None:
    monkeypatch.setattr(segments_module, "MAX_SEGMENT_BYTES", 2 * len(payload(0)))  # two reports a segment
    store, held, number = stored.open(), 0, 1

    def send() -> object:
        return add(store, *range(held, held + 5))

    while crash_at(store, number, send):
        store = stored.open() if reopen else store
        assert store.num_reports(1) == held
        assert len(store.report_ids(1)) == held
        assert add(store, *range(held, held + 5)) == [True] * 5
        held, number = held + 5, number + 1
    assert number > 4
    assert store.report_ids(1) == [an_id(each) for each in range(held + 5)]


@pytest.mark.parametrize("work", ["merge", "empty", "drop"])
@pytest.mark.grid(2)
def test_rewriting_and_deleting_go_on_after_an_end_before_any_write(
    many: Store, stored: Stored, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    monkeypatch.setattr(segments_module, "MAX_REWRITTEN", 3)
    before, ids, store = in_order(many, 1), many.report_ids(1), many
    number, rows = 1, num_rows(many)
    if work != "merge":  # as they are: the keys are gone before anything is deleted
        released(many)

    def do() -> None:
        works: dict[str, Callable[[], object]] = {
            "merge": lambda: store.merge_segments(1, 60),
            "empty": lambda: store.delete_shares(1),
            "drop": lambda: store.delete_ids(1),
        }
        works[work]()

    while crash_at(store, number, do):
        store = stored.open()
        if work != "merge":
            released(store)
        assert store.num_reports(1) == 40
        if work == "merge":
            assert in_order(store, 1) == before
        if work != "drop":
            assert store.report_ids(1) == ids
        number += 3
    assert number > 6
    expected = {"merge": 1, "empty": rows, "drop": 0}
    assert num_rows(store) == expected[work]


def test_what_a_failed_commit_would_have_stored_comes_again_and_counts_once(stored: Stored) -> None:
    store = stored.open()
    add(store, 1)

    with no_commits(store), pytest.raises(OSError, match="full"):
        add(store, 2)
    assert store.num_reports(1) == 1
    assert add(store, 2, 1) == [True, False]
    assert store.num_reports(1) == 2


def test_a_report_stays_known_if_the_memory_fails_after_the_commit(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    store = stored.open()
    add(store, 1)
    add(store, 2)
    with monkeypatch.context() as patched:
        patched.setattr(BatchKeys, "note", fail)
        with pytest.raises(MemoryError):
            add(store, 3)
    assert add(store, 3, 2) == [False, False]


def test_what_a_killed_process_said_is_stored_is_stored(stored: Stored) -> None:
    stored.open().database.close()
    child, said = forked_sender(stored)
    numbers = [int(said.readline()) for _ in range(20)]
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    numbers += [int(line) for line in said.read().splitlines(keepends=True) if line.endswith("\n")]
    said.close()
    store = stored.open()
    ids = store.report_ids(1)
    assert {an_id(number) for number in numbers} <= set(ids)
    assert len(ids) == store.num_reports(1) == len(in_order(store, 1))


def forked_sender(stored: Stored) -> tuple[int, TextIO]:
    """Start a process that stores reports, and says each number once the report is durable."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            store = stored.open()
            for number in range(100_000):
                add(store, number)
                os.write(writing, f"{number}\n".encode())
        finally:
            os._exit(1)
    os.close(writing)
    return child, os.fdopen(reading)


# --- set back -----------------------------------------------------------------------------------------------------


def test_a_batch_of_which_reports_are_gone_takes_and_gives_nothing_and_says_which(stored: Stored) -> None:
    store = stored.open()
    add(store, 1)
    add(store, 2)
    with store.database.writing() as connection:
        connection.execute(segments.delete().where(segments.c.total == 2))
    for _ in range(2):
        (refusal,) = add(store, 3)
        assert isinstance(refusal, UnavailableError)
        assert "reports 2 to 2 of 2 are gone" in refusal.detail
    with pytest.raises(UnavailableError, match="reports 2 to 2 of 2 are gone"):
        stored.open().report_ids(1)


def test_a_step_moves_the_head_of_the_journal_once_and_only_from_the_line_before(stored: Stored) -> None:
    store = stored.open()
    log = store.history._journal
    states = BatchStates(store.database, store.history, store.notes, log)
    heads = [log.head]
    for number in range(2):
        log.append(Step(1, "started").line(log.head.length + 1) if number == 0 else CLOSE.line(log.head.length + 1))
        heads.append(log.head)
    first, second, third = heads
    states.establish(StoredBatchState(first, 0))
    begun, closing = log.lines[-2:]
    states.commit_step(Step(1, "started"), begun, first, second)
    states.commit_step(Step(1, "started"), begun, first, second)  # its answer was lost
    with pytest.raises(ForkedError):
        states.commit_step(Step(1, "started"), begun, EMPTY, first)
    assert not states.may(CLOSE)
    standing = states.standing()
    assert standing is not None
    assert standing.head == second
    assert states.begin_closing(1, store, 0)
    assert states.may(CLOSE)
    states.commit_step(CLOSE, closing, second, third)
    assert store.batch(1).state == "closed"
    assert isinstance(add(store, 1)[0], BatchClosedError)


@pytest.mark.parametrize("at", ["the journal", "the tables"])
@pytest.mark.parametrize("start", [0, 1])
def test_a_step_that_is_committed_during_a_look_does_not_end_the_process(
    stored: Stored, at: str, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look compares with what was known before it began, on a connection that was just opened, too."""
    store, halts = stored.open(), list[str]()
    database, log = store.database, store.history._journal
    states = BatchStates(database, store.history, store.notes, log)
    states.establish(StoredBatchState(log.head, 0))
    database.halt = halts.append

    def step() -> None:
        before = log.head
        log.append(Step(1, "started").line(before.length + 1))
        states.commit_step(Step(1, "started"), log.lines[-1], before, log.head)

    for _ in range(start):
        step()
    waiting = [step]
    module, name = (batch_states, "standing_in") if at == "the journal" else (database_module, "foreign")
    look = getattr(module, name)

    def looked(*arguments: object) -> object:
        found = look(*arguments)
        found = found if at == "the journal" else iter(list(found))
        if waiting:
            waiting.pop()()
        return found

    monkeypatch.setattr(module, name, looked)
    database._engine.dispose()
    with database.reading() as connection:
        connection.execute(select(batches.c.batch)).all()
    database._compare()
    assert halts == []
    assert not waiting
    assert states.standing() == StoredBatchState(log.head, 1)


@pytest.mark.parametrize("ids", [an_id(1), an_id(9), b"", bytes(31), an_id(3) * 2])
def test_identifiers_that_were_changed_are_not_used(stored: Stored, ids: bytes) -> None:
    store = stored.open()
    add(store, 1, 2)
    add(store, 3)
    with store.database.writing() as connection:
        connection.execute(update(segments).where(segments.c.total == 3).values(ids=ids))
    for again in (store, stored.open()):
        with pytest.raises(UnavailableError, match="reports 3 to 3 of 3 are gone"):
            again.report_ids(1)
        with pytest.raises(UnavailableError, match="reports 3 to 3 of 3 are gone"):
            again.stored(1, [an_id(1)])


# --- reading, rewriting, deleting ---------------------------------------------------------------------------------


def test_the_order_of_storing_and_every_payload_survive_rewriting_at_every_moment(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments_module, "MAX_REWRITTEN", 2)
    before = in_order(many, 1)
    assert [own for number, own in before] == [number for number, _ in before]
    counts = [num_rows(many)]
    ticks = iter(range(100))
    while not many.merge_segments(1, 3, lambda: next(ticks)):  # two steps at a time
        assert in_order(many, 1) == before
        assert many.held(1)[1].totals[-1] == many.num_reports(1) == 40
        counts.append(num_rows(many))
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 1
    assert len(counts) > 3
    assert add(many, 100, 139, 140) == [False, False, True]


def test_segments_are_rewritten_up_to_a_size(many: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments_module, "MAX_STEP_BYTES", 10 * (32 + len(payload(0)) + 28))
    before = in_order(many, 1)
    assert many.merge_segments(1, 60)
    sizes = np.diff(many.held(1)[1].totals, prepend=0)
    assert sizes.min() >= 5
    assert sizes.max() <= 15
    assert in_order(many, 1) == before


def test_runs_of_segments_are_read_by_themselves(many: Store) -> None:
    segments_of = many.segments(1, many.held(1)[1])
    numbers = segments_of.numbers.tolist()
    first, last = numbers[2], numbers[-3]
    assert list(segments_of.payloads(first, last)) == list(segments_of.payloads())[2:-2]
    assert list(segments_of.payloads(last + 1, last)) == []


def test_a_payload_is_read_only_under_the_mark_that_was_checked(many: Store) -> None:
    segments_of = many.segments(1, many.held(1)[1])
    with many.database.writing() as connection:
        rows = connection.execute(segments.select().order_by(segments.c.key)).all()
        change = update(segments).where(segments.c.key == rows[0].key)
        connection.execute(change.values(payloads=rows[-1].payloads))
    with pytest.raises(UnavailableError, match="column payloads was changed"):
        list(segments_of.payloads())
    with many.database.writing() as connection:
        connection.execute(segments.delete().where(segments.c.key == rows[0].key))
    with pytest.raises(UnavailableError, match="is not there"):
        list(segments_of.payloads())


def test_deleted_shares_leave_identifiers_and_deleted_identifiers_leave_their_number(many: Store) -> None:
    ids = list(many.report_ids(1))
    many.forget_key(1)
    many.delete_shares(1)
    many.database.forget_log()
    with many.database.reading() as connection:
        assert set(connection.execute(select(segments.c.payloads)).scalars()) == {None}
    assert many.report_ids(1) == ids
    with pytest.raises(UnavailableError, match="keys of this batch were destroyed"):
        many.segments(1, many.held(1)[1])
    for _ in range(2):
        many.delete_ids(1)
        assert (many.num_reports(1), num_rows(many)) == (40, 0)


CLOSE = Step(1, "closed", bytes(32), "closing", {"state": "closed"})


def closed(store: Store) -> None:
    """Let the journal say that the batch was closed."""
    store.history.learn([CLOSE.line(1)])


def released(store: Store) -> None:
    """Let the batch be released, and its keys be destroyed."""
    store.history.learn([Step(1, "released", bytes(32), "frozen", {"state": "released"}).line(1)])
    store.forget_key(1)
    store.history.batches[1].is_destroyed = True


def num_rows(store: Store) -> int:
    """Return how many rows the batch has."""
    with store.database.reading() as connection:
        return len(list(raw_rows(connection, 1)))


def test_who_opens_a_batch_and_who_stores_its_first_report_may_enter_its_row_at_once(stored: Stored) -> None:
    store = stored.open()
    with store.database.writing() as connection:
        connection.execute(batches.delete())
    uploading = threading.Thread(target=add, args=(store, 1))
    with store.database.writing() as connection:
        enter(connection, store.history, 1)
        uploading.start()
        uploading.join(0.3)  # it waits for this transaction, or has not come so far
    uploading.join()
    assert add(store, 1) == [False]


def test_a_report_of_a_released_batch_that_comes_again_keeps_no_step_waiting(stored: Stored) -> None:
    """Whoever reads what a batch without keys held may wait for a step, so no transaction is open meanwhile."""
    store = stored.open()
    add(store, 1)
    released(store)
    columns, asked, stepping = store.columns, threading.Event(), threading.Event()

    def step() -> None:
        asked.wait()
        with store.history.lock:
            stepping.set()
            with store.database.writing():
                pass

    def read(batch: int, *names: str) -> Mapping[str, object]:
        asked.set()
        stepping.wait()
        with store.history.lock:  # as where a column is not what its line says
            return columns(batch, *names)

    thread = threading.Thread(target=step)
    thread.start()
    with patch.object(store, "columns", read), patch.object(store, "_listed", {}):
        began = time.monotonic()
        assert isinstance(add(store, 1)[0], BatchClosedError)
    thread.join()
    assert time.monotonic() - began < BUSY_SECONDS / 2
