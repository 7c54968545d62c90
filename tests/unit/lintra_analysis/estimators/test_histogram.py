"""Shares and quantiles from counted cells: against NumPy without noise, and their coverage with noise."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import beta

from lintra_analysis import HistogramEstimate, histogram
from lintra_analysis.estimators.correlation import correlation
from lintra_analysis.estimators.histogram import _running, adjusted_counts, distribution
from lintra_analysis.estimators.means import means
from lintra_analysis.releases.cell_counts import CellCounts
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError, InvalidReleaseError
from support.made_releases import second_moment

EDGES = np.linspace(0, 100, 51)
ROWS = 4000
MISSING = 800
AGE = ScaledColumn("age", 0, 1, 0, 100, "years")
SMOKER = ScaledColumn("smoker", 0, 1, 0, 1, "", "boolean")


def values(seed: int) -> FloatArray:
    return 100 * np.random.default_rng(seed).beta(2, 4, ROWS)


def release(held: FloatArray, noise_sd: float, seed: int = 0, column: ScaledColumn = AGE, missing: int = 0) -> Release:
    """Return a histogram of one number, which some do not know, and of a boolean that 30 % are."""
    generator, rows = np.random.default_rng(seed), len(held) + missing
    counts = [np.histogram(held, EDGES)[0].astype(float), np.array([0.7 * rows, 0.3 * rows])]
    noised = tuple(count + noise_sd * generator.normal(size=count.size) for count in counts)
    unknown = np.array([missing, 0.0]) + noise_sd * generator.normal(size=2)
    levels = ((), ("0", "1"))
    return Release(cells=CellCounts((column, SMOKER), (EDGES, np.array([])), levels, noised, unknown, noise_sd, rows))


def test_without_noise_shares_and_quantiles_are_those_of_the_rows() -> None:
    held = values(1)
    estimate = histogram(release(held, 0.0), quantiles=[0.1, 0.5, 0.9], of="cohort")
    age = estimate["age"]
    assert_allclose([share.value for share in age.shares], np.histogram(held, EDGES)[0] / ROWS)
    assert age.missing.value == 0
    for one in age.quantiles:
        truth = float(np.quantile(held, one.at))
        assert one.value == pytest.approx(truth, abs=0.4)
        assert one.interval[0] <= truth <= one.interval[1]
        assert one.interval[1] - one.interval[0] == pytest.approx(2.0)
    assert estimate["smoker"].shares[1].value == pytest.approx(0.3)
    assert estimate["smoker"].quantiles == ()


def covered(of: str, noise_sd: float, draws: int) -> tuple[float, float]:
    """Return how often intervals of quantiles and of shares hold what they are about; noise has deviation 12."""
    asked, hits, cells = [0.02, 0.25, 0.5, 0.75, 0.98], [], []
    for seed in range(draws):
        held = values(seed)
        counts = release(held, 12.0, seed, missing=MISSING).need("cells")
        given = Release(cells=replace(counts, noise_sd=noise_sd))
        found = histogram(given, ["age"], asked, of=of)["age"]  # type: ignore[arg-type]
        truth = np.quantile(held, asked, method="inverted_cdf") if of == "cohort" else 100 * beta.ppf(asked, 2, 4)
        hits += [one.interval[0] <= t <= one.interval[1] for one, t in zip(found.quantiles, truth, strict=True)]
        shares = np.histogram(held, EDGES)[0] / ROWS if of == "cohort" else np.diff(beta.cdf(EDGES / 100, 2, 4))
        # Shares are of all rows, quantiles of those that have a value.
        shares = shares * ROWS / (ROWS + MISSING)
        for i in (5, 15, 30):
            low, high = found.shares[i].interval or (0.0, 0.0)
            cells.append(low <= shares[i] <= high)
    return float(np.mean(hits)), float(np.mean(cells))


@pytest.mark.parametrize(
    ("of", "draws", "around"),
    # 3 shares a draw: 240 have a deviation of .014, 3000 one of .004; three of them leave a false alarm of .3 %.
    [
        ("cohort", 80, 0.042),
        *(pytest.param(of, 1000, 0.012, marks=pytest.mark.slow) for of in ("cohort", "population")),
    ],
)
def test_intervals_of_quantiles_and_shares_cover_as_often_as_they_say(of: str, draws: int, around: float) -> None:
    quantiles, shares = covered(of, 12.0, draws)
    assert quantiles > 0.95
    assert 0.95 - around < shares < 0.95 + around
    assert covered("cohort", 6.0, 80)[1] < 0.85


def test_the_distribution_adds_up_rises_and_is_the_nearest_monotone_one() -> None:
    counts = np.array([3.0, -2.0, 5.0, 0.0, 7.0])
    rising = distribution(counts, 0.0, 20)
    assert rising[0] == 0
    assert rising[-1] == 1
    assert (np.diff(rising) >= 0).all()
    # 7 rows are lacking, 7/6 for each cell, that of missing values too: 25, -5, 37, 7, 49, 7 sixths. Of 113 sixths lie
    # 25, 20, 57, 64 below the edges; the second pulls the first down to their mean.
    assert_allclose(rising, np.array([0, 22.5, 22.5, 57, 64, 113]) / 113)


def test_bringing_cells_into_line_with_the_rows_takes_the_stated_part_off_the_error() -> None:
    held = values(3)
    truth = np.searchsorted(np.sort(held), EDGES) / ROWS
    releases = [release(held, 10.0, seed).need("cells") for seed in range(400)]
    drawn = np.array([_running(adjusted_counts(one.counts[0], float(one.missing[0]), ROWS)) for one in releases])
    place = np.arange(51)
    stated = 10.0 * np.sqrt((place * (51 - place) - 2 * truth * place + truth**2 * 50) / 51) / ROWS
    assert_allclose((drawn - truth).std(axis=0)[1:-1], stated[1:-1], rtol=0.2)
    assert np.abs((drawn - truth).mean(axis=0)[1:-1] / stated[1:-1]).max() < 6 / math.sqrt(400)
    # Without it the variance after i cells would be i times a cell's.
    assert (stated[40] * ROWS) ** 2 < 0.3 * 40 * 10.0**2


def test_quantiles_of_whole_numbers_are_whole_numbers() -> None:
    whole = ScaledColumn("age", 0, 1, 0, 100, "years", "integer")
    for one in histogram(release(values(4), 12.0, 4, whole))["age"].quantiles:
        assert one.value == round(one.value)
        assert one.interval[0] == round(one.interval[0]) <= one.value <= one.interval[1] == round(one.interval[1])


def test_a_histogram_reads_like_any_other_answer() -> None:
    estimate = histogram(release(values(5), 12.0, 5))
    assert isinstance(estimate, HistogramEstimate)
    text = estimate.summary("epsilon 1")
    assert "age (years): rows below" in text
    assert "smoker" in text
    assert "Privacy: epsilon 1" in text
    assert len(estimate.to_csv().splitlines()) == 1 + 51 + 3
    frame = estimate.to_frame()
    assert frame["cell"][0] == "[0, 2)"
    assert list(frame["cell"])[49:] == ["[98, 100]", "missing", "0", "1", "missing"]
    assert frame["share"].sum() == pytest.approx(2, abs=0.2)
    assert json.loads(json.dumps(estimate.to_dict(), allow_nan=False))["columns"][0]["quantiles"][3]["at"] == 0.5
    assert estimate.conf_int()["age", 0.5] == estimate["age"].quantiles[3].interval
    assert "<table>" in estimate._repr_html_()
    with pytest.raises(InvalidAnalysisError, match="columns are: age, smoker"):
        estimate["sex"]


def test_what_a_histogram_does_not_hold_is_refused_and_so_is_a_histogram_of_what_is_none() -> None:
    for ask in (means, correlation):
        with pytest.raises(InvalidAnalysisError, match="looks at each column alone"):
            ask(release(values(7), 1.0))
    other = second_moment(np.random.default_rng(1).normal(size=(100, 5)), 1.0, np.random.default_rng(2))
    with pytest.raises(InvalidAnalysisError, match="release a histogram of these columns"):
        histogram(Release(moments=other))
    for asked in ([0.0], [1.0], [float("nan")]):
        with pytest.raises(InvalidAnalysisError, match="strictly between 0 and 1"):
            histogram(release(values(8), 1.0), quantiles=asked)


def test_a_release_whose_parts_do_not_fit_is_refused() -> None:
    held = release(values(9), 1.0).need("cells")
    with pytest.raises(InvalidReleaseError, match="either levels or increasing edges"):
        CellCounts(held.columns, (EDGES[::-1], held.edges[1]), held.levels, held.counts, held.missing, 1.0, ROWS)
    names, lines = held.restrict(["smoker", "age"]).table()
    assert names == ["column", "cell", "lower", "upper", "rows"]
    assert lines.shape == (54, 5)
    assert_allclose(lines[:3, :4], [[0, 0, 0, 0], [0, 1, 1, 1], [0, -1, 0, 0]])
