"""What a collection costs at scale: every row beside its floor and its aim, and releases stage by stage and by party.

    python benchmarks/bench_scale.py                        # every row that takes less than a minute or two
    python benchmarks/bench_scale.py --rows root_1e6        # one of them
    python benchmarks/bench_scale.py --sizes 10000 100000 1000000 --servers 2 3 10      # releases, with exponents
    python benchmarks/bench_scale.py --largest 10000000     # also what takes long and much disk
    python benchmarks/bench_scale.py --quick                # every row at a fiftieth of its size: that all of it works
    python benchmarks/bench_scale.py --json scale.json      # goes on where it stopped: what stands there is kept

With `--servers --json benchmarks/data/scale.json --write docs/explanation/benchmarks-scale.md` the rows that are
named are measured anew, and the page's tables are written from all that the JSON holds.

A release is that of n reports that were filled directly into the stores, one in a hundred missing at one server,
d = 10, s = 4, m = 1024: real server processes on loopback, an analyzer process of its own, and the released sketch is
compared with the rows. CPU seconds are those of a process and all its threads; memory is what it had resident at
most. Ratios to the floors of the same run say more than seconds.
"""

import argparse
import datetime
import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_server import quiet
from scale import rows_ingest, rows_lists, rows_release, rows_transform, rows_uploads, rows_windows
from scale.figures import ROWS, Asked, as_json
from scale.release import release
from scale.tables import machine, section, write_section

MEASURED = (rows_ingest, rows_lists, rows_release, rows_transform, rows_uploads, rows_windows)
"""The modules whose rows are measured."""


def main() -> None:
    quiet()
    arguments = _arguments()
    there = arguments.json is not None and arguments.json.exists()
    kept = json.loads(arguments.json.read_text()) if there else {"rows": {}, "releases": {}}
    rows, releases = kept["rows"], kept["releases"]
    kept["machine"] = machine(os.cpu_count())
    wanted = arguments.rows
    if wanted is None or wanted or "day" not in kept:
        kept["day"] = f"{datetime.date.today():%-d %B %Y}"  # noqa: DTZ011
    if wanted is None:
        all_of_them = arguments.quick or arguments.largest >= 10**7
        wanted = [key for key, one in ROWS.items() if key not in rows and (all_of_them or not one.large)]
    if arguments.quick:
        print("quick: everything at a fiftieth of its size; the figures say nothing about the aims", flush=True)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        sizes, servers = tuple(arguments.sizes), tuple(arguments.servers)
        asked = Asked(Path(folder), arguments.largest, sizes, servers, arguments.quick)
        for key in wanted:
            found = ROWS[key].measure(asked)
            rows[key] = as_json(ROWS[key], found, asked.quick, _now())
            _say(key, rows[key])
            _keep(arguments.json, kept)
        for servers in asked.servers:
            for size in asked.sizes:
                if f"{size} {servers}" not in releases:
                    releases[f"{size} {servers}"] = asdict(release(asked.folder, size, servers))
                    _keep(arguments.json, kept)
    lines = section(kept)
    print("\n".join(lines[5 + len(rows) :]))
    if arguments.write and any(one.get("quick", False) for one in rows.values()):
        sys.exit("figures of a quick run say nothing about the aims, and are not written to a page")
    if arguments.write:
        write_section(arguments.write, lines)


def _now() -> str:
    """Return the date and the load of the last minute, in which a row was measured."""
    return f"{datetime.date.today():%-d %B}, load {os.getloadavg()[0]:.0f}"  # noqa: DTZ011


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", choices=sorted(ROWS), help="these only; without a name, none")
    parser.add_argument("--quick", action="store_true", help="everything at a fiftieth of its size")
    parser.add_argument("--sizes", nargs="*", type=int, default=[], help="reports of releases shown by stage")
    parser.add_argument("--servers", nargs="*", type=int, default=[2, 3, 10])
    parser.add_argument("--largest", type=int, default=10**6)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path, help="a page with the two marks")
    parser.add_argument("--folder", type=Path, help="on the disk that is to be measured")
    return parser.parse_args()


def _say(key: str, found: dict[str, object]) -> None:
    today, floor, target = (found[name] for name in ("today", "floor", "target"))
    shown = "none" if floor is None else f"{floor:.3g}"
    print(f"{key}: {today:.3g} {found['unit']}, floor {shown}, aim {target}. {found['remark']}", flush=True)


def _keep(path: Path | None, kept: dict[str, object]) -> None:
    if path is not None:
        path.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
