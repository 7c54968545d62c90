"""How many discrete Gaussian samples a second: in bulk, for one client, and in plain Python beside them.

Run `pytest benchmarks/bench_noise.py`; each line also reports `samples_per_second` from CPU time (`--benchmark-json`
keeps it). The stream itself is measured in the same run, since it is the floor.
"""

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from lintra_protocol.noise import MAX_SIGMA, discrete_gaussian
from lintra_protocol.randomness import bulk_system_randomness, system_randomness

BULK = 1_000_000
TWIN = Path(__file__).parents[1] / "tests/support/noise_reference.py"


def _plain_form() -> ModuleType:
    spec = importlib.util.spec_from_file_location("noise_reference", TWIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _measure(benchmark: BenchmarkFixture, count: int, draw: Callable[[], object]) -> None:
    """Time calls that give `count` samples each, and note the rate in CPU time."""
    spent, calls = 0.0, 0

    def counted() -> None:
        nonlocal spent, calls
        started = time.process_time()
        draw()
        spent, calls = spent + time.process_time() - started, calls + 1

    benchmark(counted)
    benchmark.extra_info["samples_per_second"] = round(calls * count / spent)


@pytest.mark.parametrize("sigma", [1, 30_000, MAX_SIGMA])
def test_bulk(benchmark: BenchmarkFixture, sigma: int) -> None:
    source = bulk_system_randomness()
    _measure(benchmark, BULK, lambda: discrete_gaussian(BULK, sigma, source))


@pytest.mark.parametrize("count", [12, 40, 80, 256])
def test_one_client(benchmark: BenchmarkFixture, count: int) -> None:
    source = bulk_system_randomness()
    _measure(benchmark, count, lambda: discrete_gaussian(count, 30_000, source))


@pytest.mark.parametrize("count", [12, 80])
def test_one_client_on_system_randomness(benchmark: BenchmarkFixture, count: int) -> None:
    _measure(benchmark, count, lambda: discrete_gaussian(count, 30_000, system_randomness))


@pytest.mark.parametrize("count", [80, 5_000])
def test_plain_python(benchmark: BenchmarkFixture, count: int) -> None:
    plain = _plain_form()
    read = plain.reader(bulk_system_randomness())
    _measure(benchmark, count, lambda: plain.samples(count, 30_000, read))


def test_the_stream_alone(benchmark: BenchmarkFixture) -> None:
    # About nine words are read for each sample.
    source = bulk_system_randomness()
    _measure(benchmark, BULK, lambda: [source(1 << 17) for _ in range(BULK * 9 * 8 >> 17)])
