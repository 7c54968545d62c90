"""What a report of 64,000 words costs the client that makes it: CPU time and memory of a process of its own.

`bench_wide_cost.py` runs it, gives it the task on standard input as a server would, and compares what it prints. Making
the task is not the client's work.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

from lintra_protocol.crypto.randomness import bulk_system_randomness
from lintra_protocol.report.report import make_report
from lintra_protocol.task import Task

ROUNDS = 20


def client_milliseconds(task: Task) -> float:
    """Return the median CPU time of one client: clip, project, noise, share and commit."""
    rng, random_bytes, found = np.random.default_rng(1), bulk_system_randomness(), []
    for _ in range(ROUNDS):
        row = rng.normal(size=(1, task.num_columns)) / 40
        started = time.process_time()
        make_report(task, task.encode(row, random_bytes)[0], 1, random_bytes)
        found.append(time.process_time() - started)
    return float(np.median(found)) * 1000


def memory() -> float:
    """Return the most MiB that this process ever held; `getrusage` would count what its parent held when it forked."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    milliseconds = client_milliseconds(Task.from_canonical(sys.stdin.buffer.read()))
    print(json.dumps({"client, ms": round(milliseconds, 1), "client, MiB": round(memory())}))
