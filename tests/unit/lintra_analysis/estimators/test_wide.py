"""Components, variances and ridge regressions from a range finder."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators.wide import wide_components, wide_ridge, wide_variances
from lintra_analysis.estimators.wide_core import variances_from_halves
from lintra_analysis.kinds.range_finder import UNCLIPPED_FOR_INTERVALS, usual_projected_bound
from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.range_sums import RangeSums, TargetProducts
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.privacy.gaussian import gaussian_mu

MU = gaussian_mu(1.0, 1e-6)
COLUMNS, RANK, TARGET = 120, 32, 7


def columns(count: int = COLUMNS) -> tuple[ScaledColumn, ...]:
    return tuple(ScaledColumn(f"c{i}", 1.0, 2.0, -9.0, 11.0) for i in range(count))


def normalised_rows(count: int, rng: np.random.Generator, slope: float = 1.0, size: int = COLUMNS) -> FloatArray:
    """Return rows of norm 1 whose variances along the axes fall like i^-slope."""
    rows = rng.normal(size=(count, size)) * np.arange(1, size + 1) ** (-slope / 2)
    found: FloatArray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return found


def noisy(
    rows: FloatArray,
    times: float,
    rng: np.random.Generator,
    *,
    rank: int = RANK,
    noise: float = 1.0,
    unclipped: float = 0.95,
    means: bool = False,
    targets: tuple[int, ...] = (),
    declared: bool = True,
) -> Release:
    """Return the range finder of rows that each count `times` times, with its clip and the noise of epsilon 1."""
    size = rows.shape[1]
    bound = float(usual_projected_bound("1", size, rank, unclipped))
    projection = rng.choice([-1.0, 1.0], (size, rank)) / math.sqrt(rank)
    seen = rows @ projection
    seen *= np.minimum(1.0, bound / np.linalg.norm(seen, axis=1))[:, np.newaxis]
    own = 2 * bound / MU * noise
    count = round(len(rows) * times)
    values = times * rows.T @ seen + own * rng.normal(size=(size, rank))
    sums = times * rows.sum(axis=0) + 4 * own * rng.normal(size=size) if means else None
    products = [times * rows.T @ rows[:, i] + own * rng.normal(size=size) for i in targets if declared]
    trace = times * float(np.square(rows).sum()) + own * rng.normal()
    held = RangeSums(
        columns=columns(size),
        values=values,
        projection=projection,
        noise_sd=own,
        num_clients=count,
        row_bound=1.0,
        projected_bound=bound,
        sums=None if sums is None else Totals(columns(size), sums, 4 * own, count, 1.0),
        targets=tuple(TargetProducts(i, 1.0, one, own) for i, one in zip(targets, products, strict=False)),
        trace=trace,
        trace_sd=own,
    )
    return Release(range_sums=held, totals=held.sums)


def kept_part(found: FloatArray, gram: FloatArray, rank: int) -> float:
    """Return which part of the variance that the best directions hold is held by the first so many found."""
    best = float(np.linalg.eigvalsh(gram)[::-1][:rank].sum())
    return float(np.trace(found[:rank] @ gram @ found[:rank].T)) / best


def test_leading_components_hold_most_of_what_the_best_hold_and_variances_are_a_little_small() -> None:
    rng = np.random.default_rng(1)
    rows = normalised_rows(2000, rng)
    release = noisy(rows, 200, rng)
    estimate = wide_components(release)
    gram = rows.T @ rows / len(rows)
    # .96 of it at d = 1000, r = 32 and a million rows; here a share of 1 is out of reach and .5 would be noise.
    assert 0.9 < kept_part(estimate.components, gram, 5) < 1
    true = [float(v @ gram @ v) for v in estimate.components]
    assert_allclose(estimate.explained_variance_[:5], true[:5], rtol=0.25)
    assert np.mean(estimate.explained_variance_ - true) < 0
    assert_allclose(estimate.components @ estimate.components.T, np.eye(len(estimate.components)), atol=1e-10)
    assert estimate.explained_variance_ratio is not None
    assert estimate.explained_variance_ratio[0] == pytest.approx(true[0], rel=0.2)


def hits(runs: int, seed: int, *, one_half: bool = False) -> list[bool]:
    """Return for every interval of some releases whether it holds the variance of the rows along its direction."""
    found: list[bool] = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        rows = normalised_rows(600, rng)
        release = noisy(rows, 120, rng).need("range_sums")
        values, projection = release.values, release.projection
        if one_half:
            # As if the half that directions were chosen from told their variances as well.
            half = RANK // 2
            values, projection = (np.hstack([each[:, :half]] * 2) for each in (values, projection))
        vectors, squares, errors, free = variances_from_halves(values, projection, release.noise_sd)
        true = 120 * np.square(rows @ vectors).sum(axis=0)
        reach = {7: 2.3646, 8: 2.3060}.get(free, 2.2)
        found += list(np.abs(squares - true) <= reach * errors)
    return found


def test_intervals_from_halves_hold_with_the_clip_of_projections_and_would_not_from_one_half() -> None:
    # Some 300 intervals: a share of .95 has deviation .013.
    both = hits(40, 3)
    assert len(both) > 150
    assert 0.92 <= np.mean(both) <= 0.98
    assert np.mean(hits(8, 3, one_half=True)) < 0.8


def test_intervals_are_of_the_confidence_asked_for_and_lie_around_the_value() -> None:
    rng = np.random.default_rng(2)
    release = noisy(normalised_rows(1500, rng), 100, rng)
    wide, narrow = (wide_variances(release, confidence=confidence) for confidence in (0.99, 0.5))
    for one, other in zip(wide.explained_variance, narrow.explained_variance, strict=True):
        assert one.interval is not None
        assert other.interval is not None
        assert one.interval[0] < other.interval[0] < one.value < other.interval[1] < one.interval[1]


def shared_direction(rng: np.random.Generator) -> FloatArray:
    rows = normalised_rows(1500, rng)
    rows[:, 0] += 1.5
    found: FloatArray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return found


def test_a_component_with_most_of_the_length_has_an_interval_only_with_a_wider_bound_or_about_the_means() -> None:
    rng = np.random.default_rng(4)
    rows = shared_direction(rng)
    narrow = wide_variances(noisy(rows, 100, rng), about="centers")
    assert narrow.explained_variance[0].interval is None
    assert "may be too small" in narrow.warnings[0]
    wide = wide_variances(noisy(rows, 100, rng, unclipped=UNCLIPPED_FOR_INTERVALS), about="centers")
    assert wide.explained_variance[0].interval is not None
    centred = wide_variances(noisy(rows, 100, rng, means=True))
    assert centred.about_means
    assert centred.explained_variance[0].interval is not None


def test_about_the_means_the_shared_direction_is_gone_and_rows_are_measured_from_the_means() -> None:
    rng = np.random.default_rng(5)
    rows = shared_direction(rng)
    release = noisy(rows, 200, rng, means=True, noise=0.1, unclipped=UNCLIPPED_FOR_INTERVALS)
    estimate, largest = wide_components(release), wide_variances(release, 1).explained_variance[0]
    gram = np.cov(rows.T, bias=True)
    assert kept_part(estimate.components, gram, 3) > 0.9
    assert largest.interval is not None
    assert largest.interval[0] < float(np.linalg.eigvalsh(gram)[-1]) < largest.interval[1]
    assert_allclose(estimate.mean, 1 + 2 * rows.mean(axis=0), atol=0.02)
    own = 1 + 2 * rows[:3]
    assert_allclose(estimate.transform(own), (own - estimate.mean) / 2 @ estimate.components.T)


def test_means_that_are_nothing_but_noise_are_not_taken_off_as_a_direction() -> None:
    rng = np.random.default_rng(12)
    rows = normalised_rows(1000, rng)
    centred = noisy(rows - rows.mean(axis=0), 0.2, rng, means=True).need("range_sums")
    shifted = noisy(rows + 0.5, 20.0, rng, means=True).need("range_sums")
    assert centred.sums is not None
    taken = np.square(centred.sums.values).sum() / centred.num_clients
    assert taken > 2 * centred.noise_sd * math.sqrt(COLUMNS)
    left = np.linalg.norm(centred.about_means()[0] - centred.values, 2)
    assert left < 0.2 * taken
    assert shifted.kept_of_means > 0.98
    # Far from the centers the noise of the means is a direction of its own, and every answer says so.
    found = wide_components(Release(range_sums=shifted, totals=shifted.sums))
    assert any("the means are far from the centers" in warning for warning in found.warnings)
    found = wide_components(Release(range_sums=shifted), about="centers")
    assert not any("the means" in warning for warning in found.warnings)
    quiet = noisy(rows, 200.0, rng, means=True)
    assert not any("the means" in warning for warning in wide_components(quiet).warnings)


def explained(rows: FloatArray) -> tuple[FloatArray, float]:
    """Return rows whose target column follows the first five others, and the part of it that these explain."""
    made = rows.copy()
    made[:, TARGET] = made[:, :5] @ [0.6, -0.5, 0.4, 0.5, -0.4]
    return made, 1.0


@pytest.mark.parametrize("declared", [True, False])
def test_a_ridge_explains_a_target_whether_or_not_it_was_declared(declared: bool) -> None:
    rng = np.random.default_rng(6)
    rows, _ = explained(normalised_rows(1500, rng))
    rows *= 0.9
    estimate = wide_ridge(noisy(rows, 2000, rng, targets=(TARGET,), declared=declared), f"c{TARGET}")
    own = 1 + 2 * rows
    predicted = estimate.predict(own[:, [i for i in range(COLUMNS) if i != TARGET]])
    r2 = 1 - np.square(own[:, TARGET] - predicted).sum() / np.square(own[:, TARGET] - 1).sum()
    assert r2 > 0.8
    assert estimate.declared is declared
    assert ("was not declared a target" in "".join(estimate.warnings)) is not declared
    if declared:
        assert estimate.explained_share is not None
        assert estimate.explained_share.value == pytest.approx(r2, abs=0.1)
    assert f"c{TARGET}" not in estimate.features


def test_what_noise_may_have_made_is_left_out_of_the_components_and_counted() -> None:
    rng = np.random.default_rng(21)
    release = noisy(normalised_rows(600, rng), 40, rng)
    held = release.need("range_sums")
    above = variances_from_halves(held.values, held.projection, held.noise_sd)[1].size
    found = wide_variances(release)
    assert 0 < len(found.components) < above
    assert all(one.interval[0] > found.smallest_seen for one in found.explained_variance if one.interval)
    assert max(found.squared_sines) <= 0.5
    assert f"noise may have made {above - len(found.components)} of the components" in found.warnings[-1]
    assert len(wide_components(release).components) <= len(found.components)


def test_without_a_trace_nothing_is_said_on_most_of_the_length() -> None:
    rng = np.random.default_rng(5)
    release = noisy(shared_direction(rng), 100, rng)
    held = release.need("range_sums")
    assert "most of the rows' length" in wide_variances(release, about="centers").warnings[0]
    silent = wide_variances(replace(release, range_sums=replace(held, trace=None)), about="centers")
    assert silent.explained_variance[0].interval is None
    assert not any("most of the rows' length" in warning for warning in silent.warnings)


def test_a_larger_ridge_makes_smaller_coefficients() -> None:
    rng = np.random.default_rng(7)
    rows, _ = explained(normalised_rows(800, rng))
    release = noisy(rows, 400, rng, targets=(TARGET,))
    sizes = [np.linalg.norm(wide_ridge(release, f"c{TARGET}", ridge).coefficients) for ridge in (0, 1e4, 1e6)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[2] < 0.2 * sizes[0]


def test_what_the_release_cannot_say_is_refused_in_words() -> None:
    rng = np.random.default_rng(8)
    rows = normalised_rows(300, rng)
    lost = noisy(rows, 1, rng)
    for ask in (wide_components, wide_variances):
        with pytest.raises(InvalidAnalysisError, match="nothing stands above the noise"):
            ask(lost)
    with pytest.raises(InvalidAnalysisError, match="rank of at least 18"):
        wide_variances(noisy(rows, 1000, rng, rank=16))
    clear = noisy(rows, 1000, rng)
    with pytest.raises(InvalidAnalysisError, match="unknown columns"):
        wide_ridge(clear, "nobody")
    with pytest.raises(InvalidAnalysisError, match="at least 0"):
        wide_ridge(clear, "c1", -1)
    with pytest.raises(InvalidAnalysisError, match="components is a whole number"):
        wide_components(clear, 0)
    with pytest.raises(InvalidAnalysisError, match="wide_components"):
        clear.second_moment()
    with pytest.raises(InvalidAnalysisError, match="mixes all columns"):
        clear.restrict(["c1"])
    with pytest.raises(InvalidAnalysisError, match="no range finder"):
        wide_components(Release(totals=Totals(columns(), rows[0], 1.0, 9, 1.0)))


def test_text_csv_and_plain_values_hold_the_same_numbers() -> None:
    rng = np.random.default_rng(9)
    rows, _ = explained(normalised_rows(800, rng))
    release = noisy(rows, 400, rng, targets=(TARGET,))
    estimate, ridge = wide_variances(release, 2), wide_ridge(release, f"c{TARGET}")
    assert estimate.to_csv().splitlines()[1].startswith(f"1,{estimate.explained_variance[0].value!r},")
    assert f"{estimate.explained_variance[0].value:.4g}" in estimate.summary("epsilon 1")
    assert estimate.to_dict()["explained_variance"][0]["value"] == estimate.explained_variance[0].value  # type: ignore[index, call-overload]
    assert estimate.conf_int()["component 1"] == estimate.explained_variance[0].interval
    assert len(ridge.to_csv().splitlines()) == 2 + len(ridge.features)
    assert "Ridge regression of c7" in ridge.summary()
    assert list(ridge.to_frame()["coefficient"]) == ridge.coefficients.tolist()
