"""The ledger: a source answers a task once, never spends more than its ceiling, and every doubt is a refusal."""

import math
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_client import DISTINCT_SOURCES, Ledger
from lintra_client.ledger.entries import Source, Vouched
from lintra_client.ledger.file import LedgerFile
from lintra_client.ledger.ledger import SELF, default_path
from lintra_client.ledger.prices import price_of
from lintra_protocol.errors import LedgerRefusedError
from lintra_protocol.fields.windows import Stream, Windows
from lintra_protocol.mechanisms import Osnap
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.gaussian import gaussian_epsilon
from lintra_protocol.privacy.statement import Claim
from support import few, make_task
from support.measured import calibrated_for

TASKS = [letter * 43 for letter in "ABCDEFGH"]
DELTA = 1e-6


def price(mu: float, slack: str = "0", coalition: str = "0") -> Spending:
    return Spending(mu_squared=f"{mu * mu:.6f}".rstrip("0").rstrip("."), slack=slack, delta_coalition=coalition)


def report(number: int) -> bytes:
    return number.to_bytes(32, "big")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger", max_epsilon=3.0, delta=DELTA) as ledger:
        yield ledger


def refuse(ledger: Ledger, task: str, number: int, source: Source = SELF, mu: float = 0.25) -> LedgerRefusedError:
    """Charge one report, require that it is refused and costs nothing, and return why."""
    before = ledger.entries()
    if isinstance(source, Vouched):
        with pytest.raises(LedgerRefusedError) as raised:
            ledger.charge(task, price(mu), {report(number): source})
        error = raised.value
    else:
        error = ledger.charge(task, price(mu), {report(number): source})[report(number)]
    assert ledger.entries() == before
    return error


def accept(ledger: Ledger, task: str, number: int, source: Source = SELF, mu: float = 0.25) -> None:
    assert ledger.charge(task, price(mu), {report(number): source}) == {}


# --- once -----------------------------------------------------------------------------------------------------


def test_a_source_answers_a_task_once(ledger: Ledger) -> None:
    accept(ledger, TASKS[0], 1)
    error = refuse(ledger, TASKS[0], 2)
    assert error.detail == f"this source has a report in task {TASKS[0]} already; a second one is never sent"
    accept(ledger, TASKS[1], 3)
    accept(ledger, TASKS[0], 4, "somebody else")


def test_the_same_report_is_charged_once_however_often_it_is_delivered(ledger: Ledger) -> None:
    for _ in range(3):
        accept(ledger, TASKS[0], 1)
    assert [(entry.source, entry.task_id, entry.num_reports) for entry in ledger.entries()] == [
        (ledger.pseudonym(SELF), TASKS[0], 1)
    ]


def test_a_report_that_was_charged_in_one_task_is_not_let_out_in_another(ledger: Ledger) -> None:
    accept(ledger, TASKS[0], 1)
    assert "another task" in refuse(ledger, TASKS[1], 1).detail


def test_two_rows_of_one_source_in_one_block_are_one_charge_and_one_refusal(ledger: Ledger) -> None:
    refused = ledger.charge(TASKS[0], price(0.2), {report(1): "ann", report(2): "bob", report(3): "ann"})
    assert list(refused) == [report(3)]
    assert [entry.source for entry in ledger.entries()] == [ledger.pseudonym("ann"), ledger.pseudonym("bob")]


# --- the ceiling ----------------------------------------------------------------------------------------------


def test_what_is_spent_is_the_exact_gaussian_composition(ledger: Ledger) -> None:
    for number in range(8):
        accept(ledger, TASKS[number], number, mu=0.2)
    balance = ledger.spent()
    assert balance.spent.mu_squared == "0.32"
    assert balance.epsilon == pytest.approx(gaussian_epsilon(math.sqrt(0.32), DELTA), rel=1e-9)
    assert (balance.delta, balance.max_epsilon) == (DELTA, 3.0)
    # The sum of eight epsilons, which a ledger without composition would charge, is more than twice as much.
    assert balance.epsilon < 8 * gaussian_epsilon(0.2, DELTA) / 2


