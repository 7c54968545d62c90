"""Synthetic rows as a pandas data frame and as Parquet: types, levels, and the promise inside the file."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from lintra_analysis.releases.features import ClassLabel, Feature
from lintra_analysis.synthetic.generator import synthesize
from lintra_analysis.synthetic.model import fit
from lintra_analysis.synthetic.rows import WARNING, SyntheticRows
from lintra_protocol.errors import InvalidAnalysisError
from support.made_projected_sums import PROMISE, numeric, released

FEATURES = (
    Feature("height", "real", 100, 220, unit="cm"),
    Feature("children", "integer", 0, 9),
    Feature("member", "boolean"),
    Feature("region", "category", levels=("west", "north", "never"), cells=3),
)
KIND = ClassLabel("kind", ("good", "bad"))


def made(label: str = "class", space: str = "columns", count: int = 60) -> SyntheticRows:
    rng = np.random.default_rng(3)
    chosen = {"class": KIND, "number": numeric("income", -5, 5, 0.4), "none": None}[label]
    rows = rng.normal(0, 0.2, (300, 6 + (label == "number")))
    classes = rng.integers(0, 2, 300) if label == "class" else None
    # No row is ever in the level "never".
    cells = [np.zeros(feature.cells) for feature in FEATURES[:3]] + [np.array([100.0, 200.0, 0.0])]
    cells += [np.zeros(0)] * (label == "number")
    release = released(rows, classes, features=FEATURES, label=chosen, histograms=cells)  # type: ignore[arg-type]
    return synthesize(fit(release), count, 5, space)  # type: ignore[arg-type]


def test_each_kind_of_column_has_its_own_type_in_a_data_frame() -> None:
    rows = made()
    frame = pd.DataFrame(rows.to_pandas())
    assert list(frame) == ["height", "children", "member", "region", "kind"]
    assert [str(kind) for kind in frame.dtypes] == ["float64", "int64", "bool", "category", "category"]
    for name, column in rows.columns.items():
        assert frame[name].tolist() == column.tolist(), name


def test_categories_know_every_level_in_its_order_also_one_that_no_row_has() -> None:
    frame = pd.DataFrame(made().to_pandas())
    assert "never" not in set(frame["region"])
    assert frame["region"].cat.categories.tolist() == ["west", "north", "never"]
    assert frame["kind"].cat.categories.tolist() == ["good", "bad"]
    assert not frame["kind"].cat.ordered


def test_a_number_as_label_and_projected_coordinates_are_reals() -> None:
    assert pd.DataFrame(made("number").to_pandas())["income"].dtype == np.float64
    projected = pd.DataFrame(made(space="projected").to_pandas())
    assert [str(kind) for kind in projected.dtypes] == ["float64"] * 6 + ["category"]
    assert list(made("none").to_pandas().attrs) == ["lintra"]


def test_a_data_frame_carries_promise_seed_and_warnings() -> None:
    rows = made()
    assert rows.to_pandas().attrs["lintra"] == rows.provenance()


@pytest.mark.parametrize("label", ["class", "number", "none"])
def test_a_parquet_file_gives_back_the_same_data_frame(tmp_path: Path, label: str) -> None:
    rows = made(label)
    rows.to_parquet(tmp_path / "rows.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "rows.parquet"), rows.to_pandas())


def test_a_file_of_numpy_gives_back_columns_names_and_provenance_without_pickles(tmp_path: Path) -> None:
    rows = made()
    rows.to_npz(tmp_path / "rows.npz")
    with np.load(tmp_path / "rows.npz", allow_pickle=False) as held:
        assert held["columns"].tolist() == list(rows.columns)
        for place, column in enumerate(rows.columns.values()):
            assert held[str(place)].dtype == column.dtype
            assert held[str(place)].tolist() == column.tolist()
        assert json.loads(str(held["provenance"])) == rows.provenance()


def test_a_parquet_file_states_its_promise_inside_and_beside(tmp_path: Path) -> None:
    rows = made()
    rows.to_parquet(str(tmp_path / "rows.parquet"))
    note = json.loads(pq.read_schema(tmp_path / "rows.parquet").metadata[b"lintra"])
    assert note == rows.provenance()
    assert note["privacy"]["epsilon"] == PROMISE.epsilon
    assert note["privacy"]["neighbours"] == "replace-one"
    assert note["warnings"][0] == WARNING
    assert json.loads((tmp_path / "rows.parquet.json").read_text("utf-8")) == note


def test_one_table_makes_the_same_file_twice(tmp_path: Path) -> None:
    for name in ("a", "b"):
        made().to_parquet(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("missing", ["pandas", "pyarrow"])
def test_without_the_libraries_a_file_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InvalidAnalysisError, match=rf"{missing} is not installed here; install lintra\[frames\]"):
        made().to_parquet(tmp_path / "rows.parquet")
    assert not list(tmp_path.iterdir())
