"""A trial of a logistic regression: rounds really run, beside the table's fit, and words where they were too few."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lintra_analysis
from lintra_analysis.spec.specification import Specification
from lintra_analysis.trial.default_spec import proposed_document
from lintra_analysis.trial.files.table import Readings, read_table
from lintra_analysis.trial.logistic import LogisticComparison, logistic_document
from lintra_analysis.trial.text import show
from lintra_analysis.trial.trial import Trial, try_logistic
from lintra_protocol.crypto.randomness import keystream
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.privacy.statement import Claim
from support.newton import exact_fit
from unit.lintra_analysis.trial.test_trial import run

NOW = 1_800_000_000


def write(file: Path, rows: int = 2500) -> Path:
    draw = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"age": draw.normal(45, 14, rows).round(1), "town": draw.choice(["Bern", "Chur"], rows, p=[0.7, 0.3])}
    )
    frame["units"] = draw.poisson(4, rows)
    score = 0.05 * (frame.age - 45) + 0.8 * (frame.town == "Chur")
    frame["smoker"] = (draw.uniform(size=rows) < 1 / (1 + np.exp(-score))).astype(int)
    frame.loc[3, "age"] = np.nan
    frame.to_csv(file, index=False)
    return file


def tried(file: Path, epsilon: float = 8.0, seed: int = 0) -> Trial:
    random_bytes = keystream(bytes([seed]) * 32)
    return try_logistic(read_table(file, Readings()), "smoker", epsilon, 1e-6, NOW, random_bytes, draws=20)


def answer(found: Trial) -> LogisticComparison:
    assert isinstance(found.answer, LogisticComparison)
    return found.answer


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return tried(write(tmp_path_factory.mktemp("logistic") / "rows.csv"))


def test_the_table_stands_beside_the_fit_without_noise_and_intervals_hold_the_collections_own(trial: Trial) -> None:
    found = answer(trial)
    assert found.estimate.status == "interval"
    assert trial.verdict == "good"
    for each in found.coefficients:
        assert each.own is not None
        assert each.weighted is not None
        assert each.interval is not None
        low, high = each.interval
        # Twice the width either way: five deviations, for each of four coefficients.
        assert low - (high - low) < each.weighted < high + (high - low)
    text = show(trial)
    for word in ("yours", "weighted", "seen in", "rounds were enough", "town[Chur]", "Deviance"):
        assert word in text


def test_yours_is_the_logistic_fit_of_the_rows_without_a_gap(tmp_path: Path, trial: Trial) -> None:
    frame = pd.read_csv(write(tmp_path / "rows.csv")).dropna()
    features = np.column_stack([frame.age - 45, frame.town == "Chur", frame.units]).astype(float)
    exact = exact_fit(features, frame.smoker.to_numpy(float))
    own = {each.name: each.own for each in answer(trial).coefficients}
    assert own["age"] == pytest.approx(exact[1], rel=1e-5)
    assert own["units"] == pytest.approx(exact[3], rel=1e-4)
    assert own["town[Chur]"] == pytest.approx(exact[2], rel=1e-5)


def test_what_cannot_take_part_is_left_out_and_said(trial: Trial) -> None:
    assert "nobody has" in trial.left_out["town[(other)]"]
    assert trial.incomplete_rows == 1
    mechanism = Specification.model_validate(trial.specification).mechanism
    assert (mechanism.kind, mechanism.num_rounds) == ("newton_step", 5)
    assert trial.epsilon == 8.0


@pytest.mark.slow
def test_rounds_that_were_not_enough_are_said_in_words(tmp_path: Path) -> None:
    # T refuses one honest pair of rounds in ten; this seed is one of them.
    found = tried(write(tmp_path / "rows.csv", 600), epsilon=4.0, seed=14)
    assert answer(found).estimate.status == "another round"
    text = " ".join(show(found).split())
    assert "3 rounds were not enough for the example: the last two do not agree, so it has no interval." in text
    assert '"rounds" in the specification may be up to 5' in text
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert document["status"] == "another round"
    assert all(each["interval"] is None for each in document["coefficients"])
    most = replace(found, answer=replace(answer(found), rounds=5))
    assert "More cannot be reserved for the same people" in " ".join(show(most).split())
    unseen = replace(answer(found).estimate, status="not told", undetermined=("age",))
    lost = replace(found, answer=replace(answer(found), estimate=unseen))
    assert "at this epsilon nothing can be told along age" in " ".join(show(lost).split())


def test_the_row_bound_lies_between_the_mean_squared_norm_and_what_a_share_exceeds() -> None:
    features = np.random.default_rng(1).normal(size=(2000, 3)) * [1.0, 0.9, 1.1]
    claim = Claim(epsilon="1", delta="0.000001", min_clients=2000, neighbours="replace-one")
    constant = np.mean(features**2) ** 0.5
    squares = constant**2 + np.sum(features**2, axis=1)
    found = logistic_document(features, claim, {"kind": "newton_step"})
    mechanism: Any = found["mechanism"]
    assert (float(mechanism["intercept"]), mechanism["rounds"]) == (pytest.approx(constant, rel=1e-3), 3)
    # nu = 1.02 4 / (2000 .2367), and 40 nu = .345 of the rows count less.
    assert np.mean(squares > float(str(found["row_bound"])) ** 2) == pytest.approx(0.345, abs=0.01)
    many = claim.model_copy(update={"min_clients": 200_000})
    assert float(str(logistic_document(features, many, {})["row_bound"])) > float(str(found["row_bound"]))
    few = claim.model_copy(update={"min_clients": 200})
    assert float(str(logistic_document(features, few, {})["row_bound"])) ** 2 == pytest.approx(squares.mean(), rel=1e-3)
    assert "noise" not in logistic_document(features, claim, {"rounds": 1})


def test_a_proposal_without_a_bound_follows_the_rule_and_keeps_what_is_stated() -> None:
    columns = [{"name": "x", "lower": -1, "upper": 1}, {"name": "y", "kind": "boolean"}]
    study = {"purpose": "a study", "columns": columns, "epsilon": 1, "min_clients": 500}
    found = proposed_document(study | {"mechanism": {"kind": "newton_step", "rounds": 4}}, None)
    mechanism: Any = found["mechanism"]
    # One column with the scale .8, spread evenly over [-1, 1]: c^2 = 1/3/.64, and the mean squared norm is twice that.
    assert float(mechanism["intercept"]) == pytest.approx(3**-0.5 / 0.8, rel=2e-3)
    assert float(str(found["row_bound"])) == pytest.approx((2 / 3) ** 0.5 / 0.8, rel=2e-3)
    assert (mechanism["rounds"], found["noise"]) == (4, "clients")
    with pytest.raises(InvalidTaskError, match=r"mechanism\.target: 'z'"):
        proposed_document(study | {"mechanism": {"kind": "newton_step", "target": "z"}}, None)


def test_the_command_and_the_function_of_a_frame_do_the_same(tmp_path: Path) -> None:
    file = write(tmp_path / "rows.csv", 600)
    options = ["--target", "smoker", "--family", "logistic", "--epsilon", "20", "--draws", "20", "--json"]
    done = run(str(file), *options, "--spec", str(tmp_path / "spec.json"))
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["family"] == "logistic"
    assert (
        Specification.model_validate(json.loads((tmp_path / "spec.json").read_text())).mechanism.kind == "newton_step"
    )
    found = lintra_analysis.trial(pd.read_csv(file), "smoker", family="logistic", epsilon=20, draws=20)  # type: ignore[operator]
    assert list(found.to_frame().index) == [each["name"] for each in document["judgement"]["slopes"]]
    assert "<td>age</td>" in found._repr_html_()
    assert [each["own"] for each in document["judgement"]["slopes"]] == pytest.approx(list(found.to_frame()["own"]))


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        ("age", [], "does not hold zeros and ones"),
        ("smoker", ["--organisation", "town"], "leave --mechanism and --organisation out"),
        ("smoker", ["--mechanism", "second_moment"], "leave --mechanism and --organisation out"),
    ],
)
def test_what_has_no_logistic_regression_is_refused_in_words(
    tmp_path: Path, target: str, options: list[str], words: str
) -> None:
    file = write(tmp_path / "rows.csv", 200)
    done = run(str(file), "--target", target, "--family", "logistic", *options)
    assert done.exit_code != 0
    assert words in " ".join(str(done.exception or done.output).split())
