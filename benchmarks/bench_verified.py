"""What verified reports take: the client's proof and shares, a server's seeds and checks, the verdict of all.

Every line is CPU time of one core, the best of some rounds, in microseconds a report. Beside it stand

* the design's figure for a quiet machine, and the same scaled to this machine: times what a byte of SHAKE-128 takes
  here over what it took there. The design does not give that speed. It gives what expanding seeds takes, and from 1,326
  to 5,151 words 43,658 more bytes took it 71 us more: 1.63 ns a byte, whatever else it did to them;
* where there is one, a floor of the same run, below which nobody comes who does it this way: bare SHAKE-128 of as many
  bytes as a seed stands for, the bare reading of a report's words, the bare adding of two servers' check shares.

What is left between a line and its scaled design is the code; between that and the design's, the machine.

    OPENBLAS_NUM_THREADS=1 python benchmarks/bench_verified.py [--runs 10] [--write]
    OPENBLAS_NUM_THREADS=1 python benchmarks/bench_verified.py --reports 1000000 [--write]

Of several runs the table has the one in which SHAKE-128 was fastest: where the machine changes its speed, lines of one
run were measured at one speed. The note has the worst ratio of all of them.
"""

import hashlib
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from showing import Cell, Shown, load, number, parser, runs_of, show

from lintra_protocol.crypto.randomness import bulk_system_randomness
from lintra_protocol.encoding.canonical import ByteRows
from lintra_protocol.rules.verification import BLOCK_BYTES
from lintra_protocol.verification.checks import accepted, check_shares
from lintra_protocol.verification.parameters import Parameters
from lintra_protocol.verification.points import check_points
from lintra_protocol.verification.proof import prove
from lintra_protocol.verification.shares import expand_seeds, expanded_blocks, split_proven_seeded

SIZES = ((12, 2000), (78, 1000), (1326, 128), (5151, 32))
NOTE = {
    # Of the design: prove in bulk; share for 2 and 3 servers; alone; expand; check; verdict of 2 and 3.
    12: (8, 12, 23, 470, 10, 2.9, 0.43, 0.48),
    78: (27, 17, 32, 510, 13, 5.1, 0.47, 0.57),
    1326: (370, 74, 126, 760, 39, 36, 1.3, 1.5),
    5151: (1040, 220, 380, 1500, 110, 143, 2.9, 3.5),
}
MORE_BYTES = 62_012 - 18_354
MORE_MICROSECONDS = NOTE[5151][4] - NOTE[1326][4]
NANOSECONDS = 1e3 * MORE_MICROSECONDS / MORE_BYTES
"""Of a byte of SHAKE-128 in the design: what a seed of 5,151 words takes more to expand than one of 1,326."""

ROUNDS = 7
BLOCK = 4096
POINTS = check_points(bytes(32))


def best(work: Callable[[], object], count: int) -> float:
    """Return the least CPU microseconds of a report in `ROUNDS` rounds."""
    found = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return 1e6 * min(found) / count


@dataclass(frozen=True)
class Line:
    """One step's CPU microseconds a report, the design's, and a floor of the same run with its name."""

    name: str
    took: float
    design: float
    floor: float | None = None
    of: str = ""


Run = dict[int, list[Line]]
"""Every line of every size, of one run."""


def shake_floor(seeds: ByteRows, size: int) -> float:
    """Return what SHAKE-128 alone takes for a seed of so many bytes."""
    return best(lambda: [hashlib.shake_128(seed.tobytes()).digest(size) for seed in seeds], len(seeds))


