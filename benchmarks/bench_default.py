"""What the default path costs, from socket to disk: a verified second moment, ten columns, three servers.

    python benchmarks/bench_default.py [--reports 100000] [--before PATH] [--write]

Servers are real processes behind real sockets. Clients are real processes as well, which send groups as `send_many`
does, rows one by one, or one row and end. Reports of the release are those that they sent. CPU time is that of a
process with all its threads. Floors of the same run stand in rows of their own: sealing, opening, signing,
verifying, SHAKE-128, bare sockets. With `--before`, a checkout of an earlier tree, every row is measured
in both trees in turns, and the ratio stands first: times depend on what else the machine does, ratios hardly.
"""

import argparse
import datetime
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_server import quiet
from scale.default_path import COLUMNS, SERVERS, WARM
from scale.default_servers import collection, send_singles
from scale.processes import cpu_seconds, running_servers
from showing import Cell, Shown, load, number, parser, show

from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.crypto.sealing import HYBRID, SealingKey, seal
from lintra_protocol.crypto.signing import SigningKey, verify

HERE = Path(__file__).resolve().parent
SINGLES, ROWS, CONNECTIONS, STARTS = 2000, 200, 64, 5
PACKAGES = ("analyzer", "client", "protocol", "server", "service")
AIMS = {
    "release of 10^6, analyzer and one server, CPU s": 9.0,
    "bulk at the busiest server, us a report": 12.0,
    "bulk at the client, us a report": 30.0,
    "`send`, ms": 2.4,
    "single upload at 64 connections, server, ms": 0.36,
    "kept on disk after the verdict, the fullest server, bytes a report": 650.0,
    "written by the busiest server, bytes a report": 1500.0,
    "`from lintra_client import Client`, CPU s": 0.2,
    "one process that sends one report, CPU s": 0.3,
}
"""What was aimed at, on a quiet machine."""


def measured(reports: int) -> dict[str, float]:
    """Return every row, measured in this tree; each name says the unit."""
    folder = Path(tempfile.mkdtemp())
    try:
        return floors() | _measured(folder, reports)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measured(folder: Path, reports: int) -> dict[str, float]:
    quiet()
    bodies, path = collection(folder, reports, SINGLES)
    made = [folder / f"server-{number}.toml" for number in range(SERVERS)]
    urls = json.loads((folder / "client.json").read_text())["servers"]
    with running_servers(made, urls) as pids:
        found = {
            "`from lintra_client import Client`, CPU s": min(
                _start("from lintra_client import Client") for _ in range(STARTS)
            ),
            "one process that sends one report, CPU s": min(_play("once", folder)["cpu"] for _ in range(STARTS)),
        }
        before, written = _cpu(pids), _written(pids)
        found["bulk at the client, us a report"] = 1e6 * _play("bulk", folder, reports)["cpu"] / reports
        of_server = [1e6 * spent / (reports + WARM["bulk"]) for spent in _less(_cpu(pids), before)]
        found["bulk at the busiest server, us a report"] = max(of_server)
        found["bulk at the least busy server, us a report"] = min(of_server)
        found["written by the busiest server, bytes a report"] = max(_less(_written(pids), written)) / reports
        found["`send`, ms"] = 1e3 * _play("single", folder, ROWS)["cpu"] / ROWS
        before = _cpu(pids)
        send_singles(urls[0], path, bodies, CONNECTIONS)
        found["single upload at 64 connections, server, ms"] = 1e3 * _less(_cpu(pids), before)[0] / SINGLES
        sent = [*WARM.values(), reports, ROWS, *[0] * STARTS]
        (folder / "sent.json").write_text(json.dumps(sent))
        (folder / "num_reports").write_text(str(sum(max(each, 1) for each in sent)))
        return found | _released(reports, _play("release", folder, *pids))


def _released(reports: int, told: Mapping[str, Any]) -> dict[str, float]:
    """Return what a release cost, as one of a million would."""
    stages, scaled = told["stages"], 1e6 / reports
    analyzer, server = (sum(stage[f"{who}_cpu"] for stage in stages) for who in ("analyzer", "server"))
    found = {
        "release of 10^6, analyzer and one server, CPU s": scaled * (analyzer + server),
        "kept on disk after the verdict, the fullest server, bytes a report": told["kept"]["aggregate"] / reports,
        "peak memory of the analyzer, MiB": max(stage["analyzer_peak"] for stage in stages),
        "peak memory of a server, MiB": max(stage["server_peak"] for stage in stages),
    }
    for stage in stages:
        for who in ("analyzer", "server"):
            found[f"of the release, {stage['stage']}, {who}, CPU s"] = scaled * stage[f"{who}_cpu"]
    return found