def test_the_refusal_at_the_ceiling_has_all_three_numbers(ledger: Ledger) -> None:
    accept(ledger, TASKS[0], 1, mu=0.5)
    accept(ledger, TASKS[1], 2, mu=0.25)
    before, after = ledger.spent().epsilon, gaussian_epsilon(math.sqrt(0.25 + 0.0625 + 0.25), DELTA)
    assert before < 3 < after
    assert refuse(ledger, TASKS[2], 3, mu=0.5).detail == (
        f"epsilon at delta 1e-06 is {before:.6g} already and would be {after:.6g}; the ceiling is 3"
    )
    accept(ledger, TASKS[3], 4, mu=0.01)
    accept(ledger, TASKS[2], 5, "another source", mu=0.5)


def test_a_task_at_exactly_the_ceiling_fits_and_a_hair_more_does_not(tmp_path: Path) -> None:
    task = make_task(epsilon=1)
    exact = price_of(task).epsilon_at(DELTA)
    assert exact <= 1
    for ceiling, fits in [(exact, True), (exact * (1 - 1e-8), False), (1.0, True)]:
        with Ledger(tmp_path / f"{ceiling!r}", max_epsilon=ceiling, delta=DELTA) as ledger:
            assert (not ledger.charge(task.task_id, price_of(task), {report(1): SELF})) is fits


def test_a_task_whose_coalitions_alone_use_up_delta_does_not_fit(ledger: Ledger) -> None:
    assert ledger.charge(TASKS[0], price(0.1, coalition="0.0000009"), {report(1): SELF}) == {}
    again = ledger.charge(TASKS[1], price(0.1, coalition="0.0000009"), {report(2): SELF})
    assert "would be inf" in again[report(2)].detail


def test_the_price_is_that_of_the_smallest_cohort() -> None:
    task = make_task(min_clients=8)
    assert price_of(task) == Spending.of(task.privacy(8)).with_alone(None)
    assert float(price_of(task).mu_squared) > float(Spending.of(task.privacy(9)).mu_squared)


