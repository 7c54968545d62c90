"""Five reports of a million rows each, from real clients through real servers to a regression, and what it took.

    python benchmarks/bench_organisations_large.py [--rows 1000000] [--organisations 5] [--columns 8]

Every organisation is a process of its own that reads its file and then contributes with `lintra_client`; three servers
and an analyzer are processes of their own, too. Their rows are drawn and written before, and reading the file is not
counted. What is counted is everything else: encoding, charging every person in the organisation's own ledger, which is
on disk before the report leaves, sealing, sending, the release and a regression over REST. The memory of a process is
the most that it ever had resident (VmHWM), start-up and reading the file included. Ends with status 1 if it took more
than a minute or any process more than a gigabyte.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "deploy"))

from services import analyst_token, local_services, peak_memory, running

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_client import BlockingClient
from lintra_client.ledger import Ledger
from lintra_protocol.task import Task

NUM_SERVERS = 3
ROWS_PER_PERSON = 4
MOST_SECONDS, MOST_BYTES = 60.0, 10**9


@dataclass(frozen=True)
class Contributed:
    """What one organisation's process says of itself: seconds of the contribution, CPU included, and peak bytes."""

    rows: int
    persons: int
    seconds: float
    cpu: float
    peak: int


@dataclass(frozen=True)
class Large:
    """What the whole way took: seconds and CPU seconds by part, peak bytes by process, and the regression's R2."""

    organisations: tuple[Contributed, ...]
    seconds: dict[str, float]
    server_cpu: float
    peaks: dict[str, int]
    rows: int
    r2: float

    @property
    def total(self) -> float:
        """Return the seconds of everything that is counted."""
        return sum(self.seconds.values())

    @property
    def kept(self) -> bool:
        """Whether it stayed below a minute and a gigabyte."""
        return self.total < MOST_SECONDS and max(self.peaks.values()) < MOST_BYTES


def main() -> None:
    """Measure, print, and end with status 1 if a limit was passed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--organisations", type=int, default=5)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--no-ledger", action="store_true", help="charge nobody")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--contribute", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contribute:
        file, task_id, *urls = json.loads(options.contribute)
        print(json.dumps(asdict(contribute(Path(file), task_id, urls, charged=not options.no_ledger))))
        return
    found = measure(options.rows, options.organisations, options.columns, charged=not options.no_ledger)
    if options.json:
        print(json.dumps(asdict(found) | {"total": found.total, "kept": found.kept}, indent=2))
    else:
        show(found)
    sys.exit(0 if found.kept else 1)


def measure(rows: int, organisations: int, columns: int, *, charged: bool) -> Large:
    """Send so many large reports one after the other, release and regress."""
    names = [f"x{number}" for number in range(columns)]
    with tempfile.TemporaryDirectory(prefix="lintra-organisations-") as given, ExitStack() as stack:
        folder = Path(given)
        files = [drawn(folder / f"organisation-{number}.npz", rows, columns, number) for number in range(organisations)]
        servers, analyzer = local_services(folder, NUM_SERVERS)
        token = analyst_token(folder)
        stack.enter_context(running([*servers, analyzer]))
        desk = stack.enter_context(AnalyzerClient(analyzer.url, token))
        task = Task.from_value(desk.create_task(specification(names, organisations, rows))["definition"])
        urls = [entry.url for entry in task.servers]
        told = [contribution_of(file, task.task_id, urls, charged=charged) for file in files]
        begun = time.perf_counter()
        release_id = desk.release(task.task_id)
        released = time.perf_counter()
        answer = desk.analyse(release_id, "regression", target=names[-1], features=names[:-1])["result"]
        ended = time.perf_counter()
        live = {each.name: each.process.pid for each in (*servers, analyzer) if each.process is not None}
        peaks = {name: peak_memory(pid) for name, pid in live.items()}
        server_cpu = sum(_cpu_seconds(live[each.name]) for each in servers)
    return Large(
        organisations=tuple(told),
        seconds={
            "contribute": sum(each.seconds for each in told),
            "release": released - begun,
            "regress": ended - released,
        },
        server_cpu=server_cpu,
        peaks=peaks | {f"organisation {number}": each.peak for number, each in enumerate(told)},
        rows=sum(each.rows for each in told),
        r2=answer["r2"],
    )


def drawn(file: Path, rows: int, columns: int, number: int) -> Path:
    """Write the rows of one organisation, of persons with at most four rows each, and whose each is."""
    random = np.random.default_rng(number)
    table = random.normal(size=(rows, columns))
    table[:, -1] = table[:, :-1].sum(axis=1) / 4 + table[:, -1] / 2
    # So many rows in each person's turn, until all are given away.
    turns = random.integers(1, ROWS_PER_PERSON + 1, rows)
    persons = random.permutation(np.repeat(np.arange(rows), turns)[:rows])
    np.savez(file, rows=table, persons=persons)
    return file


def specification(names: Sequence[str], organisations: int, rows: int) -> dict[str, object]:
    """Return what is asked for: products, of persons of up to four rows that are clipped together."""
    return {
        "purpose": "a benchmark",
        "columns": [{"name": name, "lower": -3, "upper": 3, "center": 0, "scale": 1} for name in names],
        "mechanism": {"kind": "second_moment", "intercept": "1.5"},
        "row_bound": 4,
        "epsilon": 1,
        "min_clients": organisations,
        "max_clients": organisations,
        "contributors": {"rows_per_person": ROWS_PER_PERSON, "max_rows": rows, "person_bound": 6},
    }


def contribution_of(file: Path, task_id: str, urls: Sequence[str], *, charged: bool) -> Contributed:
    """Let a process of its own contribute a file, and return what it says."""
    # As JSON: a task's identifier may begin with a dash.
    given = ["--contribute", json.dumps([str(file), task_id, *urls])]
    command = [sys.executable, __file__, *given, *([] if charged else ["--no-ledger"])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout
    return Contributed(**json.loads(told))


def contribute(file: Path, task_id: str, urls: Sequence[str], *, charged: bool) -> Contributed:
    """Read a file, then contribute its rows and say what that took; the ledger lies beside the file."""
    with np.load(file, allow_pickle=False) as held:
        columns = {f"x{number}": column for number, column in enumerate(held["rows"].T)}
        file_rows = {**columns, "person": held["persons"]}
    begun, cpu = time.perf_counter(), time.process_time()
    ledger = Ledger(file.with_suffix(".ledger")) if charged else None
    with BlockingClient(task_id, urls, ledger=ledger) as client:
        made = client.contribution(file_rows, person="person")
        client.send_contribution(made)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    return Contributed(made.account.rows, made.account.persons, seconds, cpu, peak_memory(os.getpid()))


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def show(found: Large) -> None:
    """Print seconds and memory."""
    for number, each in enumerate(found.organisations):
        print(
            f"organisation {number}: {each.rows:,} rows of {each.persons:,} persons in {each.seconds:.1f} s "
            f"({each.cpu:.1f} s of CPU)"
        )
    parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in found.seconds.items())
    print(f"{parts}; together {found.total:.1f} s; all servers' CPU {found.server_cpu:.1f} s, start included")
    print("most memory: " + ", ".join(f"{name} {peak / 2**20:.0f} MiB" for name, peak in found.peaks.items()))
    print(f"R2 {found.r2:.4f} over {found.rows:,} rows")
    print("below a minute and a gigabyte" if found.kept else "NOT below a minute and a gigabyte")


if __name__ == "__main__":
    main()
