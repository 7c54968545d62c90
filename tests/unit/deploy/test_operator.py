"""What operators are handed names only what there is: commands, flags, settings, ports, paths and counters."""

import importlib.util
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from prometheus_client.parser import text_string_to_metric_families

from lintra_analyzer.cli import app as analyzer_app
from lintra_analyzer.metrics import Metrics as AnalyzerMetrics
from lintra_analyzer.settings import Settings as AnalyzerSettings
from lintra_server.cli import app as server_app
from lintra_server.metrics import Metrics as ServerMetrics
from lintra_server.settings import Settings
from lintra_service.health_app import internal_app

ROOT = Path(__file__).resolve().parents[3]
BUNDLE = ROOT / "deploy/operator"
MANIFESTS = sorted(path for path in (BUNDLE / "kubernetes").rglob("*.yaml") if path.name != "kustomization.yaml")
UNITS = sorted((BUNDLE / "systemd").glob("*.service"))
COMPOSE = [ROOT / "docker-compose.yml", BUNDLE / "docker-compose.yml"]
COMMANDS = {"server": typer.main.get_command(server_app), "analyzer": typer.main.get_command(analyzer_app)}
INSTALLED_LATER = ("/opt/lintra/bin", "/usr/sbin/nginx")
SCRIPTS = {path.name: path.read_text() for path in (ROOT / "deploy").rglob("*.py")}


