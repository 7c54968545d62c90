"""The page of figures holds what its commands print: small tables are computed again, the others carry a date."""

import math
import re
from dataclasses import replace
from pathlib import Path

import bench_demo
import bench_ndis_figures
import bench_peers
import bench_ron_gauss_figures
import bench_second_moment_figures
import bench_secure_sketching
import numpy as np
import pytest
import showing
from bench_second_moment_regression import MULTI, SINGLE, SMALLEST_EIGENVALUE, Design, raw, sketch_rows
from second_moments.redundant import by_redundant, shifted
from secure_sketching import figures
from spectrum.flights import FLIGHT_SKETCH_ROWS, flights, longest

from lintra_curator.ndis.closed_form import rp_pstar
from support.pages import text_of

ROOT = Path(__file__).resolve().parents[2]


PAGE = text_of("paper-figures")
README = (ROOT / "README.md").read_text("utf-8")
DEMONSTRATION = text_of("benchmarks")
BLOCKS = dict(re.findall(r"<!-- (\S+) -->\n(.*?)<!-- end \1 -->", PAGE, re.DOTALL))
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")


def numbers(table: str) -> list[float]:
    return [
        float(found.replace(",", ""))
        for line in table.splitlines()
        if line[:1] == line[-1:] == "|"
        for found in NUMBER.findall(line)
    ]


def agrees(shown: showing.Shown, block: str) -> bool:
    """Compare all numbers, within what three digits and another BLAS leave."""
    here, there = numbers(shown.markdown()), numbers(block)
    return len(here) == len(there) and bool(np.allclose(here, there, rtol=0.02, atol=1e-9))


def lines_agree(shown: showing.Shown, block: str) -> bool:
    """Compare the lines that both have, by their first cell: all of what was computed must be there."""
    written = {line.split(" | ")[0]: numbers(line) for line in block.splitlines() if line[:1] == "|"}
    found = [(line.split(" | ")[0], numbers(line)) for line in shown.markdown().splitlines()[2:]]
    return bool(found) and all(
        len(here) == len(written.get(first, ())) and np.allclose(here, written[first], rtol=0.02, atol=1e-9)
        for first, here in found
    )


FIVE_PAPERS = ("Leverage and noise of the NDIS mechanisms", "Regressions on a curator's second moments", "RON-Gauss")


@pytest.mark.parametrize("name", FIVE_PAPERS)
def test_no_table_of_the_papers_mechanisms_is_typed_by_hand(name: str) -> None:
    sections = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", DEMONSTRATION, re.DOTALL | re.MULTILINE))
    assert "](paper-figures-" in sections[name]
    assert [line for line in sections[name].splitlines() if line[:1] == "|"] == []


def test_the_first_page_shows_the_demonstrations_numbers_and_no_others() -> None:
    written = re.search(r"<!-- demonstration -->\n(.*?)<!-- end", DEMONSTRATION, re.DOTALL)
    paragraph = re.search(r"^At epsilon 1 and delta 1e-6 the second moments.*?\n\n", README, re.DOTALL | re.MULTILINE)
    assert written
    assert paragraph
    shown = set(re.findall(r"-?\d\.\d+(?!\d)", paragraph[0]))
    assert len(shown) >= 7
    assert shown <= set(re.findall(r"-?\d\.\d+(?!\d)", written[1]))


def test_every_table_of_the_page_has_its_command_date_and_machine() -> None:
    stamp = re.compile(r"`python benchmarks/(bench_\w+\.py)[^`]*`,\s+\d+\s+\w+\s+\d{4},\s+\d+\s+cores")
    assert len(BLOCKS) >= 10
    for name, block in BLOCKS.items():
        found = stamp.search(block)
        assert found, name
        assert (ROOT / "benchmarks" / found[1]).is_file()


TIMED = {"table-4", "table-6", "table-7", "race-noise"}


