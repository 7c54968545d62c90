"""Means: exact without noise, from sums and from constant columns, with errors by cause."""

import csv
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators.means import means
from lintra_analysis.estimators.quantities import Of
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.row_count import RowCount
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import columns, in_units, mixed_columns, regression_rows, second_moment, total, with_constant

ROWS = regression_rows(600, np.random.default_rng(1)) + 0.5


def test_without_noise_both_kinds_of_release_give_the_means() -> None:
    rows, named = with_constant(ROWS, mixed_columns())
    expected = in_units(ROWS, mixed_columns()).mean(axis=0)
    squares = means(second_moment(rows, 0.0, np.random.default_rng(0), named))
    sums = means(total(ROWS, 0.0, np.random.default_rng(0), mixed_columns()))
    assert_allclose([mean.value for mean in squares.means], expected)
    assert_allclose([mean.value for mean in sums.means], expected)
    spread = in_units(ROWS, mixed_columns()).std(axis=0, ddof=1) / math.sqrt(600)
    for mean, sd, loose in zip(squares.means, spread, sums.means, strict=True):
        assert mean.standard_error is not None
        assert loose.standard_error is not None
        assert mean.standard_error.total == pytest.approx(sd)
        assert loose.standard_error.sampling > sd


def test_the_privacy_part_is_the_noise_of_the_sum_and_of_the_constant() -> None:
    rows, named = with_constant(ROWS, columns(5))
    gram = second_moment(rows, 3.0, np.random.default_rng(0), named).second_moment()
    for exact in (None, 0):
        law = SymmetricNoise(3.0, exact=exact)
        found = means(GramEstimate(gram.columns, gram.matrix, law, 600, 10.0), ["c1"]).means[0]
        slope, own = gram.matrix[0, 2] / gram.matrix[0, 0], 0.0 if exact == 0 else 2.0
        assert found.standard_error is not None
        expected = 3.0 * math.sqrt(1 + own * slope**2) / gram.matrix[0, 0]
        assert found.standard_error.privacy == pytest.approx(expected)


def test_means_are_json_csv_and_text() -> None:
    estimate = means(total(ROWS, 3.0, np.random.default_rng(0), mixed_columns()), ["c2", "c0"])
    plain = estimate.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    lines = list(csv.DictReader(io.StringIO(estimate.to_csv())))
    assert [line["name"] for line in lines] == ["c2", "c0"]
    assert [float(line["mean"]) for line in lines] == [mean.value for mean in estimate.means]
    assert "largest that the columns' bounds allow" in " ".join(estimate.summary().split())
    assert "[" not in repr(estimate)


def test_a_release_without_means_is_refused() -> None:
    with pytest.raises(InvalidAnalysisError, match="holds no means"):
        _ = means(second_moment(ROWS, 1.0, np.random.default_rng(0))).params
    with pytest.raises(InvalidAnalysisError, match="unknown columns: age"):
        means(total(ROWS, 1.0, np.random.default_rng(0)), ["age"])
    with pytest.raises(InvalidAnalysisError, match="strictly between"):
        means(total(ROWS, 1.0, np.random.default_rng(0)), confidence=0.0)


@pytest.mark.parametrize("of", ["cohort", "population"])
@pytest.mark.parametrize("kind", ["sum", "square"])
def test_the_error_of_a_mean_contains_its_noisy_count(kind: str, of: Of) -> None:
    """A quotient's relative error has the count's, however exact the sum is; a mean's is about the public center."""
    counted, named = RowCount(590.4, 30.0, 600), mixed_columns()
    if kind == "sum":
        sums = replace(total(ROWS, 2.0, np.random.default_rng(0), named).totals, counted=counted)
        release = Release(totals=sums)
        found, about = means(release, of=of).means, [column.center for column in named]
        exact = means(Release(totals=replace(sums, counted=replace(counted, sd=0.0))), of=of).means
    else:
        gram = second_moment(ROWS, 2.0, np.random.default_rng(0), named).second_moment()
        found, about = means(replace(gram, counted=counted), of=of).mean_squares, [0.0] * len(named)
        exact = means(replace(gram, counted=replace(counted, sd=0.0)), of=of).mean_squares
    assert found is not None
    assert exact is not None
    for noisy, known, center in zip(found, exact, about, strict=True):
        assert noisy.standard_error is not None
        assert known.standard_error is not None
        assert noisy.value == known.value
        share = abs(noisy.value - center) * 30 / 590
        assert noisy.standard_error.privacy == pytest.approx(math.hypot(known.standard_error.privacy, share))
        assert noisy.standard_error.total == pytest.approx(math.hypot(known.standard_error.total, share))
        assert share > 0
