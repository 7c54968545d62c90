"""Servers that hold an empty task as an analyst gets it by default, and single uploads to one of them."""

import asyncio
import json
import time
from pathlib import Path

import bench_workers
import numpy as np

from lintra_analysis.spec.build_task import PartyKeys, build_task
from lintra_analysis.spec.specification import Specification
from lintra_analyzer.storage.keys import load_keys
from lintra_protocol.crypto.randomness import bulk_system_randomness, system_randomness
from lintra_protocol.crypto.sealing import HYBRID
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.messages.documents import TaskRecord, sign
from lintra_protocol.report.report import make_reports, seal_block
from lintra_protocol.report.upload import encode_upload
from lintra_protocol.task import ServerEntry
from lintra_server.web.app import create_app
from scale.cohort import free_ports, settings_file
from scale.default_path import COLUMNS, SERVERS


def collection(folder: Path, reports: int, singles: int) -> tuple[list[bytes], str]:
    """Make servers, register two equal tasks, and return sealed uploads for the second at server 0, and their path."""
    (folder / "analyzer-keys").mkdir(mode=0o700)
    ports = free_ports(2 * SERVERS)
    apps = [create_app(settings_file(folder, at, *ports[2 * at : 2 * at + 2])) for at in range(SERVERS)]
    keys = load_keys(folder / "analyzer-keys", True, system_randomness)
    sealing = {HYBRID: base64url(keys.sealing[HYBRID].public_bytes)}
    parties = PartyKeys(keys.author.public_key, keys.identity.public_key, sealing)
    asked = Specification.model_validate(
        {
            "purpose": "benchmark",
            "columns": [{"name": f"c{at}", "lower": -1, "upper": 1} for at in range(COLUMNS)],
            "mechanism": {"kind": "second_moment"},
            "row_bound": "1",
            "epsilon": "1",
            "min_clients": 8 * reports // 10,  # a server reckons that one in ten may be rejected
            "max_clients": 10 * reports,
        }
    )
    entries = [ServerEntry(url=app.node.settings.public_url, identity_key=app.node.identity.public_key) for app in apps]
    first, second = (build_task(asked, entries, parties, int(time.time()), system_randomness) for _ in range(2))
    assert first.verification == "norm"
    for task in (first, second):
        record = sign(keys.author, TaskRecord(definition=task))
        for app in apps:
            app.node.registry.register(task.task_id, record)
        (folder / ("task.json" if task is first else "second.json")).write_bytes(record.canonical())
    key_id, key = next((name, key) for name, key in apps[0].node.keys.active().items() if key.suite == HYBRID)
    random_bytes = bulk_system_randomness()
    rows = second.encode(np.zeros((singles, COLUMNS)), random_bytes)
    bodies = [
        encode_upload([seal_block(second, 0, key_id, key.public_bytes, [each])])
        for each in make_reports(second, rows, second.not_before, random_bytes)
    ]
    for app in apps:
        app.node.close()
    told = {"task": first.task_id, "servers": [entry.url for entry in entries]}
    (folder / "client.json").write_text(json.dumps(told))
    return bodies, f"/v1/tasks/{second.task_id}/reports"


def send_singles(url: str, path: str, bodies: list[bytes], connections: int) -> None:
    """Send uploads of one report, so many at a time; every answer must be a success."""
    asyncio.run(bench_workers.send(int(url.rpartition(":")[2]), path, bodies, connections))
