"""How far one machine goes: what reports by the million, or by the thousand million, take by what was measured.

    python benchmarks/bench_far.py [--write]

Nothing is measured here. Each figure is a constant a report of `data/default.json`, which `bench_default.py --keep`
wrote, times a number of reports. What does not grow with reports, and what a release draws again for larger cohorts,
is left out, so that figures are what is needed at least.
"""

import json
from pathlib import Path

from showing import Cell, Shown, parser, show

from lintra_protocol.verification.parameters import Parameters

HERE = Path(__file__).resolve().parent
COUNTS = (10**6, 10**7, 10**8, 10**9)
WORDS, SERVERS = 56, 3
ID_BYTES = 32
RANK_BYTES = 4


def of_reports(constants: dict[str, float], count: int) -> list[str]:
    """Return what so many reports take, line by line."""
    sizes = Parameters(WORDS, SERVERS, 2**49)
    kept, check = sizes.payload_bytes + ID_BYTES + sizes.check_bytes, sizes.check_bytes
    written = constants["written by the busiest server, bytes a report"]
    bulk = constants["bulk at the busiest server, us a report"]
    single = constants["single upload at 64 connections, server, ms"]
    release = constants["release of 10^6, analyzer and one server, CPU s"]
    return [
        _bytes(kept * count),
        _bytes(written * count),
        _hours(1e-6 * bulk * count),
        _hours(1e-3 * single * count),
        _hours(1e-6 * release * count),
        _bytes((SERVERS * (SERVERS - 1) + SERVERS) * check * count),
        _bytes((ID_BYTES + RANK_BYTES) * count),
    ]


LINES = (
    "disk of one server, until the release",
    "written to it meanwhile",
    "CPU of one server, uploads in groups of 256",
    "CPU of one server, single uploads",
    "CPU of analyzer and one server, a release",
    "check shares through the analyzer, in and out",
    "memory of one server, identifiers and ranks",
)


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"


def _hours(seconds: float) -> str:
    for unit, size in (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"


def table() -> Shown:
    """Return the table for all counts."""
    kept = json.loads((HERE / "data" / "default.json").read_text())
    columns = [of_reports(kept["now"], count) for count in COUNTS]
    rows: list[tuple[Cell, ...]] = [(line, *cells) for line, *cells in zip(LINES, *columns, strict=True)]
    return Shown(
        "how-far",
        "What reports of a verified second moment take, ten columns at three servers",
        ("what", *(f"{count:,} reports" for count in COUNTS)),
        tuple(rows),
        f"Reckoned from constants a report, which were measured with {kept['reports']:,} reports on "
        f"{kept['measured']}, when the load of the machine's two cores was {kept['load']}. CPU is that of one core.",
    )


def main() -> None:
    """Show the table."""
    show({"how-far": table}, parser(__doc__, 1, 1).parse_args())


if __name__ == "__main__":
    main()