def runs_are_told(name: str, block: str) -> bool:
    """Return whether a table with spreads names its runs, at least 20 (of times 5), and one without says why."""
    rows = [line for line in block.splitlines() if line[:1] == line[-1:] == "|"]
    prose = " ".join(line for line in block.splitlines() if line not in rows)
    if not any(re.search(r"\(-?[\d.,e+-]+ to | ± ", line) for line in rows):
        return "Mathematics" in prose or "Computed from formats" in prose
    told = [int(found.replace(",", "")) for found in re.findall(r"([\d,]+)\s+(?:runs|uniform\s+frames)", prose)]
    return max(told, default=0) >= (5 if name in TIMED else 20)


@pytest.mark.parametrize("name", BLOCKS)
def test_every_table_says_of_how_many_runs_it_is_or_that_it_is_mathematics(name: str) -> None:
    assert runs_are_told(name, BLOCKS[name])


def test_a_table_of_one_draw_or_of_ten_runs_is_found() -> None:
    line = "| 1 | 0.5 (0.4 to 0.6) |"
    assert runs_are_told("new", f"{line}\n\nOf 20\nruns.")
    assert not runs_are_told("new", f"{line}\n\nOf 10 runs.")
    assert not runs_are_told("new", f"{line}\n\nMathematics.")
    assert not runs_are_told("new", "| 1 | 0.5 |\n\nOf one run.")


def test_no_title_of_the_page_is_longer_than_a_line() -> None:
    titles = [line for line in PAGE.splitlines() if line.startswith("#")]
    assert len(titles) > len(BLOCKS)
    assert [title for title in titles if len(title) > 100] == []


def test_the_noise_of_the_experiments_is_what_the_page_says() -> None:
    shown = bench_secure_sketching.parts(False, 20)["noise-as-run"]()
    assert agrees(shown, BLOCKS["noise-as-run"])
    assert not agrees(shown, BLOCKS["noise-as-run"].replace("639,330", "659,330"))


STATISTICAL = [name for name in bench_secure_sketching.parts(False, 20) if not re.match("table-[467]", name)]


@pytest.mark.slow
@pytest.mark.parametrize("name", STATISTICAL)
def test_a_table_of_the_main_paper_is_what_its_benchmark_prints(name: str) -> None:
    assert agrees(bench_secure_sketching.parts(False, 20)[name](), BLOCKS[name])


def test_a_table_is_written_where_its_marks_are_and_nowhere_else() -> None:
    assert showing.page_of("noise-as-run").name == "paper-figures-sketching.md"
    with pytest.raises(SystemExit, match="0 pages have the lines <!-- nowhere -->"):
        showing.page_of("nowhere")


@pytest.mark.slow
def test_what_a_benchmark_shows_is_written_as_csv_picture_and_page(tmp_path: Path) -> None:
    shown = figures.low_rank("small", 5, 0.5, False, 2, by_power=True)
    showing.save(shown, tmp_path)
    lines = (tmp_path / "small.csv").read_text().splitlines()
    assert lines[0].startswith("n,p = 1,p = 1 10%,p = 1 90%")
    assert len(lines) == 1 + len(shown.rows)
    assert (tmp_path / "small.png").stat().st_size > 10_000
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- small -->\n<!-- end small -->\n")
    for _ in range(2):
        showing.write(shown, tmp_path)
    assert page.read_text().count("<!-- small -->") == page.read_text().count(shown.title) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table-4", "table-6", "table-7"])
def test_a_table_of_times_has_a_row_for_every_size_and_our_bytes(name: str) -> None:
    shown = bench_secure_sketching.parts(False, 1)[name]()
    assert {row[-1] for row in shown.rows} <= set(re.findall(r"[\d.]+", BLOCKS[name]))


@pytest.mark.slow
def test_the_demonstrations_table_is_what_its_benchmark_prints() -> None:
    written = re.search(r"<!-- demonstration -->\n(.*?)<!-- end", DEMONSTRATION, re.DOTALL)
    assert written
    assert agrees(bench_demo.parts(100)["demonstration"](), written[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["single-by-n", "multi-by-n"])
def test_a_panel_of_second_moments_is_what_its_benchmark_prints(name: str) -> None:
    shown = bench_second_moment_figures.parts(True, 20, [12, 14])[name]()
    assert lines_agree(shown, BLOCKS[name])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "design"), [("single", SINGLE), ("multi", MULTI)])
