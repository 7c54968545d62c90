"""What verified reports take: the client's proof and shares, a server's seeds and checks, the verdict of all.

Every line is CPU time of one core, the best of some rounds, in microseconds a report. Beside the heaviest stand floors
of the same run: SHAKE-128 of as many bytes as a seed stands for, and the bare matrix product of the check.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.bench_verified
"""

import hashlib
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from lintra_protocol.randomness import bulk_system_randomness
from lintra_protocol.verification.checks import accepted, check_shares
from lintra_protocol.verification.parameters import Parameters
from lintra_protocol.verification.points import check_points
from lintra_protocol.verification.proof import prove
from lintra_protocol.verification.shares import expand_seeds, split_proven_seeded

SIZES = ((12, 2000), (78, 1000), (1326, 128), (5151, 32))
NOTE = {
    # Of the design: prove in bulk; share for 2 and 3 servers; alone; expand; check; verdict of 2 and 3.
    12: (8, 12, 23, 470, 10, 2.9, 0.43, 0.48),
    78: (27, 17, 32, 510, 13, 5.1, 0.47, 0.57),
    1326: (370, 74, 126, 760, 39, 36, 1.3, 1.5),
    5151: (1040, 220, 380, 1500, 110, 143, 2.9, 3.5),
}
ROUNDS = 5
POINTS = check_points(bytes(32))


def best(work: Callable[[], object], count: int) -> float:
    """Return the least CPU microseconds of a report in `ROUNDS` rounds."""
    found = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return 1e6 * min(found) / count


def measured(words: int, count: int) -> Iterator[tuple[str, float]]:
    """Yield what every step takes for reports of so many words."""
    random_bytes = bulk_system_randomness()
    most = int(2**24 / words**0.5)
    rows = np.random.default_rng(1).integers(-most, most + 1, (count, words))
    of = {servers: Parameters(words, servers, 2**49) for servers in (2, 3)}
    yield "prove in bulk", best(lambda: prove(of[2], rows, random_bytes), count)
    proven = prove(of[2], rows, random_bytes)
    for servers in (2, 3):
        yield f"share, N = {servers}", best(lambda n=servers: split_proven_seeded(of[n], proven, random_bytes), count)

    def alone() -> None:
        split_proven_seeded(of[2], prove(of[2], rows[:1], random_bytes), random_bytes)

    yield "one report alone", best(lambda: [alone() for _ in range(20)], 20)
    seeds, last = split_proven_seeded(of[2], proven, random_bytes)
    yield "expand a seed", best(lambda: expand_seeds(of[2], seeds[0]), count)
    shares = [expand_seeds(of[2], seeds[0]), last]
    yield "check share", best(lambda: check_shares(of[2], 0, shares[0], POINTS), count)
    three = [*(expand_seeds(of[3], each) for each in split_proven_seeded(of[3], proven, random_bytes)[0])]
    for servers, held in ((2, shares), (3, [*three, three[0]])):
        checks = [check_shares(of[servers], place, each, POINTS) for place, each in enumerate(held)]
        yield f"verdict, N = {servers}", best(lambda n=servers, c=checks: accepted(of[n], c, POINTS), count)
    size, powers, columns = of[2].payload_bytes, of[2].powers, of[2].columns
    yield "floor: SHAKE-128", best(lambda: [hashlib.shake_128(seed.tobytes()).digest(size) for seed in seeds[0]], count)
    some = max(1, (1 << 17) // (5 * powers * columns))
    left, right = np.ones((24, powers)), np.ones((powers, 5 * columns * some))
    yield "floor: matrix product", best(lambda: left @ right, some)


def main() -> None:
    """Print the table."""
    write = sys.stdout.write
    for words, count in SIZES:
        write(f"{words} words\n")
        noted = iter(NOTE[words])
        for name, microseconds in measured(words, count):
            beside = "" if name.startswith("floor") else f"   design {next(noted):>7}"
            write(f"  {name:<24}{microseconds:>10.2f}{beside}\n")


if __name__ == "__main__":
    main()
