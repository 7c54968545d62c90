"""Tables as files: what is written comes back."""

import io
import sys

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators.export import INSTALL, columns_of, lines_of, npz_of, parquet_of
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.trend import trend
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import mixed_columns, regression_rows, second_moment, with_constant

ROWS, NAMED = with_constant(regression_rows(4096, np.random.default_rng(1)), mixed_columns())
RELEASE = second_moment(ROWS, 20.0, np.random.default_rng(2), NAMED)
ESTIMATE = regression(RELEASE, "c4", ["c2", "c0"])


def test_a_table_goes_into_files_and_comes_back() -> None:
    header, lines = lines_of(ESTIMATE)
    assert header[:2] == ["name", "coefficient"]
    assert [line[0] for line in lines] == ["c2", "c0", "(intercept)"]
    columns = columns_of(ESTIMATE)
    with np.load(io.BytesIO(npz_of(ESTIMATE)), allow_pickle=False) as held:
        assert list(held["columns"]) == header
        assert list(held["0"]) == columns["name"]
        assert_allclose(held["1"], [ESTIMATE.params[line[0]] for line in lines])
    frame = pandas.read_parquet(io.BytesIO(parquet_of(ESTIMATE)))
    assert list(frame.columns) == header
    assert_allclose(frame["coefficient"], columns["coefficient"])


def test_an_empty_cell_is_no_number_in_a_file() -> None:
    columns = columns_of(trend({2: RELEASE, 4: RELEASE}, "c0"))
    assert_allclose(columns["window"], [2, 3, 4])
    assert np.isnan(columns["mean"]).tolist() == [False, True, False]


def test_without_pyarrow_parquet_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidAnalysisError) as refusal:
        parquet_of(ESTIMATE)
    assert refusal.value.detail == INSTALL
