"""Pilot and main task in the ledger: both are charged when the pilot's report leaves, in one entry."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lintra_client import Ledger
from lintra_client.ledger.entries import Source, Vouched
from lintra_client.ledger.ledger import SELF
from lintra_client.ledger.prices import price_of, set_aside_by
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.statement import Claim, Neighbours
from lintra_protocol.privacy.study import Study
from lintra_protocol.task import Task
from support import make_task

DELTA = 1e-6


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger", max_epsilon=1.0, delta=DELTA) as ledger:
        yield ledger


def task_of(epsilon: str, study: Study, neighbours: Neighbours = "replace-one", **changes: object) -> Task:
    claim = Claim(epsilon=epsilon, delta="0.000001", min_clients=100, neighbours=neighbours)
    return make_task(claim=claim, study=study, **changes)


def tasks(neighbours: Neighbours = "replace-one", epsilon: str = "1", main: str = "0.94") -> tuple[Task, Task]:
    """Return a pilot and a main task of one study: a tenth of mu^2 for the first."""
    study = Study(epsilon=epsilon, delta="0.000001", share="0.1")
    pilot = task_of("0.27", study, neighbours)
    return pilot, task_of(main, study.model_copy(update={"pilot": pilot.task_id}), neighbours)


def charge(ledger: Ledger, task: Task, number: int, source: Source = SELF) -> str:
    """Charge one report and return why it is refused, or nothing."""
    refused = ledger.charge_task(task, {number.to_bytes(32, "big"): source}, 0)
    return "".join(error.detail or "" for error in refused.values())


def test_the_pilots_entry_holds_both_tasks_and_the_main_task_costs_nothing_more(ledger: Ledger) -> None:
    pilot, main = tasks()
    assert not charge(ledger, pilot, 1)
    (entry,), before = ledger.entries(), ledger.spent()
    held = set_aside_by(pilot)
    assert held is not None
    assert entry.spent == price_of(pilot) + held
    assert 0.99 < before.epsilon <= 1
    assert not charge(ledger, main, 2)
    assert ledger.spent() == before
    assert [(each.task_id, each.pilot) for each in ledger.entries()] == [
        (pilot.task_id, None),
        (main.task_id, pilot.task_id),
    ]
    assert ledger.entries()[1].spent == Spending.zero()


def test_what_is_set_aside_cannot_be_spent_by_another_task_in_between(ledger: Ledger) -> None:
    pilot, main = tasks()
    assert not charge(ledger, pilot, 1)
    assert "the ceiling is 1" in charge(ledger, make_task(epsilon="0.9", min_clients=100), 2)
    assert not charge(ledger, main, 3)


def test_a_pilot_leaves_only_if_its_main_task_fits_as_well(tmp_path: Path) -> None:
    pilot, _ = tasks()
    with Ledger(tmp_path / "ledger", max_epsilon=0.9, delta=DELTA) as ledger:
        assert float(price_of(pilot).epsilon_at(DELTA)) < 0.3
        assert "would be 0.99" in charge(ledger, pilot, 1)
        assert ledger.entries() == []


def test_a_study_has_one_main_task(ledger: Ledger) -> None:
    pilot, main = tasks()
    other = main.model_copy(update={"purpose": "another"})
    assert not charge(ledger, pilot, 1)
    assert not charge(ledger, main, 2)
    assert "a study has one main task" in charge(ledger, other, 3)
    assert "already" in charge(ledger, main, 4)
    assert not charge(ledger, main, 2)


def test_a_source_that_was_not_in_the_pilot_pays_the_main_task_alone(ledger: Ledger) -> None:
    pilot, main = tasks()
    assert not charge(ledger, pilot, 1, "ann")
    assert not charge(ledger, main, 2, "bob")
    assert ledger.spent("bob").spent == price_of(main)
    assert not charge(ledger, main, 3, "ann")


def test_a_main_task_that_spends_more_than_was_set_aside_is_refused(ledger: Ledger) -> None:
    pilot, main = tasks()
    assert main.study is not None
    greedy = task_of("0.999", main.study.model_copy(update={"share": "0.000001"}))
    assert not charge(ledger, pilot, 1)
    assert "more than its pilot" in charge(ledger, greedy, 2)


def test_neighbours_that_leave_a_row_out_are_charged_twice_the_mu_in_both_tasks(tmp_path: Path) -> None:
    pilot, main = tasks("zero-out")
    with Ledger(tmp_path / "ledger", max_epsilon=3.0, delta=DELTA) as ledger:
        assert not charge(ledger, pilot, 1)
        assert ledger.spent().epsilon > 2
        before = ledger.spent()
        assert not charge(ledger, main, 2)
        assert ledger.spent() == before


def test_rows_that_were_vouched_for_in_the_pilot_cover_those_of_the_main_task(ledger: Ledger) -> None:
    pilot, main = tasks()
    first, second = Vouched(), Vouched()
    for number in (1, 2):
        assert not charge(ledger, pilot, number, first)
    before = ledger.spent("anybody")
    for number in (3, 4):
        assert not charge(ledger, main, number, second)
    assert ledger.spent("anybody") == before
    assert [each.num_reports for each in ledger.entries()] == [2, 2]


def test_rows_that_were_vouched_for_after_a_pilot_of_named_sources_are_charged_in_full(tmp_path: Path) -> None:
    pilot, main = tasks()
    with Ledger(tmp_path / "ledger", max_epsilon=3.0, delta=DELTA) as ledger:
        assert not charge(ledger, pilot, 1, "ann")
        assert not charge(ledger, main, 2, Vouched())
        assert ledger.spent("bob").spent == price_of(main)


def test_a_pilot_pays_for_both_tasks_if_all_others_are_invented_too(tmp_path: Path) -> None:
    study = Study(epsilon="1", delta="0.000001", share="0.1", epsilon_alone="3")
    of = {"min_clients": 100, "delta": "0.000001"}
    pilot = make_task(claim=Claim(epsilon="0.27", epsilon_alone="0.8", **of), study=study, noise="both")  # type: ignore[arg-type]
    after = study.model_copy(update={"pilot": pilot.task_id})
    main = make_task(claim=Claim(epsilon="0.94", epsilon_alone="2.8", **of), study=after, noise="both")  # type: ignore[arg-type]
    with Ledger(tmp_path / "ledger", max_epsilon=1.0, delta=DELTA) as ledger:
        assert not charge(ledger, pilot, 1)
        before = ledger.spent()
        assert 2.9 < before.epsilon_alone <= 3
        assert before.unbounded == 0
        # What both really show is less than what was paid.
        assert (price_of(pilot) + price_of(main)).epsilon_alone_at(DELTA) <= before.epsilon_alone
        assert not charge(ledger, main, 2)
        assert ledger.spent() == before
    with Ledger(tmp_path / "tight", max_epsilon=1.0, delta=DELTA, max_epsilon_alone=2.9) as ledger:
        assert "if everybody else is invented" in charge(ledger, pilot, 1)
