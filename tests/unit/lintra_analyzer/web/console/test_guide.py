"""The guided way to a new task, as a browser without programs goes it: one question a page, a plan, a task."""

import html
import re
from collections.abc import AsyncIterator

import httpx2
import pytest
import pytest_asyncio

from lintra_analyzer.storage.access_tokens import Scope
from lintra_analyzer.web.console.forms import with_file
from lintra_protocol.errors import InvalidMessageError
from support.analyzer_world import Life

SAMPLE = "age;smoker;stage;systolic [mmHg]\r\n41;yes;I;128,5\r\n57;no;II;131,0\r\n38;no;I;119,5\r\n"


@pytest_asyncio.fixture(loop_scope="module")
async def browser(life: Life) -> AsyncIterator[httpx2.AsyncClient]:
    """Return the browser of an analyst who is signed in."""
    token, _ = life.service.access.add("Ada", "analyst", Scope(), None)
    async with life.rest(None) as rest:
        rest.headers["origin"] = "http://analyzer.test"
        assert (await rest.post("/sign-in", data={"token": token})).status_code == 303
        yield rest


def fields(answer: httpx2.Response) -> dict[str, str]:
    """Return what the form of a page would send as it stands, without a button."""
    form = answer.text[answer.text.index("<main") :]
    found = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form))
    found |= dict(re.findall(r'<input id="[^"]+" name="([^"]+)" value="([^"]*)"', form))
    found |= dict(re.findall(r'<input type="radio" id="[^"]+" name="([^"]+)" value="([^"]*)" checked', form))
    found |= dict(re.findall(r'<textarea id="[^"]+" name="([^"]+)"[^>]*>([^<]*)', form))
    return {name: html.unescape(value) for name, value in found.items()}


async def on(browser: httpx2.AsyncClient, before: httpx2.Response, go: str = "next", **said: str) -> httpx2.Response:
    (action,) = re.findall(r'<form method="post" action="(/tasks[^"]*)"', before.text)
    path = "/tasks/new/guide?at=plan" if go != "next" and action == "/tasks" else action
    return await browser.post(path, data=fields(before) | said | {"go": go})


def title(answer: httpx2.Response) -> str:
    return re.findall(r"<h1>([^<]+)</h1>", answer.text)[0]


def alerts(answer: httpx2.Response) -> list[str]:
    return [html.unescape(re.sub(r"<[^>]+>", "", one)) for one in re.findall(r'role="alert">(.+?)</p>', answer.text)]


async def test_six_pages_make_a_task_and_answers_stay_when_one_goes_back(
    life: Life, browser: httpx2.AsyncClient
) -> None:
    page = await browser.get("/tasks/new/guide")
    assert title(page) == "What is it about?"
    page = await on(browser, page, purpose="Does <b>smoking</b> raise the pressure?", population="ward 9")
    assert title(page) == "What does each person hold?"
    page = await on(browser, page, columns="age: 0 to 120 years\nsmoker: yes/no\nsystolic: 60 to 260 mmHg")
    assert title(page) == "What is to be learned?"
    assert "<option>systolic</option>" in page.text
    page = await on(browser, page, kind="second_moment", target="systolic")
    page = await on(browser, page, min_clients="50,000", days="14", client_auth="token")
    assert title(page) == "How strong is the promise?"
    back = await on(browser, page, go="back")
    assert 'value="50,000"' in back.text
    page = await on(browser, page, epsilon="2")
    assert title(page) == "The plan"
    words = html.unescape(re.sub(r"<[^>]+>", " ", page.text))
    assert re.search(
        r"With 50,000 reports the noise hides no effect of smoker on systolic above [\d.]+ mmHg\.", words
    ), words
    assert re.search(r"effect of age on systolic above [\d.]+ mmHg between age = 0 and 120 years\.", words)
    assert re.search(r"The share of smoker will be off by less than [\d.e-]+, 19 times in 20\.", words)
    again = await on(browser, page, go="people")
    assert title(again) == "Who sends?"
    made = await browser.post("/tasks", data=fields(page))
    assert made.status_code == 303, alerts(made)
    stored = life.service.store.tasks()[0]
    task = life.service.task(stored.task_id)
    assert (stored.population, task.claim.min_clients, task.uses_tokens) == ("ward 9", 50_000, True)
    assert task.purpose == "Does <b>smoking</b> raise the pressure?"
    assert (task.not_after - task.not_before) * task.time_precision == 14 * 86_400


