"""Proposals: what is stated stands, what is open follows from a sample or stated ranges, and a task comes of it."""

import json
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from lintra_analysis import regression
from lintra_analysis.estimators.design import design
from lintra_analysis.spec.specification import Specification
from lintra_analysis.trial.collection import collect
from lintra_analysis.trial.default_spec import proposed_document
from lintra_analysis.trial.files.bounds import bounds_of
from lintra_analysis.trial.files.table import FileColumn, FileTable, read_table
from lintra_analysis.trial.row_weights import chosen_on
from lintra_protocol.command import build
from lintra_protocol.crypto.randomness import keystream
from lintra_protocol.errors import InvalidRowError, InvalidTaskError
from lintra_protocol.mechanisms.second_moment import SecondMoment
from lintra_protocol.privacy.gaussian import gaussian_mu
from support.measured import measurement_of

NOW = 1_800_000_000
BARE = {"purpose": "a study", "epsilon": 1, "min_clients": 500}
HALF = {"kind": "second_moment", "intercept": "0.5"}


def sample(folder: Path, missing: bool = True) -> FileTable:
    generator = np.random.default_rng(3)
    lines = ["age,income,sex,smokes,place"]
    for row in range(600):
        income = "" if missing and row % 20 == 0 else f"{generator.gamma(4, 900):.2f}"
        cells = [generator.integers(18, 90), income, "mf"[row % 2], int(row % 3 == 0), ["Bern", "Chur"][row % 5 == 0]]
        lines.append(",".join(map(str, cells)))
    (folder / "survey.csv").write_text("\n".join(lines) + "\n", "utf-8")
    return read_table(folder / "survey.csv")


def test_from_a_sample_alone_the_proposal_is_the_rule_of_a_trial_and_makes_a_task(tmp_path: Path) -> None:
    table = sample(tmp_path, missing=False)
    names = [column.name for column in table.columns]
    found = proposed_document(BARE | {"columns": [{"name": name} for name in names]}, table)
    expected = bounds_of(table)
    for document, column in zip(found["columns"], expected.columns, strict=True):  # type: ignore[call-overload]
        if column.kind == "category":
            assert document["levels"] == list(column.levels)
            continue
        assert document["kind" if column.kind != "real" else "name"] in (column.kind, column.name)
        for number in ("center", "scale") if column.kind == "boolean" else ("lower", "upper", "center", "scale"):
            assert float(document[number]) == pytest.approx(float(getattr(column, number)), rel=1e-3), column.name
    with_bound = proposed_document(BARE | {"columns": found["columns"], "mechanism": HALF}, table)
    assert float(str(with_bound["row_bound"])) == pytest.approx(float(expected.row_bound), rel=1e-3)


@pytest.mark.parametrize("named", ["in the specification", "beside it"])
def test_rows_are_weighted_by_the_rule_for_the_target_that_is_named(tmp_path: Path, named: str) -> None:
    table = sample(tmp_path)
    names = ["age", "place", "sex", "income", "smokes"]
    table = FileTable(table.keep(names).columns, table.num_rows, {})
    study = BARE | {"min_clients": 5000, "columns": [{"name": name} for name in names]}
    if named == "beside it":
        found = proposed_document(study, table, "income")
    else:
        found = proposed_document(study | {"mechanism": {"kind": "second_moment", "target": "income"}}, table)
    task = collect(found | {"min_clients": 600}, table.block(), NOW, keystream(bytes(32))).task
    arrays = task.schema_arrays
    rows = arrays.normalise(arrays.rows(table.complete()[0]))
    # A category before the target becomes several numbers, and the target's number counts them.
    place = [column.name for column in arrays.encoded].index("income")
    ordered = np.column_stack([np.delete(rows, place, axis=1), rows[:, place]])
    rule = chosen_on(ordered, 5000 * len(rows) / 600, gaussian_mu(1, float(task.claim.delta)))
    assert isinstance(task.mechanism, SecondMoment)
    assert (task.mechanism.row_weights, task.mechanism.target) == (rule.by, place)
    assert float(task.mechanism.row_bound) == pytest.approx(rule.row_bound, rel=2e-3)
    assert float(task.mechanism.intercept) == pytest.approx(rule.constant, rel=2e-3)


