"""Several sketches for the same people: their parts of delta for coalitions fit a ledger as often as was asked for."""

from pathlib import Path

import pytest

from lintra_analysis.kinds.coalition import usual_claim
from lintra_client.ledger.ledger import Ledger
from lintra_client.ledger.prices import price_of
from lintra_protocol.task import Task
from support import make_task


def sketches(count: int, **options: int) -> list[Task]:
    """Return so many different default tasks of a sketch, planned at a ledger's own delta."""
    claim = usual_claim(epsilon="0.5", min_clients=2000, is_sketch=True, **options)
    first = make_task("osnap", rows=8, claim=claim, max_clients=4000)
    return [first.model_copy(update={"purpose": f"task {number}"}) for number in range(count)]


def charged(ledger: Ledger, tasks: list[Task]) -> list[bool]:
    """Charge a report of the same source in each task; say for each whether it may leave."""
    return [
        not ledger.charge(task.task_id, price_of(task), {number.to_bytes(32, "big"): "ann"})
        for number, task in enumerate(tasks)
    ]


@pytest.mark.parametrize("count", [1, 3, 5])
def test_as_many_default_sketches_as_were_asked_for_fit_the_ledger(tmp_path: Path, count: int) -> None:
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert charged(ledger, sketches(count, reports_per_source=count)) == [True] * count
        # Half of delta is left for the noise itself: for half a millionth five of 0.5 are 1.2 together.
        assert ledger.spent("ann").epsilon < 0.5 * count**0.5 * 1.15


def test_with_half_of_delta_in_each_the_second_does_not_fit(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert charged(ledger, sketches(3)) == [True, False, False]
