"""Every page of the console in every state, in a real browser: what axe finds, the pictures, and the keyboard.

The releases are of every kind of mechanism, and all of them are made by the product; see support/console_world.py.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from lintra_analysis.kinds.kind import KINDS
from lintra_analysis.spec.specification import specifications
from lintra_analyzer.storage.access_tokens import Scope
from lintra_analyzer.web.analyses import ANALYSES
from lintra_analyzer.web.console.sign_in import MOST_FAILURES
from support.analyzer_world import TOKEN, Answer, Life, living
from support.browser import SCHEMES, Visit, chromium, needs_browser, served, visiting
from support.console_world import Furnished, furnish

pytestmark = [pytest.mark.slow, needs_browser]

WALK = """() => {
  const shown = one => one.checkVisibility({visibilityProperty: true}) && !one.disabled;
  const all = [...document.querySelectorAll(
    'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]')].filter(shown);
  // Of a group of radio buttons the keyboard reaches one, and the arrows the others.
  const groups = new Set();
  window.toReach = all.filter(one => {
    if (one.type !== 'radio') return true;
    if (groups.has(one.name)) return false;
    return groups.add(one.name) && true;
  });
  window.reached = new Set();
  return window.toReach.length;
}"""
STEP = """() => {
  const one = document.activeElement;
  window.reached.add(one.type === 'radio' ? window.toReach.find(other => other.name === one.name) : one);
  const style = getComputedStyle(one);
  return one === document.body || style.outlineStyle !== 'none' ? '' : one.outerHTML.slice(0, 200);
}"""
LEFT = "() => window.toReach.filter(one => !window.reached.has(one)).map(one => one.outerHTML.slice(0, 200))"


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[Life, str, Visit]]:
    """Start an analyzer, and a browser in which nobody is signed in."""
    async with (
        living(folder) as life,
        chromium() as browser,
        served(life.web) as origin,
        visiting(browser, origin) as visit,
    ):
        yield life, origin, visit


async def pictures_came(visit: Visit) -> bool:
    """Return whether all pictures of the open page come, some of which are drawn first."""
    for _ in range(300):
        # Not by a function that Playwright waits for: it would be compiled in the page, whose policy forbids that.
        if all(await visit.pictures_shown()):
            return True
        await asyncio.sleep(0.1)
    return False


async def good(visit: Visit, name: str) -> None:
    """Check the page that is open, in both colour schemes."""
    for scheme in SCHEMES:
        await visit.page.emulate_media(color_scheme=scheme)
        assert await pictures_came(visit), (name, scheme)
        assert await visit.seriously_wrong() == [], (name, scheme)
    assert visit.elsewhere() == [], name
    # A browser says of itself that a page was refused; what else it says is a mistake of the page.
    assert [said for said in visit.said if not said.startswith("Failed to load resource")] == [], name


async def good_at(visit: Visit, path: str, status: int = 200) -> None:
    """Open a page, and check it."""
    assert await visit.open(path) == status, path
    await good(visit, path)


async def by_keyboard(visit: Visit, name: str) -> None:
    """Check that the keyboard reaches everything on the open page that can be used, and that the focus can be seen."""
    page = visit.page
    await page.evaluate("document.activeElement.blur()")
    for _ in range(await page.evaluate(WALK) + 2):
        await page.keyboard.press("Tab")
        assert await page.evaluate(STEP) == "", (name, "has the focus, and nobody sees it")
    assert await page.evaluate(LEFT) == [], (name, "is not reached")


async def ask(visit: Visit, path: str) -> None:
    """Fill in what the form of an analysis needs and does not hold by itself, and send it."""
    page = visit.page
    assert await visit.open(path) == 200, path
    needed = page.locator("fieldset:has(legend .hint:text-is('needed'))")
    for place in range(await needed.count()):
        # A column of its own for each, beside the first, which is the target.
        await needed.nth(place).locator("input[type=checkbox]").nth(place + 1).check()
    async with page.expect_navigation(timeout=120_000):
        await page.click("main form button")
    assert await page.locator("[role=alert]").all_inner_texts() == [], path
    assert await page.locator("h2:has-text('Finding')").count() == 1, path


async def test_every_page_without_anything_on_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as (life, _, visit):
        await good_at(visit, "/sign-in")
        await by_keyboard(visit, "/sign-in")
        code = life.service.access.sign_in_code()
        await good_at(visit, f"/sign-in?code={code}")
        await visit.page.click("main button")
        await visit.page.wait_for_url("**/")
        for path in ("/", "/tasks/new", "/tasks/new/guide", "/releases", "/privacy", "/tokens"):
            await good_at(visit, path)
            await by_keyboard(visit, path)


async def test_every_refusal_is_a_page_that_everybody_can_read(tmp_path: Path) -> None:
    async with opened(tmp_path) as (life, origin, visit):
        page = visit.page
        code = life.service.access.sign_in_code()
        life.service.access.sign_in_by_code(code)
        await visit.open(f"/sign-in?code={code}")
        await page.click("main button")
        await good(visit, "a link that was used")
        assert "used before" in await page.inner_text("[role=alert]")
        await page.fill("#token", "lintra_nobody")
        await page.click("main button")
        await good(visit, "a token that is unknown")
        viewer, _ = life.service.access.add("Vera", "viewer", Scope(), None)
        await visit.sign_in(viewer)
        for path in ("/tokens", "/tasks/new"):
            await good_at(visit, path, 403)
        for path in ("/tasks/none", "/releases/none"):
            await good_at(visit, path, 404)
        await good_at(visit, "/tasks/none/census?batch=x", 403)
        await page.click("text=Sign out")
        await visit.sign_in(TOKEN)
        await good_at(visit, "/tasks/none/census?batch=x", 400)
        await visit.open("/tokens")
        await page.fill("#name", "Ada")
        await page.evaluate("document.querySelector('[action=\"/tokens\"] [name=form_secret]').value = 'other'")
        await page.click("text=Make the token")
        await good(visit, "a form of another session")
        assert "another session" in await page.inner_text("[role=alert]")
        await visit.open("/tasks/new")
        await page.fill("#purpose", "Nothing")
        await page.click("text=Make the task")
        await good(visit, "a form that does not fit")
        async with httpx2.AsyncClient(base_url=origin, headers={"origin": origin}) as other:
            for _ in range(MOST_FAILURES):
                await other.post("/sign-in", data={"token": "lintra_guess"})
        await page.click("text=Sign out")
        await page.fill("#token", TOKEN)
        await page.click("main button")
        await good(visit, "too many attempts")
        assert "wait a little" in await page.inner_text("[role=alert]")


async def test_the_form_of_a_new_task_has_options_and_a_plan_for_every_kind(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, _, visit):
        page = visit.page
        await visit.sign_in(TOKEN)
        await visit.open("/tasks/new")
        await page.fill("#purpose", "How do they sleep?")
        await page.fill("#columns", "hours: 0 to 12 h\nage: 0 to 120 years\nsmoker: yes/no")
        await page.fill("#min_clients", "5000")
        for kind in specifications():
            await page.select_option("#kind", kind)
            await page.wait_for_selector(f"#mechanism-options summary:has-text('Options of {kind}')", state="attached")
            for name, value in {"rows": "2", "entry_bound": "1", "published_epsilon": "0.1"}.items():
                if kind == "osnap_published":
                    await page.fill(f"#mechanism-{name}", value)
            await page.wait_for_selector(f"#plan pre:has-text('{kind}\"')", state="attached", timeout=60_000)
            assert await page.locator("#plan [role=alert]").count() == 0, kind
            await page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            await good(visit, f"the plan of a {kind}")
        await by_keyboard(visit, "a form with a plan")
        await page.fill("#epsilon", "-1")
        await page.wait_for_selector("#plan [role=alert]", timeout=60_000)
        await good(visit, "a plan that cannot be")


async def test_every_page_about_tasks_and_tokens(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as clock:
        async with opened(tmp_path) as (life, _, visit):
            found = await furnish(life, clock)
            await visit.sign_in(TOKEN)
            await good_at(visit, "/")
            for state, task_id in found.tasks.items():
                await good_at(visit, f"/tasks/{task_id}")
                await by_keyboard(visit, state)
                await good_at(visit, f"/tasks/{task_id}/sending")
            await good_at(visit, f"/tasks/{found.tasks['waiting']}/servers")
            await good_at(visit, f"/tasks/{found.tasks['waiting']}/census")
            life.wires.fault = _one_away
            await good_at(visit, f"/tasks/{found.tasks['waiting']}/servers")
            assert await visit.page.locator("td.bad").count() == 1
            life.wires.fault = None
            await _windows(visit, found)
            for path in ("/privacy", "/releases"):
                await good_at(visit, path)
            await visit.open("/tokens")
            await visit.page.fill("#name", "Ada")
            await visit.page.click("text=Make the token")
            await good(visit, "a new token")
            await by_keyboard(visit, "tokens")


async def _windows(visit: Visit, found: Furnished) -> None:
    path = f"/tasks/{found.tasks['windows']}/windows"
    await good_at(visit, path)
    states = await visit.page.inner_text("tbody")
    assert all(word in states for word in ("released", "part of a later window", "will never be released"))
    await good_at(visit, f"{path}?column=a&first=3&last=4", 400)  # these will never be released
    await good_at(visit, f"{path}?column=a&of=cohort")
    await by_keyboard(visit, "a mean over windows")
    timeline = f"/tasks/{found.tasks['stream']}/timeline"
    await good_at(visit, timeline)
    await visit.page.focus("#first")
    await visit.page.keyboard.press("ArrowRight")
    assert await visit.page.inner_text("output[for=first]") == "1"
    async with visit.page.expect_navigation(timeout=120_000):
        await visit.page.click("main form button")
    assert await visit.page.locator("h2:has-text('Finding')").count() == 1
    await good(visit, "a timeline from window 1 on")
    await by_keyboard(visit, "a timeline")


def _one_away(server: int, request: httpx2.Request, answer: Answer) -> Answer:
    if server == 1:
        raise httpx2.ConnectError("gone", request=request)
    return answer


async def test_every_page_about_releases_and_every_analysis(tmp_path: Path) -> None:
    asked: set[str] = set()
    with pytest.MonkeyPatch.context() as clock:
        async with opened(tmp_path) as (life, _, visit):
            found = await furnish(life, clock)
            assert {signed.record.mechanism for signed in life.records()} == set(KINDS.all())
            await visit.sign_in(TOKEN)
            for name, release_id in found.releases.items():
                path = f"/releases/{release_id}"
                await good_at(visit, path)
                links = f'a[href^="{path}/analyses/"]'
                offered = await visit.page.eval_on_selector_all(links, "all => all.map(one => one.pathname)")
                for analysis in offered:
                    kind = analysis.rpartition("/")[2]
                    if kind not in asked:
                        asked.add(kind)
                        await ask(visit, analysis)
                        await good(visit, f"{kind} of {name}")
                        await by_keyboard(visit, kind)
            assert asked == set(ANALYSES)
            path = f"/releases/{found.releases['verified']}"
            await by_keyboard(visit, path)
            await good_at(visit, f"{path}/analyses/synthetic", 400)
            await good_at(visit, f"{path}/analyses/means?confidence=much", 400)
            await good_at(visit, f"{path}/analyses/oracle", 400)
            await good_at(visit, f"{path}/audit")
            await good_at(visit, f"{path}/audit?replay=1")
            assert "Nothing differs" in await visit.page.inner_text("main")
