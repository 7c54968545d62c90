"""The console from end to end in a real browser: real servers, a task made in the form, 2,000 rows, a release.

Pictures of all pages are kept as test output; `LINTRA_SCREENSHOTS` names another folder for them.
"""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import httpx2
import numpy as np
import pytest
from services import Service, analyst_token, local_services, running

from lintra_client import Client
from support.browser import SCHEMES, Visit, chromium, keep, needs_browser, visiting

pytestmark = [pytest.mark.e2e, pytest.mark.slow, needs_browser]

NUM_ROWS = 2000
COLUMNS = {"hours": "0 to 12 h", "walk": "0 to 20 km", "mood": "0 to 10"}
GENERATOR = np.random.default_rng(16)
SLEEP, WALK = GENERATOR.uniform(4, 10, NUM_ROWS), GENERATOR.uniform(0, 15, NUM_ROWS)
ROWS = np.column_stack([SLEEP, WALK, np.clip(0.6 * SLEEP + 0.1 * WALK + GENERATOR.normal(0, 0.5, NUM_ROWS), 0, 10)])
SLOPE = float(np.linalg.lstsq(np.column_stack([ROWS[:, :2], np.ones(NUM_ROWS)]), ROWS[:, 2])[0][0])
PATIENCE = 120_000
"""Milliseconds in which a release of so few rows is made on a busy machine."""


@pytest.fixture
def services(tmp_path: Path) -> Iterator[tuple[list[Service], Service, str]]:
    servers, analyzer = local_services(tmp_path, 3)
    token = analyst_token(tmp_path)
    with running([*servers, analyzer]):
        yield servers, analyzer, token


async def make_task(visit: Visit) -> str:
    """Fill in the form of a new task, look at its plan, make it, and return its identifier."""
    page = visit.page
    await visit.open("/tasks/new")
    await page.fill("#purpose", "Does a good night lift the mood?")
    await page.fill("#columns", "\n".join(f"{name}: {words}" for name, words in COLUMNS.items()))
    await page.select_option("#kind", "second_moment")
    await page.fill("#epsilon", "4")
    await page.fill("#delta", "0.000001")
    await page.fill("#min_clients", "1500")
    await page.fill("#days", "1")
    # The plan comes by itself while one types.
    await page.wait_for_selector("#plan .card", timeout=PATIENCE)
    assert "1,500 reports" in await page.inner_text("#plan")
    assert await page.locator("#plan table").count() >= 1
    await page.click("text=Make the task")
    await page.wait_for_url("**/tasks/*", timeout=PATIENCE)
    return page.url.rpartition("/")[2]


async def send(task_id: str, urls: list[str]) -> None:
    async with Client(task_id, urls, ledger=None) as client:
        sent = await client.send_many(ROWS)
    assert (sent.sent, sent.failed) == (NUM_ROWS, ())


async def release(visit: Visit, task_id: str) -> str:
    """Watch the reports at the servers, start the release, wait for it, and return its address."""
    page = visit.page
    await visit.open(f"/tasks/{task_id}/servers")
    # Servers tell new numbers once in the task's unit of time, an hour here, or they would tell when each report came.
    assert await page.locator("tbody tr").count() == 3
    assert "so its numbers may be 1 hour old" in await page.inner_text("main")
    await visit.open(f"/tasks/{task_id}")
    await page.click("text=Start the release")
    # The page looks every few seconds by itself.
    await page.wait_for_selector("text=Look at the release", timeout=PATIENCE)
    await page.click("text=Look at the release")
    await page.wait_for_url("**/releases/*")
    return page.url.removeprefix(visit.origin)


async def look_at_the_regression(visit: Visit, address: str, token: str) -> None:
    """Ask for a regression in the form, and compare page, picture and file with the truth and with the REST answer."""
    page = visit.page
    await page.click("text=Regression >> nth=0")
    await page.select_option("#target", "mood")
    await page.check("input[name=features][value=hours]")
    await page.check("input[name=features][value=walk]")
    await page.select_option("#of", "cohort")
    await page.click("text=Show")
    await page.wait_for_selector("figure img")
    assert await visit.pictures_shown() == [True]
    assert "Told apart from 0: hours" in await page.inner_text("main")
    async with page.expect_download() as waiting:
        await page.click("text=CSV")
    path = await (await waiting.value).path()
    text = path.read_text("utf-8")
    (line,) = [line for line in csv.DictReader(io.StringIO(text)) if line["name"] == "hours"]
    # Six of its own standard errors: a false alarm once in 10^9 runs.
    assert abs(float(line["coefficient"]) - SLOPE) < 6 * float(line["standard_error"])
    asked = {"kind": "regression", "target": "mood", "features": ["hours", "walk"], "of": "cohort"}
    headers = {"authorization": f"Bearer {token}", "accept": "text/csv"}
    async with httpx2.AsyncClient(base_url=visit.origin, headers=headers) as rest:
        assert text == (await rest.post(f"/v1{address}/analyses", json={**asked, "regularization": 0})).text