def test_a_sample_turns_features_that_nearly_agree_and_the_task_tells_their_slopes(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    common = generator.normal(size=1000)
    near = common + 0.2 * generator.normal(size=1000)
    y = common - 0.5 * near + 0.1 * generator.normal(size=1000)
    names, columns = ["a", "y", "b"], (common, y, near)
    table = FileTable(tuple(FileColumn(*pair) for pair in zip(names, ["real"] * 3, columns, strict=True)), 1000, {})
    study = BARE | {"min_clients": 1000, "columns": [{"name": name} for name in names]}
    found, least = {}, {}
    for turned in (False, True):
        asked = {"kind": "second_moment", "target": "y", "turned": turned}
        spec = proposed_document(study | {"mechanism": asked}, table)
        collected = collect(spec | {"epsilon": "8"}, table.block(), NOW, keystream(bytes(32)))
        found[turned] = regression(collected.release, "y", of="cohort")
        gram = design(collected.release, "y").gram
        least[turned] = float(np.linalg.eigvalsh(gram.matrix[:-1, :-1])[0]) / float(gram.errors.spectral_sigma or 0)
    mechanism = collected.task.mechanism
    assert isinstance(mechanism, SecondMoment)
    basis = mechanism.features_basis
    assert basis is not None
    values = np.array([[float(entry) for entry in row] for row in basis])
    rows = collected.task.schema_arrays.normalise(table.block())
    # The turned features of the sample are uncorrelated, of deviation 1.
    assert_allclose(np.cov((np.clip(rows, -9, 9)[:, [0, 2]] @ values.T).T), np.eye(2), atol=0.02)
    assert float(mechanism.intercept or 0) == 1
    assert least[True] > 3 * least[False]
    # Slopes are those of the weighted regression, in the columns' own units.
    assert [one.name for one in found[True].coefficients] == ["a", "b"]
    for one, truth in zip(found[True].coefficients, (1.0, -0.5), strict=True):
        assert one.interval is not None
        assert one.raw == pytest.approx(truth, abs=0.3)


def test_features_are_turned_by_a_sample_alone() -> None:
    study = BARE | {"columns": [{"name": name, "lower": 0, "upper": 1} for name in ("a", "b")]}
    with pytest.raises(InvalidTaskError, match="turned by the covariance of a public sample"):
        proposed_document(study | {"mechanism": {"kind": "second_moment", "target": "a", "turned": True}}, None)


def test_a_two_valued_target_has_weights_by_features_and_the_author_may_choose(tmp_path: Path) -> None:
    table = sample(tmp_path, missing=False)
    study = BARE | {"columns": [{"name": column.name} for column in table.columns]}
    assert proposed_document(study, table, "smokes")["mechanism"]["row_weights"] == "features"  # type: ignore[index]
    chosen = {"mechanism": {"kind": "second_moment", "row_weights": "all"}}
    assert proposed_document(study | chosen, table, "smokes")["mechanism"]["row_weights"] == "all"  # type: ignore[index]
    with pytest.raises(InvalidTaskError, match=r"target: 'nobody' is none of the columns age, income"):
        proposed_document(study, table, "nobody")


def test_organisations_and_a_stated_bound_keep_rows_that_all_count_alike(tmp_path: Path) -> None:
    table = sample(tmp_path, missing=False)
    study = BARE | {"columns": [{"name": column.name} for column in table.columns]}
    for given in (
        {"row_bound": 3},
        {"mechanism": HALF},
        {"contributors": {"max_rows": 100, "rows_per_person": 1, "count": "exact"}},
    ):
        assert "row_weights" not in proposed_document(study | given, table)["mechanism"]  # type: ignore[operator]


def test_a_number_that_the_sample_lacks_in_some_row_may_be_missing_and_a_task_comes_of_it(tmp_path: Path) -> None:
    table = sample(tmp_path)
    found = proposed_document(BARE | {"columns": [{"name": column.name} for column in table.columns]}, table)
    assert [one["name"] for one in found["columns"] if one.get("missing")] == ["income"]  # type: ignore[attr-defined]
    collected = collect(found, table.block(), NOW, keystream(bytes(32)))
    assert measurement_of(collected.task).leaves_out


def test_what_is_stated_stands(tmp_path: Path) -> None:
    columns = [
        {"name": "income", "lower": 0, "upper": 8000, "center": 2000, "scale": None},
        {"name": "sex", "kind": "category", "levels": ["f", "m"]},
    ]
    study = BARE | {"columns": columns, "row_bound": 2, "mechanism": {"kind": "second_moment", "intercept": 1}}
    income, sex = proposed_document(study, sample(tmp_path))["columns"]  # type: ignore[misc]
    assert (income["lower"], income["upper"], income["center"]) == ("0", "8000", "2000")
    assert float(income["scale"]) >= 2000
    assert sex["levels"] == ["f", "m"]
    found = proposed_document(study, sample(tmp_path))
    assert found["row_bound"] == 2
    assert found["mechanism"] == {"kind": "second_moment", "intercept": 1, "trace": True}


def test_ranges_alone_are_filled_evenly() -> None:
    columns = [
        {"name": "x", "lower": -10, "upper": 30},
        {"name": "sure", "kind": "boolean"},
        {"name": "town", "kind": "category", "levels": ["a", "b", "c"]},
    ]
    found = proposed_document(BARE | {"columns": columns, "mechanism": HALF}, None)
    x, sure, _ = found["columns"]  # type: ignore[misc]
    assert (float(x["lower"]), float(x["center"]), float(x["upper"])) == (-10, 10, 30)
    assert float(x["scale"]) == pytest.approx(16, rel=1e-3)  # half of the middle 80 %
    assert float(sure["center"]) == pytest.approx(0.5, abs=0.01)
    # The rule would allow more than the farthest corner, which is 1.25, 1/2 and one indicator away from the centre.
    assert float(str(found["row_bound"])) == pytest.approx(np.sqrt(1.25**2 + 0.25 + 1), rel=1e-3)
    Specification.model_validate(found)
    weighted = proposed_document(BARE | {"columns": columns}, None)
    assert weighted["mechanism"]["row_weights"] == "all"  # type: ignore[index]
    assert float(str(weighted["row_bound"])) < float(str(found["row_bound"]))
    assert weighted == proposed_document(BARE | {"columns": columns}, None)


def test_what_nothing_tells_is_asked_for_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidTaskError, match="column 'x': state lower and upper, or give a public sample"):
        proposed_document(BARE | {"columns": [{"name": "x", "lower": 0, "upper": None}]}, None)
    with pytest.raises(InvalidRowError, match="no column 'height'"):
        proposed_document(BARE | {"columns": [{"name": "height"}]}, sample(tmp_path))
    with pytest.raises(InvalidTaskError, match="a list of columns"):
        proposed_document(BARE, None)


