"""The start page and the pictures of how a task stands: steps, bars and windows, on all pages that show them."""

import re
import time
from collections.abc import AsyncIterator

import httpx2
import pytest
import pytest_asyncio

from lintra_analyzer.storage.access_tokens import Scope
from lintra_analyzer.web.console.privacy import DEVICE_CEILING
from lintra_client.ledger.ledger import MAX_EPSILON
from support.analyzer_world import Life
from support.many_tasks import add_tasks


@pytest_asyncio.fixture(loop_scope="module")
async def rest(life: Life) -> AsyncIterator[httpx2.AsyncClient]:
    """Return what an operator's browser asks with."""
    async with life.rest() as rest:
        yield rest


def text_of(answer: httpx2.Response) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.text))


async def test_the_start_page_says_how_many_reports_there_are_of_those_needed_and_how_old_the_number_is(
    life: Life, rest: httpx2.AsyncClient
) -> None:
    task = await life.create(purpose="bars and stages")
    await life.upload(task, 5)
    assert "The servers were not asked yet" in text_of(await rest.get("/?words=bars"))
    await rest.get(f"/tasks/{task.task_id}/servers")
    page = await rest.get("/?words=bars")
    assert '<progress aria-label="Reports" max="12" value="5">' in page.text
    assert "5 of 12 reports; asked just now, and servers count once in 1 hour" in text_of(page)
    assert "made (done) collected (under way) frozen (not begun) released (not begun)" in text_of(page)


async def test_a_released_task_has_the_times_of_its_steps_and_no_time_left(
    life: Life, rest: httpx2.AsyncClient
) -> None:
    task = await life.create(purpose="all steps")
    await life.upload(task)
    await life.release(task)
    line = text_of(await rest.get("/?words=all+steps"))
    assert "released (done)" in line
    assert "24 rows, released 2027-01-15 08:00 UTC" in line
    assert " left" not in line
    shown = text_of(await rest.get(f"/tasks/{task.task_id}"))
    assert "made (done) 2027-01-15 08:00 UTC collected (done) 2027-01-15 08:00 UTC frozen (done)" in shown
    assert "days left" not in shown
    census = text_of(await rest.get(f"/tasks/{task.task_id}/census"))
    assert "The collection is closed, and its release is made." in census
    assert "shut" not in census


async def test_what_is_looked_for_stays_in_the_form_and_in_the_links(life: Life, rest: httpx2.AsyncClient) -> None:
    add_tasks(life.service.store, await life.create(), 60)
    page = (await rest.get("/", params={"words": 'purpose "<b>'})).text
    assert 'value="purpose &#34;&lt;b&gt;"' in page
    assert "No task is like that." in page
    page = (await rest.get("/?words=purpose&group=attention")).text
    assert page.count('<li class="card">') == 25
    older = re.findall(r'href="(/\?[^"]+)">Older ones', page)[0].replace("&amp;", "&")
    assert "words=purpose&group=attention&cursor=" in older
    after = (await rest.get(older)).text
    assert after.count('<li class="card">') == 25
    assert (await rest.get("/?group=nonsense")).status_code == 400


async def test_a_holder_of_some_populations_sees_and_counts_no_others(life: Life) -> None:
    add_tasks(life.service.store, await life.create(), 3, lambda _: "ward of the start page")
    token, _ = life.service.access.add("Eve", "viewer", Scope(populations=("ward of the start page",)), None)
    async with life.rest(token) as rest:
        page = await rest.get("/")
    assert page.text.count('<li class="card">') == 3
    assert "all of today (3)" in page.text


def test_a_full_bar_of_privacy_is_what_the_ledger_of_a_device_allows() -> None:
    assert DEVICE_CEILING == MAX_EPSILON


@pytest.mark.slow
async def test_a_thousand_tasks_cost_the_start_page_little_more_than_a_hundred_do(life: Life) -> None:
    taken = []
    async with life.rest() as rest:
        for more in (75, 900):
            add_tasks(life.service.store, await life.create(), more, lambda n: f"of {n % 130}")
            await rest.get("/")
            before = time.process_time()
            for _ in range(10):
                assert (await rest.get("/")).status_code == 200
            taken.append(time.process_time() - before)
    assert taken[1] < 2 * taken[0], taken
