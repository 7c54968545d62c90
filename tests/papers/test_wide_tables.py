"""Tables of organisations, wide rows and synthetic rows hold what their commands print: some lines are made again."""

import re
from pathlib import Path

import bench_bootstrap
import bench_organisations
import bench_synthetic_race
import bench_two_rounds
import bench_wide
import numpy as np
import pytest
from race.measures import Race
from race.tables import from_file
from showing import spread

from support.figures import written

ROOT = Path(__file__).resolve().parents[2]


NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")


def line(name: str, start: str) -> list[float]:
    """Return the numbers of the only line of a table on a page that begins so, those of its beginning left out."""
    (found,) = (row for row in written()[name].splitlines() if row.startswith(f"| {start} |"))
    return numbers(found[len(start) + 4 :])


def numbers(text: str) -> list[float]:
    return [float(found.replace(",", "")) for found in NUMBER.findall(text)]


def agrees(here: str, there: list[float]) -> bool:
    """Compare within what another BLAS leaves."""
    own = numbers(here)
    return len(own) == len(there) and bool(np.allclose(own, there, rtol=0.001, atol=2e-4))


def test_shares_of_the_best_components_by_law_are_those_of_the_page() -> None:
    for rank in (20, 32):
        found = bench_wide.shown(list(bench_wide.by_law(128, 1e5, 1, rank, 20)))
        assert agrees(found, line("wide-laws", f"128 | 1e5 | 1 | {rank}")[:3])
        assert not agrees(found.replace("0.9", "0.8"), line("wide-laws", f"128 | 1e5 | 1 | {rank}")[:3])


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "coalition", "factor"), [("1", (16, 0), "1.00"), ("0.1", (20, 19), "4.47")])
def test_a_cell_of_organisations_is_that_of_the_page(epsilon: str, coalition: tuple[int, int], factor: str) -> None:
    for name, columns in (
        ("organisations", bench_organisations.BY_RULE),
        ("organisations-matched", bench_organisations.MATCHED),
    ):
        rows = bench_organisations.normalised(columns)
        own = bench_organisations.mechanism_of(epsilon, *coalition)
        r2 = bench_organisations.learning(own, columns, rows, rows, coalition[0], 60)
        there = line(name, f"{epsilon} | {factor} ({coalition[0]}, {coalition[1]})")[:3]
        assert agrees(bench_organisations.Runs.of(r2).shown(4), there)


@pytest.mark.slow
def test_what_clients_and_airlines_learn_of_wide_rows_is_what_the_page_says() -> None:
    shown = bench_wide.demonstrated(20)
    for row in shown.rows:
        assert agrees(" ".join(map(str, row[1:])), line("wide-demonstration", str(row[0])))


@pytest.mark.slow
@pytest.mark.parametrize("distance", [0.0, 4.0])
def test_the_errors_of_one_round_and_of_two_are_those_of_the_page(distance: float) -> None:
    found = zip(*(bench_two_rounds.errors(distance, run) for run in range(20)), strict=True)
    assert agrees(" ".join(str(spread(one)) for one in found), line("two-rounds", f"{distance:g}"))


@pytest.mark.slow
def test_intervals_that_take_rows_for_data_cover_as_rarely_as_the_page_says() -> None:
    count, runs = 10_000, 100
    held = [
        bench_bootstrap.taken_for_data(bench_bootstrap.model_of(run, 1.0, count), run, count) for run in range(runs)
    ]
    assert line("bootstrap", f"rows taken for data | {count:,} | 1 | {runs}") == [round(np.mean(held), 2)]


@pytest.mark.slow
def test_what_lintra_makes_of_a_shipped_table_is_what_the_page_says(tmp_path: Path) -> None:
    race = Race.of(from_file(ROOT / "benchmarks/data/uci_concrete.npz"), None, tmp_path, trees=False)
    results = bench_synthetic_race.Results.of(tmp_path)
    assert len(list(bench_synthetic_race.compete(race, 1.0, 20, 1, results))) == 22
    shown = bench_synthetic_race.shown(race, 1.0, results)
    ours = [row for row in shown.rows if str(row[0]) not in bench_synthetic_race.PEERS]
    assert len(ours) == 6
    for row in ours:
        # The last two cells are the runs and a time.
        told = " ".join(map(str, row[1:-2]))
        assert agrees(told, line("synthetic-uci_concrete", str(row[0]))[: len(numbers(told))])
    # What is there is not measured again.
    assert bench_synthetic_race.Results.of(tmp_path).found == results.found