def wrong_words(command: list[str]) -> list[str]:
    """Return what in a command line of `lintra ROLE ...` is no command or no flag of it."""
    found = COMMANDS[command[0]].commands.get(command[1])  # type: ignore[attr-defined]
    if found is None:
        return [command[1]]
    flags = {flag for parameter in found.params for flag in parameter.opts}
    return [word for word in command[2:] if word.startswith("--") and word not in flags]


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def pods(path: Path) -> Iterator[dict[str, Any]]:
    for each in documents(path):
        if each["kind"] in ("StatefulSet", "Job"):
            yield each["spec"]["template"]["spec"]


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Yield every command line of `lintra` in the bundle and in both compose files, with where it stands."""
    for path in COMPOSE:
        for name, service in yaml.safe_load(path.read_text())["services"].items():
            where, words = f"{path.name}: {name}", service.get("command")
            if service.get("build", {}).get("target", "").endswith("server") and "entrypoint" not in service:
                yield where, ["server", *words]
        text = path.read_text()
        for match in re.finditer(r"run --rm server ([^#\n]*?)(?:  |\n)", text):
            yield path.name, ["server", *match.group(1).split()]
        for match in re.finditer(r"\blintra (server|analyzer) ([a-z][^;>\n`]*)", text):
            yield path.name, [match.group(1), *match.group(2).split()]
    for path in MANIFESTS:
        for pod in pods(path):
            yield from (
                (path.name, ["server", *each["args"]]) for each in pod["containers"] if each["name"] == "server"
            )
    for path in UNITS:
        for match in re.finditer(r"^ExecStart=\S+/lintra (.*)$", path.read_text(), re.MULTILINE):
            yield path.name, match.group(1).split()
    readme = (BUNDLE / "README.md").read_text()
    for match in re.finditer(r"(?:run --rm server|\blintra server) ([a-z][^#\n`]*)", readme):
        yield "README.md", ["server", *match.group(1).split()]


def test_every_command_and_flag_that_operators_are_given_exists() -> None:
    lines = list(command_lines())
    assert len(lines) >= 15
    assert {where: wrong for where, words in lines if (wrong := wrong_words(words))} == {}
    # And the check notices what does not.
    assert wrong_words(["server", "begin"]) == ["begin"]
    assert wrong_words(["server", "run", "--settings", "x"]) == ["--settings"]


def test_every_script_that_is_called_exists_and_takes_its_flags() -> None:
    text = "\n".join(path.read_text() for path in [*COMPOSE, *MANIFESTS, *UNITS])
    for name in re.findall(r"/(?:app/deploy|share)/(?:proxy/)?(\w+\.py)", text):
        assert name in SCRIPTS
    for flag in re.findall(r"(?:backing_up\.py\S*|args: \[|command: \[)[^\n]*?(--(?:hours|keep|folder|once))", text):
        assert f'"{flag}"' in SCRIPTS["backing_up.py"]
    recipe = (ROOT / "deploy/Dockerfile").read_text()
    for source in re.findall(r"^COPY (?!--from)(.*) \S+$", recipe, re.MULTILINE):
        assert all((ROOT / each).exists() for each in source.split()), source
    stages = re.findall(r"^FROM \S+ AS (\S+)$", recipe, re.MULTILINE)
    assert set(re.findall(r"target: \"?(?:\$\{\w+:-)?(\w+)", text)) <= set(stages)


def test_every_settings_file_of_the_bundle_is_taken_and_needs_keys_that_somebody_made() -> None:
    files = sorted(BUNDLE.rglob("server.toml"))
    assert len(files) == 3
    for path in files:
        settings = Settings.load(path)
        assert not settings.create_keys
        assert settings.policy.allowed_authors == ()
        assert not settings.policy.open
        assert settings.data_dir.parts[1] != settings.key_dir.parts[1]


def test_every_variable_is_a_setting_and_every_port_is_where_something_listens() -> None:
    text = "\n".join(path.read_text() for path in [*COMPOSE, *MANIFESTS])
    for kind in (Settings, AnalyzerSettings):
        prefix = kind.model_config["env_prefix"]
        for name in re.findall(rf"{prefix}(\w+)", text):
            assert name.lower() in kind.model_fields
    fields = [kind.model_fields for kind in (Settings, AnalyzerSettings)]
    ports = {str(each[name].default) for each in fields for name in ("port", "internal_port")} | {"8443"}
    assert ports == {"8101", "8201", "8700", "8701", "8443"}
    beside = {"3000", "9090", "8786"}  # Grafana, Prometheus, Dask's scheduler
    named = set(re.findall(r"\b([389]\d{3})\b(?!:8443)", re.sub(r"#.*", "", text)))
    assert named <= ports | beside, named


def test_every_probe_asks_for_a_page_that_is_there() -> None:
    app = internal_app("server", lambda: None, ServerMetrics(), lambda: "id")
    there = {route.path for route in app._app.routes}  # type: ignore[attr-defined]
    for path in MANIFESTS:
        for pod in pods(path):
            for container in pod["containers"]:
                probes = [container[kind] for kind in container if kind.endswith("Probe")]
                assert {probe["httpGet"]["path"] for probe in probes if "httpGet" in probe} <= there
    assert "/metrics" in there


def shown_names(metrics: ServerMetrics | AnalyzerMetrics) -> dict[str, set[str]]:
    """Return the names that a service's `/metrics` shows, after something of everything happened, with their labels."""
    metrics.observe_request("/v1/keys", 200, 0.1)
    if isinstance(metrics, ServerMetrics):
        metrics.observe_reports("accepted", 1)
        metrics.observe_commit(1, 0.1)
        metrics.scrubbed.inc()
    else:
        metrics.stage("inventory", 0.1)
        metrics.refused("inventory", "unavailable")
        metrics.analysis("means")
    families = text_string_to_metric_families(metrics.text().decode())
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def test_the_dashboard_and_the_alerts_ask_for_counters_that_the_services_show() -> None:
    shown = shown_names(ServerMetrics()) | shown_names(AnalyzerMetrics())
    dashboard = json.loads((ROOT / "deploy/monitoring/grafana/dashboards/lintra.json").read_text())
    alerts = yaml.safe_load((ROOT / "deploy/monitoring/alerts.yml").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    asked += [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]
    named = [name for expression in asked for name in re.findall(r"\blintra_\w+", expression)]
    assert set(named) <= shown.keys(), f"asked for, and not shown: {sorted(set(named) - shown.keys())}"
    # Nothing that is shown is left out of the picture, but for the parts of a histogram and when a counter was made.
    counters = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in shown}
    drawn = {re.sub(r"_(bucket|sum|count)$", "", name) for name in named}
    wanted = {name for name in counters if not name.endswith(("_created",)) and f"{name}_total" not in shown}
    assert drawn >= wanted, f"neither on the dashboard nor in an alert: {sorted(wanted - drawn)}"
    labels = set().union(*shown.values()) | {"job", "instance"}
    for expression in asked:
        by = {word for group in re.findall(r"by \(([^)]*)\)", expression) for word in group.replace(" ", "").split(",")}
        matched = set(re.findall(r"[{,]\s*(\w+)=", expression))
        assert by | matched <= labels, expression
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_prometheus_is_sent_to_the_internal_listeners_of_all_services() -> None:
    read = yaml.safe_load((ROOT / "deploy/monitoring/prometheus.yml").read_text())
    targets = {job["job_name"]: job["static_configs"][0]["targets"] for job in read["scrape_configs"]}
    services = yaml.safe_load(COMPOSE[0].read_text())["services"]
    aliases = {
        alias for each in services.values() if isinstance(each["networks"], dict)
        for network in each["networks"].values() for alias in network.get("aliases", ())
    }  # fmt: skip
    hosts = {target.partition(":")[0] for group in targets.values() for target in group}
    assert hosts <= aliases
    assert {target.partition(":")[2] for target in targets["server"]} == {"8201"}
    assert targets["analyzer"] == ["analyzer-inside:8701"]
    source = yaml.safe_load((ROOT / "deploy/monitoring/grafana/provisioning/datasources/prometheus.yml").read_text())
    dashboard = (ROOT / "deploy/monitoring/grafana/dashboards/lintra.json").read_text()
    assert set(re.findall(r'"uid": "(?!lintra")(\w+)"', dashboard)) == {source["datasources"][0]["uid"]}


def test_nobody_but_the_server_sees_the_key_folder() -> None:
    bundle = yaml.safe_load(COMPOSE[1].read_text())["services"]
    assert [name for name, each in bundle.items() if any(v.startswith("keys:") for v in each["volumes"])] == ["server"]
    for path in MANIFESTS:
        for pod in pods(path):
            who = [each["name"] for each in pod["containers"] if any(m["name"] == "keys" for m in each["volumeMounts"])]
            assert who == ["server"]
    assert "InaccessiblePaths=-/var/lib/lintra-keys" in (BUNDLE / "systemd/lintra-backup.service").read_text()


