"""Signing in and out: the cookie, the proof that a form is ours, and how often one may try."""

import re
from collections.abc import AsyncIterator

import httpx2
import pytest
import pytest_asyncio

from lintra_analyzer.storage.access_tokens import Scope
from lintra_analyzer.web.admission import SESSION_COOKIE
from lintra_analyzer.web.console.sign_in import MOST_FAILURES, MOST_PEERS, SECONDS, Attempts
from lintra_protocol.errors import OverloadedError
from support.analyzer_world import TOKEN, Life

ORIGIN = {"origin": "http://analyzer.test"}


@pytest_asyncio.fixture(loop_scope="module")
async def browser(life: Life) -> AsyncIterator[httpx2.AsyncClient]:
    """Return what keeps cookies, and states the origin of its forms."""
    async with life.rest(None) as rest:
        rest.headers.update(ORIGIN)
        yield rest


async def signed_in(browser: httpx2.AsyncClient, token: str = TOKEN, **fields: str) -> httpx2.Response:
    return await browser.post("/sign-in", data={"token": token, **fields})


async def form_secret(browser: httpx2.AsyncClient, path: str = "/tokens") -> str:
    text = (await browser.get(path)).text
    return re.findall(r'name="form_secret" value="([^"]+)"', text)[0]


async def test_a_token_signs_in_by_a_cookie_that_no_program_and_no_other_site_gets(
    life: Life, browser: httpx2.AsyncClient
) -> None:
    led = await browser.get("/tokens")
    assert (led.status_code, led.headers["location"]) == (303, "/sign-in?next=%2Ftokens")
    answer = await signed_in(browser, next="/tokens")
    assert (answer.status_code, answer.headers["location"]) == (303, "/tokens")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert TOKEN not in cookie
    assert (await browser.get("/tokens")).status_code == 200


@pytest.mark.parametrize("by_proxy", [False, True])
async def test_on_an_encrypted_connection_the_cookie_stays_on_it(life: Life, by_proxy: bool) -> None:
    answers = []
    for believed in (True, False):
        transport = httpx2.ASGITransport(life.web, client=("10.0.0.9" if believed else "10.9.9.9", 1))
        scheme = "http" if by_proxy else "https"
        said = {"origin": f"{scheme}://analyzer.test", **({"x-forwarded-proto": "https"} if by_proxy else {})}
        async with httpx2.AsyncClient(transport=transport, base_url=f"{scheme}://analyzer.test", headers=said) as rest:
            answers.append((await signed_in(rest)).headers.get("set-cookie", ""))
    if not by_proxy:
        assert all(cookie.startswith("__Host-lintra-session=") and "Secure" in cookie for cookie in answers)
    else:  # no proxy is believed in this world, so nobody's word about its own encryption counts
        assert not any("Secure" in cookie for cookie in answers)


@pytest.mark.parametrize("fields", [{"token": ""}, {"token": "lintra_wrong"}, {"token": TOKEN + "x"}, {"code": "x"}])
async def test_nothing_else_signs_in(life: Life, browser: httpx2.AsyncClient, fields: dict[str, str]) -> None:
    life.web._state["attempts"] = Attempts(lambda: 0.0)  # type: ignore[attr-defined]
    answer = await browser.post("/sign-in", data=fields)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert 'role="alert"' in answer.text
    assert (await browser.get("/tokens")).status_code == 303


async def test_a_link_asks_for_a_click_and_signs_in_once(life: Life, browser: httpx2.AsyncClient) -> None:
    code = life.service.access.sign_in_code()
    for _ in range(2):  # looking, as programs that fetch links ahead do, uses nothing up
        assert f'name="code" value="{code}"' in (await browser.get("/sign-in", params={"code": code})).text
    assert (await browser.post("/sign-in", data={"code": code})).status_code == 303
    assert (await browser.post("/sign-in", data={"code": code})).status_code == 401


@pytest.mark.parametrize(
    "back", ["//evil.test", "https://evil.test", "/\\evil.test", "evil.test", "/a\nb", "javascript:alert(1)"]
)
async def test_signing_in_leads_to_pages_of_ours_only(life: Life, browser: httpx2.AsyncClient, back: str) -> None:
    assert (await signed_in(browser, next=back)).headers["location"] == "/"
    assert "evil" not in (await browser.get("/sign-in", params={"next": back})).text


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.test"},
        {"origin": "null"},
        {"origin": "http://analyzer.test.evil.test"},
        {"origin": "http://analyzer.test:81"},
    ],
)
async def test_a_form_from_another_origin_is_refused_whatever_it_holds(
    life: Life, browser: httpx2.AsyncClient, headers: dict[str, str]
) -> None:
    await signed_in(browser)
    secret, before = await form_secret(browser), life.service.access.tokens()
    fields = {"name": "evil", "role": "operator", "form_secret": secret}
    assert (await browser.post("/tokens", data=fields, headers=headers)).status_code == 403
    assert (await browser.post("/sign-in", data={"token": TOKEN}, headers=headers)).status_code == 403
    assert life.service.access.tokens() == before
    assert (await browser.post("/tokens", data=fields)).status_code == 200  # our own page may


