"""What the console says of tasks that nobody can send to any more, or never could, and of counts and complaints."""

import re

import httpx2
import pytest
from summary import epsilon_of_both

from lintra_analyzer.tasks.populations import spent_together
from lintra_analyzer.web.console.task_form import complaint_of
from support.analyzer_world import Life
from unit.lintra_analyzer.web.console.test_tasks import FORM, browser, sent, text_of

__all__ = ["browser"]

REPR = re.compile(r"ServerState\(|Problem\(|<[a-z_.]+ object|\{'|Value error|None\b")


async def test_a_task_that_servers_refuse_says_why_at_its_field(life: Life, browser: httpx2.AsyncClient) -> None:
    before = {stored.task_id for stored in life.service.store.tasks()}
    made = await sent(browser, "/tasks", **FORM | {"epsilon": "50", "purpose": "far too much"})
    assert made.status_code == 403
    at_field = re.search(r'id="problem-epsilon">([^<]+)<', made.text)
    assert at_field is not None
    assert re.search(r"epsilon is 4\d\.\d+ at delta .*, more than 10", at_field[1], re.IGNORECASE)
    assert re.search(r'name="epsilon" [^>]*aria-describedby="problem-epsilon" aria-invalid="true"', made.text)
    assert made.text.count("aria-invalid") == 1
    ((task_id),) = {stored.task_id for stored in life.service.store.tasks()} - before
    assert f'href="/tasks/{task_id}"' in made.text
    # The page of the task says it without a program, and what a program puts in its place says it, too.
    for path in (f"/tasks/{task_id}", f"/tasks/{task_id}/servers"):
        shown = text_of(await browser.get(path))
        assert re.search(r"epsilon is 4\d\.\d+ at delta", shown), path
        assert not REPR.search(shown), path
    assert "refused : It is not registered with" in text_of(await browser.get(f"/tasks/{task_id}"))
    assert "All 3 servers say: " in text_of(await browser.get(f"/tasks/{task_id}"))
    assert "refused" in text_of(await browser.get("/"))


async def test_a_released_task_has_no_time_left_and_no_gate_that_is_shut(
    life: Life, browser: httpx2.AsyncClient
) -> None:
    task = await life.create("sum", purpose="soon released")
    assert "left" in text_of(await browser.get(f"/tasks/{task.task_id}"))
    assert "/census" in (await browser.get(f"/tasks/{task.task_id}")).text
    await life.upload(task)
    release_id = await life.release(task)
    page = await browser.get(f"/tasks/{task.task_id}")
    assert " left)" not in text_of(page)
    assert "/census" not in page.text
    (line,) = re.findall(r"soon released(.*?)sum", text_of(await browser.get("/")))
    assert "left" not in line
    census = await browser.get(f"/tasks/{task.task_id}/census")
    assert f'href="/releases/{release_id}"' in census.text
    assert "The collection is closed" in text_of(census)
    assert "shut" not in text_of(census)


async def test_counts_say_how_old_they_may_be(life: Life, browser: httpx2.AsyncClient) -> None:
    task = await life.create("sum", time_precision=3600)
    words = text_of(await browser.get(f"/tasks/{task.task_id}/servers"))
    assert "so its numbers may be 1 hour old" in words
    assert "Asked at " in words


@pytest.mark.parametrize(
    ("detail", "field", "label", "text"),
    [
        ("epsilon: expected a number", "epsilon", "ε", "expected a number"),
        ("columns, line 2: write it so", "columns", "Columns", "line 2: write it so"),
        ("columns.0.lower: too much", "columns", "Columns", "0.lower: too much"),
        ("max_windows: a whole number", "windows-max_windows", "Max windows", "a whole number"),
        ("column 'age': lower is above", "columns", "Columns", "column 'age': lower is above"),
        ("nothing of the form", "", "", "nothing of the form"),
    ],
)
def test_a_complaint_finds_its_field(detail: str, field: str, label: str, text: str) -> None:
    found = complaint_of(detail, "sum")
    assert (found.field, found.label, found.text) == (field, label, text)


async def test_the_demonstration_says_what_its_console_says_of_two_releases(
    life: Life, browser: httpx2.AsyncClient
) -> None:
    records = []
    for kind in ("osnap", "second_moment"):
        task = await life.create(kind, min_clients=12, purpose=f"both {kind}")
        await life.upload(task)
        records.append(life.service.record(await life.release(task)).record)
    together = spent_together([record.privacy for record in records])
    assert together is not None
    said = epsilon_of_both([record.model_dump(mode="json") for record in records])
    assert f"{said:.6g}" == f"{float(str(together.epsilon)):.6g}"
    # A sketch keeps a part of delta for its coalition; the sum of its mu alone would say too little.
    assert said > 0
