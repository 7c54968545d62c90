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
    networks = re.findall(r"networks: \[(net-\w)\]", text)
    assert len(networks) == len(set(networks)) == 3
