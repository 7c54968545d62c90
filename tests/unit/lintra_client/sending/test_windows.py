"""A source in a task with windows: one report in each, in as many as it may answer, each charged by itself."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lintra_client import DISTINCT_SOURCES, Client
from lintra_client.ledger.entries import Vouched
from lintra_client.ledger.ledger import Ledger
from lintra_client.sending.sending import expiry_of
from lintra_protocol.fields.windows import Windows
from lintra_protocol.task import Task
from support import make_task
from support.fake_servers import IMPATIENT, Network

WINDOWS = Windows(window=3, grace=2, max_windows=6, reports_per_source=2)


def a_task(reports_per_source: int = 2) -> Task:
    windows = WINDOWS.model_copy(update={"reports_per_source": reports_per_source})
    times = {"not_before": 10, "not_after": 10 + windows.units}
    return make_task(batches="windowed", windows=windows, epsilon=0.5, **times)  # type: ignore[arg-type]


TASK = a_task()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


def charged(ledger: Ledger, window: int, report: int, source: str | Vouched = "ann", task: Task = TASK) -> str:
    """Charge a report; return why it was refused, or nothing."""
    refused = ledger.charge_task(task, {report.to_bytes(32, "big"): source}, window)
    return "".join(error.detail for error in refused.values())


def test_a_source_answers_as_many_windows_as_it_may_and_not_one_more(ledger: Ledger) -> None:
    assert charged(ledger, 0, 1) == ""
    assert "already" in charged(ledger, 0, 2)
    assert charged(ledger, 3, 3) == ""
    assert "reports_per_source" in charged(ledger, 4, 4)
    assert charged(ledger, 3, 3) == ""  # the same report again costs nothing
    assert charged(ledger, 4, 5, "bob") == ""


def test_what_a_source_spent_is_what_its_task_says_of_all_its_reports(ledger: Ledger) -> None:
    assert [charged(ledger, window, window) for window in (0, 5)] == ["", ""]
    assert ledger.spent("ann").spent.mu == pytest.approx(TASK.worst_together().mu, rel=1e-11)
    assert [(entry.task_id, entry.batch) for entry in ledger.entries()] == [(TASK.task_id, 0), (TASK.task_id, 5)]


def test_the_devices_own_ceiling_ends_a_series_before_the_task_does(tmp_path: Path) -> None:
    task = a_task(6)
    with Ledger(tmp_path / "ledger.sqlite", max_epsilon=1.0) as ledger:
        said = [charged(ledger, window, window, task=task) for window in range(6)]
    allowed = said.index(next(why for why in said if why))
    assert said[:allowed] == [""] * allowed
    assert 1 < allowed < 6
    assert "the ceiling is 1" in said[allowed]


def test_rows_that_were_vouched_for_count_for_everybody(ledger: Ledger) -> None:
    assert charged(ledger, 0, 1) == ""
    assert charged(ledger, 1, 2, Vouched()) == ""
    assert "reports_per_source" in charged(ledger, 2, 3)  # ann may be one of them
    assert charged(ledger, 2, 4, "bob") == ""
    with pytest.raises(Exception, match="reports_per_source"):
        charged(ledger, 3, 5, Vouched())


def test_what_waits_in_the_outbox_goes_when_the_grace_of_its_window_is_over() -> None:
    assert [expiry_of(TASK, window) for window in (0, 5)] == [60 * (13 + 2), 60 * (28 + 2)]


# --- the window that a report is sent to is the one that is charged --------------------------------------------


def batches(ledger: Ledger) -> list[int]:
    return sorted({entry.batch for entry in ledger.entries()})


class Clock:
    """Seconds since the epoch; a test moves it on to a window."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def go_to(self, window: int) -> None:
        self.seconds = float(TASK.span(window)[0] * TASK.time_precision)


def sending(ledger: Ledger | None, clock: Clock) -> Client:
    network = Network(TASK)
    return Client(TASK.task_id, network.urls, ledger=ledger, retries=IMPATIENT, now=clock, transport=network)


async def test_a_report_is_charged_in_the_window_it_was_sent_to(ledger: Ledger) -> None:
    clock = Clock()
    clock.go_to(2)
    async with sending(ledger, clock) as client:
        await client.send([0.1, 0.2, 0.3], source="one row")
        assert batches(ledger) == [2]
        clock.go_to(4)
        await client.send_many(np.zeros((3, 3)), source_for=lambda index: f"row {index} of many")
        assert batches(ledger) == [2, 4]
        clock.go_to(5)
        await client.send_many(np.zeros((2, 3)), source_for=DISTINCT_SOURCES)
        assert batches(ledger) == [2, 4, 5]


async def test_a_report_that_was_made_in_a_window_is_charged_there_however_late_it_is_delivered(ledger: Ledger) -> None:
    clock = Clock()
    clock.go_to(1)
    async with sending(ledger, clock) as client:
        parcel = client.prepare([0.1, 0.2, 0.3], source="late")
        clock.go_to(2)
        await client.deliver(parcel)
    assert batches(ledger) == [1]
