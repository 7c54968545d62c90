"""What somebody hostile tries on the console: every route with every method, foreign names, secrets in pages."""

from urllib.parse import urlsplit

import httpx2
import pytest

from lintra_analyzer.storage.access_tokens import Scope
from lintra_analyzer.web.console.pages import HEADERS
from support.analyzer_world import TOKEN, Life
from support.routes import filled, routes, stored

HOSTILE = "evil.example"


def pages(life: Life) -> list[tuple[str, str]]:
    """Return method and path of every route of the console."""
    return [(method, path) for method, path in routes(life) if not path.startswith("/v1") and path != "/docs"]


def is_of_the_console(answer: httpx2.Response) -> bool:
    """Return whether an answer carries the headers of a page; of a picture or a file the policy may be narrower."""
    said, policy = answer.headers, answer.headers.get("content-security-policy", "")
    others = (name for name in HEADERS if name not in ("content-security-policy", "cache-control"))
    own = policy == HEADERS["content-security-policy"] or ("default-src 'none'" in policy and "sandbox" in policy)
    return own and all(said.get(name) == HEADERS[name] for name in others)


@pytest.mark.slow
async def test_every_answer_of_the_console_carries_its_policy_whoever_asks_and_whatever_comes_of_it(life: Life) -> None:
    task = await life.create("sum")
    viewer, _ = life.service.access.add("Vera", "viewer", Scope(), None)
    seen = set()
    for token in (None, viewer, TOKEN):
        async with life.rest(token) as rest:
            for method, path in pages(life):
                if (method, token) == ("POST", TOKEN) and "registration" not in path:
                    continue  # an operator's would change something
                for task_id in ("none", task.task_id):
                    answer = await rest.request(method, filled(path, task_id=task_id, release_id="none"))
                    assert is_of_the_console(answer), (method, path, answer.status_code)
                    seen.add(answer.status_code)
    assert seen >= {200, 303, 400, 403, 404}


@pytest.mark.slow
async def test_no_other_method_does_anything(life: Life) -> None:
    before, known = stored(life), set(routes(life))
    async with life.rest() as rest:
        for path in {path for _, path in pages(life)}:
            for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE"):
                if (method, path) not in known:
                    answer = await rest.request(method, filled(path, task_id="x", release_id="x"))
                    assert answer.status_code == 405, (method, path)
    assert stored(life) == before


@pytest.mark.slow
async def test_no_page_holds_a_secret_of_whoever_looks_or_of_the_analyzer(life: Life) -> None:
    task = await life.create("sum")
    await life.upload(task)
    release_id = await life.release(task)
    token, made = life.service.access.add("Ada", "operator", Scope(), None)
    async with life.rest(None) as browser:
        browser.headers["origin"] = "http://analyzer.test"
        session = (await browser.post("/sign-in", data={"token": token})).cookies["lintra-session"]
        secrets = [token, made.token_hash, session, TOKEN]
        shown = 0
        for method, path in pages(life):
            if method == "GET":
                answer = await browser.get(filled(path, task_id=task.task_id, release_id=release_id, kind="means"))
                assert not [place for place, secret in enumerate(secrets) if secret in answer.text], path
                shown += answer.status_code == 200
    assert shown >= 15


@pytest.mark.parametrize("name", ["host", "x-forwarded-host", "x-forwarded-server", "forwarded"])
async def test_a_foreign_name_in_a_header_is_in_no_answer(life: Life, name: str) -> None:
    value = f"host={HOSTILE}" if name == "forwarded" else HOSTILE
    for token in (None, TOKEN):
        async with life.rest(token) as rest:
            for path in ("/", "/tasks/none", "/tokens", "/sign-in", "/sign-in?next=/tasks/new"):
                answer = await rest.get(path, headers={name: value})
                assert HOSTILE not in answer.text + str(answer.headers), (path, name)
                assert not urlsplit(answer.headers.get("location", "/")).netloc
