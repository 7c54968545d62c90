"""The rule of row weights against the note's formulas, entry by entry, and against simulation."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.trial.row_weights import (
    FACTORS,
    SHARES,
    RowWeighting,
    chosen_on,
    expected_error,
    relative_noise,
    row_weighting,
)
from lintra_protocol.crypto.ring import FloatArray

MU = 0.2367


def rows_of(count: int = 3000, features: int = 4, seed: int = 1) -> FloatArray:
    """Rows with a linear law, R2 a half, the target last."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(count, features)) * np.arange(1, features + 1) / features
    slopes = np.linspace(1.0, -0.5, features)
    signal = x @ slopes
    return np.column_stack([x, signal + signal.std() * generator.normal(size=count)])


@pytest.mark.parametrize(("num_rows", "by"), [(1000, "all"), (7000, "all"), (50_000, "features")])
def test_the_rule_is_that_of_the_page(num_rows: int, by: str) -> None:
    rows = rows_of()
    found = row_weighting(rows, num_rows, MU)
    q = 6
    nu = 1.02 * q / (num_rows * MU)
    share = min(1.0, 40 * nu)
    constant = sum(float(x) ** 2 for row in rows for x in row) / rows.size
    assert (found.by, found.noise, found.share) == (by, pytest.approx(nu), pytest.approx(share))
    assert found.constant**2 == pytest.approx(constant)
    held = rows[:, :-1] if by == "features" else rows
    lengths = [constant + sum(float(x) ** 2 for x in row) for row in held]
    squared = max(constant, float(np.quantile(lengths, 1 - share)))
    assert found.row_bound**2 == pytest.approx(squared * (2 if by == "features" else 1))
    if by == "features":
        assert found.target_bound == pytest.approx(np.quantile(np.abs(rows[:, -1]), max(0.95, 1 - 10 * nu)))
        assert found.target_factor == pytest.approx(math.sqrt(squared) / found.target_bound)
    else:
        assert (found.target_bound, found.target_factor) == (None, 1.0)


def test_a_two_valued_target_is_never_moved_and_has_weights_by_features_however_large_the_noise() -> None:
    rows = rows_of()
    rows[:, -1] = np.where(rows[:, -1] > 1, 0.9, -0.1)
    found = row_weighting(rows, 500, MU, two_valued=True)
    assert (found.by, found.target_bound) == ("features", 0.9)


def test_without_a_target_a_tenth_as_many_rows_are_shrunk() -> None:
    rows = rows_of()
    found = row_weighting(rows, 20_000, MU, target=False)
    assert (found.by, found.target_bound, found.target_factor) == ("all", None, 1.0)
    assert found.share == pytest.approx(row_weighting(rows, 20_000, MU, by="all").share / 10)
    assert (row_weighting(rows, 20, MU, target=False).share, found.noise) == (1.0, relative_noise(6, 20_000, MU))


@pytest.mark.parametrize("by", ["features", "all"])
def test_no_weighted_vector_is_longer_than_the_row_bound_and_a_share_is_shrunk(by: str) -> None:
    rows = rows_of()
    found = row_weighting(rows, 8000, MU, by="features" if by == "features" else "all")
    vectors, roots = found.vectors(rows)
    assert (np.linalg.norm(vectors * roots[:, np.newaxis], axis=1) <= found.row_bound * (1 + 1e-12)).all()
    assert (roots < 1 - 1e-12).mean() == pytest.approx(found.share, abs=0.001)


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_features_keep_the_slopes_of_a_linear_law_and_weights_by_all_do_not(share: float) -> None:
    """Section 1.2's simulation: normal features, R2 a half."""
    generator = np.random.default_rng(4)
    x = generator.normal(size=(200_000, 5))
    y = x.sum(axis=1) / math.sqrt(5) + generator.normal(size=200_000)
    rows = np.column_stack([x, y])
    noise = share / 40
    num_rows = 1.02 * 7 / (noise * MU)
    kept = {}
    for by in ("features", "all"):
        weighting = row_weighting(rows, num_rows, MU, by="features" if by == "features" else "all")
        assert weighting.share == pytest.approx(share)
        vectors, roots = weighting.vectors(rows)
        # The target's bound is another matter: it is far out here, so that weights alone are measured.
        vectors[:, -1] = y * weighting.target_factor
        weighted = vectors * roots[:, np.newaxis]
        slopes = np.linalg.lstsq(weighted[:, :-1], weighted[:, -1], rcond=None)[0][1:] / weighting.target_factor
        kept[by] = float(np.mean(slopes) * math.sqrt(5))
    assert 0.98 < kept["features"] < 1.02
    assert kept["all"] < 0.97


def test_the_expected_error_is_that_of_a_simulation_where_noise_is_small() -> None:
    rows, num_rows = rows_of(2000), 40_000.0
    weighting = row_weighting(rows, num_rows, 1.0)
    vectors, roots = weighting.vectors(rows)
    theirs = vectors * roots[:, np.newaxis]
    gram = theirs.T @ theirs * (num_rows / len(rows))
    plain = np.column_stack([vectors[:, :1], rows])
    ordinary = np.linalg.lstsq(plain[:, :-1], rows[:, -1], rcond=None)[0][1:]
    generator, size, errors = np.random.default_rng(3), len(gram), []
    for _ in range(4000):
        noise = generator.normal(size=(size, size)) * weighting.row_bound**2
        noise = (noise + noise.T) / math.sqrt(2)
        noise -= np.trace(noise) / size * (1 - 1 / math.sqrt(size + 1)) * np.eye(size)
        noisy = gram + noise
        slopes = np.linalg.solve(noisy[:-1, :-1], noisy[:-1, -1])[1:] / weighting.target_factor
        errors.append((slopes - ordinary) ** 2)
    found = np.sqrt(np.mean(errors, axis=0)) * rows.std(axis=0)[:-1] / rows[:, -1].std()
    assert expected_error(rows, weighting, num_rows, 1.0) == pytest.approx(np.median(found), rel=0.04)


def test_with_rows_at_hand_the_smallest_expected_error_is_taken() -> None:
    rows = rows_of()
    found = chosen_on(rows, 2000, MU)
    least = expected_error(rows, found, 2000, MU)
    assert (found.by, found.share in SHARES, found.target_factor in FACTORS) == ("all", True, True)
    assert least <= expected_error(rows, row_weighting(rows, 2000, MU), 2000, MU)
    assert least < expected_error(rows, RowWeighting("all", 10.0, found.constant, None, 1.0, 0.0, 0.0), 2000, MU)


def test_with_features_that_depend_on_each_other_and_a_target_that_never_varies_the_rule_still_answers() -> None:
    rows = rows_of(200)
    rows[:, 1] = rows[:, 0]
    assert math.isfinite(expected_error(rows, chosen_on(rows, 500, MU), 500, MU))
    rows[:, -1] = 0.0
    found = row_weighting(rows, 500, MU, by="features")
    assert found.target_bound == 1.0
    assert_allclose(found.vectors(rows)[0][:, -1], 0.0)
