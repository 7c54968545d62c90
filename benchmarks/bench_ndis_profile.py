"""One point of a privacy profile: how long it takes and how far off it is, beside other ways to compute it.

    python benchmarks/bench_ndis_profile.py [--write]

Times are CPU milliseconds, the least of `--runs` runs.
"""

import importlib.util
import math
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
from showing import Shown, parser, runs_of, show

from lintra_curator.ndis import (
    GaussianPair,
    delta,
    delta_als,
    delta_ols,
    delta_rp,
    epsilon,
    ols_pair,
    pair_from_gaussians,
    renyi_bound,
    rp_pair,
    rp_pstar,
)
from lintra_curator.ndis.monte_carlo import sample_losses
from lintra_protocol.crypto.randomness import expand

TWO_TAILS = Path(__file__).parents[1] / "tests/support/two_tails.py"

# 30-digit references, as in tests/unit/lintra_curator/ndis/test_profile_evaluation.py.
REFERENCES: list[tuple[str, GaussianPair, float, float]] = [
    ("projection p=.05 r=30 eps=1", rp_pair(0.05, 30), 1.0, 8.8550908996802766e-6),
    ("projection p=.01 r=300 eps=1", rp_pair(0.01, 300), 1.0, 1.6462286761238336e-13),
    ("least squares r=300 d=12 eps=2", ols_pair(0.016, 0.0226, 300, 12), 2.0, 2.3057203967528187e-9),
    (
        "replacement g=.02 r=100 eps=1",
        GaussianPair([0.02 / 0.98, -0.02], [100, 100], [0, 0]),
        1.0,
        8.0801899540822704e-8,
    ),
    ("two ratios k=8 eps=3", GaussianPair([0.5, -0.3], [5, 3], [0, 0]), 3.0, 0.0033065369519686447),
]


def milliseconds(call: Callable[[], object], runs: int) -> float:
    """Return the least CPU time of a call."""
    times = []
    for _ in range(runs):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return 1e3 * min(times)


def oracle() -> ModuleType:
    spec = importlib.util.spec_from_file_location("two_tails", TWO_TAILS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sampled(pair: GaussianPair, at: float, exact: float, runs: int = 20, draws: int = 100_000) -> float:
    """Return the root of the mean squared relative error of some runs of sampling."""
    errors = []
    for run in range(runs):
        losses = sample_losses(pair, draws, expand(bytes(32), f"benchmark {run}"))
        errors.append(float(np.maximum(0.0, -np.expm1(np.minimum(at - losses, 0.0))).mean()) / exact - 1)
    return math.sqrt(np.square(errors).mean())


def accuracy() -> Shown:
    """Return how far off several ways are."""
    two_tails = oracle().two_tails
    rows = []
    for name, pair, at, exact in REFERENCES:
        found = delta(pair, at)
        numbers = (found.value, found.lo, found.hi, two_tails(pair, at), renyi_bound(pair, at))
        errors = (f"{value / exact - 1:+.0e}" for value in numbers)
        rows.append((name, f"{exact:.3e}", *errors, f"{sampled(pair, at, exact):.0e}"))
    heads = ("pair", "delta", "value", "lower end", "upper end", "two tails (Imhof)", "Chernoff", "1e5 samples")
    return Shown(
        "ndis-accuracy",
        "How far off one point of a profile is",
        heads,
        tuple(rows),
        "Relative errors against 30-digit references. Value and ends are those of the certified sum, aimed at 1e-9. "
        "Of samples it is the root of the mean square of 20 runs.",
    )


def dense_pair(size: int) -> GaussianPair:
    """Return two laws whose covariances differ a little in every direction."""
    rng = np.random.default_rng(size)
    factor = rng.standard_normal((size, 4 * size))
    s1 = factor @ factor.T / (4 * size)
    change = 0.02 * rng.standard_normal((size, size)) / math.sqrt(size)
    return pair_from_gaussians(0.02 * rng.standard_normal(size), s1, np.zeros(size), s1 + change + change.T)


def times(runs: int) -> Shown:
    """Return how long one point takes, and one epsilon."""
    cases = [("dense", dense_pair(size)) for size in (1, 2, 3, 6, 10, 50, 200)]
    cases += [("projection r=300", rp_pair(0.02, 300)), ("least squares r=300 d=12", ols_pair(0.016, 0.0226, 300, 12))]
    rows = []
    for name, pair in cases:
        points = [milliseconds(lambda p=pair, r=rtol: delta(p, 1.0, r), runs) for rtol in (1e-3, 1e-6, 1e-9)]
        inverse = milliseconds(lambda p=pair: epsilon(p, 1e-6, 1e-6), -(-runs // 3))
        rows.append((name, round(pair.dimension), *(f"{t:.1f}" for t in points), f"{inverse:.0f}"))
    heads = ("pair", "dimension", "accuracy 1e-3", "1e-6", "1e-9", "one epsilon at delta 1e-6")
    return Shown(
        "ndis-times",
        "How long one point of a profile takes",
        heads,
        tuple(rows),
        f"CPU milliseconds, the least of {runs} runs, with other programs running.",
    )


def others(runs: int) -> Shown:
    """Return how long other calls take."""
    rng = np.random.default_rng(1)
    factor = rng.standard_normal((50, 200))
    covariance = factor @ factor.T
    zeros = np.zeros(50)
    calls: list[tuple[str, Callable[[], object]]] = [
        (
            "the pair of two 50-dimensional laws",
            lambda: pair_from_gaussians(zeros, covariance, zeros, 1.1 * covariance),
        ),
        ("delta_rp, 1000 leverages at once", lambda: delta_rp(1.0, np.linspace(0.001, 0.1, 1000), 300)),
        ("delta_ols, both directions, r=300 d=12", lambda: delta_ols(1.0, 0.016, 0.0226, 300, 12)),
        ("delta_als, both directions, r=300 d=12", lambda: delta_als(1.0, 0.016, 0.0226, 300, 12)),
        ("rp_pstar, r=1", lambda: rp_pstar(1.0, 1e-6, 1)),
        ("rp_pstar, r=100", lambda: rp_pstar(1.0, 1e-6, 100)),
        ("rp_pstar, r=20000", lambda: rp_pstar(1.0, 1e-6, 20000)),
    ]
    rows = tuple((name, f"{milliseconds(call, runs):.1f}") for name, call in calls)
    return Shown("ndis-calls", "How long other calls take", ("call", "CPU ms"), rows, f"The least of {runs} runs.")


def parts(runs: int) -> dict[str, Callable[[], Shown]]:
    """Return the tables by name."""
    return {"ndis-accuracy": accuracy, "ndis-times": lambda: times(runs), "ndis-calls": lambda: others(runs)}


def main() -> None:
    """Show them."""
    asked = parser(__doc__, 9, 30).parse_args()
    show(parts(runs_of(asked)), asked)


if __name__ == "__main__":
    main()