def reading_floor(sizes: Parameters, payloads: ByteRows) -> float:
    """Return what it takes to read a report's words once, from a block that a cache holds to another one."""
    some = payloads[: max(1, (1 << 18) // sizes.payload_bytes), : sizes.words_bytes]
    room = np.empty_like(some)

    def copied() -> None:
        for _ in range(20):
            np.copyto(room, some)

    return best(copied, 20 * len(some))


def measured(words: int, count: int) -> Iterator[Line]:
    """Yield what every step takes for reports of so many words."""
    random_bytes = bulk_system_randomness()
    most = int(2**24 / words**0.5)
    rows = np.random.default_rng(1).integers(-most, most + 1, (count, words))
    of = {servers: Parameters(words, servers, 2**49) for servers in (2, 3)}
    design = iter(NOTE[words])
    yield Line("prove in bulk", best(lambda: prove(of[2], rows, random_bytes), count), next(design))
    proven = prove(of[2], rows, random_bytes)
    for servers in (2, 3):
        took = best(partial(split_proven_seeded, of[servers], proven, random_bytes), count)
        yield Line(f"share, N = {servers}", took, next(design))

    def alone() -> None:
        for _ in range(20):
            split_proven_seeded(of[2], prove(of[2], rows[:1], random_bytes), random_bytes)

    yield Line("one report alone", best(alone, 20), next(design))
    seeds, last = split_proven_seeded(of[2], proven, random_bytes)
    floor = shake_floor(seeds[0], of[2].payload_bytes)
    yield Line(
        "expand a seed",
        best(lambda: [None for _ in expanded_blocks(of[2], seeds[0])], count),
        next(design),
        floor,
        "SHAKE-128",
    )
    shares = [expand_seeds(of[2], seeds[0]), last]
    took = best(lambda: check_shares(of[2], 0, shares[0], POINTS), count)
    yield Line("check share", took, next(design), reading_floor(of[2], shares[0]), "reading the words")
    three = [*(expand_seeds(of[3], each) for each in split_proven_seeded(of[3], proven, random_bytes)[0])]
    for servers, held in ((2, shares), (3, [*three, three[0]])):
        # As many as a server judges at a time.
        blocks = -(-BLOCK_BYTES // (of[servers].check_bytes * count))
        checks = [
            np.tile(check_shares(of[servers], place, each, POINTS), (blocks, 1)) for place, each in enumerate(held)
        ]
        room = np.empty_like(checks[0].view("<u8"))
        adding = best(partial(np.add, checks[0].view("<u8"), checks[1].view("<u8"), out=room), blocks * count)
        took = best(partial(accepted, of[servers], checks, POINTS), blocks * count)
        yield Line(f"verdict, N = {servers}", took, next(design), adding, "adding two")


def slowness(lines: Run) -> float:
    """Return how much longer SHAKE-128 takes here than where the design was measured (see above)."""
    here, there = (
        {words: getattr(line, kind) for words, all_of in lines.items() for line in all_of if line.of == "SHAKE-128"}
        for kind in ("floor", "design")
    )
    return float((here[5151] - here[1326]) / (there[5151] - there[1326]))


def many(count: int) -> Iterator[tuple[str, float]]:
    """Check so many seeded reports of 78 words at two servers in one run, one in a hundred of them false.

    Bodies lie in files, as they do at servers; memory holds a block of each. Reports are the same few thousand again
    and again, and every one of them is expanded and checked anew. Yields CPU seconds, numbers and bytes.
    """
    words, random_bytes = 78, bulk_system_randomness()
    sizes = Parameters(words, 2, 2**49)
    most = int(2**24 / words**0.5)
    proven = prove(sizes, np.random.default_rng(1).integers(-most, most + 1, (BLOCK, words)), random_bytes)
    false = np.arange(0, BLOCK, 100)
    lied = proven.words.copy()
    lied[false, 0] += 2**40
    seeds, last = split_proven_seeded(sizes, replace(proven, words=lied), random_bytes)
    blocks = [min(BLOCK, count - start) for start in range(0, count, BLOCK)]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / str(server) for server in range(2)]
        for server, path in enumerate(files):
            begun = time.process_time()
            with path.open("wb") as body:
                for size in blocks:
                    held = expand_seeds(sizes, seeds[0][:size]) if server == 0 else last[:size]
                    body.write(check_shares(sizes, server, held, POINTS).data)
            yield f"check shares of server {server}, CPU s", time.process_time() - begun
        begun, rejected = time.process_time(), 0
        with files[0].open("rb") as first, files[1].open("rb") as second:
            for size in blocks:
                rows = [
                    np.frombuffer(body.read(size * sizes.check_bytes), np.uint8).reshape(size, -1)
                    for body in (first, second)
                ]
                rejected += int((~accepted(sizes, rows, POINTS)).sum())
        yield "verdict, CPU s", time.process_time() - begun
        yield "false reports", float(sum(int((false < size).sum()) for size in blocks))
        yield "rejected", float(rejected)
        yield "bytes of a body, MB", files[0].stat().st_size / 1e6
        yield "peak memory of the process, MB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def worst(runs: list[Run], scale: Callable[[Run], float]) -> str:
    """Return the line that is furthest above the design's figure, times a scale, and by what factor."""
    ratio, name, words = max(
        (line.took / line.design / scale(run), line.name, words)
        for run in runs
        for words, all_of in run.items()
        for line in all_of
    )
    return f"{ratio:.2f} times ({name}, {words} words)"


def table(count: int) -> Shown:
    """Measure every step in some runs, and show the one in which SHAKE-128 was fastest."""
    busy = load()
    # A core that was idle takes half a second to run at its speed: the first size is measured once for nothing.
    list(measured(*SIZES[0]))
    runs = [{words: list(measured(words, reports)) for words, reports in SIZES} for _ in range(count)]
    best_run = min(runs, key=slowness)
    scale = slowness(best_run)
    rows: list[tuple[Cell, ...]] = []
    for lines in zip(*best_run.values(), strict=True):
        cells = ((line.took / (scale * line.design), f"{number(line.took)} ({line.design:g})") for line in lines)
        rows.append((lines[0].name, *chain.from_iterable(cells)))
    rows += [
        (
            f"{lines[0].name}, over the floor: {lines[0].of}",
            *chain.from_iterable((line.took / line.floor, number(line.floor)) for line in lines if line.floor),
        )
        for lines in zip(*best_run.values(), strict=True)
        if lines[0].floor
    ]
    return Shown(
        "verified",
        "What verified reports take",
        ("step", *(head for words in SIZES for head in (f"{words[0]} words: ratio", "us (design's)"))),
        tuple(rows),
        f"CPU microseconds a report on one core, the least of {ROUNDS} rounds; in brackets the design's. The ratio is "
        f"that to the design's figure times {scale:.2f}, by which a byte of SHAKE-128 takes longer here than the "
        f"{NANOSECONDS:.2f} ns of the design ({MORE_BYTES:,} more bytes took it {MORE_MICROSECONDS} us more). In the "
        f"last rows it is that to the floor of the same run, which stands beside it. The program ran {count} times, "
        f"and the table has the run in which SHAKE-128 was fastest; in the slowest it took "
        f"{max(map(slowness, runs)):.2f} times what it took the design. Furthest above the scaled design is "
        f"{worst([best_run], slowness)} in this run and {worst(runs, slowness)} in all runs. Above the design as it "
        f"stands, in this run, {worst([best_run], lambda _: 1.0)}. {busy}",
    )


def table_of_many(count: int) -> Shown:
    """Check many reports in one run."""
    busy = load()
    return Shown(
        "verified-many",
        "Many verified reports, one in a hundred of them false",
        ("what", "found"),
        tuple((name, f"{value:,.0f}" if value >= 100 else f"{value:.1f}") for name, value in many(count)),
        f"{count:,} reports of 78 words at two servers in one process, of which {BLOCK:,} are made and come again and "
        f"again. Bodies are files; stores of servers are not part of it. {busy}",
    )


def main() -> None:
    """Show one of the two tables."""
    options = parser(__doc__, 1, 10)
    options.add_argument("--reports", type=int, help="check so many reports of 78 words in one run, instead")
    asked = options.parse_args()
    if asked.reports:
        show({"verified-many": lambda: table_of_many(asked.reports)}, asked)
    else:
        show({"verified": lambda: table(runs_of(asked))}, asked)


if __name__ == "__main__":
    main()
