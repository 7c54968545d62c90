"""`make demo-web` as somebody meets it: a page, 500 simulated people, a release beside the truth."""

import asyncio
import json
import re
import sys
import urllib.request
from pathlib import Path

import pytest

from support.pages import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def asked(link: str, path: str) -> dict[str, object]:
    with urllib.request.urlopen(urllib.request.Request(link + path, method="POST"), timeout=120) as answer:
        found: dict[str, object] = json.loads(answer.read())
        return found


async def test_the_page_adds_people_and_shows_means_beside_the_truth(built: Path) -> None:
    del built
    command = [sys.executable, str(ROOT / "deploy" / "demo_web.py")]
    started = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert started.stdout is not None
        async with asyncio.timeout(120):
            link = (await started.stdout.readline()).decode().strip()
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
    finally:
        started.terminate()
        await started.wait()
