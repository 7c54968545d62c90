"""The form of docs/how-to/pages.md in a real browser, against three real servers, as the page has it."""

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from services import analyst_token, local_services, running
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from lintra_analysis.access.rest_client import AnalyzerClient
from support.browser import chromium, needs_browser, served, visiting
from support.pages import pages

sys.path.append(str(Path(__file__).resolve().parent))
from test_services import SPECIFICATION

PATIENCE = 60_000
pytestmark = [pytest.mark.e2e, pytest.mark.slow, needs_browser]

WATCH = """form => new Promise(done => {
  form.addEventListener("lintra-sent", event => done(event.detail));
  form.addEventListener("lintra-failed", event => done(event.detail));
})"""


def block_of_page(language: str) -> str:
    """Return the only block in a language of the how-to."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", pages()["docs/how-to/pages.md"], re.DOTALL)
    return str(found)


def policy_of_page(servers: list[str]) -> str:
    """Return the strict policy of the how-to, for some servers."""
    (found,) = re.findall(r"content-security-policy: (.*)", pages()["docs/how-to/pages.md"])
    return re.sub(r"connect-src [^;]*", "connect-src " + " ".join(servers), str(found)).replace(
        "frame-ancestors https://study.example", "frame-ancestors 'self'"
    )


def site(built: Path, task_id: str, servers: list[str]) -> Starlette:
    """Return the page as the how-to has it, of this task and these servers."""
    text = block_of_page("html").replace("TASK IDENTIFIER", task_id)
    text = text.replace("https://stats.a.example https://stats.b.example", " ".join(servers))
    headers = {"content-security-policy": policy_of_page(servers), "referrer-policy": "no-referrer"}

    def page(request: Any) -> HTMLResponse:
        del request
        return HTMLResponse(text, headers=headers)

    return Starlette(routes=[Route("/study.html", page), Mount("/", StaticFiles(directory=built / "dist"))])


async def filled(page: Any, answers: Sequence[str]) -> dict[str, Any]:
    """Fill the form by the keyboard, as its shadow root is closed, and return what it says at the end."""
    sent = await begun(page, answers)
    found: dict[str, Any] = await asyncio.wait_for(sent, 60)
    return found


async def begun(page: Any, answers: Sequence[str]) -> "asyncio.Future[Any]":
    """Fill the form and press its button; what it says at the end comes later."""
    await page.wait_for_selector("lintra-form")
    sent: asyncio.Future[Any] = asyncio.ensure_future(page.locator("lintra-form").evaluate(WATCH))
    await asyncio.sleep(2)  # until the task is checked, which nothing outside the closed root shows
    for typed in answers:
        await page.keyboard.press("Tab")
        await page.keyboard.type(typed)
    for pressed in ("Tab", "Space", "Tab", "Enter"):
        await page.keyboard.press(pressed)
    return sent


async def test_tabs_of_a_strict_page_send_reports_that_are_released(built: Path, tmp_path: Path) -> None:
    servers, analyzer = local_services(tmp_path, 3)
    token, urls = analyst_token(tmp_path), [each.url for each in servers]
    with running([*servers, analyzer]), AnalyzerClient(analyzer.url, token) as desk:
        task_id = desk.create_task(SPECIFICATION | {"min_clients": 5})["task_id"]
        async with chromium() as browser, served(site(built, task_id, urls)) as origin:
            sent = []
            for person in range(6):
                # A window without a past is a person of its own: its storage is fresh.
                async with visiting(browser, origin) as visit:
                    await visit.page.goto(origin + "/study.html")
                    sent.append(await filled(visit.page, (str(20 * person), "b", "y")))
                    assert visit.said == [], visit.said
                    if person == 0:
                        await visit.page.reload()
                        again = await filled(visit.page, ("100", "b", "y"))
                        assert (again["reportId"], again["repeated"]) == (sent[0]["reportId"], True)
            assert [each["repeated"] for each in sent] == [False] * 6, json.dumps(sent)
            assert len({each["reportId"] for each in sent}) == 6
            assert [len(each["receipts"]) for each in sent] == [3] * 6
        release_id = await asyncio.to_thread(desk.release, task_id)
        assert desk.record(release_id).record.num_clients == 6
        assert desk.record(release_id).record.model_dump()["verification"]["rejected"] == 0


async def test_a_tab_that_is_closed_while_a_server_is_away_loses_nothing(built: Path, tmp_path: Path) -> None:
    servers, analyzer = local_services(tmp_path, 3)
    token, urls = analyst_token(tmp_path), [each.url for each in servers]
    with running([*servers, analyzer]), AnalyzerClient(analyzer.url, token) as desk:
        task_id = desk.create_task(SPECIFICATION)["task_id"]
        async with (
            chromium() as browser,
            served(site(built, task_id, urls)) as origin,
            visiting(browser, origin) as visit,
        ):
            context = visit.page.context
            await visit.page.goto(origin + "/study.html")
            await asyncio.sleep(2)
            servers[2].kill()
            sent = await begun(visit.page, ("20", "b", "y"))
            await asyncio.sleep(4)
            assert not sent.done(), "a server is away, so that the report is not complete"
            sent.cancel()
            await visit.page.close()
            servers[2].start()
            await asyncio.to_thread(servers[2].wait_until_ready)
            tabs = [await context.new_page() for _ in range(2)]
            for tab in tabs:
                await tab.goto(origin + "/study.html")
            found = [await filled(tab, ("100", "b", "y")) for tab in tabs]
        assert [each["repeated"] for each in found] == [True, True]
        assert found[0]["reportId"] == found[1]["reportId"]
        assert [len(each["receipts"]) for each in found] == [3, 3]


QUESTIONS, REQUESTS = 6, 9
"""A tab asks each of three servers for the task and its keys, before anything is filled in; then it sends."""


async def closed_at(page: Any, origin: str, urls: list[str], place: int, *, is_heard: bool) -> None:
    """Open the form and fill it in; close the tab when its request of a number leaves, or when a server heard it."""
    gone, seen = asyncio.Event(), 0

    async def pass_on(route: Any) -> None:
        nonlocal seen
        seen += 1
        if seen <= place:
            await route.continue_()
        elif seen == place + 1:
            if is_heard:
                await route.fetch()
            await page.close()
            gone.set()

    for url in urls:
        await page.route(f"{url}/**", pass_on)
    await page.goto(origin + "/study.html")
    if place >= QUESTIONS:
        (await begun(page, ("20", "b", "y"))).cancel()
    await asyncio.wait_for(gone.wait(), 60)


async def test_a_tab_that_is_closed_at_any_request_loses_nothing_and_sends_nothing_twice(
    built: Path, tmp_path: Path
) -> None:
    """Each window without a past is a person: closed once, opened again with another answer, and counted once."""
    servers, analyzer = local_services(tmp_path, 3)
    token, urls = analyst_token(tmp_path), [each.url for each in servers]
    closed = [(place, is_heard) for place in range(REQUESTS) for is_heard in (False, True)]
    with running([*servers, analyzer]), AnalyzerClient(analyzer.url, token) as desk:
        task_id = desk.create_task(SPECIFICATION)["task_id"]
        async with chromium() as browser, served(site(built, task_id, urls)) as origin:
            repeated = []
            for place, is_heard in closed:
                async with visiting(browser, origin) as visit:
                    context = visit.page.context
                    await closed_at(visit.page, origin, urls, place, is_heard=is_heard)
                    again = await context.new_page()
                    await again.goto(origin + "/study.html")
                    found = await filled(again, ("100", "b", "y"))
                    assert len(found["receipts"]) == 3, (place, is_heard, found)
                    repeated.append(found["repeated"])
        assert repeated == [place >= QUESTIONS for place, _ in closed], "what was charged is sent, and nothing else"
        release_id = await asyncio.to_thread(desk.release, task_id)
        assert desk.record(release_id).record.num_clients == len(closed)
