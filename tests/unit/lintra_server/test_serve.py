"""The command: a real process serves on two ports, stops when asked to, and logs no secrets; what operators see."""

import json
import signal
from pathlib import Path

import httpx2
import pytest

from lintra_server.serve import create_internal_app
from lintra_server.storage.keys import DAY
from support.server_world import START_SECONDS, World, a_world, configured, started


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.grid(2)
def test_a_server_starts_answers_and_stops_cleanly(tmp_path: Path, stop: signal.Signals) -> None:
    path, settings = configured(tmp_path)
    with started(path, settings) as process:
        keys = httpx2.get(f"{settings.public_url}/v1/keys")
        assert keys.status_code == 200
        process.send_signal(stop)
        _, log = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 0
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["event"] for line in lines] == ["starting", "request", "stopped"]
    assert lines[1]["request_id"] == keys.headers["lintra-request-id"]
    for secret in ("identity.key", "storage-root.key"):
        assert (settings.key_dir / secret).read_text().strip() not in log


async def get(world: World, path: str) -> httpx2.Response:
    transport = httpx2.ASGITransport(create_internal_app(world.apps[0].node))
    async with httpx2.AsyncClient(transport=transport, base_url="http://internal.example") as http:
        return await http.get(path)


async def test_a_server_is_ready_until_its_keys_end_its_queue_is_full_or_its_store_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path) as world:
        node = world.apps[0].node
        assert (await get(world, "/readyz")).status_code == 200
        with node.uploads.lease("somebody") as lease:
            lease.take(node.settings.queue.max_pending_bytes + 1)
            assert (await get(world, "/readyz")).status_code == 429
        world.clock.seconds += 29 * DAY
        node.readiness.probe()
        assert "no sealing key" in (await get(world, "/readyz")).text
        node.maintain()
        node.readiness.probe()
        assert (await get(world, "/readyz")).status_code == 200
        monkeypatch.setattr(node.database, "check", lambda: 1 / 0)
        node.readiness.probe()
        assert (await get(world, "/readyz")).status_code == 503
        assert (await get(world, "/healthz")).status_code == 200


async def test_metrics_count_what_happened_and_name_nobody(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(3)
        await world.upload(0, reports)
        await world.upload(0, [*reports, *world.reports(1, "late", time=world.task.not_after)])
        text = (await get(world, "/metrics")).text
        for line in (
            'lintra_reports_total{outcome="accepted"} 3.0',
            'lintra_reports_total{outcome="repeated"} 3.0',
            'lintra_reports_total{outcome="report_too_late"} 1.0',
            'lintra_requests_total{resource="/v1/tasks/{task_id}/reports",status="200"} 2.0',
            "lintra_pending_bytes 0.0",
        ):
            assert line in text
        assert world.task.task_id not in text


async def test_the_public_listener_shows_none_of_it(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await world.http[0].get(path)).status_code == 404
