"""What storing costs: bytes written to disk for each report, reading for a release, the table of identifiers.

    python benchmarks/bench_store.py [ADDRESS] [--write]

The address is that of an empty PostgreSQL database. Written bytes are those of all `write` calls of the process
(`wchar` of /proc/self/io), log and database together; times are CPU seconds of one core.
"""

import sqlite3
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import psycopg
from showing import Shown, load, number, parser, show
from stores import CAPACITY, new_store

from lintra_protocol.crypto.randomness import bulk_system_randomness, system_randomness
from lintra_protocol.encoding.canonical import HASH_BYTES
from lintra_server.batches.merged_batches import ranked
from lintra_server.storage.hash_table import HashTable
from lintra_server.storage.store import Store, StoredUpload

WORDS = 10
CONTENT, STORED = 32 + 8 * WORDS, "identifier and payload"
"""Bytes of a report as it is stored, and what they are."""

GROUPS = {1: 2_000, 32: 20_000, 256: 100_000}
WARM_UP = 20
"""Groups that are stored before anything is measured: statements are prepared by then."""

READ, TABLE, ASKED, ASKED_ROUNDS = 200_000, 1_000_000, 128_000, 3


def fill(store: Store, reports: int, group: int) -> float:
    """Store random reports in groups of one size; return the CPU seconds that storing took."""
    random_bytes, seconds = bulk_system_randomness(), 0.0
    for _ in range(reports // group):
        ids = [random_bytes(32) for _ in range(group)]
        payloads = [random_bytes(8 * WORDS) for _ in range(group)]
        started = time.process_time()
        store.add_reports([StoredUpload(1, ids, payloads, CAPACITY)])
        seconds += time.process_time() - started
    return seconds


def written() -> int:
    """Return how many bytes this process has written."""
    lines = Path("/proc/self/io").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def cpu(work: Callable[[], object]) -> float:
    """Return the CPU seconds of one call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def disk(groups: dict[int, int] = GROUPS, where: Path | None = None) -> dict[str, float]:
    """Return bytes written for each report, and microseconds of CPU, by the size of groups; in a folder, if named."""
    found = {}
    for group, reports in groups.items():
        with tempfile.TemporaryDirectory(dir=where) as folder:
            store = new_store(Path(folder))
            fill(store, WARM_UP * group, group)
            store.database.forget_log()
            before = written()
            seconds = fill(store, reports, group)
            store.database.forget_log()
            found[f"bytes written a report, groups of {group}"] = (written() - before) / reports
            found[f"us CPU a report, groups of {group}"] = 1e6 * seconds / reports
            store.database.close()
    return found


def bare_inserts(folder: Path, groups: int, size: int) -> float:
    """Return the CPU seconds of so many rows of one size, each written durably to a plain SQLite table.

    Each is one statement, and that a transaction of its own: nothing can be left out of it.
    """
    value = system_randomness(size)
    with closing(sqlite3.connect(folder / "bare.sqlite", isolation_level=None)) as plain:
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            plain.execute(f"PRAGMA {pragma}")
        plain.execute("CREATE TABLE bare (key INTEGER PRIMARY KEY, value BLOB)")

        def insert(count: int) -> None:
            for _ in range(count):
                plain.execute("INSERT INTO bare (value) VALUES (?)", (value,))

        insert(WARM_UP)
        return cpu(lambda: insert(groups))


def log_of_postgres(
    url: str, groups: dict[int, int] = GROUPS, of_database: Callable[[], float] = lambda: 0.0
) -> dict[str, float]:
    """Return bytes of write-ahead log for each report, and microseconds of the client's CPU, by the size of groups.

    And those of the database's, if somebody tells how many seconds it has used so far.
    """
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        store = new_store(Path(folder), url)
        fill(store, WARM_UP * max(groups), max(groups))
        for group, reports in groups.items():
            with store.database.reading() as connection:
                before = connection.exec_driver_sql("SELECT pg_current_wal_lsn() - '0/0'").scalar_one()
            spent = of_database()
            seconds = fill(store, reports, group)
            found[f"us CPU of the database, groups of {group}"] = 1e6 * (of_database() - spent) / reports
            with store.database.reading() as connection:
                after = connection.exec_driver_sql("SELECT pg_current_wal_lsn() - '0/0'").scalar_one()
            found[f"bytes of log a report, groups of {group}"] = float(after - before) / reports
            found[f"us CPU a report, groups of {group}"] = 1e6 * seconds / reports
        store.database.close()
    return found


def bare_postgres(url: str, groups: int, reports: int, of_database: Callable[[], float]) -> tuple[float, float]:
    """Return the CPU seconds of a client that writes one row for each group, and nothing else, and the database's.

    Each is durable, and one prepared statement with binary parameters, given to libpq: nothing can be left out of it.
    """
    ids, payloads = system_randomness(HASH_BYTES * reports), system_randomness((CONTENT - HASH_BYTES) * reports)
    with psycopg.connect(url, autocommit=True) as plain:
        plain.execute("CREATE TABLE bare (key BIGINT PRIMARY KEY, total BIGINT, ids BYTEA, payloads BYTEA)")
        plain.execute("ALTER TABLE bare ALTER ids SET STORAGE EXTERNAL, ALTER payloads SET STORAGE EXTERNAL")
        libpq = plain.pgconn
        libpq.prepare(b"bare", b"INSERT INTO bare VALUES ($1, $2, $3, $4)")

        def store(first: int, last: int) -> None:
            for number in range(first, last):
                row = [number.to_bytes(8, "big"), (number * reports).to_bytes(8, "big"), ids, payloads]
                if libpq.exec_prepared(b"bare", row, [1] * len(row), 1).command_tuples != 1:
                    raise RuntimeError(libpq.get_error_message())

        store(0, WARM_UP)
        spent = of_database()
        return cpu(lambda: store(WARM_UP, WARM_UP + groups)), of_database() - spent


def reading(reports: int = READ, group: int = 256) -> dict[str, float]:
    """Return what a release reads, in microseconds of CPU a report, and the most bytes of memory for a report."""
    with tempfile.TemporaryDirectory() as folder:
        store = new_store(Path(folder))
        fill(store, reports, group)

        def all_payloads() -> int:
            return sum(len(payloads) for _, payloads in store.segments(1, store.held(1)[1]).payloads())

        found = {
            "us ids, sorted": cpu(lambda: store.report_ids(1)),
            "us ranks": cpu(lambda: ranked(store, [1])),
            "us payloads read and decrypted": cpu(all_payloads),
            "us rewriting into large segments": cpu(lambda: store.merge_segments(1, 1e9)),
            "us payloads after that": cpu(all_payloads),
        }
        tracemalloc.start()
        ranked(store, [1])
        found = {name: 1e6 * seconds / reports for name, seconds in found.items()}
        found["bytes of memory for the ranks"] = tracemalloc.get_traced_memory()[1] / reports
        tracemalloc.stop()
        store.database.close()
    return found


def table(reports: int = TABLE) -> dict[str, float]:
    """Return what the table of identifiers costs: microseconds an identifier, and bytes."""
    ids = system_randomness(32 * reports)
    table = HashTable(system_randomness, reports, HASH_BYTES)
    building = cpu(lambda: table.add(np.zeros(reports, np.uint32), ids))
    numbers = np.random.default_rng(1)

    def fresh() -> list[bytes]:
        """Return identifiers to ask for; of 256 reports one is known: what comes is new, but for what comes again."""
        apart = numbers.integers(0, reports, ASKED).tolist()
        return [ids[32 * place : 32 * place + 32] if place % 256 == 0 else system_randomness(32) for place in apart]

    def groups(asked: list[bytes]) -> list[list[tuple[int, int]]]:
        return [table.candidates(asked[start : start + 256]) for start in range(0, ASKED, 256)]

    def least(work: Callable[[list[bytes]], object]) -> float:
        # Others in each round: those of the one before would still lie in the processor's caches.
        return min(cpu(partial(work, asked)) for asked in [fresh() for _ in range(ASKED_ROUNDS)])

    def one_by_one(asked: list[bytes]) -> None:
        # Nothing is kept, as nobody does: thousands of lists would have Python look through all its objects meanwhile.
        for one in asked:
            table.candidates([one])

    asking, alone = least(groups), least(one_by_one)
    # What any program does: ask a set, which takes about 120 bytes an identifier; or read one slot for each of many.
    plain = {ids[32 * place : 32 * place + 32] for place in range(min(reports, ASKED))}
    set_alone = least(lambda asked: [one in plain for one in asked])
    slots = numbers.integers(0, len(table._entries), (ASKED_ROUNDS, ASKED // 256, 256))

    def gathered(groups: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> list[object]:
        return [table._entries[each] for each in groups]

    gathering = min(cpu(partial(gathered, part)) for part in slots)
    return {
        "us to enter an identifier": 1e6 * building / reports,
        "us to ask for one, in groups of 256": 1e6 * asking / ASKED,
        "us to ask for one alone": 1e6 * alone / ASKED,
        "us to ask a set of Python": 1e6 * set_alone / ASKED,
        "us to gather one word of each": 1e6 * gathering / ASKED,
        "bytes for each": table.nbytes / reports,
    }


def lines(address: str) -> list[tuple[str, float, float | None, str, str]]:
    """Return what, how much of it, its floor, the unit of both, and what the floor is."""
    written_, read, held = disk(), reading(), table()
    found: list[tuple[str, float, float | None, str, str]] = []
    for group in GROUPS:
        key = f"a report, groups of {group}"
        found.append((f"written to disk for {key}", written_[f"bytes written {key}"], CONTENT, "bytes", STORED))
        with tempfile.TemporaryDirectory() as folder:
            groups = GROUPS[group] // group
            bare = 1e6 * bare_inserts(Path(folder), groups, group * CONTENT) / GROUPS[group]
        found.append((f"storing {key}", written_[f"us CPU {key}"], bare, "us", "one plain row of SQLite a group"))
    found += [(f"{name.removeprefix('us ')}, a report", read[name], None, "us", "") for name in read if "us " in name]
    found.append(("memory for the ranks, a report", read["bytes of memory for the ranks"], None, "bytes", ""))
    asking, alone = (held[f"us to ask for one{which}"] for which in (", in groups of 256", " alone"))
    found += [
        ("entering an identifier into the table", held["us to enter an identifier"], None, "us", ""),
        ("asking for one, in groups of 256", asking, held["us to gather one word of each"], "us", "one word of each"),
        ("asking for one alone", alone, held["us to ask a set of Python"], "us", "a set of Python"),
        ("the table, an identifier", held["bytes for each"], None, "bytes", ""),
    ]
    if address:
        for name, value in log_of_postgres(address).items():
            unit, _, what = name.partition(" ")
            found.append((f"PostgreSQL: {what}", value, CONTENT if unit == "bytes" else None, unit, ""))
    return found


def shown(address: str) -> Shown:
    """Return all of it, ratios first."""
    busy = load()
    rows = tuple(
        (what, value / floor if floor else None, f"{number(value)} {unit}", floor and f"{number(floor)} {unit}", of)
        for what, value, floor, unit, of in lines(address)
    )
    note = f"Reports of {WORDS} words; the table holds {TABLE:,} identifiers. Times are CPU times. {busy}"
    return Shown(
        "store-costs", "What storing costs", ("what", "times its floor", "cost", "floor", "which is"), rows, note
    )


def main() -> None:
    """Show it."""
    options = parser(__doc__, 1, 1)
    options.add_argument("address", nargs="?", default="", help="of an empty PostgreSQL database")
    asked = options.parse_args()
    show({"store-costs": lambda: shown(asked.address)}, asked)


if __name__ == "__main__":
    main()