def test_a_panel_by_epsilon_is_what_its_benchmark_prints(name: str, design: Design) -> None:
    points = [(bench_second_moment_figures.AT_SIZE, 0.5)]
    shown = bench_second_moment_figures.figure(f"{name}-by-epsilon", design, points, 20, by_size=False)
    assert lines_agree(shown, BLOCKS[f"{name}-by-epsilon"])


@pytest.mark.slow
def test_the_noise_levels_of_second_moments_are_what_the_page_says() -> None:
    shown = bench_second_moment_figures.noise_levels()
    assert agrees(shown, BLOCKS["second-moment-calibrations"])
    assert not agrees(shown, BLOCKS["second-moment-calibrations"].replace("607", "670"))


def test_the_lasso_without_a_penalty_solves_and_with_a_large_one_keeps_the_intercept_alone() -> None:
    generator = np.random.default_rng(3)
    rows = np.column_stack([generator.normal(size=(400, 20)), np.ones(400), np.zeros(400)])
    rows[:, -1] = 2 * rows[:, 0] - rows[:, 5] + 0.7 + 0.1 * generator.normal(size=400)
    products = rows.T @ rows
    solve = bench_second_moment_figures.lasso
    assert np.allclose(solve(products, 0.0), raw(products), atol=1e-6)
    assert np.flatnonzero(solve(products, 1e5)).tolist() == [20]
    between = solve(products, 40.0)
    assert np.flatnonzero(between).tolist() == [0, 5, 20]
    # Where a coefficient is not 0 the gradient is the penalty against its sign.
    gradient = products[:-1, :-1] @ between - products[:-1, -1]
    assert gradient[[0, 5, 20]] == pytest.approx([-40, 40, 0], abs=1e-4)


def test_a_projection_gets_the_most_rows_whose_ridge_is_below_the_guess() -> None:
    table = SINGLE.draw(4096, np.random.default_rng(1))[0]
    rows = sketch_rows(table, lambda count: 1.5 * count)
    least = SMALLEST_EIGENVALUE * 4096
    assert rows % (2 * len(table.columns)) == 0
    assert 1.5 * rows <= least < 1.5 * 2 * rows


def test_a_matrix_is_scaled_only_if_it_is_not_positive_definite() -> None:
    positive, other = np.diag([2.0, 0.1]), np.diag([2.0, -0.1])
    assert np.array_equal(shifted(positive, 3.0), positive)
    assert np.allclose(shifted(other, 3.0), other + 2 * math.sqrt(2) * 3 * np.eye(2))


@pytest.mark.slow
def test_the_errors_with_redundant_columns_are_what_the_page_says() -> None:
    found = numbers("\n".join(by_redundant((12,), 20).markdown().splitlines()[2:]))
    lines = [line for line in BLOCKS["redundant-by-n"].splitlines() if line.startswith("| 4,096 |")]
    assert np.allclose(found, numbers("\n".join(lines)), rtol=0.02)
    assert not np.allclose(found, numbers("\n".join(lines[::-1])), rtol=0.02)


@pytest.mark.slow
def test_the_lasso_on_releases_is_what_its_benchmark_prints() -> None:
    assert lines_agree(bench_second_moment_figures.lasso_by_size((12, 14), 20), BLOCKS["lasso-by-n"])