def test_a_witness_is_on_where_its_volume_is_chosen_and_off_where_it_would_be_of_the_same_machine() -> None:
    server = yaml.safe_load(COMPOSE[1].read_text())["services"]["server"]
    assert server["environment"]["LINTRA_SERVER_WITNESS_DIR"] == "${SERVER_WITNESS:-}"
    assert "witness:/witness" in server["volumes"]
    folders = [Settings.load(path).witness_dir for path in (BUNDLE / "kubernetes").rglob("server.toml")]
    assert folders == [Path("/witness")] * 2
    for path in MANIFESTS:
        for pod in pods(path):
            (one,) = [each for each in pod["containers"] if each["name"] == "server"]
            assert {"name": "witness", "mountPath": "/witness"} in one["volumeMounts"]
            claims = {
                each["name"]: each["persistentVolumeClaim"] for each in pod["volumes"] if each["name"] == "witness"
            }
            assert claims == {"witness": {"claimName": "lintra-witness"}}
    overlay = (BUNDLE / "kubernetes/overlays/example/kustomization.yaml").read_text()
    assert "name: lintra-witness }\n    patch: |-\n      - { op: add, path: /spec/storageClassName" in overlay
    named = 'witness_dir = "/var/lib/lintra-witness"'
    unit = (BUNDLE / "systemd/lintra-server.service").read_text()
    assert named in unit
    assert "ReadWritePaths=-/var/lib/lintra-witness" in unit
    assert named in (BUNDLE / "server.toml").read_text()


def test_the_name_of_a_server_is_one_in_its_settings_and_its_proxy() -> None:
    for folder in (BUNDLE / "kubernetes/base", BUNDLE / "kubernetes/overlays/example"):
        url = tomllib.loads((folder / "server.toml").read_text())["public_url"]
        name = url.removeprefix("https://").partition(":")[0]
        others = [path.read_text() for path in folder.glob("*.yaml")]
        assert any(name in text for text in others)
    default = re.findall(r"SERVER_NAME:-([\w.]+)", COMPOSE[1].read_text())
    assert {f"https://{name}:8443" for name in default} == {Settings.load(BUNDLE / "server.toml").public_url}


@pytest.mark.slow
def test_every_manifest_fits_the_schema_of_kubernetes() -> None:
    if importlib.util.find_spec("kubernetes_validate") is None:
        pytest.skip("the schemas of Kubernetes are not installed; `make test-all` installs them")
    import kubernetes_validate

    checked = [each for path in MANIFESTS for each in documents(path)]
    if kubectl := shutil.which("kubectl"):
        built = subprocess.run(
            [kubectl, "kustomize", BUNDLE / "kubernetes/overlays/example"], check=True, capture_output=True, text=True
        )
        checked += list(yaml.safe_load_all(built.stdout))
    assert len(checked) >= 10
    for each in checked:
        for version in ("1.29", "1.32", "1.35"):
            kubernetes_validate.validate(each, version, strict=True)
    checked[0]["spec"]["accessMode"] = "ReadWriteOnce"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(checked[0], "1.32", strict=True)


@pytest.mark.slow
def test_systemd_takes_every_unit(tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd is not installed; with it, this test asks it about the units")
    for path in sorted((BUNDLE / "systemd").glob("lintra-*")):
        done = subprocess.run([tool, "verify", path], check=False, capture_output=True, text=True)
        # What a unit starts is not installed here.
        said = [line for line in done.stderr.splitlines() if not any(name in line for name in INSTALLED_LATER)]
        assert said == [], path
    broken = tmp_path / "lintra-broken.service"
    broken.write_text(UNITS[0].read_text().replace("ProtectSystem=", "ProtectSystems="))
    done = subprocess.run([tool, "verify", broken], check=False, capture_output=True, text=True)
    assert "ProtectSystems" in done.stderr


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: str(path.relative_to(ROOT)))
def test_compose_starts_a_service_that_ended_itself_again(path: Path) -> None:
    services = yaml.safe_load(path.read_text())["services"]
    once = {name for name, service in services.items() if service.get("restart") != "unless-stopped"}
    assert once <= {"demo"}


def test_systemd_starts_a_server_that_ended_itself_again_however_often() -> None:
    lines = (BUNDLE / "systemd/lintra-server.service").read_text().splitlines()
    assert {"Restart=always", "StartLimitIntervalSec=0"} <= set(lines)
    assert not any(line.startswith(("RestartPreventExitStatus", "SuccessExitStatus")) for line in lines)


def test_kubernetes_starts_a_server_that_ended_itself_again() -> None:
    sets = [each for path in MANIFESTS for each in documents(path) if each["kind"] == "StatefulSet"]
    assert sets
    # Of a StatefulSet nothing else is possible, and this is what is meant by leaving it out.
    assert {each["spec"]["template"]["spec"].get("restartPolicy", "Always") for each in sets} == {"Always"}
