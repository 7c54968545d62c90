"""Pages of tasks, releases and jobs: whole, in order, and of whoever may see them."""

import html
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_analyzer.storage.access_tokens import Scope
from lintra_analyzer.storage.pages import PAGE
from lintra_protocol.errors import InvalidMessageError
from lintra_protocol.fields.windows import Windows
from support import make_task
from support.analyzer_world import TOKEN, Life, living
from support.many_tasks import add_tasks

MANY = 2 * PAGE + 7


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[Life]:
    async with living(tmp_path) as life:
        yield life


async def pages(rest: httpx2.AsyncClient, path: str) -> list[list[dict[str, str]]]:
    found = []
    url: str | None = path
    while url is not None:
        answer = await rest.get(url)
        assert answer.status_code == 200, answer.text
        found.append(answer.json())
        following = answer.links.get("next")
        url = None if following is None else path + following["url"]
    return found


async def test_every_task_is_on_one_page_whatever_is_added_meanwhile(world: Life) -> None:
    first = await world.create()
    made = [*add_tasks(world.service.store, first, MANY - 1), first.task_id]
    async with world.rest() as rest:
        found = await pages(rest, "/v1/tasks")
        assert [len(page) for page in found] == [PAGE, PAGE, MANY - 2 * PAGE]
        assert [task["task_id"] for page in found for task in page] == made
        second = (await rest.get("/v1/tasks?limit=3")).links["next"]["url"]
        await world.create(purpose="meanwhile")
        following = (await rest.get(f"/v1/tasks{second}")).json()
        assert [task["task_id"] for task in following] == made[3:6]
        for wrong in ("limit=0", f"limit={PAGE + 1}", "cursor=0", "cursor=x"):
            assert (await rest.get(f"/v1/tasks?{wrong}")).status_code == 400


async def test_a_scope_has_pages_of_its_own(world: Life) -> None:
    first = await world.create()
    made = add_tasks(world.service.store, first, 3 * PAGE, lambda number: "a" if number % 3 else "b")
    token, _ = world.service.access.add("Ada", "viewer", Scope((first.task_id,), ("b",)), None)
    mine = [task_id for number, task_id in enumerate(made) if (len(made) - 1 - number) % 3 == 0]
    async with world.rest(token) as rest:
        found = await pages(rest, "/v1/tasks")
        assert [task["task_id"] for page in found for task in page] == [*mine, first.task_id]
        shown = (await rest.get("/")).text
        assert "/tasks/" + mine[0] in shown
        assert "/tasks/" + made[0] not in shown


async def test_the_console_leads_from_page_to_page(world: Life) -> None:
    first = await world.create()
    made = [*add_tasks(world.service.store, first, MANY - 1), first.task_id]
    for number in range(PAGE + 1):
        world.service.access.add(f"token {number}", "viewer", Scope(), None)
    async with world.rest() as rest:
        seen, path = "", "/"
        for _ in range(3):
            answer = (await rest.get(path)).text
            seen += answer
            path = html.unescape(answer).partition('">Older ones')[0].rpartition('href="')[2]
        assert all(f"/tasks/{task_id}" in seen for task_id in made)
        assert "Older ones" not in answer
        later = (await rest.get(f"/tokens?start={PAGE}")).text
        assert (later.count('<th scope="row">'), "The newest ones" in later) == (1, True)


async def test_windows_have_pages(world: Life) -> None:
    windows = Windows(window=1, grace=1, max_windows=MANY, reports_per_source=1)
    like = make_task(batches="windowed", windows=windows, not_before=60, not_after=60 + windows.units)
    (task_id,) = add_tasks(world.service.store, like, 1)
    async with world.rest() as rest:
        found = await pages(rest, f"/v1/tasks/{task_id}/windows")
        assert [len(page) for page in found] == [PAGE, PAGE, MANY - 2 * PAGE]
        assert [window["window"] for page in found for window in page] == list(range(MANY))


async def test_releases_have_pages(world: Life) -> None:
    task = await world.create()
    await world.upload(task)
    release_id = await world.release(task)
    made = add_tasks(world.service.store, task, PAGE + 2)
    record = world.service.store.release(release_id)
    for number, task_id in enumerate(made):
        world.service.store.add_release(f"copy {number}", task_id, 0, record)
    async with world.rest() as rest:
        found = await pages(rest, "/v1/releases")
        assert [len(page) for page in found] == [PAGE, 3]
        assert found[-1][-1]["release_id"] == release_id
        # What stands under another identifier than its own is no release of ours.
        assert "holds another record" in found[0][0]["unreadable"]
        assert "Older ones" in (await rest.get("/releases")).text


async def test_the_client_follows_the_pages_and_no_other_address(world: Life) -> None:
    first = await world.create()
    made = [*add_tasks(world.service.store, first, PAGE + 1), first.task_id]
    async with world.rest() as rest:
        answers = {f"/v1/tasks{query}": await rest.get(f"/v1/tasks{query}") for query in ("",)}
        query = answers["/v1/tasks"].links["next"]["url"]
        answers[f"/v1/tasks{query}"] = await rest.get(f"/v1/tasks{query}")

    def answered(request: httpx2.Request) -> httpx2.Response:
        answer = answers[request.url.raw_path.decode()]
        return httpx2.Response(200, headers=answer.headers, content=answer.content)

    with AnalyzerClient("http://analyzer.test", TOKEN, transport=httpx2.MockTransport(answered)) as client:
        assert [task["task_id"] for task in client.tasks()] == made
    away = httpx2.Response(200, headers={"link": '<https://elsewhere.test/?cursor=1>; rel="next"'}, content=b"[]")
    elsewhere = httpx2.MockTransport(lambda _: away)
    with (
        AnalyzerClient("http://analyzer.test", TOKEN, transport=elsewhere) as client,
        pytest.raises(InvalidMessageError, match="somewhere else"),
    ):
        client.tasks()