async def every_page(visit: Visit, task_id: str, address: str) -> dict[str, str]:
    """Return the addresses of all pages that stand for something here, by a short name."""
    analyses = f"{address}/analyses"
    await visit.open(address)
    offered = await visit.page.eval_on_selector_all(f'a[href^="{analyses}/"]', "all => all.map(one => one.pathname)")
    assert {one.rpartition("/")[2] for one in offered} == {
        "regression", "regression-path", "pca", "correlation", "means",
    }  # fmt: skip
    answered = {one.rpartition("/")[2]: f"{one}?target=mood" for one in offered}
    return {
        "tasks": "/",
        "new-task": "/tasks/new",
        "task": f"/tasks/{task_id}",
        "servers": f"/tasks/{task_id}/servers",
        "spent": "/privacy",
        "releases": "/releases",
        "release": address,
        "replay": f"{address}/audit?replay=1",
        "tokens": "/tokens",
        **answered,
    }


async def without_programs(visit: Visit, token: str, address: str) -> None:
    """Sign in, ask for a regression and see its picture in a browser that runs no JavaScript."""
    page = visit.page
    await visit.sign_in(token)
    await page.click("text=Does a good night lift the mood?")
    await page.click("text=Look at the release")
    await page.wait_for_url(visit.origin + address)
    await page.click("text=Regression >> nth=0")
    await page.select_option("#target", "mood")
    await page.click("text=Show")
    assert "Told apart from 0: hours" in await page.inner_text("main")
    assert any("picture.svg" in asked for asked in visit.asked)
    assert not any("htmx" in asked for asked in visit.asked)
    assert visit.elsewhere() == []
    assert visit.refused == []


async def by_keyboard(visit: Visit, token: str) -> None:
    """Reach the content and a release with the keyboard alone; what has the focus can be seen."""
    page, outline = visit.page, "getComputedStyle(document.activeElement).outlineStyle"
    await visit.sign_in(token)
    await visit.open("/releases")
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.className") == "skip"
    assert await page.evaluate("document.activeElement.getBoundingClientRect().left >= 0")
    await page.keyboard.press("Enter")
    for _ in range(10):
        await page.keyboard.press("Tab")
        assert await page.evaluate(outline) != "none"
        if "/releases/" in (await page.evaluate("document.activeElement.href || ''")):
            break
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/releases/*")


async def test_a_task_from_the_form_to_the_download_of_its_regression(
    services: tuple[list[Service], Service, str], tmp_path: Path
) -> None:
    servers, analyzer, token = services
    async with chromium() as browser:
        async with visiting(browser, analyzer.url) as visit:
            await visit.open("/")
            assert await visit.seriously_wrong() == []
            await visit.sign_in(token)
            task_id = await make_task(visit)
            await send(task_id, [server.url for server in servers])
            address = await release(visit, task_id)
            await look_at_the_regression(visit, address, token)
            assert (visit.elsewhere(), visit.said) == ([], [])
        for scheme in SCHEMES:
            async with visiting(browser, analyzer.url, scheme) as visit:
                await visit.sign_in(token)
                for name, page in (await every_page(visit, task_id, address)).items():
                    assert await visit.open(page) == 200, name
                    assert all(await visit.pictures_shown()), name
                    assert await visit.seriously_wrong() == [], (name, scheme)
                    await keep(visit, tmp_path / "screenshots", f"{name}-{scheme}")
                assert (visit.elsewhere(), visit.said) == ([], [])
        async with visiting(browser, analyzer.url, programs=False) as visit:
            await without_programs(visit, token, address)
        async with visiting(browser, analyzer.url) as visit:
            await by_keyboard(visit, token)
