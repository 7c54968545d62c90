"""Every settings file that is shipped is one its service takes, and the compose file names files that exist."""

import re
from pathlib import Path

import pytest

from lintra_analyzer.settings import Settings as AnalyzerSettings
from lintra_server.settings import Settings

ROOT = Path(__file__).resolve().parents[3]
CONFIG = ROOT / "deploy" / "config"


@pytest.mark.parametrize("path", sorted(CONFIG.rglob("server*.toml")), ids=lambda path: path.name)
def test_a_shipped_server_file_is_valid(path: Path) -> None:
    assert Settings.load(path).public_url.startswith("http")


@pytest.mark.parametrize("path", sorted(CONFIG.rglob("analyzer*.toml")), ids=lambda path: str(path.relative_to(CONFIG)))
def test_a_shipped_analyzer_file_is_valid_and_names_servers_that_are_shipped(path: Path) -> None:
    urls = {server.url for server in AnalyzerSettings.load(path).servers}
    shipped = {Settings.load(each).public_url for each in path.parent.glob("server-*.toml")}
    assert len(urls) >= 2
    assert not shipped or urls == shipped


def test_the_compose_file_names_settings_that_exist_and_gives_every_server_its_own_network() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    named = re.findall(r"/app/(deploy/[\w./-]+\.(?:toml|py))", text)
    assert named
    assert all((ROOT / path).exists() for path in named)
    assert re.findall(r"^    networks: (.*)$", text, re.MULTILINE) == [
        *(f"{{ back-{x}: {{}}, net-{x}: {{ aliases: [server-{x}] }} }}" for x in "abc"),
        *(f"{{ back-{x}: {{ aliases: [backend] }} }}" for x in "abc"),
        "[net-a, net-b, net-c, analysts]",
        "[net-a, net-b, net-c]",
    ]


def test_every_server_believes_its_own_proxy_and_nobody_else() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    for x in "abc":
        network = re.search(rf"back-{x}: {{ internal: true, ipam: {{ config: \[{{ subnet: ([\d./]+) }}\] }} }}", text)
        assert network is not None
        believed = Settings.load(CONFIG / f"compose/server-{x}.toml").trusted_proxies
        assert [str(proxy) for proxy in believed] == [network.group(1)]


def test_the_proxy_takes_fewer_connections_than_the_service_behind_it() -> None:
    text = (ROOT / "deploy/proxy/nginx.conf").read_text()
    allowed = {zone: int(most) for zone, most in re.findall(r"limit_conn (\w+) (\d+);", text)}
    settings = Settings.load(CONFIG / "compose/server-a.toml")
    assert allowed["peers"] < allowed["all"] < settings.max_connections
    assert f"server backend:{settings.port};" in text
