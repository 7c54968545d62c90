"""`docker-compose up`, one address in a browser: signed in, the demonstration's tasks, releases and figures are there.

Chromium believes the certificate that the console's authority signed, and no other that is unknown to it.
"""

import base64
import hashlib
import re
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from support.browser import Visit, chromium, keep, needs_browser, visiting
from support.containers import PATIENCE, Stack
from support.containers import stack as stack  # the fixture

ROWS = 3000
SETTINGS = "/app/deploy/config/compose/analyzer.toml"
TARGET = "arr_delay"

pytestmark = [pytest.mark.slow, pytest.mark.e2e, needs_browser]


def fingerprint(stack: Stack) -> str:
    """Return what Chromium calls the console's key by, whose certificate its authority has signed: SHA-256, base64."""
    own, authority = (
        x509.load_pem_x509_certificate(stack("exec", "-T", "console", "cat", path).encode())
        for path in ("/tls/tls.crt", "/authority/ca.pem")
    )
    own.verify_directly_issued_by(authority)
    key = own.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(key).digest()).decode()


async def figures(visit: Visit, release: str, folder: Path) -> tuple[int, list[str]]:
    """Open everything that a release offers; return how many pictures were shown, and why something was refused."""
    page, shown, refused = visit.page, 0, list[str]()
    await visit.open(release)
    offered = await page.eval_on_selector_all(f'a[href^="{release}/analyses/"]', "all => all.map(one => one.pathname)")
    assert offered
    for place in sorted(set(offered)):
        status = await visit.open(f"{place}?target={TARGET}")
        assert status in (200, 400), place
        if status == 400:
            refused.append(await page.inner_text("[role=alert]"))
        pictures = await visit.pictures_shown()
        assert all(pictures), place
        shown += len(pictures)
        await keep(visit, folder, place.replace("/", "-").strip("-")[-40:])
    return shown, refused


async def test_whoever_starts_the_containers_sees_the_demonstration_s_tasks_releases_and_figures_in_a_browser(
    stack: Stack, tmp_path: Path
) -> None:
    stack("up", "-d", "--no-build")
    stack.healthy(PATIENCE)
    # What docs/how-to/deploying.md tells: the demonstration, a token to sign in with, or a link.
    stack("run", "--rm", "-T", "--no-deps", "demo", "--rows", str(ROWS))
    token = stack("exec", "-T", "analyzer", "cat", "/analyst/token").split()[-1]
    origin = f"https://localhost:{stack.environment['CONSOLE_PORT']}"
    async with chromium(f"--ignore-certificate-errors-spki-list={fingerprint(stack)}") as browser:
        async with visiting(browser, origin) as visit:
            await visit.sign_in(token)
            page = visit.page
            assert await page.locator("text=what explains the arrival delay of a flight").count() == 2
            await keep(visit, tmp_path / "screenshots", "tasks")
            await visit.open("/releases")
            links = await page.eval_on_selector_all('a[href^="/releases/"]', "all => all.map(one => one.pathname)")
            releases = sorted({link for link in links if re.fullmatch("/releases/[^/]+", link)})
            assert len(releases) == 2
            shown = [await figures(visit, release, tmp_path / "screenshots") for release in releases]
            assert min(pictures for pictures, _ in shown) >= 3
            # Of so few rows noise may swallow a variance; correlations are refused in words then, and nothing else is.
            refused = [reason for _, reasons in shown for reason in reasons]
            assert all("oise has swallowed the variance of" in reason for reason in refused), refused
            assert len(visit.refused) == len(refused)
            assert visit.elsewhere() == []
        asked = ["lintra", "analyzer", "sign-in-link", "--config", SETTINGS, "--url", origin]
        link = stack("exec", "-T", "analyzer", *asked).split()[-1]
        async with visiting(browser, origin) as visit:
            assert await visit.open(link.removeprefix(origin)) == 200
            await visit.page.click("main button")
            await visit.page.wait_for_url(f"{origin}/")
            await visit.open("/releases")
            assert await visit.page.locator('a[href^="/releases/"]').count() >= 2
