"""The bootstrap: releases drawn again have the law of the release, and its intervals know the noise."""

from dataclasses import replace

import numpy as np
import pytest

from lintra_analysis.releases.features import ClassLabel
from lintra_analysis.synthetic.bootstrap import bootstrap, draw_release
from lintra_analysis.synthetic.model import fit
from lintra_analysis.synthetic.rows import SyntheticRows
from lintra_protocol.errors import InvalidAnalysisError
from support import source
from support.made_projected_sums import isotropic, reals, released

LABEL = ClassLabel("kind", ("first", "second"))


def mean_of_first(rows: SyntheticRows) -> float:
    return float(np.mean(rows.columns["h1"]))


def two_classes(count: int = 600) -> object:
    rng = np.random.default_rng(1)
    rows, classes = rng.normal(0, 0.3, (count, 3)), np.arange(count) % 2
    features = reals(3, cells=4)
    cells = [np.histogram(rows[:, i], 4, (-1, 1))[0].astype(float) for i in range(3)]
    return released(rows, classes, features=features, label=LABEL, histograms=cells)


@pytest.mark.parametrize("law", ["discrete Gaussian", "discrete Laplace"])
@pytest.mark.slow
def test_a_release_drawn_again_has_its_means_and_deviations_and_this_test_would_notice_others(law: str) -> None:
    # 600 draws: a deviation is known to 2.9 % (mostly Laplace 4.6 %); four such and more: a false alarm below 1e-3.
    noise = replace(isotropic(5.0, 12.0, 9.0, 7.0), law=law)
    model = fit(replace(two_classes(), noise=noise))
    stream = source(f"draws {law}")
    drawn = [draw_release(model, stream) for _ in range(600)]
    counts = np.stack([one.counts for one in drawn])[:, 0]
    sums = np.stack([one.sums for one in drawn])[:, 0, 0]
    cells = np.stack([one.histograms[0] for one in drawn])[:, 1]
    share, cell = float(model.weights[0]), float(model.marginals[0][1])
    variance = float(model.covariance[0, 0])
    expected = {
        "counts": (600 * share, 600 * share * (1 - share) + 25),
        "sums": (
            600 * share * model.means[0, 0],
            600 * share * (variance + (1 - share) * model.means[0, 0] ** 2) + 144,
        ),
        "cells": (600 * cell, 600 * cell * (1 - cell) + 49),
    }
    for name, values in (("counts", counts), ("sums", sums), ("cells", cells)):
        mean, total = expected[name]
        assert abs(values.mean() - mean) < 5 * np.sqrt(total / 600)
        assert values.std() == pytest.approx(np.sqrt(total), rel=0.18)
        assert values.std() != pytest.approx(np.sqrt(total) * 1.3, rel=0.18)
    products = np.stack([one.products for one in drawn])
    np.testing.assert_allclose(products, products.transpose(0, 2, 1))
    outer = np.einsum("k,ki,kj->ij", 600 * model.weights, model.means, model.means)
    np.testing.assert_allclose(products.mean(axis=0), 600 * model.covariance + outer, atol=5 * 30 / np.sqrt(600))


def test_few_people_and_own_covariances_are_drawn_too() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(0, 0.3, (4, 3))
    assert draw_release(fit(released(rows)), source("few")).num_clients == 4
    classes = np.arange(200) % 2
    rows = rng.normal(0, 0.3, (200, 3))
    each = np.stack([rows[classes == k].T @ rows[classes == k] for k in range(2)])
    model = fit(replace(released(rows, classes, label=LABEL), products=each))
    assert draw_release(model, source("each")).products.shape == (2, 3, 3)


def test_intervals_grow_with_the_noise_and_do_not_depend_on_the_rows_drawn() -> None:
    rows = np.random.default_rng(3).normal(0.1, 0.3, (2000, 2))
    widths = []
    for sd in (0.0, 40.0, 400.0):
        model = fit(released(rows, noise=isotropic(0, sd, 0)))
        found = bootstrap(model, mean_of_first, num_rows=200, seed=1, runs=60, space="projected")
        widths.append(float(found.standard_error[0]))
        assert found.interval[0, 0] < found.value[0] < found.interval[0, 1]
        # Of the mean of n people and the noise on their sum, within the 10 % that 60 runs leave uncertain.
        assert widths[-1] == pytest.approx(np.sqrt(0.09 / 2000 + (sd / 2000) ** 2), rel=0.3)
    assert widths[0] < widths[1] < widths[2]


def test_the_same_seed_gives_the_same_interval() -> None:
    model = fit(two_classes())
    one, other = (bootstrap(model, mean_of_first, num_rows=50, seed=4, runs=20, space="projected") for _ in range(2))
    np.testing.assert_array_equal(one.interval, other.interval)
    assert one.to_dict()["runs"] == 20


def test_what_is_no_statistic_is_refused() -> None:
    model = fit(two_classes())
    sizes = iter(range(1, 1000))

    def changing(rows: SyntheticRows) -> np.ndarray:
        return np.zeros(next(sizes))

    with pytest.raises(InvalidAnalysisError, match="at least 20 runs"):
        bootstrap(model, mean_of_first, num_rows=50, seed=1, runs=5)
    with pytest.raises(InvalidAnalysisError, match="finite"):
        bootstrap(model, lambda rows: float("nan"), num_rows=50, seed=1, runs=20)
    with pytest.raises(InvalidAnalysisError, match="equally many"):
        bootstrap(model, changing, num_rows=50, seed=1, runs=20)
    with pytest.raises(InvalidAnalysisError, match="confidence"):
        bootstrap(model, mean_of_first, num_rows=50, seed=1, runs=20, confidence=0)
