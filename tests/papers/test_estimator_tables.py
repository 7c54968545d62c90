"""Tables of the page of benchmarks about estimators and plans are what their benchmarks print: cheap lines again."""

import re
from dataclasses import replace
from pathlib import Path

import bench_calibrations
import bench_linear_score
import bench_missing
import bench_path
import bench_residual_variance
import numpy as np
import pytest
from coverage_grid.tables import all_tables
from showing import Shown, wrapped

from lintra_protocol.crypto.ring import FloatArray
from support.pages import text_of

ROOT = Path(__file__).resolve().parents[2]


PAGE = text_of("benchmarks")
BLOCKS = dict(re.findall(r"<!-- (\S+) -->\n(.*?)<!-- end \1 -->", PAGE, re.DOTALL))
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")


def table(name: str) -> FloatArray:
    return all_tables([ROOT / "benchmarks/data", ROOT / "benchmarks/data/real"])[name]


def same(line: str, other: str, rtol: float = 0.02, atol: float = 1e-3) -> bool:
    """Compare two lines: their words, and their numbers within what another BLAS leaves of the digits shown."""
    here, there = ([float(one.replace(",", "")) for one in NUMBER.findall(each)] for each in (line, other))
    return NUMBER.sub("", line) == NUMBER.sub("", other) and bool(np.allclose(here, there, rtol, atol))


def stands(shown: Shown, block: str, rtol: float = 0.02, atol: float = 1e-3) -> bool:
    """Return whether every line that was computed stands in the block."""
    held = block.splitlines()
    return all(any(same(line, other, rtol, atol) for other in held) for line in shown.markdown().splitlines()[2:])


def test_the_quick_lines_of_the_calibrations_are_what_the_page_says() -> None:
    shown = bench_calibrations.calibrations(bench_calibrations.QUICK)
    assert len(shown.rows) >= 7
    assert stands(shown, BLOCKS["calibrations"], 1e-5, 1e-9)
    assert not stands(shown, BLOCKS["calibrations"].replace("0.2705", "0.2706"), 1e-5, 1e-9)


def test_four_calibrations_are_in_order_and_ours_is_within_a_thousandth_of_theory() -> None:
    lines = [bench_calibrations.grid_line(*point) for point in bench_calibrations.QUICK if point[1:] != (64, 8)]
    assert len(lines) == 5
    for line in [*lines, bench_calibrations.grid_line(10_000, 64, 8)]:
        assert 0 <= line["above theory"] <= 1e-3
        assert line["central"] < line["ours"] < line["local"]
    assert lines[0]["published, d=10"] is lines[0]["published, d=50"] is None


@pytest.mark.slow
def test_all_calibrations_and_what_they_come_to_are_what_the_page_says() -> None:
    shown = bench_calibrations.calibrations()
    assert stands(shown, BLOCKS["calibrations"], 1e-5, 1e-9)
    assert wrapped(shown.note) in BLOCKS["calibrations"]


def test_ratios_of_calibrations_leave_out_what_is_undefined() -> None:
    lines: list[dict[str, object]] = [
        {"a": 2.0, "b": 1.0, "s": 1},
        {"a": None, "b": 1.0, "s": 1},
        {"a": 6.0, "b": 2.0, "s": 4},
    ]
    assert bench_calibrations.ratios(lines, "a", "b") == [2.0, 3.0]
    assert bench_calibrations.ratios(lines, "a", "b", lambda line: line["s"] == 1) == [2.0]


def test_the_linear_score_of_the_concrete_is_what_the_page_says() -> None:
    found = list(bench_linear_score.targets({"uci_concrete": table("uci_concrete")}))
    assert len(found) == 2
    assert stands(bench_linear_score.comparison(found), BLOCKS["linear-score"])
    other = bench_linear_score.comparison([replace(one, linear=one.linear - 0.1) for one in found])
    assert not stands(other, BLOCKS["linear-score"])


def test_a_quadratic_approximation_is_nearly_exact_where_scores_are_small() -> None:
    generator = np.random.default_rng(5)
    rows = generator.normal(size=(20_000, 2))
    chances = 1 / (1 + np.exp(-rows @ [0.1, -0.2]))
    ones = (generator.random(20_000) < chances).astype(np.float64)
    exact = bench_linear_score.logistic(rows, ones)[1:]
    assert bench_linear_score.quadratic(rows, ones, 1.0) == pytest.approx(exact, rel=0.03)
    # -log(1 + e^-s) bends less over a wider range, so that the same slopes come out longer.
    assert np.linalg.norm(bench_linear_score.quadratic(rows, ones, 8.0)) > 1.5 * np.linalg.norm(exact)


@pytest.mark.slow
def test_the_linear_score_of_flights_and_of_late_ones_is_what_the_page_says() -> None:
    found = list(bench_linear_score.targets({"flights": table("flights")}))
    assert found[-1].name == bench_linear_score.LATE
    assert stands(bench_linear_score.comparison(found), BLOCKS["linear-score"])


@pytest.mark.slow
def test_errors_where_numbers_are_missing_are_what_the_page_says() -> None:
    shown = bench_missing.comparison({"uci_concrete": table("uci_concrete")})
    assert len(shown.rows) == 6
    assert stands(shown, BLOCKS["missing"])
    assert not stands(bench_missing.comparison({"uci_concrete": table("uci_concrete")}, 5), BLOCKS["missing"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uci_concrete", "power_19k"])
def test_least_squares_without_privacy_covers_what_the_page_says(name: str) -> None:
    assert stands(bench_residual_variance.causes({name: table(name)}), BLOCKS["residual-variance"])


@pytest.mark.slow
def test_the_choice_of_a_penalty_loses_what_the_page_says_and_with_another_seed_it_does_not() -> None:
    head = next(line for line in BLOCKS["path"].splitlines() if line.startswith("| table |")).split(" | ")
    line = next(line for line in BLOCKS["path"].splitlines() if line.startswith("| power_19k | yes |")).split(" | ")
    for seed in (7, 8):
        cell = bench_path.choice(table("power_19k"), "power_19k", 14, True, 0.1, 25, seed)
        shown = bench_path.summary([cell])
        assert same(str(shown.rows[0][2]), line[head.index(shown.heads[2])]) == (seed == 7)


def test_the_note_of_a_path_counts_and_names_the_cells_that_do_not_keep_what_was_demanded() -> None:
    good = bench_path.Choice("a", 12, True, 0.1, 25, 0.5, 0.001, 0.4, 0.5, 0.51, 0)
    far, below = replace(good, table="b", oracle=0.56), replace(good, table="c", residuals=0.508, intercept=False)
    note = bench_path.summary([good, far, below]).note
    assert "2 of 3 cells keep the first. These do not: b, 2^12, epsilon 0.1, with intercept, loses 0.060." in note
    assert "2 keep the second within 0.005. These do not: c, 2^12, epsilon 0.1, without intercept, is 0.008" in note
    assert "gains on Mallows' is 0.1." in note
