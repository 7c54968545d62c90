"""Rounds of the same people: the first report pays for all of them, and nobody answers a round that is not paid for."""

from pathlib import Path

import pytest

from lintra_analysis.spec.second_round import build_second_task
from lintra_client.ledger.ledger import SELF, Ledger
from lintra_client.ledger.prices import price_of
from lintra_protocol.errors import LedgerRefusedError
from lintra_protocol.task import Task
from support.analyzer_world import NOW, seeded
from support.newton import first_task, logistic_rows, released, specification

ROWS = logistic_rows(2000, [1.0, -0.5], 0.3, seed=1)


def rounds(**changes: object) -> list[Task]:
    asked = specification(2, 2000, **changes)
    tasks, release = [first_task(asked)], None
    for number in range(2):
        release = released(tasks[-1], ROWS, number, release)
        tasks.append(build_second_task(asked, tasks[-1], release, NOW + 10_000, seeded(f"{number}")))
    return tasks


def answered(ledger: Ledger, task: Task, source: str = SELF) -> LedgerRefusedError | None:
    report_id = task.id_bytes[:16] + source.encode().ljust(16, b"-")
    return ledger.charge_task(task, {report_id: source}, 0).get(report_id)


@pytest.mark.parametrize("changes", [{}, {"neighbours": "zero-out"}, {"epsilon": 3}, {"noise": "both"}])
def test_the_first_report_pays_for_all_rounds_and_later_ones_pay_nothing(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    tasks = rounds(**changes)
    with Ledger(tmp_path / "ledger", max_epsilon=9) as ledger:
        paid = []
        for task in tasks:
            assert answered(ledger, task) is None
            paid.append(ledger.spent().epsilon)
        assert paid[0] == paid[1] == paid[2]
        # No less than what the three rounds really cost, and no more than a part in 10,000 beyond it.
        cost = sum((price_of(task) for task in tasks[1:]), price_of(tasks[0])).epsilon_at(ledger.delta)
        assert cost <= paid[0] <= cost * 1.0001
    if changes.get("neighbours") is None:
        promised = float(changes.get("epsilon", 1))  # type: ignore[arg-type]
        with Ledger(tmp_path / "tight", max_epsilon=promised) as ledger:
            assert answered(ledger, tasks[0]) is None
        with Ledger(tmp_path / "too tight", max_epsilon=0.99 * promised) as ledger:
            assert "the ceiling is" in str(answered(ledger, tasks[0]))


def test_who_took_no_part_in_the_round_before_answers_none_after_it(tmp_path: Path) -> None:
    first, second, third = rounds()
    with Ledger(tmp_path / "ledger") as ledger:
        assert "took no part" in str(answered(ledger, second))
        assert answered(ledger, first) is None
        assert "took no part" in str(answered(ledger, third))
        assert "took no part" in str(answered(ledger, second, "somebody else"))
        assert answered(ledger, second) is None
        assert answered(ledger, third) is None


def test_a_round_that_costs_more_or_a_second_one_after_the_same_task_is_refused(tmp_path: Path) -> None:
    first, second, third = rounds()
    costly = second.model_copy(
        update={
            "mechanism": second.mechanism.model_copy(update={"sigma": second.mechanism.sigma * 9 // 10}),
            "claim": second.claim.model_copy(update={"epsilon": "2"}),
        }
    )
    rival = second.model_copy(update={"purpose": "another one"})
    more = third.model_copy(
        update={
            "mechanism": third.mechanism.model_copy(update={"rounds": 5, "round_number": 4, "after": third.task_id})
        }
    )
    with Ledger(tmp_path / "ledger") as ledger:
        for task in (first, second, third):
            if task is second:
                assert "spends more than" in str(answered(ledger, costly))
            assert answered(ledger, task) is None
        assert "one main task" in str(answered(ledger, rival))
        assert "took no part" in str(answered(ledger, more))


def test_windows_with_people_of_their_own_are_charged_each_by_itself(tmp_path: Path) -> None:
    first, second, _ = rounds(rounds=1)
    with Ledger(tmp_path / "ledger", max_epsilon=9) as ledger:
        assert answered(ledger, second) is None
        before = ledger.spent().epsilon
        assert answered(ledger, first) is None
        assert ledger.spent().epsilon > 1.2 * before


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_the_first_report_pays_for_all_rounds_if_all_others_are_invented_too(tmp_path: Path, neighbours: str) -> None:
    tasks = rounds(noise="both", neighbours=neighbours)
    with Ledger(tmp_path / "ledger", max_epsilon=9) as ledger:
        paid = []
        for task in tasks:
            assert answered(ledger, task) is None
            paid.append(ledger.spent().epsilon_alone)
            assert ledger.spent().unbounded == 0
        assert paid[0] == paid[1] == paid[2]
        cost = sum((price_of(task) for task in tasks[1:]), price_of(tasks[0])).epsilon_alone_at(ledger.delta)
        assert cost <= paid[0] <= cost * 1.0001
        if neighbours == "replace-one":
            assert 2.99 < paid[0] <= 3


def test_rounds_of_so_few_clients_that_their_own_noise_is_a_bound_are_answered(tmp_path: Path) -> None:
    """What is left of a later round may be called a bound where the first has none, and the other way round."""
    asked = specification(2, 5)
    first = first_task(asked)
    rows = ROWS[:5]
    second = build_second_task(asked, first, released(first, rows, 1), NOW + 10_000, seeded("2"))
    assert first.bound_alone() is not None
    with Ledger(tmp_path / "ledger", max_epsilon=9) as ledger:
        assert answered(ledger, first) is None
        before = ledger.spent()
        assert answered(ledger, second) is None
        assert ledger.spent() == before
