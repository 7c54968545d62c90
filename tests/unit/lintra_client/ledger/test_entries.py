"""A contribution charges all its persons in a few statements, and decides as if it had asked about each alone."""

from pathlib import Path

import numpy as np
import pytest

from lintra_client import Ledger
from lintra_client.ledger import entries as ledger_book
from lintra_client.ledger.entries import Vouched
from lintra_client.ledger.prices import price_of
from lintra_protocol.errors import LedgerRefusedError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.mechanisms import SecondMoment
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task
from support import make_task
from support.measured import calibrated_for, with_contributors

HELD = Contributors(rows_per_person=2, organisations_per_person=1, max_rows=1000, count="noisy")


def task_of(epsilon: str) -> Task:
    claim = Claim(epsilon=epsilon, delta="0.000001", min_clients=5, max_corrupt_clients=4)
    mechanism = with_contributors(SecondMoment(row_bound="2", fraction_bits=0, sigma=4, intercept="1"), HELD)
    return make_task(
        calibrated_for(mechanism, 2, claim, 5),
        columns=2,
        claim=claim,
        max_clients=5,
        max_missing="0",
        contributors=HELD,
    )


TASKS = [task_of(epsilon) for epsilon in ("0.5", "0.9", "1.4")]
NAMES = [f"person {number}" for number in range(60)] + ["O'Hara", 'the "one"', "Ωλ😀", "a,b", "[]", "%_"]


def alone(path: Path, task: Task, ceiling: float) -> list[str]:
    """Return whom a ledger refuses that looks at one person after another, by the way that single rows take."""
    reports = {(1000 + place).to_bytes(32, "big"): name for place, name in enumerate(NAMES)}
    with Ledger(path, max_epsilon=ceiling) as ledger:
        refused = ledger.charge(task.task_id, price_of(task), reports)
    return [name for report_id, name in reports.items() if report_id in refused]


@pytest.mark.parametrize("vouched", [False, True], ids=["", "and a charge for everybody"])
def test_many_persons_are_judged_as_each_of_them_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vouched: bool
) -> None:
    monkeypatch.setattr(ledger_book, "_AT_ONCE", 7)
    random = np.random.default_rng(3)
    taken = [{name for name in NAMES if random.random() < 0.4} for _ in TASKS]
    for task, ceiling in ((TASKS[1], 1.3), (TASKS[2], 1.6), (TASKS[2], 0.7)):
        for copy in ("many", "alone"):
            path = tmp_path / f"{copy} {ceiling}"
            with Ledger(path, max_epsilon=50) as ledger:
                for number, (earlier, persons) in enumerate(zip(TASKS[:2], taken, strict=False)):
                    ledger.charge_contribution(earlier, bytes([number]) * 32, sorted(persons))
                if vouched:
                    ledger.charge_contribution(task_of("0.3"), b"v" * 32, Vouched())
        with Ledger(tmp_path / f"many {ceiling}", max_epsilon=ceiling) as ledger:
            told = ledger.unaffordable(task, NAMES)
            rest = [name for name in NAMES if name not in told]
            with pytest.raises(LedgerRefusedError, match=f"{len(told)} of {len(NAMES)} persons"):
                ledger.charge_contribution(task, b"r" * 32, NAMES)
            before = len(ledger.entries())
            if rest:
                ledger.charge_contribution(task, b"r" * 32, rest)
                assert {entry.source for entry in ledger.entries()[before:]} == set(map(ledger.pseudonym, rest))
                assert {entry.spent for entry in ledger.entries()[before:]} == {price_of(task)}
        assert told == alone(tmp_path / f"alone {ceiling}", task, ceiling)
        assert told


def test_a_charge_for_everybody_in_a_task_leaves_no_person_of_it(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger", max_epsilon=50) as ledger:
        ledger.charge_contribution(TASKS[0], b"v" * 32, Vouched())
        assert ledger.unaffordable(TASKS[0], NAMES) == NAMES
        with pytest.raises(LedgerRefusedError, match="66 of 66 persons"):
            ledger.charge_contribution(TASKS[0], b"r" * 32, NAMES)


def test_a_person_who_is_named_twice_is_refused_and_nobody_is_charged(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        with pytest.raises(LedgerRefusedError, match="1 of 3 persons"):
            ledger.charge_contribution(TASKS[0], b"r" * 32, ["Ann", "Bob", "Ann"])
        assert ledger.entries() == []


def test_five_thousand_persons_take_as_many_statements_as_two(tmp_path: Path) -> None:
    told: dict[int, int] = {}
    for count in (2, 5_000):
        statements: list[str] = []
        with Ledger(tmp_path / str(count), max_epsilon=50) as ledger:
            with ledger._file.transaction() as db:
                db.set_trace_callback(statements.append)
            persons = [f"person {number}" for number in range(count)]
            assert ledger.unaffordable(TASKS[0], persons) == []
            ledger.charge_contribution(TASKS[0], b"r" * 32, persons)
            told[count] = len([text for text in statements if not text.startswith("--")])
            assert ledger.spent("person 1").epsilon == pytest.approx(0.5, rel=1e-6)
    assert told[2] == told[5_000] < 40


def test_the_report_of_a_contribution_belongs_to_its_charges_and_to_no_second_task(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger", max_epsilon=50) as ledger:
        ledger.charge_contribution(TASKS[0], b"r" * 32, NAMES)
        assert [batch for _, batch in ledger.reports(TASKS[0].task_id)] == [0]
        assert sum(entry.num_reports for entry in ledger.entries()) == 1
        with pytest.raises(LedgerRefusedError, match="another task"):
            ledger.charge_contribution(TASKS[1], b"r" * 32, NAMES)
        assert len(ledger.entries()) == len(NAMES)


@pytest.mark.parametrize("again", ["Ame\u0301lie", " Am\u00e9lie "], ids=["decomposed", "with spaces"])
def test_a_person_whose_name_is_spelled_otherwise_is_the_same_person(tmp_path: Path, again: str) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.charge_contribution(TASKS[0], b"r" * 32, ["Am\u00e9lie"])
        assert ledger.unaffordable(TASKS[0], [again, "Bob"]) == [again]
        with pytest.raises(LedgerRefusedError, match="1 of 2 persons"):
            ledger.charge_contribution(TASKS[0], b"s" * 32, [again, "Bob"])
        with pytest.raises(LedgerRefusedError, match="1 of 2 persons"):
            ledger.charge_contribution(TASKS[0], b"s" * 32, ["Bob", " Bob"])


@pytest.mark.parametrize("name", ["Ann\0", "Ann\0Smith", "", "\ud800", "x" * 201], ids=repr)
def test_a_name_that_a_statement_would_cut_or_change_is_refused_before_anybody_is_charged(
    tmp_path: Path, name: str
) -> None:
    # SQLite's json_each ends a text at NUL, so that what such a person was charged before would not be found.
    with Ledger(tmp_path / "ledger") as ledger:
        for call in (ledger.charge_contribution, lambda task, _, names: ledger.unaffordable(task, names)):
            with pytest.raises(ValueError, match=r"name|control"):
                call(TASKS[0], b"r" * 32, ["Bob", name])
        assert ledger.entries() == []
