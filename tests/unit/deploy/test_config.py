"""Every settings file that is shipped is one its service takes, and the compose file names files that exist."""

import re
from pathlib import Path

import pytest
import yaml

from lintra_analyzer.settings import Settings as AnalyzerSettings
from lintra_server.settings import Settings
from lintra_server.storage.postgres import NEVER_OFF
from lintra_service.settings import InvalidSettingsError

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
        "{ back-a: { aliases: [backend] }, base-a: {} }",
        *(f"{{ back-{x}: {{ aliases: [backend] }} }}" for x in "bc"),
        "[base-a]",
        "[net-a, net-b, net-c, analysts]",
        "[net-a, net-b, net-c]",
    ]


def test_the_profile_with_postgresql_has_what_a_server_demands_of_it() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    services = compose["services"]
    database, server = services["database-a"], services["server-a"]
    assert database["profiles"] == ["postgres"]
    assert all(each.get("profiles") in (None, ["demo"]) for name, each in services.items() if name != "database-a")
    (script,) = database["command"]
    for name in NEVER_OFF:
        assert f"-c {name}=on" in script
    # The server learns the address from a file; without the profile the variable is empty, which is no setting.
    assert server["environment"] == {Settings.variable("database_url_file"): "${SERVER_A_DATABASE:-}"}
    where = {volume.split(":")[0]: volume.split(":")[1:] for volume in server["volumes"]}
    there = dict(volume.split(":") for volume in database["volumes"])
    assert where["database-a-address"] == ["/database", "ro"]
    assert f"mv {there['database-a-address']}/url.new {there['database-a-address']}/url" in script
    assert "database-a-password" not in where
    assert database["environment"]["POSTGRES_PASSWORD_FILE"].startswith(there["database-a-password"])
    assert "chown 10001" in script
    assert "--uid 10001" in (ROOT / "deploy/Dockerfile").read_text()
    # Nobody else reaches it, and it reaches nobody else.
    networks = {name: each.get("networks", {}) for name, each in services.items()}
    assert sorted(name for name, each in networks.items() if "base-a" in each) == ["database-a", "server-a"]
    assert compose["networks"]["base-a"] == {"internal": True}
    assert set(compose["volumes"]) >= {*where, *there}


def test_the_address_of_the_database_may_come_from_a_file_that_only_its_owner_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, address = tmp_path / "server.toml", tmp_path / "url"
    config.write_text((CONFIG / "compose/server-b.toml").read_text() + "\n[queue]\n")
    monkeypatch.setenv(Settings.variable("database_url_file"), str(address))
    for text, mode, said in (("", 0o600, "no address"), ("postgresql://u:secret@h/d\n", 0o644, "mode to 0600")):
        address.write_text(text)
        address.chmod(mode)
        with pytest.raises(InvalidSettingsError, match=said) as refused:
            Settings.load(config)
        assert "secret" not in str(refused.value)
    address.chmod(0o600)
    found = Settings.load(config)
    assert found.database_url is not None
    assert found.database_url.get_secret_value() == "postgresql://u:secret@h/d"
    assert "secret" not in repr(found)
    monkeypatch.setenv(Settings.variable("database_url"), "postgresql://elsewhere/d")
    with pytest.raises(InvalidSettingsError, match="one of them"):
        Settings.load(config)
    monkeypatch.setenv(Settings.variable("database_url_file"), "")
    monkeypatch.delenv(Settings.variable("database_url"))
    assert Settings.load(config).database_url is None


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
