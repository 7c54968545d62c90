"""What a report of 64,000 words costs: the client's time and memory, and a release of 2,000 of them from the store.

One million columns would not be wide: 1,000 columns with 64 projections each.

    python benchmarks/bench_wide_cost.py [REPORTS] [--runs 3] [--json] [--write]

Times are CPU time of one core, the least of some runs; memory is the most that the process ever held, so that of one
release is that of those before it, too. The last server stores words, the first one seeds of 32 bytes that it expands;
where shares are spread each has both. Ends with status 1 if a client takes more than 40 ms or 100 MB, or a release more
than 20 seconds or 1 GiB.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from bench_wide_client import memory
from showing import Cell, Shown, parser, runs_of, show
from stores import CAPACITY, new_store

from lintra_protocol.crypto.randomness import bulk_system_randomness
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.range_finder import RangeFinder
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.report.wire import payload_bytes
from lintra_protocol.task import AnalyzerEntry, ServerEntry, Task
from lintra_protocol.transforms.base import Ones
from lintra_server.batches.executor import InProcessExecutor, ReleaseRequest, sketch_share
from lintra_server.storage.store import StoredUpload

COLUMNS, RANK, SERVERS = 1000, 64, 3
CLIENT = (40.0, 100e6 / 2**20)
RELEASE = (20.0, 1024.0)
"""The most that a client (ms, MiB) and a release (s, MiB) may take."""


def task_of() -> Task:
    """Return a task of 1,000 columns with 64 projections; its keys belong to nobody."""
    keys = [SigningKey(bytes([number]) * 32).public_key for number in range(SERVERS + 2)]
    claim = Claim(epsilon="1", delta="0.000001", min_clients=1000)
    plain = RangeFinder(
        row_bound="1", fraction_bits=0, sigma=4, rank=RANK, omega_seed=base64url(bytes(32)), projected_bound="1.1383"
    )
    return Task(
        salt=base64url(bytes(32)),
        purpose="a benchmark",
        author_key=keys[0],
        servers=tuple(ServerEntry(url=f"http://server-{i}.test", identity_key=key) for i, key in enumerate(keys[2:])),
        analyzer=AnalyzerEntry(identity_key=keys[1], sealing_key=base64url(bytes(32))),
        columns=tuple(Column(name=f"c{i}", lower="-1", upper="1") for i in range(COLUMNS)),
        mechanism=Measurement(plain, COLUMNS, Setting(), claim).calibrated(10_000).mechanism,
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
        store = new_store(folder)
        random_bytes = bulk_system_randomness()
        for _ in range(reports // 8):
            store.add_reports(
                [
                    StoredUpload(
                        1, [random_bytes(32) for _ in range(8)], [random_bytes(size) for _ in range(8)], CAPACITY
                    )
                ]
            )
        ranks = np.arange(reports, dtype=np.uint32)
        started = time.process_time()
        release = ReleaseRequest(task, server, Ones(reports), bytes(32), 1, ranks, store.segments(1, store.held(1)[1]))
        sketch_share(release, InProcessExecutor())
        return time.process_time() - started


def cost(reports: int, runs: int) -> Shown:
    """Return what a client and a release of each kind of shares take, and what they may."""
    task = task_of()
    spread = task.model_copy(update={"share_form": "spread"})
    clients = [client(task) for _ in range(runs)]
    of_client = [min(one[what] for one in clients) for what in ("client, ms", "client, MiB")]
    lines = [_line("a client", "CPU ms", of_client, CLIENT)]
    for one, server, what in (
        (task, task.num_servers - 1, "words"),
        (task, 0, "seeds"),
        (spread, 0, "seeds and a part of the words"),
    ):
        seconds = min(release_seconds(one, server, reports) for _ in range(runs))
        lines.append(
            _line(f"a release of {reports:,} reports, stored as {what}", "CPU s", [seconds, memory()], RELEASE)
        )
    return Shown(
        "wide-cost",
        f"What reports of {task.num_words:,} words take",
        ("what", "unit", "time", "at most", "MiB", "at most", "kept"),
        tuple(lines),
        f"The least time of {runs} runs, of a client the median of 20 reports in each; most memory of the process.",
    )


def _line(what: str, unit: str, found: list[float], limits: tuple[float, float]) -> tuple[Cell, ...]:
    (used, held), (most, room) = found, limits
    kept = "yes" if used <= most and held <= room else "no"
    return what, unit, float(used), f"{most:g}", round(held), f"{room:.0f}", kept


def main() -> None:
    """Show it; the exit status says whether all was kept."""
    found = parser(__doc__, 3, 10)
    found.add_argument("reports", nargs="?", type=int, default=2000)
    asked = found.parse_args()
    (shown,) = show({"wide-cost": lambda: cost(asked.reports, runs_of(asked))}, asked)
    sys.exit(any(row[-1] == "no" for row in shown.rows))


if __name__ == "__main__":
    main()