@pytest.mark.parametrize("cells", [None, 7])
def test_a_histogram_gets_bounds_and_cells_and_nothing_that_it_refuses(tmp_path: Path, cells: int | None) -> None:
    table = sample(tmp_path)
    mechanism = {"kind": "histogram"} | ({} if cells is None else {"cells": cells})
    names = [{"name": column.name} for column in table.columns]
    found = proposed_document(BARE | {"columns": names, "mechanism": mechanism}, table)
    assert found["mechanism"] == {"kind": "histogram", "cells": cells or 64}
    assert "row_bound" not in found
    for document, column in zip(found["columns"], bounds_of(table).columns, strict=True):  # type: ignore[call-overload]
        assert not {"center", "scale"} & document.keys()
        if column.kind in ("real", "integer"):
            assert float(document["upper"]) == pytest.approx(float(column.upper), rel=1e-3)
    assert collect(found, table.block(), NOW, keystream(bytes(32))).task.mechanism.kind == "histogram"


def test_a_joint_release_gets_what_its_own_rule_would_choose_without_being_asked(tmp_path: Path) -> None:
    table = sample(tmp_path, missing=False)
    mechanism = {"kind": "ron_gauss", "label": "place", "clip_count_weight": 0}
    names = [{"name": column.name} for column in table.columns]
    found = proposed_document(BARE | {"columns": names, "mechanism": mechanism}, table)
    assert {"dimension", "bins"} <= found["mechanism"].keys()  # type: ignore[attr-defined]
    bare = {name: value for name, value in found.items() if name not in ("row_bound", "mechanism")}
    tasks = [
        collect(document, table.block(), NOW, keystream(bytes(32))).task
        for document in (found, bare | {"mechanism": mechanism})
    ]
    assert tasks[0].mechanism.kind == "ron_gauss"
    one, other = (task.mechanism.model_dump() for task in tasks)
    for name in one:
        assert one[name] == (pytest.approx(other[name], rel=1e-4) if name == "sigma" else other[name]) or name == (
            "row_bound"
        )
    assert float(one["row_bound"]) == pytest.approx(float(other["row_bound"]), rel=1e-5)


def test_the_command_prints_a_specification_that_it_plans(tmp_path: Path) -> None:
    sample(tmp_path)
    study, filled = tmp_path / "study.json", tmp_path / "filled.json"
    study.write_text(json.dumps(BARE | {"columns": [{"name": "age"}, {"name": "smokes"}]}), "utf-8")
    survey = ["--public-sample", str(tmp_path / "survey.csv")]
    plan = build(entry_points(group="lintra.commands"), "plan")
    proposed = CliRunner().invoke(plan, ["plan", str(study), "--propose", *survey])
    assert proposed.exit_code == 0, proposed.output
    filled.write_text(proposed.stdout, "utf-8")
    planned = CliRunner().invoke(plan, ["plan", str(filled), "--target", "smokes", *survey])
    assert planned.exit_code == 0, planned.output
    assert "age" in planned.stdout
