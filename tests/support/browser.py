"""A real browser for the tests: Debian's Chromium, driven by Playwright, that asks nobody but the console."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Literal

import pytest
import uvicorn
from starlette.types import ASGIApp

if TYPE_CHECKING:  # whoever collects tests need not wait for it
    from playwright.async_api import Browser, Page

CHROMIUM = which("chromium") or "/usr/bin/chromium"
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
SERIOUS = frozenset({"serious", "critical"})


def why_not() -> str:
    """Return why no browser can be driven here; empty if one can."""
    if not Path(CHROMIUM).exists():
        return "there is no Chromium here (Debian: apt install chromium)"
    missing = [name for name in ("playwright", "axe_playwright_python") if find_spec(name) is None]
    return f"{' and '.join(missing)} are not installed; `make test-all` installs them" if missing else ""


needs_browser = pytest.mark.skipif(bool(why_not()), reason=why_not())


@dataclass
class Visit:
    """A page in a browser, and everything that it asked for.

    Attributes:
        page: Playwright's.
        origin: of the console.
        asked: the addresses of all requests.
        said: what the page's console or its policy complained about.
        refused: the addresses that were answered with an error.
    """

    page: "Page"
    origin: str
    asked: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    async def open(self, path: str) -> int:
        """Go to a page, and return the status of the answer.

        Containers that start or end beside the tests change the machine's network, and then Chromium gives up whatever
        it is loading, from this machine as well: such a visit begins again, at most twice.
        """
        from playwright.async_api import Error

        for left in (2, 1, 0):
            try:
                answer = await self.page.goto(self.origin + path)
                break
            except Error as error:
                if not left or "ERR_NETWORK_CHANGED" not in error.message:
                    raise
        assert answer is not None
        return answer.status

    async def sign_in(self, token: str) -> None:
        """Sign in with a token."""
        await self.open("/")
        await self.page.fill("#token", token)
        await self.page.click("main button")
        await self.page.wait_for_url(self.origin + "/")

    def elsewhere(self) -> list[str]:
        """Return the addresses that are not of this origin."""
        return [address for address in self.asked if not address.startswith((self.origin + "/", "data:", "blob:"))]

    async def seriously_wrong(self) -> list[str]:
        """Return what axe finds that keeps somebody from using the page, each with the element it is about."""
        from axe_playwright_python.async_playwright import Axe

        found = (await Axe().run(self.page)).response["violations"]
        return [
            f"{one['id']}: {node['html'][:200]}" for one in found if one["impact"] in SERIOUS for node in one["nodes"]
        ]

    async def pictures_shown(self) -> list[bool]:
        """Return for every picture of the page whether it was loaded and has a size."""
        shown: list[bool] = await self.page.evaluate(
            "[...document.images].map(image => image.complete && image.naturalWidth > 0)"
        )
        return shown


@asynccontextmanager
async def chromium(*more: str) -> AsyncIterator["Browser"]:
    """Start a browser with a new, empty profile, and with `more` arguments."""
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS, *more])
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def visiting(
    browser: "Browser", origin: str, scheme: Scheme = "light", *, programs: bool = True
) -> AsyncIterator[Visit]:
    """Open a window without a past, in a colour scheme; without `programs` the browser runs no JavaScript."""
    context = await browser.new_context(
        color_scheme=scheme, java_script_enabled=programs, viewport={"width": 1100, "height": 800}
    )
    visit = Visit(await context.new_page(), origin)
    visit.page.on("request", lambda request: visit.asked.append(request.url))
    visit.page.on("response", lambda one: visit.refused.append(one.url) if one.status >= 400 else None)
    visit.page.on("console", lambda message: visit.said.append(message.text) if message.type == "error" else None)
    visit.page.on("pageerror", lambda error: visit.said.append(str(error)))
    try:
        yield visit
    finally:
        await context.close()


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[str]:
    """Serve an application on a free port of this machine, and return its origin."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
        assert not serving.done(), "the server did not start"
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        with suppress(asyncio.CancelledError):
            await serving


async def keep(visit: Visit, folder: Path, name: str) -> None:
    """Keep a picture of the whole page in a folder, or in the one that `LINTRA_SCREENSHOTS` names."""
    folder = Path(os.environ.get("LINTRA_SCREENSHOTS", folder))
    folder.mkdir(parents=True, exist_ok=True)
    await visit.page.screenshot(path=folder / f"{name}.png", full_page=True)
