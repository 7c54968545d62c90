"""Sums of powers: they hold the rows' own wherever these lie inside their cells, and as often as they say."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators.power_sums import power_sums
from lintra_analysis.releases.cell_counts import CellCounts
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import second_moment

EDGES = np.linspace(-50.0, 100.0, 61)
GAIN = ScaledColumn("gain", 0, 1, -50, 100)
SMOKER = ScaledColumn("smoker", 0, 1, 0, 1, kind="boolean")
TOWN = ScaledColumn("town", 0, 1, 0, 2, kind="category")
POWERS = (1, 2, 3, 7)


def release(held: FloatArray, noise_sd: float, generator: np.random.Generator, missing: int = 0) -> Release:
    rows = held.size + missing
    exact = [np.histogram(held, EDGES)[0], np.array([rows - 300, 300]), np.array([rows, 0, 0])]
    counts = tuple(cells + noise_sd * generator.normal(size=cells.size) for cells in exact)
    unknown = np.array([missing, 0, 0]) + noise_sd * generator.normal(size=3)
    edges = (EDGES, np.empty(0), np.empty(0))
    named = ((), ("0", "1"), ("Bern", "Chur", "Genf"))
    return Release(cells=CellCounts((GAIN, SMOKER, TOWN), edges, named, counts, unknown, noise_sd, rows))


@pytest.mark.parametrize("inside", ["left ends", "right ends", "middles", "anywhere"])
def test_without_noise_the_interval_holds_the_rows_wherever_they_lie_inside_their_cells(inside: str) -> None:
    generator = np.random.default_rng(1)
    cell = generator.integers(0, 60, 4000)
    part = {"left ends": 0.0, "right ends": 1 - 1e-9, "middles": 0.5}.get(inside)
    held = EDGES[cell] + 2.5 * (generator.random(4000) if part is None else part)
    found = power_sums(release(held, 0.0, generator), POWERS, ["gain"])["gain"]
    for one in found.sums:
        truth = float(np.sum(np.abs(held) ** one.power))
        low, high = one.interval
        assert low <= truth * (1 + 1e-9)
        assert truth <= high * (1 + 1e-9)
        assert one.cells == pytest.approx(high - low)
        if inside == "anywhere":
            assert one.value == pytest.approx(truth, rel=0.02)
    if part is not None and part != 0.5:
        # Positive rows at left ends have the least sum, negative ones the largest: nothing of the width is spare.
        positive = EDGES[cell[cell >= 20]] + 2.5 * part
        own = power_sums(release(positive, 0.0, generator), [3], ["gain"])["gain"].sums[0]
        assert own.interval[int(part > 0)] == pytest.approx(float(np.sum(positive**3)), rel=1e-6)


def test_a_cell_on_both_sides_of_0_holds_rows_of_0_and_rows_at_its_farther_end() -> None:
    both = ScaledColumn("gain", 0, 1, -1, 3)
    own = Release(cells=CellCounts((both,), (np.array([-1.0, 3.0]),), ((),), (np.array([10.0]),), np.zeros(1), 0.0, 10))
    found = power_sums(own, [1, 2])["gain"].sums
    assert [one.interval for one in found] == [(0, 30), (0, 90)]
    # Even over [-1, 3]: E |x| = (1/2 + 9/2) / 4, E x^2 = (1/3 + 9) / 4.
    assert_allclose([one.value for one in found], [10 * 5 / 4, 10 * 28 / 12])


def test_whole_numbers_with_a_cell_each_and_booleans_have_no_doubt_about_where_they_lie() -> None:
    generator = np.random.default_rng(2)
    held = generator.integers(0, 6, 500)
    edges = np.arange(7) - 0.5
    whole = ScaledColumn("children", 0, 1, 0, 5, kind="integer")
    counts = (np.bincount(held, minlength=6).astype(float),)
    own = Release(cells=CellCounts((whole,), (edges,), ((),), counts, np.zeros(1), 0.0, 500))
    found = power_sums(own, [1, 4])["children"]
    for one in found.sums:
        assert one.cells == 0
        assert one.value == pytest.approx(float(np.sum(held.astype(float) ** one.power)))
    smokers = power_sums(release(100 * generator.random(1000), 0.0, generator), [1, 9], ["smoker"])["smoker"]
    assert_allclose([one.value for one in smokers.sums], 300)


@pytest.mark.parametrize(("draws", "around"), [(300, 0.045), pytest.param(4000, 0.013, marks=pytest.mark.slow)])
def test_the_noise_is_what_is_stated_and_intervals_without_width_of_cells_cover_as_they_say(
    draws: int, around: float
) -> None:
    # A draw's four powers hang together; the reach is 3.5 deviations of the coverage of one of them.
    generator = np.random.default_rng(3)
    held = EDGES[generator.integers(0, 60, 3000)]
    cells = CellCounts((GAIN,), (EDGES,), ((),), (np.histogram(held, EDGES)[0] * 1.0,), np.array([500.0]), 0.0, 3500)
    middle = Release(cells=cells)
    truth = [one.value for one in power_sums(middle, POWERS)["gain"].sums]
    errors, covered, half = [], [], []
    for _ in range(draws):
        counts = (cells.counts[0] + 12.0 * generator.normal(size=60),)
        unknown = np.array([500.0]) + 12.0 * generator.normal(size=1)
        noisy = Release(cells=CellCounts((GAIN,), (EDGES,), ((),), counts, unknown, 12.0, 3500))
        sums = power_sums(noisy, POWERS)["gain"].sums
        errors.append([(one.value - true) / one.noise for one, true in zip(sums, truth, strict=True)])
        covered.append([one.interval[0] <= true <= one.interval[1] for one, true in zip(sums, truth, strict=True)])
        half.append([abs(error) <= 1.96 for error in errors[-1]])
    # The value is clear of both ends, so its own noise shows in the errors; with the cells' width nearly all hold.
    assert_allclose(np.std(errors, axis=0), 1.0, atol=3.5 / np.sqrt(2 * draws))
    assert_allclose(np.mean(half, axis=0), 0.95, atol=around)
    assert np.mean(covered, axis=0).min() > 0.95


def test_an_interval_at_the_very_end_of_what_cells_allow_covers_as_often_as_it_says() -> None:
    # All rows at the ends of their cells that make the sum least: only noise is left, at 97.5 % on that side.
    generator = np.random.default_rng(4)
    held = EDGES[20 + generator.integers(0, 40, 3000)]
    truth, hits = float(np.sum(held**2)), 0
    for _ in range(300):
        low, _ = power_sums(release(held, 12.0, generator), [2], ["gain"])["gain"].sums[0].interval
        hits += low <= truth
    assert 0.975 - 0.03 < hits / 300 < 0.999


def test_words_tables_and_refusals() -> None:
    own = release(100 * np.random.default_rng(5).random(1000), 3.0, np.random.default_rng(6))
    found = power_sums(own, [2, 1])
    assert [column.name for column in found.columns] == ["gain", "smoker"]
    assert "wherever the rows lie inside their cells" in " ".join(found.summary().split())
    assert found.to_csv().splitlines()[0] == "column,power,sum,lower,upper,noise,cells"
    assert found.to_frame().index.tolist() == [("gain", 1), ("gain", 2), ("smoker", 1), ("smoker", 2)]
    for arguments, words in (
        (([0],), "whole numbers from 1 to 20"),
        (([],), "whole numbers from 1 to 20"),
        (([2.5],), "whole numbers from 1 to 20"),
        (([1], ["town"]), "'town' is a category"),
        (([1], ["age"]), "unknown columns: age"),
    ):
        with pytest.raises(InvalidAnalysisError, match=words):
            power_sums(own, *arguments)  # type: ignore[arg-type]
    with pytest.raises(InvalidAnalysisError, match="no column 'town'; columns are: gain"):
        found["town"]
    with pytest.raises(InvalidAnalysisError, match="counts no rows in cells"):
        power_sums(Release(moments=second_moment(np.ones((9, 2)), 1.0, np.random.default_rng(0))))
    huge = ScaledColumn("huge", 0, 1, 0, 1e9)
    wide = Release(cells=CellCounts((huge,), (np.array([0, 1e9]),), ((),), (np.array([9.0]),), np.zeros(1), 1.0, 9))
    with pytest.raises(InvalidAnalysisError, match="choose a larger unit"):
        power_sums(wide, [9])
