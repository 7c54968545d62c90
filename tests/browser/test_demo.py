"""The demonstration that stays, as somebody meets it who types one command and opens the link that it prints."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from demo import DELTA

from support.browser import chromium, needs_browser, visiting
from support.pages import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.slow, needs_browser]

ROWS = 2000
LINK = re.compile(r"^http://127\.0\.0\.1:\d+/sign-in\?code=\S+$", re.MULTILINE)
PATIENCE = 240.0
"""Seconds for two collections of so few rows on a busy machine."""


@asynccontextmanager
async def demonstration(folder: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run the command in a folder until it prints its link; it is ended as Ctrl-C does."""
    command = [sys.executable, str(ROOT / "deploy" / "demo.py"), "--stay", "--rows", str(ROWS), "--workers", "1"]
    running = await asyncio.create_subprocess_exec(
        *command, "--output", str(folder / "output"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(folder)},
    )  # fmt: skip
    try:
        yield running, await asyncio.wait_for(printed_link(running), PATIENCE)
    finally:
        if running.returncode is None:
            running.send_signal(signal.SIGINT)
        await asyncio.wait_for(running.wait(), 60)


async def printed_link(running: asyncio.subprocess.Process) -> str:
    """Read what a process prints until a link is among it."""
    assert running.stdout is not None
    said = ""
    while not (found := LINK.search(said)):
        line = await running.stdout.readline()
        assert line, f"it ended and printed no link:\n{said}"
        said += line.decode()
    return found[0]


async def test_one_command_leads_to_tasks_releases_and_figures_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with demonstration(tmp_path) as (running, link), chromium() as browser:
        origin = f"http://{urlsplit(link).netloc}"
        async with visiting(browser, origin) as visit:
            page = visit.page
            await page.goto(link)
            await page.click("main button")
            await page.wait_for_url(origin + "/")
            assert await page.locator("tbody tr").count() == 2
            await visit.open("/releases")
            assert f"{ROWS:,}" in await page.inner_text("tbody")
            assert f"{DELTA:.4g}" in await page.inner_text("tbody")
            await page.click("tbody a >> nth=0")
            await page.click("text=Principal components")
            await page.click("text=Show")
            await page.wait_for_selector("figure img")
            assert await visit.pictures_shown() == [True]
            assert (visit.elsewhere(), visit.said) == ([], [])
        # The link is used up; whoever wants another one presses Enter.
        async with visiting(browser, origin) as visit:
            await visit.page.goto(link)
            await visit.page.click("main button")
            assert "used before" in await visit.page.inner_text("main")
        assert running.stdin is not None
        running.stdin.write(b"\n")
        assert await asyncio.wait_for(printed_link(running), 60) != link
    assert running.returncode == 0
    with pytest.raises(httpx2.TransportError):
        httpx2.get(f"{origin}/readyz", timeout=5)
    assert list(tmp_path.glob("lintra-demo-*")) == []
    assert {path.name for path in (tmp_path / "output").iterdir()} == {"result.json", "picture.png"}
