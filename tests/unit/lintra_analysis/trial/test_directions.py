"""A trial of very many columns, and what is expected of a range finder before anybody sent a row."""

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from lintra_analysis.spec.specification import Specification
from lintra_analysis.trial import collection
from lintra_analysis.trial.collection import collect
from lintra_analysis.trial.default_spec import proposed_document
from lintra_analysis.trial.directions import DirectionComparison
from lintra_analysis.trial.error_forecast import foresee, spread_rows
from lintra_analysis.trial.files.bounds import bounds_of
from lintra_analysis.trial.files.table import FileColumn, FileTable
from lintra_analysis.trial.plan_text import document, show
from lintra_analysis.trial.selection import EncodedRows
from lintra_analysis.trial.text import show as show_trial
from lintra_analysis.trial.trial import Trial, is_wide, try_table
from lintra_protocol.command import build
from lintra_protocol.crypto.randomness import keystream
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.errors import LintraError
from lintra_protocol.fields.schema import Column
from lintra_protocol.ideal import release
from support import make_task

NOW = 1_800_000_000
NAMES = [f"s{i:02d}" for i in range(30)]


def table(rows: int = 300) -> FileTable:
    """Thirty columns that follow two hidden numbers, and a target that follows the first; one number is missing."""
    rng = np.random.default_rng(5)
    hidden = rng.normal(size=(rows, 2)) * [3.0, 2.0]
    values = hidden @ rng.normal(size=(2, len(NAMES))) + 0.3 * rng.normal(size=(rows, len(NAMES))) + 4.0
    values[7, 3] = np.nan
    target = 2.0 * hidden[:, 0] - hidden[:, 1] + 0.5 * rng.normal(size=rows)
    columns = [FileColumn(name, "real", column) for name, column in zip(NAMES, values.T, strict=True)]
    return FileTable((*columns, FileColumn("power", "real", target)), rows, {})


def directions_in(found: Trial) -> DirectionComparison:
    assert isinstance(found.answer, DirectionComparison)
    return found.answer


@pytest.fixture(scope="module")
def trial() -> Trial:
    return try_table(table(), "power", 40.0, None, NOW, keystream(bytes(32)), wide=True)


def test_private_directions_are_nearly_the_best_and_predict_nearly_as_well(trial: Trial) -> None:
    assert len(directions_in(trial).directions) >= 2
    assert directions_in(trial).share is not None
    assert 0.9 < directions_in(trial).share <= 1 + 1e-9
    r2 = directions_in(trial).r2
    assert r2.private is not None
    assert r2.components is not None
    assert r2.non_private is not None
    assert 0.85 < r2.private <= r2.components + 0.01 <= r2.non_private + 0.02
    assert directions_in(trial).explained is not None


def test_variances_beside_each_other_are_of_the_same_rows(trial: Trial) -> None:
    first = directions_in(trial).directions[0]
    assert first.private == pytest.approx(first.without_noise, rel=0.25)


def test_a_missing_number_stands_at_its_centre_and_leaves_the_others_of_its_row() -> None:
    rows = EncodedRows.of(bounds_of(table()), table().block(), None, None)
    assert rows.collected[7, 3] == rows.own[7, 3] == 0
    assert (rows.collected[7, :3] != 0).all()


def test_what_a_wide_trial_found_is_told_in_words_and_as_json(trial: Trial) -> None:
    text = show_trial(trial)
    for said in ("power by 30 numbers", "R2 private", "In 1 of the rows a number is missing", "Worth collecting"):
        assert said in text
    plain = json.loads(json.dumps(trial.document()))
    assert plain["r2"]["private"] == directions_in(trial).r2.private
    assert len(plain["prospects"]) == 12
    Specification.model_validate(plain["specification"])


def test_without_a_direction_above_the_noise_the_verdict_says_so() -> None:
    drowned = try_table(table(60), "power", 0.1, None, NOW, keystream(bytes(32)), wide=True)
    assert (directions_in(drowned).directions, directions_in(drowned).r2.private) == ((), None)
    assert "no direction stands out of the noise" in show_trial(drowned)
    assert directions_in(drowned).prospects[0].directions == 0


def test_more_rows_and_a_larger_epsilon_never_show_fewer_directions(trial: Trial) -> None:
    cells = {(one.num_clients, one.epsilon): one.directions for one in directions_in(trial).prospects}
    assert all(cells[4 * rows, epsilon] >= found for (rows, epsilon), found in cells.items() if rows < 4 * 300)
    assert all(cells[rows, 2 * epsilon] >= found for (rows, epsilon), found in cells.items() if epsilon < 160)


@pytest.mark.parametrize(("columns", "wide"), [(498, False), (499, True)])
def test_a_range_finder_is_tried_from_500_numbers_on(columns: int, wide: bool) -> None:
    values = np.arange(60.0)
    held = [FileColumn(f"c{i}", "real", values) for i in range(columns)]
    assert is_wide(FileTable((*held, FileColumn("y", "real", values)), 60, {}), "y") is wide


