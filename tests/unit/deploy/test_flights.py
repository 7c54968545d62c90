"""The demo's data are the published flights, whole and unchanged; a subset is always the same one."""

import bz2
import functools
import hashlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[3]
CARRIERS = "690dea84978757ffa5aaea8e6650c6151eb96d2837f694638de9220e79715830"
DECODED_SHA256 = "5af1501b91532f50ef25e56be8f402bceb479d690d168b101c3a9afdaea9d8d4"


def _module() -> ModuleType:
    # `deploy` is a folder of programs and not a package, so the module is loaded from its file.
    spec = importlib.util.spec_from_file_location("flights", ROOT / "deploy" / "flights.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FLIGHTS = _module()


@pytest.fixture(scope="module", autouse=True)
def _decoded_once() -> Iterator[None]:
    """Decompress the file once for all tests, which is most of what they cost; its bytes are the file's."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FLIGHTS.bz2, "decompress", functools.cache(bz2.decompress))
        patched.setattr(FLIGHTS, "_public_order", functools.cache(FLIGHTS._public_order))
        yield


@pytest.fixture(scope="module")
def table() -> NDArray[np.float64]:
    loaded: NDArray[np.float64] = FLIGHTS.load_flights()[0]
    return loaded


def _minutes(clock: NDArray[np.float64]) -> NDArray[np.float64]:
    return clock // 100 * 60 + clock % 100


def test_the_decoded_table_has_the_published_hash(table: NDArray[np.float64]) -> None:
    assert table.shape == (327_346, 12)
    assert table.dtype == np.float64
    assert hashlib.sha256(table.astype("<i2").tobytes()).hexdigest() == DECODED_SHA256
    assert DECODED_SHA256 in (ROOT / "deploy/data/README.md").read_text("utf-8")


def test_the_columns_agree_with_each_other(table: NDArray[np.float64]) -> None:
    """A swapped or shifted column would break these identities of the source."""
    column = dict(zip(FLIGHTS.load_flights(1)[1], table.T, strict=True))
    assert_array_equal(column["sched_dep_time"], 100 * column["hour"] + column["minute"])
    for way in ("dep", "arr"):
        late = _minutes(column[f"{way}_time"]) - _minutes(column[f"sched_{way}_time"])
        assert_array_equal((late - column[f"{way}_delay"]) % 1440, 0)


def test_the_target_is_the_last_column() -> None:
    assert FLIGHTS.load_flights(1)[1][-1] == "arr_delay"


def test_a_subset_is_fixed_and_nested() -> None:
    few, many = FLIGHTS.load_flights(100)[0], FLIGHTS.load_flights(1_000)[0]
    assert_array_equal(many[:100], few)
    assert (
        hashlib.sha256(few.astype("<i2").tobytes()).hexdigest()
        == "c3d0b02491c20753bdc6f35cffe8cb9d9e7ea66dbdc788d4ed1e37332f201210"
    )


def test_a_subset_is_spread_over_the_year(table: NDArray[np.float64]) -> None:
    """Chi-square over 12 months with 11 degrees of freedom: 31.3 is exceeded once in 1,000 permutations."""

    def chi_square(sample: NDArray[np.float64]) -> float:
        counts = np.bincount(sample[:, 0].astype(int), minlength=13)[1:]
        expected = np.bincount(table[:, 0].astype(int), minlength=13)[1:] * (len(sample) / len(table))
        return float(((counts - expected) ** 2 / expected).sum())

    assert chi_square(FLIGHTS.load_flights(5_000)[0]) < 31.3
    assert chi_square(table[:5_000]) > 31.3


def test_the_whole_permutation_holds_every_flight_once(table: NDArray[np.float64]) -> None:
    shuffled = FLIGHTS.load_flights(len(table))[0]
    assert_array_equal(np.sort(shuffled @ np.arange(1.0, 13.0)), np.sort(table @ np.arange(1.0, 13.0)))


@pytest.mark.parametrize("rows", [-1, 327_347])
def test_more_flights_than_there_are_is_refused(rows: int) -> None:
    with pytest.raises(ValueError, match="327346 flights"):
        FLIGHTS.load_flights(rows)


def test_the_file_is_small_enough_for_a_checkout() -> None:
    assert FLIGHTS.DATA.stat().st_size <= 3_000_000


def test_every_flight_has_an_airline() -> None:
    file = FLIGHTS.DATA.with_name("flight_carriers.npz")
    assert hashlib.sha256(file.read_bytes()).hexdigest() == CARRIERS
    with np.load(file, allow_pickle=False) as held:
        counts = dict(zip(held["carriers"].tolist(), np.bincount(held["carrier"]).tolist(), strict=True))
    assert sum(counts.values()) == 327_346
    assert (len(counts), counts["OO"], counts["UA"]) == (16, 29, 57_782)
