"""The peers that the race had to write itself do what their papers say."""

import sys

import numpy as np
import pytest
import showing
from peers.tukey import safe_distance, tukey_em


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