def floors() -> dict[str, float]:
    """Return what nobody can leave out, in the unit of each name."""
    key, identity = SealingKey.generate(HYBRID, system_randomness), SigningKey.generate(system_randomness)
    sealed, signature = seal(bytes(2000), HYBRID, key.public_bytes, b""), identity.sign("floor", bytes(200))
    block = bytes(256 * 1800)
    return {
        "floor: one seal, us": _best(200, lambda: seal(bytes(2000), HYBRID, key.public_bytes, b"")),
        "floor: one opening, us": _best(200, lambda: key.open(sealed, b"")),
        "floor: one signature, us": _best(200, lambda: identity.sign("floor", bytes(200))),
        "floor: one verified signature, us": _best(
            200, lambda: verify(identity.public_key, signature, "floor", bytes(200))
        ),
        "floor: SHAKE-128 of 1,800 bytes, us": _best(2000, lambda: hashlib.shake_128(b"floor").digest(1800)),
        "floor: SHA-256 of 1,800 bytes, us": _best(20, lambda: hashlib.sha256(block).digest()) / 256,
        "floor: python that does nothing, CPU s": min(_start("pass") for _ in range(STARTS)),
        "floor: `import numpy`, CPU s": min(_start("import numpy") for _ in range(STARTS)),
    }


def _best(times: int, call: Callable[[], object]) -> float:
    """Return the CPU microseconds of a call, the least of five rounds."""
    found = []
    for _ in range(5):
        began = time.process_time()
        for _ in range(times):
            call()
        found.append(time.process_time() - began)
    return 1e6 * min(found) / times


def _environment() -> dict[str, str]:
    """Return the environment of a client: one thread for products, and modules compiled once, as where installed."""
    compiled = Path(tempfile.gettempdir()) / "lintra-bench-compiled"
    own = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": str(compiled)}
    found = {**os.environ, **own, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found


def _start(program: str) -> float:
    """Return the CPU seconds of a fresh interpreter that runs a program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], env=_environment(), check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _play(role: str, folder: Path, *numbers: int) -> Any:
    command = [sys.executable, "-m", "scale.default_path", role, str(folder), *map(str, numbers)]
    return json.loads(subprocess.run(command, env=_environment(), check=True, stdout=subprocess.PIPE).stdout)


def _cpu(pids: list[int]) -> list[float]:
    """Return the CPU seconds of some processes so far."""
    return [cpu_seconds(pid) for pid in pids]


def _written(pids: list[int]) -> list[float]:
    lines = [Path(f"/proc/{pid}/io").read_text().splitlines() for pid in pids]
    return [float(line.split()[1]) for each in lines for line in each if line.startswith("write_bytes")]


def _less(last: list[float], first: list[float]) -> list[float]:
    return [one - other for one, other in zip(last, first, strict=True)]


def in_turns(before: str, reports: int, turns: int) -> list[tuple[str, float, float]]:
    """Return each row of the earlier tree and of this one: the least of some turns."""
    runs: dict[str, list[dict[str, float]]] = {"before": [], "now": []}
    for _ in range(turns):
        for name, tree in (("before", Path(before)), ("now", HERE.parent)) if before else (("now", HERE.parent),):
            paths = os.pathsep.join(str(tree / package) for package in PACKAGES)
            command = [sys.executable, __file__, "--reports", str(reports), "--bare"]
            told = subprocess.run(
                command, env={**os.environ, "PYTHONPATH": paths}, check=True, stdout=subprocess.PIPE
            ).stdout
            runs[name].append(json.loads(told))
    least = {name: {row: min(run[row] for run in found) for row in found[0]} for name, found in runs.items() if found}
    return [(row, least.get("before", {}).get(row, float("nan")), now) for row, now in least["now"].items()]


def table(asked: argparse.Namespace) -> Shown:
    """Return all rows, those with an aim first; with `--json` keep this tree's, from which `bench_far.py` reckons."""
    busy, rows = load(), list[tuple[Cell, ...]]()
    found = in_turns(asked.before, asked.reports, asked.turns)
    if asked.keep:
        day = f"{datetime.date.today():%d %B %Y}"  # noqa: DTZ011
        told = {"reports": asked.reports, "measured": day, "load": round(os.getloadavg()[0])}
        asked.keep.write_text(json.dumps(told | {"now": {row: now for row, _, now in found}}, indent=1) + "\n")
    for row, before, now in sorted(found, key=lambda each: each[0] not in AIMS):
        aim = AIMS.get(row)
        ratio = now / before if before == before and before else None
        rows.append(
            (row, ratio, number(now), "" if before != before else number(before), "" if aim is None else f"{aim:g}")
        )
    return Shown(
        "default-path",
        "What a task costs that asks for nothing more",
        ("what", "times the earlier tree", "now", "earlier", "aim, on a quiet machine"),
        tuple(rows),
        f"{asked.reports:,} reports of {COLUMNS} columns at {SERVERS} servers; what is of a release is scaled to a "
        f"million. {'One turn' if asked.turns == 1 else f'The least of {asked.turns} turns'}. {busy}",
    )


def main() -> None:
    """Show the table, or print one tree's rows as JSON."""
    options = parser(__doc__, 1, 3)
    options.add_argument("--reports", type=int, default=100_000)
    options.add_argument("--before", default="", help="a checkout of an earlier tree")
    options.add_argument("--keep", type=Path, help="write the rows of this tree as JSON")
    options.add_argument("--turns", type=int, default=2)
    options.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.bare:
        print(json.dumps(measured(asked.reports)))
    else:
        show({"default-path": lambda: table(asked)}, asked)


if __name__ == "__main__":
    main()
