"""Rows from a model: reproducible, of the right law, and never outside what a column may hold."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_analysis.releases.features import ClassLabel, Feature, NumericLabel
from lintra_analysis.synthetic.generator import synthesize
from lintra_analysis.synthetic.model import GaussianModel, fit
from lintra_analysis.synthetic.rows import WARNING
from lintra_analysis.synthetic.sampling import from_histogram, integer_cells, levels_by_race
from lintra_protocol.errors import InvalidAnalysisError
from support import few
from support.made_projected_sums import PROMISE, numeric, released

FEATURES = (
    Feature("height", "real", 100, 220, cells=12, unit="cm"),
    Feature("children", "integer", 0, 9, cells=10),
    Feature("age", "integer", 18, 99, cells=8),
    Feature("member", "boolean", cells=2),
    Feature("region", "category", levels=("north", "south", "west"), cells=3),
    Feature("sex", "category", levels=("f", "m"), cells=2),
    Feature("score", "real", -1, 1),
    Feature("dice", "integer", 1, 6),
    Feature("flag", "boolean"),
    Feature("town", "category", levels=("a", "b", "c", "d")),
    Feature("side", "category", levels=("left", "right")),
)
LABEL = ClassLabel("kind", ("good", "bad"))


def _noisy(rng: np.random.Generator, cells: int) -> np.ndarray:
    return rng.multinomial(300, np.full(cells, 1 / cells)) + rng.normal(0, 20, cells) if cells else np.zeros(0)


def mixed_model(
    label: ClassLabel | NumericLabel | None = LABEL, seed: int = 0, dimension: int | None = None
) -> GaussianModel:
    rng = np.random.default_rng(seed)
    m = sum(feature.width for feature in FEATURES)
    frame = None if dimension is None else np.linalg.qr(rng.normal(0, 1, (m, dimension)))[0]
    size = (dimension or m) + isinstance(label, NumericLabel)
    rows = rng.normal(0, 0.3, (300, size)) @ rng.normal(0, 1, (size, size)) / 2
    classes = rng.integers(0, 2, 300) if isinstance(label, ClassLabel) else None
    columns = (*FEATURES, label.feature) if isinstance(label, NumericLabel) else FEATURES
    cells = [_noisy(rng, feature.cells) for feature in columns]
    return fit(released(rows, classes, features=FEATURES, label=label, frame=frame, histograms=cells))


@pytest.mark.parametrize("dimension", [None, 5, 1])
@pytest.mark.parametrize("label", [LABEL, numeric("income", -5, 5, 0.4), numeric("income", -5, 5, 0.4, cells=9), None])
@pytest.mark.slow
def test_every_value_is_one_that_its_column_may_hold(
    dimension: int | None, label: ClassLabel | NumericLabel | None
) -> None:
    rows = synthesize(mixed_model(label, dimension=dimension), 500, 7)
    assert rows.num_rows == len(rows) == 500
    assert list(rows.columns) == [feature.name for feature in FEATURES] + ([label.name] if label else [])
    for feature in FEATURES:
        values = rows.columns[feature.name]
        kind = {"real": "f", "integer": "i", "boolean": "b", "category": "U"}[feature.kind]
        assert values.dtype.kind == kind
        if kind == "U":
            assert set(values.tolist()) <= set(feature.levels)
        elif kind != "b":
            assert values.min() >= feature.lower
            assert values.max() <= feature.upper
    if isinstance(label, ClassLabel):
        assert set(rows.columns["kind"].tolist()) <= {"good", "bad"}
    elif label:
        assert np.abs(rows.columns["income"]).max() <= 5


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    model = mixed_model()
    text = synthesize(model, 200, 7).to_csv()
    assert synthesize(mixed_model(), 200, 7).to_csv() == text
    assert synthesize(model, 200, 8).to_csv() != text
    script = (
        "from unit.lintra_analysis.synthetic.test_generator import mixed_model\n"
        "from lintra_analysis.synthetic.generator import synthesize\n"
        "import sys; sys.stdout.write(synthesize(mixed_model(), 200, 7).to_csv())"
    )
    tests = Path(__file__).parents[3]
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(tests)}
    )
    assert found.stdout == text


def test_projected_rows_have_the_law_of_the_model_and_this_test_would_notice_if_not() -> None:
    # 40 000 whitened rows: means have deviation .005, variances .0071; five leave a false alarm below 1e-5.
    rng = np.random.default_rng(3)
    shape = rng.normal(0, 0.3, (3, 3))
    model = fit(released(rng.normal(0, 1, (400, 3)) @ shape + 0.2))
    rows = synthesize(model, 40_000, 11, "projected")
    latent = np.column_stack([rows.columns[f"h{number}"] for number in (1, 2, 3)])

    def plausible(mean: np.ndarray, covariance: np.ndarray) -> bool:
        white = (latent - mean) @ np.linalg.inv(np.linalg.cholesky(covariance)).T
        moment = white.T @ white / len(white)
        return bool(np.abs(white.mean(axis=0)).max() < 0.025 and np.abs(moment - np.eye(3)).max() < 0.0355)

    assert plausible(model.means[0], model.covariance)
    assert not plausible(model.means[0], 1.05 * model.covariance)
    assert not plausible(model.means[0] + 0.05 * np.sqrt(np.diag(model.covariance)), model.covariance)


def test_a_column_follows_its_histogram_to_one_row() -> None:
    model = mixed_model()
    rows = synthesize(model, 1000, 5)
    for feature, cells in zip(FEATURES, model.marginals, strict=True):
        values = rows.columns[feature.name]
        if not cells.size or feature.name == "region":
            continue
        if feature.kind == "real":
            found = np.histogram(values, np.linspace(feature.lower, feature.upper, cells.size + 1))[0]
        elif feature.kind == "integer":
            found = np.bincount(integer_cells(feature)[values - int(feature.lower)], minlength=cells.size)
        elif feature.kind == "boolean":
            found = np.array([(~values).sum(), values.sum()])
        else:
            found = np.array([(values == level).sum() for level in feature.levels])
        # Rounding of reals to nine digits may move one value over an edge.
        np.testing.assert_allclose(found, 1000 * cells, atol=2.001, err_msg=feature.name)


def test_a_large_category_follows_its_histogram_and_its_scores() -> None:
    rng = np.random.default_rng(6)
    probabilities = np.array([0.55, 0.3, 0.1, 0.05, 0.0])
    truth = rng.choice(5, 5000, p=[0.2] * 5)
    scores = np.eye(5)[truth] + rng.normal(0, 0.2, (5000, 5))
    found = levels_by_race(scores, probabilities)
    np.testing.assert_allclose(np.bincount(found, minlength=5) / 5000, probabilities, atol=0.005)
    # A level that is rarer than its scores say is given to rows whose scores speak for it, and to no others.
    assert (truth[found == 3] == 3).mean() > 0.99


def test_the_order_of_scores_is_kept() -> None:
    rng = np.random.default_rng(7)
    scores = rng.normal(0, 1, (500, 1))
    for feature in FEATURES[:4]:
        cells = np.full(feature.cells, 1 / feature.cells)
        values = from_histogram(feature, scores, cells)[np.argsort(scores[:, 0])].astype(float)
        assert (np.diff(values) >= 0).all()


@few
@given(st.integers(2, 60), st.integers(1, 90), st.integers(1, 400), st.integers(0, 2**32 - 1))
def test_integers_stay_inside_their_bounds_whatever_the_cells(width: int, cells: int, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    feature = Feature("i", "integer", -3, width - 3, cells=cells)
    probabilities = rng.dirichlet(np.full(cells, 0.3))
    values = from_histogram(feature, rng.normal(0, 1, (rows, 1)), probabilities)
    assert values.min() >= -3
    assert values.max() <= width - 3


def test_outside_the_frame_rows_get_the_mean_variance() -> None:
    # 20 000 rows: a variance has deviation 1 % of itself; six leave a false alarm below 1e-8.
    rng = np.random.default_rng(8)
    features = tuple(Feature(f"x{number}", "real", -100, 100) for number in range(6))
    frame = np.linalg.qr(rng.normal(0, 1, (6, 2)))[0]
    model = fit(released(rng.normal(0, 1, (500, 2)) * [0.1, 0.2], features=features, frame=frame))
    rows = synthesize(model, 20_000, 1)
    mapped = np.column_stack([rows.columns[f.name] for f in features]) / 100
    inside = (mapped @ frame).var(axis=0)
    outside = np.linalg.svd(np.eye(6) - frame @ frame.T)[0][:, :4]
    level = np.trace(model.covariance) / 2
    np.testing.assert_allclose(inside, np.diag(model.covariance), rtol=0.06)
    np.testing.assert_allclose((mapped @ outside).var(axis=0), level, rtol=0.06)


def test_a_numeric_label_keeps_its_relation_to_the_columns() -> None:
    rng = np.random.default_rng(9)
    x = rng.normal(0, 0.2, (2000, 2))
    label = numeric("y", 0, 100, 0.5)
    y = 0.5 * (0.3 * x[:, 0] - 0.2 * x[:, 1] + 0.1)
    model = fit(released(np.column_stack([x, y]), label=label))
    rows = synthesize(model, 3000, 2)
    design = np.column_stack([rows.columns["x0"], rows.columns["x1"], np.ones(3000)])
    slopes = np.linalg.lstsq(design, rows.columns["y"], rcond=None)[0]
    np.testing.assert_allclose(slopes, [15, -10, 55], rtol=1e-3)


def test_a_csv_file_comes_with_its_provenance_and_its_warning(tmp_path: Path) -> None:
    rows = synthesize(mixed_model(), 25, 3)
    rows.to_csv(tmp_path / "rows.csv")
    text = (tmp_path / "rows.csv").read_text("utf-8")
    assert text == rows.to_csv()
    table = list(csv.DictReader(io.StringIO(text)))
    assert len(table) == 25
    assert table[4]["kind"] == rows.columns["kind"][4]
    assert float(table[4]["height"]) == rows.columns["height"][4]
    assert {row["member"] for row in table} <= {"true", "false"}
    note = json.loads((tmp_path / "rows.csv.json").read_text("utf-8"))
    assert note["warnings"][0] == WARNING
    assert note["seed"] == "3"
    assert note["privacy"]["epsilon"] == PROMISE.epsilon
    assert note["model_digest"] == rows.model_digest
    buffer = io.StringIO()
    assert rows.to_csv(buffer) is None
    assert buffer.getvalue() == text
    assert json.loads(json.dumps(rows.to_dict()))["columns"]["kind"] == rows.columns["kind"].tolist()
    assert repr(rows) == "SyntheticRows(rows=25, columns=12, seed=3)"


@pytest.mark.parametrize(
    ("num_rows", "seed", "space", "words"),
    [
        (0, 1, "columns", "num_rows"),
        (10**9, 1, "columns", "too many"),
        (5, -1, "columns", "a seed"),
        (5, 2**256, "columns", "a seed"),
        (5, True, "columns", "a seed"),
        (5, 1.5, "columns", "a seed"),
        (5, 1, "elsewhere", "space"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(num_rows: int, seed: int, space: str, words: str) -> None:
    with pytest.raises(InvalidAnalysisError, match=words):
        synthesize(mixed_model(), num_rows, seed, space)  # type: ignore[arg-type]