def test_reports_are_added_up_as_the_whole_protocol_does(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [Column(name=name, lower="-1", upper="1") for name in ("a", "b")]
    task = make_task("sum", columns=columns)
    made = collection._reports(task, np.random.default_rng(1).uniform(-1, 1, (120, 2)), keystream(bytes(32)), print)
    reports, nonces = next(iter(made)), [bytes([j]) * 32 for j in range(task.num_servers)]
    whole = release(task, reports, nonces)
    seen: list[tuple[IntArray, IntArray]] = []
    monkeypatch.setattr(collection, "read", lambda task, sketch, counts, _: seen.append((sketch, counts)))
    parts = collection.added_up(task, iter([reports[:50], reports[50:]]), nonces, keystream(bytes(32)))
    assert parts.privacy == whole.privacy
    assert [each.tolist() for each in seen[0]] == [whole.sketch.tolist(), whole.row_counts.tolist()]


def write(file: Path, rows: int = 120) -> Path:
    held = table(rows)
    lines = [",".join(column.name for column in held.columns)]
    lines += [",".join("" if np.isnan(cell) else f"{cell:.5g}" for cell in row) for row in held.block()]
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file


def run(*words: str) -> Any:
    return CliRunner().invoke(build(entry_points(group="lintra.commands"), "trial"), words)


def test_the_command_tries_a_range_finder_when_asked_and_draws_no_picture_of_it(tmp_path: Path) -> None:
    file = write(tmp_path / "rows.csv")
    command = ["trial", str(file), "--target", "power", "--epsilon", "30", "--mechanism", "range_finder"]
    found = run(*command)
    assert found.exit_code == 0, found.output
    assert "along the directions of a range finder" in found.output
    refused = run(*command, "--picture", str(tmp_path / "x.png"))
    assert refused.exit_code != 0
    assert "--picture draws coefficients" in refused.output + str(refused.exception)


# --- before anybody sent a row -----------------------------------------------------------------------------------


def asked(clients: int = 5000) -> dict[str, object]:
    return {
        "purpose": "a test",
        "columns": [{"name": name} for name in (*NAMES, "power")],
        "mechanism": {"kind": "range_finder", "rank": 12, "targets": [{"column": "power"}], "intercept": None},
        "epsilon": 8,
        "min_clients": clients,
        "share_form": "seeded",
    }


def test_a_proposal_fills_in_rank_bounds_and_an_intercept_of_a_quarter() -> None:
    found = proposed_document(asked(), table())
    mechanism = found["mechanism"]
    assert isinstance(mechanism, dict)
    assert float(mechanism["intercept"]) == pytest.approx(float(str(found["row_bound"])) / 4, rel=1e-3)
    assert mechanism["trace"] is True
    assert mechanism["rank"] == 12
    null_rows = proposed_document({**asked(), "neighbours": "zero-out"}, table())["mechanism"]
    assert isinstance(null_rows, dict)
    assert "trace" not in null_rows
    # A proposal is a specification of a task that can be made.
    collect(
        {**found, "min_clients": 60, "columns": [{**one, "missing": False} for one in found["columns"]]},  # type: ignore[attr-defined]
        np.nan_to_num(table(60).block(), nan=4.0),
        NOW,
        keystream(bytes(32)),
    )


def test_a_plan_foresees_directions_and_what_a_target_explains() -> None:
    specification = proposed_document(asked(), table())
    specification["columns"] = [{**one, "missing": False} for one in specification["columns"]]  # type: ignore[attr-defined]
    found = foresee(specification, table(), None, NOW, keystream(bytes(32)))
    assert found.wide is not None
    assert found.coefficients is None
    assert len(found.wide.directions) == 2
    explained = found.wide.explained["power"]
    assert explained is not None
    assert 0.8 < explained.value < 1.1
    text = show(found)
    assert "Of 31 columns a direction with the variance" in text
    assert json.loads(json.dumps(document(found)))["wide"]["directions"]
    few = foresee({**specification, "min_clients": 50}, table(), None, NOW, keystream(bytes(32)))
    assert few.wide is not None
    assert few.wide.directions == ()
    assert "No direction of these rows would stand out" in show(few)


def test_columns_that_are_spread_evenly_do_not_go_together_however_many_there_are() -> None:
    task = make_task("sum", columns=[Column(name=f"c{i}", lower="-1", upper="1") for i in range(120)])
    together = np.corrcoef(spread_rows(task).T) - np.eye(120)
    # Independent columns reach .1 in one of 7,140 pairs with a chance of 4 %; Halton's points of the columns 59 and 60
    # go together by more than .2.
    assert np.abs(together).max() < 0.1


def test_a_long_table_is_cut_in_words_and_whole_in_json() -> None:
    columns = [{"name": f"c{i:03d}", "lower": -1, "upper": 1} for i in range(120)]
    mechanism = {"kind": "sum"}
    specification = {
        "purpose": "many means",
        "columns": columns,
        "mechanism": mechanism,
        "row_bound": 5,
        "epsilon": 1,
        "min_clients": 1000,
    }
    found = foresee(specification, None, None, NOW, keystream(bytes(32)))
    assert "and 110 other means, none larger in scales; --json has all of them" in show(found)
    held = document(found)["means"]
    assert isinstance(held, dict)
    assert len(held) == 120


def test_a_wide_table_without_such_a_target_is_refused() -> None:
    with pytest.raises(LintraError, match="no column 'nothing'"):
        try_table(table(), "nothing", 1.0, None, NOW, keystream(bytes(32)), wide=True)
