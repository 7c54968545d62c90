"""A trial: the whole protocol on a table, its answer beside the table's own, and what it says of other sizes."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from lintra_analysis.commands.progress import waiting
from lintra_analysis.spec.specification import Specification
from lintra_analysis.trial.coefficients import RegressionComparison
from lintra_analysis.trial.files.table import Readings, read_table
from lintra_analysis.trial.text import show
from lintra_analysis.trial.trial import Trial, try_table
from lintra_protocol.command import build
from lintra_protocol.crypto.randomness import keystream
from lintra_protocol.errors import InvalidRowError, InvalidTableError

NOW = 1_800_000_000
EVERYTHING = Readings()
FEW = 20
"""Collections that are simulated: a tenth of the usual, since no test here is about shares of them."""
FEW_DRAWS = ("--draws", str(FEW))


def write(file: Path, rows: int = 4000) -> Path:
    rng = np.random.default_rng(3)
    town, a, b = rng.integers(0, 3, rows), rng.normal(50, 10, rows), rng.integers(0, 9, rows)
    y = 2 * a + 10 * (town == 1) + rng.normal(0, 5, rows)
    lines = ["y,town,a,b,rare"]
    for row in range(rows):
        name = ["Bern", "Chur", "Genf"][town[row]]
        cell = "" if row % 50 == 0 else f"{a[row]:.4f}"
        lines.append(f"{y[row]:.4f},{name},{cell},{b[row]},{int(row == 7)}")
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file


def tried(file: Path, epsilon: float = 8.0, target: str = "y", readings: Readings = EVERYTHING) -> Trial:
    return try_table(read_table(file, readings), target, epsilon, 1e-6, NOW, keystream(bytes(32)), draws=FEW)


def coefficients_in(found: Trial) -> RegressionComparison:
    assert isinstance(found.answer, RegressionComparison)
    return found.answer


@pytest.fixture(scope="module")
def without_rare(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    readings = Readings.from_options([], [], ["rare"], [], guess=False)
    return tried(write(tmp_path_factory.mktemp("trial") / "rows.csv"), readings=readings)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return tried(write(tmp_path_factory.mktemp("trial") / "rows.csv"))


def test_the_intervals_hold_what_the_rows_would_give_without_noise(without_rare: Trial) -> None:
    # Five standard errors either way for each of four, so that a false alarm has probability 3e-6; seeded besides.
    assert {each.name for each in coefficients_in(without_rare).coefficients} == {
        "town[Chur]",
        "town[Genf]",
        "a",
        "b",
        "(intercept)",
    }
    for each in coefficients_in(without_rare).coefficients:
        assert each.interval is not None
        assert each.weighted is not None
        low, high = each.interval
        assert abs(each.weighted - (low + high) / 2) <= 2.6 * (high - low) / 2, each.name


def test_without_privacy_it_is_least_squares_of_the_complete_rows(without_rare: Trial, tmp_path: Path) -> None:
    rows, _ = read_table(write(tmp_path / "rows.csv")).keep(["town", "a", "b", "y"]).complete()
    design = np.column_stack([rows[:, 0] == 1, rows[:, 0] == 2, rows[:, 1], rows[:, 2], np.ones(len(rows))])
    # The reserved level never occurs; the table's levels stand in the order of how often they do.
    order = read_table(tmp_path / "rows.csv").column("town").levels
    found = {each.name: each.own for each in coefficients_in(without_rare).coefficients}
    expected = np.linalg.lstsq(design.astype(float), rows[:, 3], rcond=None)[0]
    for name, value in zip([f"town[{order[1]}]", f"town[{order[2]}]", "a", "b", "(intercept)"], expected, strict=True):
        assert found[name] == pytest.approx(value, rel=1e-8)


def test_what_noise_drowns_is_named_and_takes_part_until_its_owner_leaves_it_out(trial: Trial, tmp_path: Path) -> None:
    answer = coefficients_in(trial)
    assert (answer.drowned, answer.absent) == (("rare",), ("town[(other)]",))
    assert trial.verdict in ("prediction only", "part")
    assert "The noise drowns what varies in few rows: rare." in show(trial)
    assert "--drop 'rare'" in show(trial)
    assert "The same in every row, and so not asked about: town[(other)]" in show(trial)
    without = tried(write(tmp_path / "rows.csv"), readings=Readings.from_options([], [], ["rare"], [], guess=False))
    assert coefficients_in(without).drowned == ()
    assert without.verdict == "good"


def test_rows_with_a_missing_number_are_sent_as_null_rows_and_counted_with_noise(trial: Trial) -> None:
    assert (trial.rows, trial.incomplete_rows) == (4000, 80)
    documents = {str(column["name"]): column for column in trial.specification["columns"]}  # type: ignore[attr-defined]
    assert [name for name, column in documents.items() if column.get("missing")] == ["a"]
    assert trial.specification["min_clients"] == 4000
    (said,) = [warning for warning in coefficients_in(trial).estimate.warnings if "a number was missing" in warning]
    about = int(said.partition("about ")[2].partition(" of 4000")[0])
    assert abs(about - 3920) < 60
    assert "80 of the rows a number is missing" in show(trial)


def test_a_feature_that_most_rows_lack_is_left_out_and_said(tmp_path: Path) -> None:
    file = write(tmp_path / "rows.csv", 500)
    first, *others = file.read_text("utf-8").splitlines()
    sparse = [f"{line},{number if number % 5 == 0 else ''}" for number, line in enumerate(others)]
    file.write_text("\n".join([first + ",seldom", *sparse]) + "\n", "utf-8")
    found = tried(file)
    assert found.left_out == {"seldom": "it is missing in 80 % of the rows"}
    assert (found.rows, found.incomplete_rows) == (500, 10)


def test_r2_comes_with_an_interval_and_the_tables_own(trial: Trial) -> None:
    low, high = coefficients_in(trial).r2.interval
    assert 0 <= low <= coefficients_in(trial).r2.weighted <= high <= 1
    assert coefficients_in(trial).r2.own == pytest.approx(0.95, abs=0.03)


def test_its_specification_asks_for_the_same_task_again(trial: Trial) -> None:
    asked = Specification.model_validate(json.loads(json.dumps(trial.specification)))
    assert [column.name for column in asked.columns] == ["town", "a", "b", "rare", "y"]
    assert "come from the table" in asked.purpose


def test_too_little_privacy_budget_is_told_in_words(tmp_path: Path) -> None:
    # Two features that are nearly the same cannot be told apart; each alone stands far above the noise.
    rng = np.random.default_rng(4)
    a = rng.normal(0, 1, 1000)
    rows = np.column_stack([a, a + rng.normal(0, 0.01, 1000), a + rng.normal(0, 1, 1000)])
    file = tmp_path / "rows.csv"
    np.savetxt(file, rows, delimiter=",", header="a,b,y", comments="", fmt="%.5f")
    poor = tried(file, epsilon=4.0)
    text = show(poor)
    assert coefficients_in(poor).r2.private is None
    assert coefficients_in(poor).r2.interval == (0, 1)
    assert all(each.interval is None for each in coefficients_in(poor).coefficients)
    assert poor.verdict == "prediction only"
    assert "no slope is seen in 80 % of collections, but predictions keep more than half of your R2" in " ".join(
        text.split()
    )


def test_where_noise_drowns_everything_no_size_or_epsilon_nearby_is_good(tmp_path: Path) -> None:
    # Without the column in which numbers are missing, since the number of rows would carry the noise as well.
    readings = Readings.from_options([], [], ["a"], [], guess=False)
    found = tried(write(tmp_path / "rows.csv", 200), epsilon=0.01, readings=readings)
    assert found.verdict == "not at this size"
    assert "No size that was simulated is good, up to 3,200 rows" in show(found)


@pytest.mark.parametrize(
    ("target", "complaint"), [("town", "is a category"), ("height", "no column 'height'"), ("rare", "")]
)
def test_a_target_that_cannot_be_explained_is_refused_by_name(tmp_path: Path, target: str, complaint: str) -> None:
    file = write(tmp_path / "rows.csv", 200)
    if not complaint:
        assert tried(file, target=target).target == target
        return
    with pytest.raises(InvalidRowError, match=complaint):
        tried(file, target=target)


def run(*words: str) -> Any:
    from importlib.metadata import entry_points

    return CliRunner().invoke(build(entry_points(group="lintra.commands"), "trial"), ["trial", *words])


def test_the_command_prints_json_and_writes_a_specification(tmp_path: Path) -> None:
    file, spec = write(tmp_path / "rows.csv", 600), tmp_path / "SPEC.json"
    asked = (str(file), "--target", "y", "--epsilon", "4", "--delta", "1e-6", *FEW_DRAWS)
    answer = run(*asked, "--json", "--spec", str(spec))
    assert answer.exit_code == 0, answer.output
    document = json.loads(answer.output)
    assert {"specification", "rows", "clipped_share", "r2", "coefficients", "seconds"} <= set(document)
    assert {"private", "interval", "own"} <= set(document["r2"])
    assert all({"name", "private", "interval", "own"} <= set(each) for each in document["coefficients"])
    assert json.loads(spec.read_text("utf-8")) == document["specification"]


@pytest.mark.slow
def test_the_command_draws_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "trial.png"
    asked = (str(write(tmp_path / "rows.csv", 600)), "--target", "y", "--epsilon", "8", *FEW_DRAWS)
    answer = run(*asked, "--picture", str(picture))
    assert answer.exit_code == 0, answer.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "R2 of the table itself" in answer.output


def test_a_terminal_sees_how_far_the_trial_is_and_a_file_sees_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    table = read_table(write(tmp_path / "rows.csv", 600))
    try_table(table, "y", 8.0, 1e-6, NOW, keystream(bytes(32)), told.append, draws=FEW)
    assert told == [
        *(f"making reports of the rows: {start} of 600" for start in (0, 256, 512)),
        "simulating collections of these rows",
    ]
    for terminal in (True, False):
        seen = io.StringIO()
        with waiting("reading the file", Console(file=seen, force_terminal=terminal)) as said:
            said(told[-1])
        assert (told[-1] in seen.getvalue()) == terminal
    answer = run(str(tmp_path / "rows.csv"), "--target", "y", "--epsilon", "8", *FEW_DRAWS)
    assert answer.stderr == ""


def test_features_that_depend_on_each_other_are_named_and_no_number_of_rows_is_promised(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    a, c = rng.normal(size=400), rng.normal(size=400)
    rows = [f"{x:.12g},{2 * x + 1:.12g},{z},{x + z + 1}" for x, z in zip(a.round(3), c, strict=True)]
    file = tmp_path / "rows.csv"
    file.write_text("a,b,c,y\n" + "\n".join(rows) + "\n", "utf-8")
    found = tried(file)
    assert coefficients_in(found).dependent == ("a", "b")
    assert "a, b depend on each other exactly" in show(found)
    assert "Simulated to be good" not in show(found)
    assert coefficients_in(found).judgement.sizes == ()


def test_a_target_of_yes_and_no_is_explained_as_ones_and_zeros(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("x,y\n" + "".join(f"{row % 9},{'ja' if row % 9 > 3 else 'nein'}\n" for row in range(999)), "utf-8")
    assert read_table(file).column("y").kind == "boolean"
    assert tried(file, epsilon=50.0).rows == 999


def test_what_cannot_be_tried_is_said_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("x,y\ninf,1\n" + "".join(f"{row / 7},{row % 5}\n" for row in range(99)), "utf-8")
    with pytest.raises(InvalidTableError, match=r"x: 1 of its cells are no number, the first is 'inf'"):
        tried(file)


def test_a_rare_level_is_left_out_by_the_name_of_its_column(tmp_path: Path) -> None:
    lines = [f"{row % 9},{'red' if row == 8 else 'blue' if row % 2 else 'tan'},{row % 7}" for row in range(2000)]
    (tmp_path / "rows.csv").write_text("\n".join(["y,colour,x", *lines]), "utf-8")
    found = show(tried(tmp_path / "rows.csv"))
    assert "what varies in few rows: colour[red]." in found
    assert "--drop 'colour'" in found


def test_columns_with_missing_numbers_are_named(trial: Trial) -> None:
    assert trial.missing == {"a": 80}
    assert "Missing is a in 80." in show(trial)
