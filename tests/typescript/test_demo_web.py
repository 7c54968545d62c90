"""`make demo-web` as somebody meets it: a page, 500 simulated people, a release beside the truth."""

import asyncio
import json
import re
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.browser import chromium, needs_browser, visiting
from support.pages import ROOT

sys.path.append(str(Path(__file__).resolve().parent))
from test_form import filled

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def asked(link: str, path: str) -> dict[str, object]:
    with urllib.request.urlopen(urllib.request.Request(link + path, method="POST"), timeout=120) as answer:
        found: dict[str, object] = json.loads(answer.read())
        return found


@asynccontextmanager
async def demo() -> AsyncIterator[str]:
    """Run the program, and give the link that it prints."""
    command = [sys.executable, str(ROOT / "deploy" / "demo_web.py")]
    started = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert started.stdout is not None
        async with asyncio.timeout(120):
            link = (await started.stdout.readline()).decode().strip()
        yield link
    finally:
        started.terminate()
        await started.wait()


TABLE = "document.querySelectorAll('#row tr')"
CELLS = f"() => [...{TABLE}].map(line => [...line.querySelectorAll('td')].map(cell => cell.textContent))"


@needs_browser
async def test_the_page_shows_the_row_its_noise_and_what_one_server_has_of_it(built: Path) -> None:
    del built
    async with demo() as link, chromium() as browser, visiting(browser, link) as visit:
        await asyncio.sleep(1)
        await visit.page.goto(link)
        await filled(visit.page, ("7", "3", "y"))
        assert await visit.page.inner_text("#row pre") == '{"hours of sleep":7,"cups of coffee":3,"tea":true}'
        first = [list(map(int, line)) for line in await visit.page.evaluate(CELLS)]
        exact, noise, sent, share, together = first
        assert [a + b for a, b in zip(exact, noise, strict=True)] == sent == together
        assert len(exact) == 10  # 6 products, with the 3 of the intercept, and their trace
        assert all(noise)
        await visit.page.select_option("#row select", index=1)
        other = [list(map(int, line)) for line in await visit.page.evaluate(CELLS)][3]
        # Of words of 60 bits and more none is below a millionth of all, but once in 50,000 runs.
        assert share != other
        assert min(map(abs, [*share, *other])) > 2**40
        assert visit.said == [], visit.said


async def test_the_page_adds_people_and_shows_means_beside_the_truth(built: Path) -> None:
    del built
    async with demo() as link:
        await asyncio.sleep(1)
        with urllib.request.urlopen(link) as answer:
            assert "script-src 'self'" in answer.headers["content-security-policy"]
            assert re.search(r'<lintra-form task="[\w-]{43}"', answer.read().decode())
        assert "Not yet" in str((await asyncio.to_thread(asked, link, "release"))["said"])
        assert "500 so far" in str((await asyncio.to_thread(asked, link, "people"))["said"])
        await asyncio.sleep(2)
        found = await asyncio.to_thread(asked, link, "release")
        assert "500 reports" in str(found["said"]), found
        for mean in found["means"]:  # type: ignore[attr-defined]
            low, high = map(float, mean["interval"].split(" to "))
            # Noise of epsilon 1 over 500 people: the interval is about the population, its truth near the middle.
            assert low - (high - low) < float(mean["truth"]) < high + (high - low), mean
