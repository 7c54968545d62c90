"""The command: a real process serves on two ports, stops when asked to, and logs no secrets."""

import json
import signal
from pathlib import Path

import httpx2
import pytest

from support.server_world import START_SECONDS, configured, started


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