@pytest.mark.slow
def test_the_loss_of_the_published_constants_of_ron_gauss_is_what_the_page_says() -> None:
    shown = bench_ron_gauss_figures.losses()
    assert agrees(shown, BLOCKS["ron-gauss-losses"])
    assert not agrees(shown, BLOCKS["ron-gauss-losses"].replace("1.73", "1.83"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ron-gauss-classification", "ron-gauss-regression", "ron-gauss-clustering"])
def test_an_experiment_of_ron_gauss_is_what_its_benchmark_prints(name: str) -> None:
    # Diabetes is left out where it is not at hand; the other lines must all be there.
    assert lines_agree(bench_ron_gauss_figures.parts(False, 20)[name](), BLOCKS[name])


@pytest.mark.slow
def test_the_race_of_components_is_what_the_page_says_of_those_who_need_no_environment() -> None:
    shown = bench_peers.parts(20, None)["race-components"]()
    ours = replace(shown, heads=shown.heads[:4], rows=tuple(row[:4] for row in shown.rows))
    lines = [line.split(" | ") for line in BLOCKS["race-components"].splitlines() if line[:1] == "|"]
    kept = "\n".join(f"{' | '.join(cells[:4])} |" for cells in lines)
    assert lines_agree(ours, kept)
    assert not lines_agree(ours, kept.replace("0.99", "0.89"))


@pytest.mark.slow
def test_projected_rows_are_as_far_from_normal_as_the_page_says() -> None:
    shown = bench_ron_gauss_figures.parts(False, 20)["ron-gauss-normality"]()
    assert agrees(shown, BLOCKS["ron-gauss-normality"])


def test_a_silhouette_is_that_of_two_far_clusters_and_of_none() -> None:
    rows = np.array([[0.0], [1.0], [10.0], [11.0]])
    found = bench_ron_gauss_figures.silhouette(rows, np.array([0, 0, 1, 1]))
    assert found == pytest.approx((2 * (1 - 1 / 10.5) + 2 * (1 - 1 / 9.5)) / 4)
    assert bench_ron_gauss_figures.silhouette(rows, np.zeros(4, np.int64)) == 0


def test_the_bytes_of_proofs_are_what_the_page_says() -> None:
    shown = bench_peers.parts(1, None)["race-proofs"]()
    assert agrees(shown, BLOCKS["race-proofs"])
    assert not agrees(shown, BLOCKS["race-proofs"].replace("1,710", "1,790"))


SPECTRUM = bench_ndis_figures.parts(False, 300)


QUICK = ("ndis-by-leverage", "ndis-leverage-gain", "ndis-by-ratio", "ndis-audit", "ndis-table-1-error")


@pytest.mark.parametrize("name", QUICK)
def test_what_is_mathematics_about_the_spectrum_is_what_the_page_says(name: str) -> None:
    assert agrees(SPECTRUM[name](), BLOCKS[name])


@pytest.mark.slow
def test_the_flights_with_a_constant_column_give_the_printed_noise_and_without_one_do_not() -> None:
    rows = flights()
    printed, private = 0.7452001525, rp_pstar(1, 1 / len(rows), FLIGHT_SKETCH_ROWS)
    assert longest(rows) / math.sqrt(private) == pytest.approx(printed, rel=2e-7)
    assert longest(rows[:, [0, 2]]) / math.sqrt(private) != pytest.approx(printed, rel=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SPECTRUM if name not in QUICK])
def test_a_table_of_the_spectrum_is_what_its_benchmark_prints(name: str) -> None:
    assert agrees(SPECTRUM[name](), BLOCKS[name])


def test_the_expected_error_of_a_projection_is_that_of_many_of_them() -> None:
    rows = np.array([[1.0, 0.4], [0.0, 0.8]])
    errors = np.array(bench_ndis_figures.gram_errors(rows, 50, 0.7, 400, "test"))
    found, known = np.sqrt(np.mean(errors**2)), bench_ndis_figures.expected_error(rows.T @ rows, 50, 0.7)
    # 3.5 standard errors: about one seed in two thousand fails.
    spread = np.std(errors**2) / np.sqrt(len(errors))
    assert abs(found**2 - known**2) < 3.5 * spread
    wrong = bench_ndis_figures.expected_error(rows.T @ rows, 50, 1.0)
    assert abs(found**2 - wrong**2) > 3.5 * spread