@pytest.mark.parametrize(
    ("at", "said", "field", "complaint"),
    [
        ("about", {"purpose": ""}, "purpose", "Purpose: say in a sentence"),
        ("columns", {"columns": "age"}, "columns", "Columns: line 1: write"),
        (
            "columns",
            {"columns": "a: 0 to 1\nage: ? to ? years"},
            "columns",
            "Columns: line 2: write a lower and an upper",
        ),
        ("learn", {"target": "weight"}, "target", "Column to explain: one of the columns age"),
        ("people", {"min_clients": "many"}, "min_clients", "Reports at least: a whole number, got 'many'"),
        ("plan", {"epsilon": "0"}, "epsilon", "ε"),
    ],
)
async def test_an_answer_that_cannot_be_is_refused_at_its_field(
    browser: httpx2.AsyncClient, at: str, said: dict[str, str], field: str, complaint: str
) -> None:
    usual = fields(await browser.get("/tasks/new/guide")) | {"purpose": "x", "columns": "age: 0 to 120"}
    answer = await browser.post(f"/tasks/new/guide?at={at}", data=usual | said | {"go": "next"})
    assert answer.status_code == 200
    (shown,) = alerts(answer)
    assert shown.startswith(complaint), shown
    assert "Value error" not in shown
    assert f'id="{field}"' in answer.text
    assert 'aria-invalid="true"' in answer.text


async def test_columns_come_from_a_sample_without_its_numbers_unless_it_is_public(browser: httpx2.AsyncClient) -> None:
    page = await on(browser, await browser.get("/tasks/new/guide"), purpose="A sample")
    for public, line in (({}, "systolic [mmHg]: ? to ?"), ({"is_public": "yes"}, "systolic [mmHg]: 119")):
        asked = fields(page) | {"go": "sample", **public}
        answer = await browser.post(
            "/tasks/new/guide?at=columns", data=asked, files={"sample": ("s.csv", SAMPLE.encode("utf-16"))}
        )
        text = fields(answer)["columns"]
        assert "smoker: yes/no" in text, alerts(answer)
        assert "stage: " in text
        assert line.partition(" [")[0] in text
        assert ("128.5" in text, "?" in text) == (False, not public)
        assert title(answer) == "What does each person hold?"
    refused = await browser.post(
        "/tasks/new/guide?at=columns", data=fields(page) | {"go": "sample"}, files={"sample": ("s.csv", b"")}
    )
    assert alerts(refused) == ["Columns: choose a file first."]
    broken = await browser.post(
        "/tasks/new/guide?at=columns", data=fields(page) | {"go": "sample"}, files={"sample": ("s.csv", b"a,b\n1\n")}
    )
    assert alerts(broken)[0].startswith("Columns: ")


async def test_names_with_markup_in_a_sample_stay_text_and_a_viewer_may_not_ask(
    life: Life, browser: httpx2.AsyncClient
) -> None:
    page = await on(browser, await browser.get("/tasks/new/guide"), purpose="<script>alert(1)</script>")
    hostile = b'<img src=x onerror=alert(1)>,"</textarea><script>"\n1,2\n2,3\n3,5\n'
    answer = await browser.post(
        "/tasks/new/guide?at=columns", data=fields(page) | {"go": "sample"}, files={"sample": ("s.csv", hostile)}
    )
    assert "<img src=x" not in answer.text
    assert "<script>alert" not in answer.text
    assert "</textarea><script>" not in answer.text
    token, _ = life.service.access.add("Eve", "viewer", Scope(), None)
    async with life.rest(token) as rest:
        assert (await rest.get("/tasks/new/guide")).status_code == 403


def test_a_form_of_parts_is_read_as_bytes_and_refused_unless_it_is_whole() -> None:
    head = b'--b\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n'
    body = head % (b"a", b"") + b"1\r\n2\r\n" + head % (b"f", b'; filename="x"') + b"\r\0\n\0--\r\n--b--\r\n"
    assert with_file(body, " boundary=b") == ({"a": ["1\r\n2"]}, b"\r\0\n\0--")
    assert with_file(body, ' boundary="b"')[1] == b"\r\0\n\0--"
    for broken in (body[:-6], body.replace(b"--b\r\nC", b"--c\r\nC", 1), b"", body.replace(b' name="a"', b"")):
        with pytest.raises(InvalidMessageError):
            with_file(broken, " boundary=b")
    with pytest.raises(InvalidMessageError):
        with_file(body, "")
