"""The guided way to a new task in a real browser: by keyboard alone, without programs, and what axe finds."""

from pathlib import Path

import pytest

from lintra_analyzer.web.console.guide import ORDER, QUESTIONS
from support.analyzer_world import TOKEN, living
from support.browser import SCHEMES, Visit, chromium, keep, needs_browser, served, visiting

pytestmark = [pytest.mark.slow, needs_browser]

COLUMNS = "age: 0 to 120 years\nsmoker: yes/no\nsystolic: 60 to 260 mmHg"
SAMPLE = "age,smoker,systolic [mmHg]\n41,yes,128\n57,no,131\n38,no,119\n61,yes,140\n"


async def focus_by_tab(visit: Visit, selector: str) -> None:
    """Press Tab until the element that a selector names has the focus."""
    for _ in range(80):
        await visit.page.keyboard.press("Tab")
        if await visit.page.locator(f"{selector}:focus").count():
            return
    raise AssertionError(f"the keyboard does not reach {selector}")


async def test_the_whole_way_by_keyboard_and_without_programs(tmp_path: Path) -> None:
    async with living(tmp_path) as life, chromium() as browser, served(life.web) as origin:
        async with visiting(browser, origin, programs=False) as visit:
            keys = visit.page.keyboard
            await visit.sign_in(TOKEN)
            await focus_by_tab(visit, "nav a[href='/tasks/new/guide']")
            await keys.press("Enter")
            await visit.page.wait_for_url("**/tasks/new/guide")
            await focus_by_tab(visit, "#purpose")
            await keys.type("Does smoking raise the pressure?")
            await keys.press("Enter")
            await visit.page.wait_for_selector(f"h1:text-is('{QUESTIONS['columns']}')")
            await focus_by_tab(visit, "#columns")
            await keys.type(COLUMNS)
            await focus_by_tab(visit, "button:text-is('Next')")
            await keys.press("Enter")
            await visit.page.wait_for_selector(f"h1:text-is('{QUESTIONS['learn']}')")
            await focus_by_tab(visit, "#target")
            await keys.type("systolic")
            await focus_by_tab(visit, "button:text-is('Next')")
            await keys.press("Enter")
            await visit.page.wait_for_selector(f"h1:text-is('{QUESTIONS['people']}')")
            await focus_by_tab(visit, "#min_clients")
            await keys.press("Control+a")
            await keys.type("20000")
            await keys.press("Enter")
            await visit.page.wait_for_selector(f"h1:text-is('{QUESTIONS['promise']}')")
            await focus_by_tab(visit, "[name=epsilon]")
            await keys.press("ArrowDown")
            await keys.press("Enter")
            await visit.page.wait_for_selector(f"h1:text-is('{QUESTIONS['plan']}')", timeout=60_000)
            assert "With 20,000 reports" in await visit.page.inner_text("main")
            await focus_by_tab(visit, "button:text-is('Make the task')")
            await keys.press("Enter")
            await visit.page.wait_for_selector("text=Reports at the servers", timeout=60_000)
        made = life.service.task(life.service.store.tasks()[0].task_id)
        assert (made.claim.min_clients, made.claim.epsilon) == (20_000, "2")


async def test_every_question_on_a_phone_and_a_desktop_light_and_dark(tmp_path: Path) -> None:
    async with (
        living(tmp_path) as life,
        chromium() as browser,
        served(life.web) as origin,
        visiting(browser, origin) as visit,
    ):
        page = visit.page
        await visit.sign_in(TOKEN)
        await visit.open("/tasks/new/guide")
        for question in ORDER:
            await page.wait_for_selector(f"h1:text-is('{QUESTIONS[question]}')", timeout=60_000)
            for scheme in SCHEMES:
                await page.emulate_media(color_scheme=scheme)
                assert await visit.seriously_wrong() == [], (question, scheme)
                for width in (375, 1100):
                    await page.set_viewport_size({"width": width, "height": 800})
                    assert await page.evaluate("document.documentElement.scrollWidth") <= width, question
                    await keep(visit, tmp_path, f"guide-{question}-{scheme}-{width}")
            if question == "about":
                await page.fill("#purpose", "Does smoking raise the pressure?")
            if question == "columns":
                await page.click("summary")
                await page.set_input_files(
                    "#sample", {"name": "s.csv", "mimeType": "text/csv", "buffer": SAMPLE.encode()}
                )
                await page.check("#is_public")
                await page.click("text=Read the sample")
                await page.wait_for_load_state()
                assert "smoker: yes/no" in await page.input_value("#columns")
                await page.fill("#columns", COLUMNS)
            if question != "plan":
                await page.click("button:text-is('Next')")
        assert visit.elsewhere() == []
        assert visit.said == []
