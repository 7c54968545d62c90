"""What discrete Gaussian samples take: in bulk, for one client, and in plain Python, beside the random stream alone.

    python benchmarks/bench_noise.py [--runs 20] [--write]

The stream is the floor: about nine words are read for each sample. Both are measured in turns, and every figure is the
least CPU time of some rounds. `--write` puts the table into the page that shows it.
"""

import importlib.util
import math
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from showing import Shown, load, parser, runs_of, show

from lintra_protocol.crypto.randomness import bulk_system_randomness, system_randomness
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA, discrete_gaussian

BULK, PLAIN, USUAL = 1_000_000, 5_000, 30_000
"""Samples drawn at once, by this library and in plain Python, and a usual sigma."""

WORDS_READ = 9
"""Of the random stream, for a sample."""

ONE_CLIENT = (12, 40, 80, 256)
LEAST_SAMPLES = 20_000
"""Draws for one client are repeated until there are so many, since a clock is too coarse for one."""

TWIN = Path(__file__).parents[1] / "tests/support/noise_reference.py"


def plain_form() -> ModuleType:
    """Return the sampler in plain Python that the tests compare with."""
    spec = importlib.util.spec_from_file_location("noise_reference", TWIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cpu(work: Callable[[], object]) -> float:
    """Return the CPU seconds of one call."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def beside_stream(count: int, draw: Callable[[], object], source: Callable[[int], bytes], rounds: int) -> list[float]:
    """Return the CPU seconds of `count` samples, and of the stream that they read: the least of some rounds."""
    repeats = max(1, LEAST_SAMPLES // count)
    pieces, rest = divmod(8 * WORDS_READ * count, 1 << 17)

    def stream() -> None:
        for _ in range(repeats):
            for _ in range(pieces):
                source(1 << 17)
            source(rest)

    def drawn() -> None:
        for _ in range(repeats):
            draw()

    found = [(cpu(drawn), cpu(stream)) for _ in range(rounds)]
    return [min(each) / repeats for each in zip(*found, strict=True)]


def table(rounds: int) -> Shown:
    """Measure every line."""
    busy, bulk, read = load(), bulk_system_randomness(), plain_form().reader(bulk_system_randomness())
    plain = plain_form()

    def sampled(count: int, sigma: int, source: Callable[[int], bytes]) -> list[float]:
        return beside_stream(count, lambda: discrete_gaussian(count, sigma, source), source, rounds)

    found = [(f"in bulk, sigma {sigma:,}", BULK, sampled(BULK, sigma, bulk)) for sigma in (1, USUAL, MAX_SIGMA)]
    found += [("for one client", count, sampled(count, USUAL, bulk)) for count in ONE_CLIENT]
    found += [("for one client, each from the system", 12, sampled(12, USUAL, system_randomness))]
    plainly = beside_stream(PLAIN, lambda: plain.samples(PLAIN, USUAL, read), bulk, max(2, rounds // 5))
    found += [("in plain Python", PLAIN, plainly)]
    rows = tuple(
        (what, count, took / floor, 1e6 * took / count, _time(took), _time(floor))
        for what, count, (took, floor) in found
    )
    return Shown(
        "noise-times",
        "What samples of noise take",
        ("how", "samples", "times the stream", "us a sample", "CPU time", "of the stream"),
        rows,
        f"The least of {rounds} rounds each, samples and stream in turns; sigma {USUAL:,} unless another is named. A "
        f"sample reads about {WORDS_READ} words of the stream. {busy}",
    )


def _time(seconds: float) -> str:
    unit, size = ("ms", 1e3) if seconds >= 1e-3 else ("us", 1e6)
    return f"{seconds * size:.{max(0, 2 - math.floor(math.log10(seconds * size)))}f} {unit}"


def main() -> None:
    """Show it."""
    asked = parser(__doc__, 7, 15).parse_args()
    show({"noise-times": lambda: table(runs_of(asked))}, asked)


if __name__ == "__main__":
    main()
