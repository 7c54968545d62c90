"""Five reports of a million rows each, from real clients through real servers to a regression, and what it took.

    python benchmarks/bench_organisations_large.py [--rows 1000000] [--organisations 5] [--columns 8] [--json] [--write]

Every organisation is a process of its own that reads its file and then contributes with `lintra_client`; three servers
and an analyzer are processes of their own, too. Their rows are drawn and written before, and reading the file is not
counted. What is counted is everything else: encoding, charging every person in the organisation's own ledger, which is
on disk before the report leaves, sealing, sending, the release and a regression over REST. The memory of a process is
the most that it ever had resident (VmHWM), start-up and reading the file included. Ends with status 1 if any process
took more than a gigabyte, or all of it more than a minute, by the clock or of CPU time.

The table is of `--runs` such runs, one after the other, each with ledgers and without; what it shows is the least of
them, since other programs only make times longer.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from showing import Cell, Shown, parser, runs_of, show

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "deploy"))

from services import analyst_token, local_services, peak_memory, running

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_client import BlockingClient
from lintra_client.ledger.ledger import Ledger
from lintra_protocol.task import Task

NUM_SERVERS = 3
ROWS_PER_PERSON = 4
MOST_SECONDS, MOST_BYTES = 60.0, 10**9


@dataclass(frozen=True)
class Contributed:
    """What one organisation's process says of itself: seconds of the contribution, CPU included, and bytes."""

    rows: int
    persons: int
    seconds: float
    cpu: float
    peak: int
    ledger: int


@dataclass(frozen=True)
class Large:
    """What the whole way took: seconds by part, CPU seconds, peak bytes by process, and the regression's R2.

    `cpu` is of the servers and of the analyzer, their start and the release included.
    """

    organisations: tuple[Contributed, ...]
    seconds: dict[str, float]
    cpu: dict[str, float]
    peaks: dict[str, int]
    rows: int
    r2: float

    @property
    def total(self) -> float:
        """Return the seconds of everything that is counted."""
        return sum(self.seconds.values())

    @property
    def cpu_total(self) -> float:
        """Return the CPU seconds of everything that is counted."""
        return sum(each.cpu for each in self.organisations) + sum(self.cpu.values())

    @property
    def kept(self) -> bool:
        """Whether it stayed below a minute, by the clock and of CPU time, and a gigabyte."""
        return max(self.total, self.cpu_total) < MOST_SECONDS and max(self.peaks.values()) < MOST_BYTES


def table(rows: int, organisations: int, columns: int, runs: int) -> tuple[Shown, bool]:
    """Return what it takes, with ledgers and without, and whether every run with ledgers stayed within the limits."""
    charged = [measure(rows, organisations, columns, charged=True) for _ in range(runs)]
    free = [measure(rows, organisations, columns, charged=False) for _ in range(runs)]
    held = charged[0].organisations

    def line(what: str, cpu: Callable[[Large], float], mine: Callable[[str], bool]) -> tuple[Cell, ...]:
        most = max(peak for one in charged for name, peak in one.peaks.items() if mine(name))
        least = min(cpu(one) for one in free)
        return what, f"{min(cpu(one) for one in charged):.1f}", f"{least:.1f}", round(most / 2**20)

    def of_organisation(one: Large) -> float:
        return min(each.cpu for each in one.organisations)

    lines = (
        line("an organisation", of_organisation, lambda name: name.startswith("organisation")),
        line("all servers, with their start", lambda one: one.cpu["servers"], lambda name: name.startswith("server")),
        line("the analyzer, with its start", lambda one: one.cpu["analyzer"], lambda name: name == "analyzer"),
        line("everything", lambda one: one.cpu_total, lambda name: bool(name)),
    )
    clock, clock_free = (min(one.total for one in several) for several in (charged, free))
    persons = sum(each.persons for each in held) / len(held)
    size = sum(each.ledger for each in held) / sum(each.persons for each in held)
    shown = Shown(
        "organisations-large",
        f"CPU seconds of {organisations} reports of {rows:,} rows each, from the rows to a regression",
        ("who", "charged", "nobody charged", "most MiB"),
        lines,
        f"The least of {runs} runs, of an organisation the least of all; memory is the most of a process. By the clock "
        f"everything took {clock:.1f} seconds, and {clock_free:.1f} where nobody was charged, without the start of "
        "servers and analyzer. An "
        f"organisation has {persons:,.0f} persons, and its ledger {size:.0f} bytes for each. R2 of the last column is "
        f"{charged[0].r2:.4f}; of the rows as drawn {(columns - 1) / (columns + 3):.4f}.",
    )
    return shown, all(one.kept for one in charged)


def main() -> None:
    """Measure, show, and end with status 1 if a limit was passed."""
    found = parser(__doc__, 1, 3)
    found.add_argument("--rows", type=int, default=1_000_000)
    found.add_argument("--organisations", type=int, default=5)
    found.add_argument("--columns", type=int, default=8)
    found.add_argument("--no-ledger", action="store_true", help=argparse.SUPPRESS)
    found.add_argument("--contribute", help=argparse.SUPPRESS)
    asked = found.parse_args()
    if asked.contribute:
        file, task_id, *urls = json.loads(asked.contribute)
        print(json.dumps(asdict(contribute(Path(file), task_id, urls, charged=not asked.no_ledger))))
        return
    shown, kept = table(asked.rows, asked.organisations, asked.columns, runs_of(asked))
    show({shown.name: lambda: shown}, asked)
    print("below a minute and a gigabyte" if kept else "NOT below a minute and a gigabyte")
    sys.exit(not kept)


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
        cpu = {
            "servers": sum(_cpu_seconds(live[each.name]) for each in servers),
            "analyzer": _cpu_seconds(live[analyzer.name]),
        }
    return Large(
        organisations=tuple(told),
        seconds={
            "contribute": sum(each.seconds for each in told),
            "release": released - begun,
            "regress": ended - released,
        },
        cpu=cpu,
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
    if ledger is not None:
        ledger.close()
    size = file.with_suffix(".ledger").stat().st_size if charged else 0
    return Contributed(made.account.rows, made.account.persons, seconds, cpu, peak_memory(os.getpid()), size)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
