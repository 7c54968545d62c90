"""Every benchmark is in the list that `make bench` runs, and runs small."""

import subprocess
from pathlib import Path

import pytest
from every import RUNS, command

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


SMALL = [name for name, run in RUNS.items() if run.small is not None]


def test_every_benchmark_is_in_the_list_or_says_what_it_needs() -> None:
    assert set(RUNS) == {path.name for path in BENCHMARKS.glob("bench_*.py")}
    assert [name for name, run in RUNS.items() if run.small is None and not run.needs] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_runs_small_and_prints_something(name: str) -> None:
    run = command(name, full=False)
    assert run
    done = subprocess.run(run, cwd=BENCHMARKS.parent, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout) > 100
