"""Run every benchmark, one after the other: `make bench` small, in under ten minutes, `make bench-all` in full.

    python benchmarks/every.py [--full] [--only bench_store.py ...]

Small runs have fewer draws and smaller tables: they show that a benchmark works and what it prints, and their figures
say little. One that takes longer than its share of the ten minutes is stopped and says so. In full there is no limit.
"""

import argparse
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUDGET, LEAST, MOST = 540.0, 8.0, 75.0
"""Seconds for all small runs together, and the least and the most for one."""


@dataclass(frozen=True)
class Run:
    """How a benchmark is run: arguments of a small run and of a full one; None where it needs what is not shipped."""

    small: str | None = ""
    full: str | None = ""
    needs: str = ""


QUICK_SPECTRUM = (
    "ndis-noise ndis-flights-projection ndis-flights-distances ndis-flights-least-squares ndis-spectrum "
    "ndis-error-by-rows ndis-profile ndis-by-leverage ndis-leverage-gain ndis-calibrated"
)
"""All but what `bench_ndis_survey.py` shows too, and takes a minute."""

RUNS = {
    "bench_audit.py": Run("--runs 2000 --seeds 1 --only audit-organisations audit-faults", "--full"),
    "bench_bootstrap.py": Run("--runs 10"),
    "bench_calibrations.py": Run("", "--full"),
    "bench_client.py": Run("--single 40 --runs 3", ""),
    "bench_columns.py": Run("--columns 25"),
    "bench_coverage.py": Run("--tables uci_concrete --sizes 12 --epsilons 1 --draws 10"),
    "bench_default.py": Run("--reports 2000 --turns 1", ""),
    "bench_demo.py": Run("--runs 3", "--full"),
    "bench_devices.py": Run(None, None, "a browser and `make typescript`"),
    "bench_edited_store.py": Run("--rows 5000 --tasks 100 --turns 4", ""),
    "bench_far.py": Run(),
    "bench_linear_score.py": Run(),
    "bench_lists.py": Run("500", ""),
    "bench_missing.py": Run("--draws 4", ""),
    "bench_ndis_figures.py": Run(f"--runs 20 --only {QUICK_SPECTRUM}", "--full"),
    "bench_ndis_leverage.py": Run(),
    "bench_ndis_profile.py": Run(),
    "bench_ndis_survey.py": Run(),
    "bench_noise.py": Run("--runs 2", ""),
    "bench_organisations.py": Run("--runs 2"),
    "bench_organisations_large.py": Run("--rows 20000 --organisations 3"),
    "bench_path.py": Run("--tables uci_concrete --sizes 12 --epsilons 1 --draws 5"),
    "bench_pauses.py": Run("300000", ""),
    "bench_peers.py": Run("--runs 2 --only race-noise race-proofs race-counts", "--runs 20"),
    "bench_pure_noise.py": Run(),
    "bench_residual_variance.py": Run(),
    "bench_ridge_floor.py": Run(),
    "bench_ron_gauss.py": Run("--runs 1 --sets wine", "--runs 20"),
    "bench_ron_gauss_figures.py": Run("--runs 2", "--full"),
    "bench_row_weights.py": Run("--tables uci_concrete --runs 4"),
    "bench_scale.py": Run("--quick"),
    "bench_second_moment_regression.py": Run("--runs 2 --max-log2n 14", "--runs 12 --max-log2n 22"),
    "bench_second_moment_figures.py": Run("--runs 3", "--full"),
    "bench_secure_sketching.py": Run("--runs 3", "--full"),
    "bench_server.py": Run(),
    "bench_start.py": Run(),
    "bench_store.py": Run(),
    "bench_synthetic_race.py": Run(
        "--data benchmarks/data --work build/race --tables uci_concrete --seeds 2",
        None,
        "tables that are not shipped (--data) and an environment of peers",
    ),
    "bench_two_rounds.py": Run("--runs 2"),
    "bench_verified.py": Run("", "--runs 10"),
    "bench_wide.py": Run("--runs 1 --only wide-laws wide-flights wide-intervals"),
    "bench_wide_client.py": Run(None, None, "a task on standard input: bench_wide_cost.py runs it"),
    "bench_wide_cost.py": Run("200 --runs 1"),
    "bench_workers.py": Run("500 --runs 1", ""),
}


def command(name: str, *, full: bool) -> list[str] | None:
    """Return what runs a benchmark, or None where it cannot."""
    words = RUNS[name].full if full else RUNS[name].small
    return None if words is None else [sys.executable, str(HERE / name), *words.split()]


def cpu() -> float:
    """Return the CPU seconds of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Run them all; the exit status says whether one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", nargs="+", choices=sorted(RUNS), default=sorted(RUNS))
    asked = parser.parse_args()
    begun, ends = time.monotonic(), {}
    for done, name in enumerate(asked.only):
        run = command(name, full=asked.full)
        if run is None:
            ends[name] = f"not run: it needs {RUNS[name].needs}"
            continue
        print(f"\n== {' '.join(['python', f'benchmarks/{name}', *run[2:]])}", flush=True)
        left = BUDGET - (time.monotonic() - begun) - LEAST * (len(asked.only) - done - 1)
        started, spent = time.monotonic(), cpu()
        try:
            limit = None if asked.full else min(max(left, LEAST), MOST)
            status = subprocess.run(run, cwd=HERE.parent, timeout=limit, check=False).returncode
            took = f"{time.monotonic() - started:.0f} s, {cpu() - spent:.0f} s of CPU time"
            ends[name] = "FAILED" if status else took
        except subprocess.TimeoutExpired:
            ends[name] = f"stopped after {limit:.0f} s"
    print("\n" + "\n".join(f"{name:36} {end}" for name, end in ends.items()))
    print(f"{time.monotonic() - begun:.0f} s in all, {cpu():.0f} s of CPU time")
    if "FAILED" in ends.values():
        raise SystemExit(1)


if __name__ == "__main__":
    main()