def test_where_a_worse_matrix_than_planned_may_pass_the_price_is_all_that_the_promise_allows(ledger: Ledger) -> None:
    claim = Claim(epsilon="1", delta="0.000001", min_clients=400, max_corrupt_clients=2, delta_coalition="0.0000001")
    prices = {}
    for sparsity in (1, 2):
        plan = calibrated_for(Osnap(row_bound="1", fraction_bits=0, sigma=8, rows=8, sparsity=sparsity), 3, claim, 1000)
        # With more noise than the promise needs, the gate has room for a matrix that is worse than planned.
        task = make_task(plan.model_copy(update={"sigma": plan.sigma * 3 // 2}), claim=claim)
        prices[sparsity] = price_of(task)
        assert float(prices[sparsity].mu_squared) >= task.privacy(400).mu ** 2
    assert prices[1].epsilon_at(DELTA) < 0.7
    assert 1 <= prices[2].epsilon_at(DELTA) < 1 + 1e-9
    with Ledger(ledger._file.path, max_epsilon=1.0) as exact:
        accept_price(exact, prices[2])


def accept_price(ledger: Ledger, price: Spending) -> None:
    assert ledger.charge(TASKS[0], price, {report(1): SELF}) == {}


def test_a_task_that_only_hides_whether_a_row_is_left_out_costs_twice_its_mu() -> None:
    claim = Claim(epsilon="1", delta="0.000001", neighbours="zero-out", min_clients=8)
    task = make_task(claim=claim)
    own = Spending.of(task.privacy(8))
    assert float(price_of(task).mu_squared) == pytest.approx(4 * float(own.mu_squared), rel=1e-12)


@pytest.mark.parametrize("limits", [(0, 1e-6), (-1, 1e-6), (math.inf, 1e-6), (math.nan, 1e-6), (1, 0), (1, 1)])
def test_a_ceiling_that_is_none_is_the_callers_mistake(tmp_path: Path, limits: tuple[float, float]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        Ledger(tmp_path / "ledger", *limits)


@pytest.mark.parametrize("name", ["", "x" * 201, "a\0b", None, 7.5])
def test_what_cannot_name_a_source_is_the_callers_mistake(ledger: Ledger, name: object) -> None:
    with pytest.raises(ValueError, match=r"name|person"):
        ledger.charge(TASKS[0], price(0.1), {report(1): name})  # type: ignore[dict-item]
    assert ledger.entries() == []


Steps = st.lists(
    st.tuples(
        st.integers(0, 1),  # which of two processes' ledgers
        st.integers(0, 7),  # task
        st.sampled_from(["ann", "bob", Vouched("x"), Vouched("y")]),
        st.integers(0, 30),  # report
    ),
    max_size=40,
)
MUS = [0.1, 0.2, 0.3, 0.15, 0.25, 0.05, 0.4, 0.35]


@few
@given(steps=Steps)
def test_no_order_of_charges_exceeds_the_ceiling_or_answers_a_task_twice(
    steps: list[tuple[int, int, Source, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "ledger"
    sent: dict[bytes, tuple[int, Source]] = {}
    with Ledger(path, 2.0, DELTA) as first, Ledger(path, 2.0, DELTA) as second:
        for which, task, source, number in steps:
            # Identifiers hash the task and the shares, so that two sources never have the same one.
            known = f"{task} {source} {number}".encode()
            try:
                if not (first, second)[which].charge(TASKS[task], price(MUS[task]), {known: source}):
                    sent[known] = (task, source)
            except LedgerRefusedError:
                continue
        for name in ("ann", "bob"):
            # A person may be among the rows of any call that was vouched for, and is in each at most once.
            mine = {(task, source) for task, source in sent.values() if source == name or isinstance(source, Vouched)}
            tasks = [task for task, _ in mine]
            assert len(tasks) == len(set(tasks))
            loss = gaussian_epsilon(math.sqrt(sum(MUS[task] ** 2 for task in tasks)), DELTA) if tasks else 0.0
            assert loss <= 2.0
            assert second.spent(name).epsilon == pytest.approx(loss, rel=1e-6)


# --- rows of many sources that nobody names -------------------------------------------------------------------


def test_rows_that_were_vouched_for_are_one_charge_that_counts_for_everybody(ledger: Ledger) -> None:
    call = Vouched()
    accept(ledger, TASKS[0], 1, "ann", mu=0.3)
    assert ledger.charge(TASKS[1], price(0.4), {report(number): call for number in (2, 3)}) == {}
    assert ledger.charge(TASKS[1], price(0.4), {report(4): call}) == {}
    charges = [(entry.source, entry.num_reports) for entry in ledger.entries()]
    assert charges == [(ledger.pseudonym("ann"), 1), (None, 3)]
    assert ledger.spent("ann").spent.mu_squared == "0.25"
    assert ledger.spent("bob").spent.mu_squared == "0.16"


def test_a_second_call_may_hold_the_same_people_and_is_refused(ledger: Ledger) -> None:
    accept(ledger, TASKS[0], 1, Vouched())
    assert "may be in them" in refuse(ledger, TASKS[0], 2, Vouched()).detail
    assert "were not named" in refuse(ledger, TASKS[0], 3, "ann").detail
    accept(ledger, TASKS[1], 4, "ann")
    assert "may be in them" in refuse(ledger, TASKS[1], 5, Vouched()).detail


def test_rows_that_were_vouched_for_must_fit_whoever_has_spent_most(ledger: Ledger) -> None:
    accept(ledger, TASKS[0], 1, "ann", mu=0.3)
    accept(ledger, TASKS[1], 2, "bob", mu=0.3)
    accept(ledger, TASKS[2], 3, "bob", mu=0.45)
    spent = ledger.spent("bob").epsilon
    assert f"is {spent:.6g} already" in refuse(ledger, TASKS[3], 4, Vouched(), mu=0.4).detail
    accept(ledger, TASKS[3], 5, Vouched(), mu=0.2)


def test_the_name_of_the_choice_is_public() -> None:
    assert DISTINCT_SOURCES.value == "distinct sources"


# --- threads --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False], ids=["one ledger", "a ledger each"])
def test_threads_at_once_cannot_overspend(tmp_path: Path, shared: bool) -> None:
    path = tmp_path / "ledger"
    barrier = threading.Barrier(8)
    with Ledger(path, 3.0, DELTA) as common:

        def spend(number: int) -> bool:
            ledger = common if shared else Ledger(path, 3.0, DELTA)
            barrier.wait()
            won = not ledger.charge(TASKS[number], price(0.45), {report(number): SELF})
            if not shared:
                ledger.close()
            return won

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(spend, range(8))) == 2
        assert common.spent().epsilon <= 3


def test_threads_that_begin_the_same_ledger_at_once_share_it(tmp_path: Path) -> None:
    barrier = threading.Barrier(8)

    def begin(path: Path, number: int) -> bool:
        barrier.wait()
        with Ledger(path) as ledger:
            return not ledger.charge(TASKS[0], price(0.1), {report(number): SELF})

    with ThreadPoolExecutor(8) as pool:
        for attempt in range(5):
            paths = [tmp_path / f"ledger {attempt}"] * 8
            assert sum(pool.map(begin, paths, range(8))) == 1
    there = {each.name for each in tmp_path.iterdir()}
    assert there == {f"ledger {attempt}{end}" for attempt in range(5) for end in ("", ".key")}


# --- the file -------------------------------------------------------------------------------------------------


def test_what_was_charged_is_there_for_whoever_opens_the_file_next(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with Ledger(path) as ledger:
        accept(ledger, TASKS[0], 1)
        entries, balance = ledger.entries(), ledger.spent()
    with Ledger(path) as ledger:
        assert (ledger.entries(), ledger.spent()) == (entries, balance)
        accept(ledger, TASKS[0], 1)
        refuse(ledger, TASKS[0], 2)


def test_a_closed_ledger_opens_again_with_the_next_use(ledger: Ledger) -> None:
    accept(ledger, TASKS[0], 1)
    ledger.close()
    refuse(ledger, TASKS[0], 2)


def test_nobody_but_the_owner_may_read_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "ledger"
    old_mask = os.umask(0)
    try:
        with Ledger(path) as ledger:
            accept(ledger, TASKS[0], 1)
            modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
        for each in (path, path.with_name("ledger.key")):
            each.chmod(0o644)
            with Ledger(path):
                assert stat.S_IMODE(each.stat().st_mode) == 0o600
    finally:
        os.umask(old_mask)
    assert modes == dict.fromkeys(("ledger", "ledger-wal", "ledger-shm", "ledger.key"), 0o600)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def damaged(path: Path, how: str) -> None:
    match how:
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_bytes(b"not a ledger\n" * 500)
        case "cut short":
            path.write_bytes(path.read_bytes()[:-4096])
        case "a page of zeros":
            data = bytearray(path.read_bytes())
            data[4096:8192] = bytes(4096)
            path.write_bytes(data)
        case "a folder":
            path.unlink()
            path.mkdir()
        case _:
            with closing(sqlite3.connect(path)) as db, db:
                db.execute(how)


@pytest.mark.parametrize(
    "how",
    [
        "empty",
        "text",
        "cut short",
        "a page of zeros",
        "a folder",
        "PRAGMA user_version = 3",
        "PRAGMA user_version = 0",
        "PRAGMA application_id = 7",
        "PRAGMA journal_mode = DELETE",
        "DROP TABLE charges",
        "DROP INDEX charges_by_source",
        "CREATE TABLE more (a)",
        "CREATE TRIGGER forget AFTER INSERT ON charges BEGIN DELETE FROM charges; END",
    ],
)
def test_a_file_that_is_not_an_undamaged_ledger_of_this_version_is_refused(tmp_path: Path, how: str) -> None:
    path = tmp_path / "ledger"
    with Ledger(path) as ledger:
        accept(ledger, TASKS[0], 1)
    damaged(path, how)
    with pytest.raises(LedgerRefusedError, match="cannot be used"):
        Ledger(path)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE prices SET mu_squared = '-1'",
        "UPDATE prices SET mu_squared = 'much'",
        "UPDATE prices SET slack = x'ff'",
        "UPDATE prices SET price = price + 1",
        "UPDATE charges SET price = 77",
    ],
)
def test_a_charge_that_cannot_be_read_refuses_the_next_one(tmp_path: Path, change: str) -> None:
    path = tmp_path / "ledger"
    with Ledger(path) as ledger:
        accept(ledger, TASKS[0], 1)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(change)
    with pytest.raises(LedgerRefusedError), Ledger(path) as ledger:
        ledger.charge(TASKS[1], price(0.1), {report(2): Vouched()})


def test_a_ledger_that_was_removed_or_replaced_under_our_hands_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with Ledger(path) as ledger:
        accept(ledger, TASKS[0], 1)
        path.rename(tmp_path / "elsewhere")
        with pytest.raises(LedgerRefusedError):
            ledger.charge(TASKS[1], price(0.1), {report(2): SELF})
    with Ledger(path) as ledger:
        (tmp_path / "elsewhere").replace(path)
        with pytest.raises(LedgerRefusedError, match="taken its place"):
            ledger.charge(TASKS[1], price(0.1), {report(2): SELF})


def test_a_folder_that_cannot_hold_a_ledger_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerRefusedError, match="cannot be used"):
        Ledger(tmp_path / "file" / "ledger")
    assert not list(tmp_path.glob("*ledger*"))


def test_a_full_disk_refuses_and_charges_nothing(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        accept(ledger, TASKS[0], 1)
        with ledger._file.transaction() as db:
            pages = db.execute("PRAGMA page_count").fetchone()[0]
        ledger._file._db.execute(f"PRAGMA max_page_count = {pages}")  # type: ignore[union-attr]
        many = {report(number): f"source {number} {'x' * 150}" for number in range(2, 2000)}
        with pytest.raises(LedgerRefusedError, match="full"):
            ledger.charge(TASKS[1], price(0.1), many)
        assert len(ledger.entries()) == 1
        accept(ledger, TASKS[1], 2)


def test_a_ledger_that_others_keep_busy_refuses_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lintra_client.ledger.file.BUSY_SECONDS", 0.05)
    path = tmp_path / "ledger"
    with Ledger(path) as ledger, LedgerFile(path).transaction(), pytest.raises(LedgerRefusedError, match="locked"):
        ledger.charge(TASKS[0], price(0.1), {report(1): SELF})


def test_the_clock_changes_nothing(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_clock(*_: object) -> float:
        raise AssertionError("the ledger asked for the time")

    accept(ledger, TASKS[0], 1)
    for name in ("time", "time_ns"):
        monkeypatch.setattr(f"time.{name}", no_clock)
    refuse(ledger, TASKS[0], 2)
    accept(ledger, TASKS[1], 3)
    text = "".join(open_schema(ledger))
    assert "TIME" not in text.upper()
    assert "DATE" not in text.upper()


def open_schema(ledger: Ledger) -> list[str]:
    with ledger._file.transaction() as db:
        return [str(sql) for (sql,) in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]


def test_the_default_ledger_lies_in_the_users_state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_path() == tmp_path / "state" / "lintra" / "ledger.sqlite"
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_STATE_HOME", value)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert default_path() == tmp_path / ".local" / "state" / "lintra" / "ledger.sqlite"


def test_two_prices_that_differ_only_in_what_shares_show_are_two(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    prices = [
        Spending(mu_squared="0.04", slack="0", delta_coalition="0", delta_shares=seen) for seen in ("0", "0.0001")
    ]
    with Ledger(path, max_epsilon=10.0, delta=0.01) as ledger:
        for number, price in enumerate(prices * 2):
            assert ledger.charge(TASKS[number], price, {bytes([number] * 32): SELF}) == {}
    with Ledger(path, max_epsilon=10.0, delta=0.01) as ledger:
        assert [entry.spent for entry in ledger.entries()] == prices * 2
        balance = ledger.spent()
    assert balance.spent == Spending(mu_squared="0.16", slack="0", delta_coalition="0", delta_shares="0.0002")
    assert balance.epsilon == balance.spent.epsilon_at(0.01)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT delta_shares FROM prices ORDER BY price").fetchall() == [("0",), ("0.0001",)]


def test_a_report_that_leaves_no_epsilon_for_what_shares_show_does_not_fit(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger", max_epsilon=1000.0, delta=1e-6) as ledger:
        big = Spending(mu_squared="4", slack="0", delta_coalition="0", delta_shares="0.0000000000001")
        assert ledger.charge(TASKS[0], big, {bytes(32): SELF}) == {}
        refused = ledger.charge(TASKS[1], big, {bytes([1] * 32): SELF})
        assert "would be inf" in refused[bytes([1] * 32)].detail
        assert len(ledger.entries()) == 1


def test_a_stream_is_charged_whole_before_its_first_report_and_nothing_later(tmp_path: Path) -> None:
    windows = Windows(window=1, grace=0, max_windows=6, reports_per_source=2, stream=Stream(damping="0.5"))
    times = {"batches": "windowed", "windows": windows, "not_before": 1, "not_after": 7}
    task = make_task("sum", noise="servers", **times)
    ledger = Ledger(tmp_path / "ledger.sqlite", max_epsilon=2, delta=DELTA)
    assert ledger.charge_task(task, {report(0): "alice"}, 0) == {}
    spent = ledger.spent("alice").spent
    assert spent == price_of(task)
    assert ledger.charge_task(task, {report(1): "alice"}, 3) == {}
    assert ledger.spent("alice").spent == spent
    assert list(ledger.charge_task(task, {report(2): "alice"}, 4)) == [report(2)]  # a third one was never promised
    assert ledger.charge_task(task, {report(3): "bob"}, 4) == {}
    assert ledger.spent("bob").spent == spent