async def test_a_form_without_the_sessions_secret_is_refused(life: Life, browser: httpx2.AsyncClient) -> None:
    async with life.rest(None) as other:
        other.headers.update(ORIGIN)
        await signed_in(other)
        anothers = await form_secret(other)
    await signed_in(browser)
    before = life.service.access.tokens()
    for wrong in ({}, {"form_secret": ""}, {"form_secret": anothers}, {"form_secret": browser.cookies[SESSION_COOKIE]}):
        answer = await browser.post("/tokens", data={"name": "evil", "role": "operator", **wrong})
        assert answer.status_code == 403
    as_json = await browser.post("/tokens", json={"name": "evil", "form_secret": await form_secret(browser)})
    assert as_json.status_code == 400
    assert life.service.access.tokens() == before


async def test_a_cookie_alone_changes_nothing_through_the_rest_interface(
    life: Life, browser: httpx2.AsyncClient
) -> None:
    await signed_in(browser)
    assert (await browser.get("/v1/tasks")).status_code == 200  # what is only read, a page may link to
    answer = await browser.post("/v1/tasks", json={}, headers={"form-secret": await form_secret(browser)})
    assert answer.status_code == 401


async def test_signing_out_ends_the_session_for_whoever_kept_the_cookie(
    life: Life, browser: httpx2.AsyncClient
) -> None:
    await signed_in(browser)
    kept = browser.cookies[SESSION_COOKIE]
    answer = await browser.post("/sign-out", data={"form_secret": await form_secret(browser)})
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    browser.cookies.clear()
    browser.cookies.set(SESSION_COOKIE, kept)
    assert (await browser.get("/tokens")).status_code == 303


async def test_revoking_a_token_on_its_page_ends_its_session_at_once(life: Life, browser: httpx2.AsyncClient) -> None:
    token, made = life.service.access.add("Bob", "operator", Scope(), None)
    async with life.rest(None) as bob:
        bob.headers.update(ORIGIN)
        await signed_in(bob, token)
        assert (await bob.get("/tokens")).status_code == 200
        await signed_in(browser)
        fields = {"form_secret": await form_secret(browser)}
        assert (await browser.post(f"/tokens/{made.token_id}/revocation", data=fields)).status_code == 303
        assert (await bob.get("/tokens")).status_code == 303
        part = await bob.get("/", headers={"hx-request": "true"})
        assert (part.status_code, part.headers["hx-redirect"]) == (401, "/sign-in")


async def test_a_new_token_is_shown_once_and_works(life: Life, browser: httpx2.AsyncClient) -> None:
    await signed_in(browser)
    fields = {"name": "Grace <b>", "role": "viewer", "days": "1", "form_secret": await form_secret(browser)}
    text = (await browser.post("/tokens", data=fields)).text
    token = re.findall(r"<code>(lintra_[^<]+)</code>", text)[0]
    assert "Grace &lt;b&gt;" in text
    assert token not in (await browser.get("/tokens")).text
    async with life.rest(token) as rest:
        assert (await rest.get("/v1/tasks")).status_code == 200


async def test_a_strangers_body_is_not_read_beyond_what_signing_in_needs(life: Life) -> None:
    async with life.rest(None) as rest:
        answer = await rest.post("/sign-in", data={"token": "x" * 5000}, headers=ORIGIN)
        assert answer.status_code == 413


async def test_after_ten_failures_an_address_waits(life: Life, browser: httpx2.AsyncClient) -> None:
    life.web._state["attempts"] = Attempts(lambda: 0.0)  # type: ignore[attr-defined]
    for _ in range(MOST_FAILURES):
        assert (await signed_in(browser, "wrong")).status_code == 401
    answer = await signed_in(browser)
    assert answer.status_code == 429
    assert "retry-after" in answer.headers
    life.web._state["attempts"] = Attempts(lambda: 0.0)  # type: ignore[attr-defined]


def test_failures_are_forgotten_after_their_time_and_memory_is_bounded() -> None:
    now = [0.0]
    attempts = Attempts(lambda: now[0])
    for _ in range(MOST_FAILURES):
        attempts.failed("a")
    attempts.require("b")
    with pytest.raises(OverloadedError):
        attempts.require("a")
    now[0] = SECONDS + 1
    attempts.require("a")
    for number in range(MOST_PEERS + 5):
        attempts.failed(str(number))
    assert len(attempts._failed) == MOST_PEERS
