"""What a report of 64,000 words costs: the client's time and memory, and a release of 2,000 of them from the store.

One million columns would not be wide: 1,000 columns with 64 projections each. Run with
`python benchmarks/bench_wide_cost.py [REPORTS]`; times are CPU seconds of one core, memory is the most that the process
ever held. The last server stores words, the first one seeds of 32 bytes that it expands; both are added up. Ends with
status 1 if a client takes more than 40 ms or 100 MB, or a release more than 20 seconds or 1 GiB.
"""

import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from bench_wide_client import memory

from lintra_protocol.canonical import base64url
from lintra_protocol.mechanisms.range_finder import RangeFinder
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.randomness import bulk_system_randomness, system_randomness
from lintra_protocol.schema import Column
from lintra_protocol.signing import SigningKey
from lintra_protocol.task import AnalyzerEntry, ServerEntry, Task
from lintra_protocol.transforms.ones import Ones
from lintra_protocol.wire import payload_bytes
from lintra_server.batches.executor import InProcess, Release, sketch_share
from lintra_server.disk.batch_secrets import Secrets
from lintra_server.disk.vault import Vault
from lintra_server.storage.database import Database
from lintra_server.storage.store import Store, Upload

COLUMNS, RANK, SERVERS = 1000, 64, 3
CLIENT = {"ms": 40.0, "MiB": 100e6 / 2**20}
RELEASE = {"s": 20.0, "MiB": 1024.0}
"""The most that a client and a release may take, by the unit at the end of what is measured."""


def task_of() -> Task:
    """Return a task of 1,000 columns with 64 projections; its keys belong to nobody."""
    keys = [SigningKey(bytes([number]) * 32).public_key for number in range(SERVERS + 2)]
    claim = Claim(epsilon="1", delta="0.000001", min_clients=1000)
    plain = RangeFinder(
        row_bound="1",
        fraction_bits=0,
        sigma=4,
        rank=RANK,
        omega_seed=base64url(bytes(32)),
        projected_bound="1.1383",
    )
    return Task(
        salt=base64url(bytes(32)),
        purpose="a benchmark",
        author_key=keys[0],
        servers=tuple(ServerEntry(url=f"http://server-{i}.test", identity_key=key) for i, key in enumerate(keys[2:])),
        analyzer=AnalyzerEntry(identity_key=keys[1], sealing_key=base64url(bytes(32))),
        columns=tuple(Column(name=f"c{i}", lower="-1", upper="1") for i in range(COLUMNS)),
        mechanism=plain.calibrated(claim, COLUMNS, 10_000),
        claim=claim,
        max_clients=10_000,
        not_before=1,
        not_after=2**40,
        share_form="seeded",
        suite="x25519",
    )


def client(task: Task) -> dict[str, float]:
    """Return what a client takes, in a process that loads nothing of a server."""
    command = [sys.executable, str(Path(__file__).with_name("bench_wide_client.py"))]
    answer = subprocess.run(command, input=task.canonical(), check=True, stdout=subprocess.PIPE).stdout
    told: dict[str, float] = json.loads(answer)
    return told


def release_seconds(task: Task, server: int, reports: int) -> float:
    """Return the CPU seconds in which one server adds up its shares of so many stored reports."""
    size = payload_bytes(task, server)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "secrets").mkdir()
        secrets = Secrets(folder / "secrets", system_randomness)
        store = Store(
            Database(folder / "lintra.sqlite"), Vault([bytes(32)], system_randomness), secrets, system_randomness
        )
        store.add_task(bytes(32), b"{}", server=server, capacity=10**6, ends=2**32, retention=0)
        random_bytes = bulk_system_randomness()
        for _ in range(reports // 8):
            store.add_reports([Upload(1, [random_bytes(32) for _ in range(8)], [random_bytes(size) for _ in range(8)])])
        ranks = np.arange(reports, dtype=np.uint32)
        started = time.process_time()
        release = Release(task, server, Ones(reports), bytes(32), 1, ranks, store.segments(1))
        sketch_share(release, InProcess())
        return time.process_time() - started


def limit_of(name: str) -> float:
    """Return the most that may be measured of something; infinity where nothing is demanded."""
    what, _, unit = name.rpartition(", ")
    limits = CLIENT if what == "client" else RELEASE if what.startswith("release") else {}
    return limits.get(unit, math.inf)


def main() -> None:
    """Print one document."""
    reports = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    task = task_of()
    found: dict[str, float] = {"reports": reports, "words": task.num_words, **client(task)}
    spread = task.model_copy(update={"share_form": "spread"})
    for one, server, what in (
        (task, 0, "seeds"),
        (task, task.num_servers - 1, "words"),
        (spread, 0, "seeds and a part"),
    ):
        found[f"release of {what}, s"] = round(release_seconds(one, server, reports), 2)
        found[f"release of {what}, MiB"] = round(memory())
    over = [name for name, value in found.items() if value > limit_of(name)]
    print(json.dumps({**found, "over the limit": over}, indent=1))
    sys.exit(bool(over))


if __name__ == "__main__":
    main()
