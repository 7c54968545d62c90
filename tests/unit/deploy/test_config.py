"""Every settings file that is shipped is one its service takes; the compose file keeps apart what must be apart."""

import re
from functools import cache
from pathlib import Path
from typing import Any

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


@cache
def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return read


def members(network: str) -> list[str]:
    """Return the services of the compose file that are on a network."""
    return sorted(name for name, each in compose()["services"].items() if network in each.get("networks", {}))


def test_no_two_servers_share_a_network_and_only_its_proxy_shares_one_with_others() -> None:
    for x in "abc":
        assert members(f"back-{x}") == [f"proxy-{x}", f"server-{x}"]
        assert members(f"net-{x}") == ["analyzer", "demo", f"proxy-{x}"]
        assert members(f"watch-{x}") == ["prometheus", f"server-{x}"]
    assert members("base-a") == ["database-a", "scheduler-a", "server-a", "worker-a"]
    assert members("back-console") == ["analyzer", "console", "prometheus"]
    assert members("analysts") == ["console", "demo", "grafana"]
    networks = compose()["networks"]
    assert [name for name, each in networks.items() if not each.get("internal")] == ["analysts"]


def test_what_is_published_is_on_loopback_and_nothing_but_the_console_and_grafana() -> None:
    services = compose()["services"]
    published = {name: each["ports"] for name, each in services.items() if "ports" in each}
    assert published == {"console": ["127.0.0.1:${CONSOLE_PORT:-8443}:8443"], "grafana": ["127.0.0.1:3000:3000"]}


def test_every_server_of_compose_has_its_witness_on_a_volume_of_another_server() -> None:
    services = compose()["services"]
    for x, other in ("ab", "bc", "ca"):
        server = services[f"server-{x}"]
        assert server["environment"]["LINTRA_SERVER_WITNESS_DIR"] == "/witness"
        where = {volume.split(":")[1]: volume.split(":")[0] for volume in server["volumes"]}
        assert where["/witness"] == f"kept-by-{other}"
        assert f"kept-by-{other}:/kept:ro" in services[f"server-{other}"]["volumes"]
        assert where["/witness"] not in (where["/data"], where["/keys"])
    # The image makes the folders, so that the volumes belong to the server's user.
    recipe = (ROOT / "deploy/Dockerfile").read_text()
    assert re.search(r"mkdir [^\n]* /kept /witness", recipe)


def test_keys_data_and_private_keys_of_proxies_are_volumes_of_one_service_each() -> None:
    users: dict[str, list[str]] = {}
    for name, service in compose()["services"].items():
        for volume in service.get("volumes", ()):
            users.setdefault(volume.split(":")[0], []).append(name)
    alone = [name for name in users if name.endswith(("-keys", "-tls", "cluster-a-authority"))]
    assert len(alone) == 3 + 4 + 1
    assert all(len(users[name]) == 1 for name in alone)
    for x in "abc":
        assert users[f"server-{x}"] == [f"server-{x}"]
        # Its proxy writes what others have to trust, and nobody else does.
        assert users[f"authority-{x}"] == [f"proxy-{x}", "analyzer", "demo"]
    writers = [
        name
        for name, service in compose()["services"].items()
        if any(re.fullmatch(r"authority-\w+:/\S+(?<!:ro)", volume) for volume in service.get("volumes", ()))
    ]
    assert writers == ["proxy-a", "proxy-b", "proxy-c", "console"]


@pytest.mark.parametrize("path", ["docker-compose.yml", "deploy/operator/docker-compose.yml"])
def test_every_container_has_a_root_it_cannot_write_no_capabilities_and_limits(path: str) -> None:
    for name, service in yaml.safe_load((ROOT / path).read_text())["services"].items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert name == "demo" or ("mem_limit" in service and "pids_limit" in service), name


def test_the_profile_with_postgresql_has_what_a_server_demands_of_it() -> None:
    services = compose()["services"]
    database, server = services["database-a"], services["server-a"]
    assert database["profiles"] == ["postgres"]
    script = (ROOT / "deploy/database/start.sh").read_text()
    for name in NEVER_OFF:
        assert f"-c {name}=on" in script
    assert "--data-checksums" in script
    # The server learns the address from a file; without the profile the variable is empty, which is no setting.
    assert server["environment"][Settings.variable("database_url_file")] == "${SERVER_A_DATABASE:-}"
    where = {volume.split(":")[0]: volume.split(":")[1:] for volume in server["volumes"]}
    there = dict(volume.split(":") for volume in database["volumes"])
    assert where["database-a-address"] == ["/address", "ro"]
    assert f"mv {there['database-a-address']}/url.new {there['database-a-address']}/url" in script
    # Both run as one number, so that the one can read what the other lets nobody else read.
    recipe = (ROOT / "deploy/Dockerfile").read_text()
    assert recipe.count("--uid 10001") == 3
    assert (CONFIG / "compose/postgres.env").read_text().split()[-1] == "SERVER_A_DATABASE=/address/url"


def test_the_files_of_variables_name_variables_of_the_compose_file_and_settings_that_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    for path in sorted((CONFIG / "compose").glob("*.env")):
        lines = [line.partition("=") for line in path.read_text().splitlines() if not line.startswith("#")]
        assert lines
        assert all(f"${{{name}:-" in text for name, _, _ in lines), path
    said = dict(line.split("=") for line in (CONFIG / "compose/dask.env").read_text().splitlines() if "=" in line)
    for variable, value in compose()["services"]["server-a"]["environment"].items():
        name = value[2:].partition(":")[0]
        if value.startswith("${") and variable != Settings.variable("database_url_file"):
            monkeypatch.setenv(variable, said[name])
    found = Settings.load(CONFIG / "compose/server-a.toml")
    assert found.executor == "dask://scheduler-a:8786"
    assert str(found.cluster_key_file) == "/cluster/own.key"
    assert found.cluster_host in compose()["services"]["server-a"]["networks"]["base-a"]["aliases"]


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


def test_every_service_believes_its_own_proxy_and_nobody_else() -> None:
    networks = compose()["networks"]
    files = {f"back-{x}": Settings.load(CONFIG / f"compose/server-{x}.toml") for x in "abc"}
    for name, settings in {**files, "back-console": AnalyzerSettings.load(CONFIG / "compose/analyzer.toml")}.items():
        (subnet,) = networks[name]["ipam"]["config"]
        assert [str(proxy) for proxy in settings.trusted_proxies] == [subnet["subnet"]]


def test_the_proxy_takes_fewer_connections_than_the_service_behind_it() -> None:
    text = (ROOT / "deploy/proxy/nginx.conf").read_text()
    allowed = {zone: int(most) for zone, most in re.findall(r"limit_conn (\w+) (\d+);", text)}
    settings = Settings.load(CONFIG / "compose/server-a.toml")
    assert allowed["peers"] < allowed["all"] < settings.max_connections
    assert f"server backend:{settings.port};" in text
