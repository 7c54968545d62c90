"""The peers that the race had to write itself do what their papers say."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import showing
from peers import race
from peers.contestants import CONTESTANTS, NO_PRIVACY, Setting
from peers.mixing import renyi_epsilon, ridge_of, sketch
from peers.tukey import safe_distance, tukey_em

from lintra_curator.second_moment.curves import projection_delta


def test_many_small_regressions_give_a_median_near_the_truth_and_few_are_refused() -> None:
    generator, truth = np.random.default_rng(1), np.array([1.0, -2.0, 0.5])
    features = generator.normal(size=(30_000, 3))
    rows = np.column_stack([features, features @ truth + generator.normal(0, 0.5, 30_000)])
    found = tukey_em(rows, 1.0, 1e-6, 0)
    assert found is not None
    # Each model has deviation .5 / sqrt 27, the median of a thousand a few hundredths of that.
    assert np.abs(found - truth).max() < 0.1
    assert tukey_em(rows[:300], 1.0, 1e-6, 0) is None


def test_volumes_that_shrink_by_a_known_factor_are_safe_as_far_as_the_lemma_says() -> None:
    # ln of V(t-k-1) / V(t+k+g+1) is (2k + g + 2) c; with c below epsilon / 2 large g make up for any k that fits.
    epsilon, delta, depth, count, shrink = 0.5, 1e-6, 200, 400, 0.01
    volumes = -shrink * np.arange(count, dtype=float)
    wanted = np.log(delta / 8) - epsilon

    def safe(k: int) -> bool:
        most = count - depth - k - 2
        return most > 0 and (2 * k + 2 + most) * shrink - epsilon / 2 * most <= wanted

    last = max(k for k in range(depth) if safe(k))
    assert safe_distance(volumes, epsilon, delta, depth) == last
    assert safe_distance(-0.3 * np.arange(count, dtype=float), epsilon, delta, depth) == -1


def test_the_stamp_of_a_table_leaves_out_where_files_went(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/a/b/bench_x.py", "--write", "--output", "/c/d", "--runs", "3"])
    assert showing.stamp().startswith("`python benchmarks/bench_x.py --runs 3`, ")


def test_the_ridge_of_mixing_keeps_its_promise_by_the_exact_curve_and_a_small_one_would_not() -> None:
    for epsilon, rows, squared in ((0.25, 200, 1.0), (4.0, 1000, 2.0)):
        ridge = ridge_of(epsilon, 1e-6, rows, squared, 1)
        assert projection_delta(epsilon, squared / ridge, rows, "zero-out") < 1e-6
        assert projection_delta(epsilon, 8 * squared / ridge, rows, "zero-out") > 1e-6
        # The least ridge: the best order spends all of epsilon, and no order keeps it with a little less.
        orders = 1 + np.geomspace(1e-4, ridge / squared - 1, 4000)
        spent = [min(renyi_epsilon(a, rows, part * ridge, squared, 1, 1e-6 / 3) for a in orders) for part in (1, 0.99)]
        assert spent[0] == pytest.approx(epsilon, rel=1e-4)
        assert spent[1] > epsilon


def test_a_sketch_has_the_mean_and_the_variance_of_a_sketch_of_rows() -> None:
    rng, rows, ridge, size = np.random.default_rng(2), np.array([[1.0, 0.5], [0.0, 2.0]]), 3.0, 60
    wanted = rows.T @ rows + ridge * np.eye(2)
    drawn = np.array([sketch(rows.T @ rows, ridge, size, rng) / size for _ in range(1500)])
    deviation = np.sqrt((np.square(wanted) + np.outer(np.diag(wanted), np.diag(wanted))) / size)
    # The largest of four sample means and variances over 1,500 draws passes five deviations once in a million.
    assert np.abs(drawn.mean(axis=0) - wanted).max() < 5 * deviation.max() / np.sqrt(1500)
    assert np.abs(drawn.std(axis=0) / deviation - 1).max() < 0.1


@pytest.mark.parametrize("name", [name for name in CONTESTANTS if name != NO_PRIVACY])
def test_every_contestant_finds_what_many_rows_say(name: str) -> None:
    rng, truth = np.random.default_rng(3), np.array([0.8, -0.4])
    features = np.clip(rng.normal(size=(60_000, 2)) / 4, -0.7, 0.7)
    rows = np.column_stack([features, features @ truth + rng.normal(size=60_000) / 20])
    setting = Setting(2.0, 1e-6, feature_bound=1.0, target_bound=1.0, row_bound=np.sqrt(2), entry_bound=1.0)
    found = CONTESTANTS[name](rows, setting, 0)
    assert found is not None
    assert np.abs(found[:2] - truth).max() < 0.12
    assert race.error(found, rows) < 0.2 < race.error(-found, rows)


def test_who_did_not_answer_every_run_is_not_the_best(tmp_path: Path) -> None:
    def points(median: float, answers: int) -> dict[str, list[float]]:
        return {"train": [median, median, median, answers], "test": [median, median, median, answers]}

    held = {"no privacy": points(0.1, 20), "AdaSSP": points(0.5, 20), "TukeyEM": points(0.2, 19)}
    cell = {"runs": 20, "errors": held}
    assert race.best(cell, "test") == "AdaSSP"
    held["TukeyEM"] = points(0.2, 20)
    assert race.best(json.loads(json.dumps(cell)), "train") == "TukeyEM"


def test_every_cell_of_the_race_is_kept_once_and_the_page_counts_them() -> None:
    wanted = {(name, how, epsilon) for name in race.ALL for how in race.BOUNDS for epsilon in race.EPSILONS}
    cells = list(race.cells())
    assert {(cell["table"], cell["bounds"], cell["epsilon"]) for cell in cells} == wanted
    assert len(cells) == len(wanted)
    assert all(set(cell) >= {"date", "commit"} for cell in cells)
    page = (Path(__file__).resolve().parents[2] / "docs/explanation/race.md").read_text("utf-8")
    lines = race.counts().markdown().splitlines()
    assert [line for line in lines if line not in page.splitlines()] == []
