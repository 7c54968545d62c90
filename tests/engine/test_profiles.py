"""The profiles of docker-compose.yml: a server moves to PostgreSQL and its releases to a cluster; Prometheus sees all.

Grafana's image is not needed: its dashboard's queries are asked of the real Prometheus instead.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from support.containers import PATIENCE, ROOT, Stack, eventually
from support.containers import stack as stack  # the fixture

SETTINGS = "/app/deploy/config/compose/server-a.toml"
COMPOSE = "deploy/config/compose"
MONITORING = ROOT / "deploy/monitoring"
TASKS_OF_THE_CLUSTER = """
from distributed import Client, Security
mine = Security(tls_ca_file="/cluster/authority/ca.pem", tls_client_cert="/cluster/authority/own.pem",
                tls_client_key="/cluster/authority/own.key", require_encryption=True)
def done(dask_scheduler):
    return sum(prefix.state_counts["memory"] for prefix in dask_scheduler.task_prefixes.values())
with Client("tls://scheduler-a:8786", security=mine) as client:
    print(client.run_on_scheduler(done))
"""
"""How many tasks of its server a cluster has done, asked as its scheduler may."""

pytestmark = [pytest.mark.slow, pytest.mark.e2e]


def lines(process: "subprocess.Popen[str]") -> list[set[str]]:
    """Wait for what happens inside, and return the words of every line that it printed."""
    out, _ = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 0, out
    return [set(line.split()) for line in out.splitlines()]


def whole(stack: Stack) -> tuple[str, set[str]]:
    """Make a task, fill it and release it; return the task and the reports of the release, all that were sent."""
    task, _, sent, _, held = lines(stack.inside("whole"))
    assert sent == held
    return task.pop(), held


def tables(stack: Stack) -> int:
    """Return how many batches server a's PostgreSQL knows."""
    asked = ["exec", "-T", "database-a", "sh", "-c"]
    return int(stack(*asked, "psql -h /tmp -U postgres -tA lintra -c 'select count(*) from batches'").split()[-1])


def test_a_server_moves_to_postgresql_and_then_to_a_cluster_and_what_was_released_stays_released(stack: Stack) -> None:
    stack("up", "-d", "--no-build")
    stack.healthy(PATIENCE)
    released, before = whole(stack)

    # As docs/how-to/deploying.md says: nothing waits, stop, an empty database, restore, start.
    moved = stack.having("--env-file", f"{COMPOSE}/postgres.env", "--profile", "postgres")
    moved("build", "database-a")
    stack("stop", "server-a")
    moved("up", "-d", "--no-build", "database-a")
    moved.healthy(PATIENCE, but="server-a")
    refused = moved("run", "--rm", "-T", "--no-deps", "server-a", "run", "--config", SETTINGS, check=False)
    assert "lintra server restore" in refused
    done = moved("run", "--rm", "-T", "--no-deps", "server-a", "restore", "--config", SETTINGS)
    assert "1 releases were stored again" in done
    moved("up", "-d", "--no-build")
    moved.healthy(PATIENCE)
    # The release is the same one, and the next task goes its whole way.
    assert lines(moved.inside("holds", released))[-1] == before
    whole(moved)
    assert tables(moved) == 2

    cluster = stack.having("--env-file", f"{COMPOSE}/dask.env", "--profile", "postgres", "--profile", "dask")
    cluster("build", "scheduler-a")
    cluster("up", "-d", "--no-build")
    cluster.healthy(PATIENCE)
    asked = ("exec", "-T", "scheduler-a", "python", "-c", TASKS_OF_THE_CLUSTER)
    assert int(cluster(*asked).split()[-1]) == 0
    whole(cluster)
    assert int(cluster(*asked).split()[-1]) > 0


def prometheus(stack: Stack, path: str) -> Any:
    """Ask Prometheus, and return the data of its answer."""
    asked = f"from urllib.request import urlopen;print(urlopen('http://127.0.0.1:9090/api/v1/{path}').read().decode())"
    answer = json.loads(stack("exec", "-T", "prometheus", "python3", "-c", asked).splitlines()[-1])
    assert answer["status"] == "success", answer
    return answer["data"]


def health_of_targets(stack: Stack) -> dict[str, str]:
    return {one["labels"]["instance"]: one["health"] for one in prometheus(stack, "targets")["activeTargets"]}


def queries(dashboard: Path) -> list[str]:
    """Return all queries of a dashboard, with what Grafana would put for its variables."""
    found = re.findall(r'"expr": ("(?:[^"\\]|\\.)*")', dashboard.read_text())
    return [json.loads(one).replace("$__rate_interval", "5m").replace("$instance", ".*") for one in found]


def test_prometheus_reads_every_service_and_knows_the_alerts_and_what_the_dashboard_asks(stack: Stack) -> None:
    watched = stack.having("--profile", "monitoring")
    watched("build", "prometheus")
    stack("up", "-d", "--no-build")
    watched("up", "-d", "--no-build", "--no-deps", "prometheus")
    watched.healthy(PATIENCE)
    names = {"server-a:8201", "server-b:8201", "server-c:8201", "analyzer-inside:8701"}
    up = dict.fromkeys(names, "up")
    eventually(lambda: health_of_targets(watched) == up, lambda: prometheus(watched, "targets"))

    rules = {
        rule["name"]: rule["health"] for group in prometheus(watched, "rules")["groups"] for rule in group["rules"]
    }
    written = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"]
    assert rules.keys() == {rule["alert"] for group in written for rule in group["rules"]}
    eventually(
        lambda: all(r["health"] == "ok" for g in prometheus(watched, "rules")["groups"] for r in g["rules"]),
        lambda: prometheus(watched, "rules"),
    )

    whole(stack)
    accepted = quote('lintra_reports_total{outcome="accepted"} >= 60')
    eventually(lambda: len(prometheus(watched, f"query?query={accepted}")["result"]) == 3, lambda: "no reports")
    counted = set(prometheus(watched, "label/__name__/values"))
    asked = queries(MONITORING / "grafana/dashboards/lintra.json")
    assert len(asked) > 10
    # What nobody had to count yet, such as refusals, has no series.
    never = {"lintra_stage_refusals_total", "lintra_analyses_total"}
    for query in asked:
        prometheus(watched, f"query?query={quote(query)}")
        assert set(re.findall(r"lintra_[a-z_]+", query)) <= counted | never, query

    stack("kill", "-s", "SIGKILL", "server-b")
    eventually(lambda: health_of_targets(watched) == {**up, "server-b:8201": "down"}, lambda: "still up")
    eventually(
        lambda: {a["labels"]["alertname"] for a in prometheus(watched, "alerts")["alerts"]} >= {"LintraAway"},
        lambda: prometheus(watched, "alerts"),
    )
