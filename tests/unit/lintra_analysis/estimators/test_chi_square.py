"""Independence of two counted columns: scipy's statistic without noise, and the simulated law with it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from lintra_analysis.estimators.chi_square import chi_square, counted_pairs
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.crossed_cells import CrossedCells
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import regression_rows, second_moment
from support.survival_releases import counted, lives, released

LEVELS = ("a", "b", "c")


def table(shares: FloatArray, noise_sd: float, generator: np.random.Generator) -> Release:
    """Release a table of 2,000 rows with these shares, shape `(2, 3)`."""
    counts = generator.multinomial(2000, shares.ravel()).reshape(shares.shape)
    noisy = counts + noise_sd * generator.normal(size=shares.shape)
    columns = (ScaledColumn("ill", 0, 1, 0, 1, "", "boolean"), ScaledColumn("arm", 0, 1, 0, 2, "", "category"))
    none, missing = np.array([]), noise_sd * float(generator.normal())
    cells = CrossedCells(columns, (none, none), (("0", "1"), LEVELS), noisy, missing, noise_sd, 2000)
    return Release(crossed=cells)


ALIKE = np.outer([0.7, 0.3], [0.5, 0.3, 0.2])
DIFFERS = ALIKE + 0.02 * np.array([[1, -1, 0], [-1, 1, 0]])


def test_with_hardly_any_noise_it_is_the_chi_square_of_scipy() -> None:
    found = chi_square(table(DIFFERS, 1e-6, np.random.default_rng(1)), "ill", "arm")
    expected = stats.chi2_contingency(np.rint(found.observed), correction=False)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-6)
    assert found.degrees == expected.dof
    assert_allclose(found.expected, expected.expected_freq, rtol=1e-6)
    assert found.p_value == pytest.approx(expected.pvalue, abs=0.03)
    turned = chi_square(table(DIFFERS, 1e-6, np.random.default_rng(1)), "arm", "ill")
    assert turned.statistic == pytest.approx(found.statistic, rel=1e-6)


def test_noise_enters_the_law_so_that_independence_is_not_rejected_for_it() -> None:
    """60 tables: at size .05 more than 9 rejections come in less than 1 in 1,000 runs."""
    generator = np.random.default_rng(2)
    tests = [chi_square(table(ALIKE, 20.0, generator), "ill", "arm") for _ in range(60)]
    assert sum(one.p_value <= 0.05 for one in tests) <= 9
    assert sum(stats.chi2.sf(one.statistic, 2) <= 0.05 for one in tests) > 20
    strong = ALIKE + 0.06 * np.array([[1, -1, 0], [-1, 1, 0]])
    assert chi_square(table(strong, 20.0, generator), "ill", "arm").p_value <= 0.01


def test_other_columns_are_added_up() -> None:
    lived = lives(4000, np.array([0.05, 0.4]), np.array([0.1, 0.1]), np.random.default_rng(3))
    release = released(counted(lived, 20), 3.0, np.random.default_rng(4))
    found = chi_square(release, "died", "arm")
    assert found.observed.shape == (2, 2)
    assert found.noise_sd == pytest.approx(3 * np.sqrt(21))
    assert found.p_value == pytest.approx(0.001)
    assert "are told to depend on each other" in found.in_words()
    assert found.to_csv().count("\n") == 5


def test_a_table_that_noise_drowns_and_pairs_that_were_not_counted_are_refused_in_words() -> None:
    with pytest.raises(InvalidAnalysisError, match="a fifth of the cells"):
        chi_square(table(ALIKE, 500.0, np.random.default_rng(1)), "ill", "arm")
    with pytest.raises(InvalidAnalysisError, match="unknown columns: sex"):
        chi_square(table(ALIKE, 1.0, np.random.default_rng(1)), "ill", "sex")
    plain = Release(moments=second_moment(regression_rows(50, np.random.default_rng(1)), 1.0, np.random.default_rng(1)))
    for asked in (counted_pairs, lambda release: chi_square(release, "c0", "c1")):
        with pytest.raises(InvalidAnalysisError, match="counts no two columns together"):
            asked(plain)
