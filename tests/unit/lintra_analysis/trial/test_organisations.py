"""A trial of organisations: what they learn together, what each learns alone, and persons clipped together."""

import json
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from lintra_analysis.spec.specification import Specification
from lintra_analysis.trial.coefficients import RegressionComparison
from lintra_analysis.trial.files.table import read_table_beside
from lintra_analysis.trial.organisations import PooledComparison, Whose, gains
from lintra_analysis.trial.text import show
from lintra_analysis.trial.trial import Trial, try_table
from lintra_protocol.command import build
from lintra_protocol.crypto.randomness import keystream
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidTableError

NOW = 1_800_000_000
COMMAND = build(entry_points(group="lintra.commands"), "trial")
ROWS = 3000


def values() -> tuple[FloatArray, list[str], list[str]]:
    """Return rows of y, a and b, and whose they are: a large organisation, a small one, and one of three rows."""
    random = np.random.default_rng(5)
    a, b = random.normal(size=(2, ROWS))
    y = 2 * a - b + 0.5 * random.normal(size=ROWS)
    organisation = ["large"] * 2500 + ["small"] * 497 + ["tiny"] * 3
    return np.column_stack([y, a, b]), organisation, [f"person {place // 2}" for place in range(ROWS)]


def write(folder: Path) -> Path:
    rows, organisation, person = values()
    lines = [
        f"{row[0]:.4f},{row[1]:.4f},{row[2]:.4f},{place},{who}"
        for row, place, who in zip(rows, organisation, person, strict=True)
    ]
    file = folder / "rows.csv"
    file.write_text("\n".join(["y,a,b,place,who", *lines]) + "\n", "utf-8")
    return file


def tried(file: Path, person: str | None = None, **options: int) -> Trial:
    beside = ["place", "who"] if person else ["place"]
    table, texts = read_table_beside(file, beside)
    whose = Whose.named(texts["place"], texts["who"] if person else None)
    chosen, keep = table.keep(["y", "a", "b"]), options.get("keep")
    return try_table(chosen, "y", 4.0, 1e-6, NOW, keystream(bytes(32)), whose=whose, rows_per_person=keep, draws=20)


def pooled_in(found: Trial) -> PooledComparison:
    assert found.pooled is not None
    return found.pooled


def coefficients_in(found: Trial) -> RegressionComparison:
    assert isinstance(found.answer, RegressionComparison)
    return found.answer


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("organisations"))


@pytest.fixture(scope="module")
def trial(file: Path) -> Trial:
    return tried(file)


def test_all_together_learn_nearly_what_the_table_says_and_a_small_one_alone_less(trial: Trial) -> None:
    """At epsilon 4 the noise of three organisations costs R2 about .002 (seeded); a third of it is far away."""
    pooled = pooled_in(trial)
    assert pooled.r2.non_private == pytest.approx(0.95, abs=0.01)
    assert pooled.r2.private == pytest.approx(pooled.r2.non_private, abs=0.02)
    large, small, tiny = pooled.alone
    assert [(each.organisation, each.rows, each.persons) for each in pooled.alone] == [
        ("large", 2500, 2500),
        ("small", 497, 497),
        ("tiny", 3, 3),
    ]
    assert large.r2.private is not None
    assert large.r2.private > (small.r2.private or 0.0)
    assert tiny.r2.private is None
    assert small.r2.non_private == pytest.approx(0.95, abs=0.01)
    # The noise hides what the large one could gain; its own rows tell more than all do with noise.
    assert (small.better > 0.9, tiny.better, tiny.better_than_own_rows) == (True, 1.0, 1.0)
    assert 0.2 < large.better < 0.8
    assert large.better_than_own_rows < 0.2
    assert "2 of 3 predict everybody's rows better than alone with the same promise, and of 1 there is" in show(trial)


def test_rows_are_weighted_where_each_person_has_one_and_the_specification_says_so(trial: Trial) -> None:
    specification = Specification.model_validate(trial.specification)
    assert specification.mechanism.row_weights == "features"  # type: ignore[attr-defined]
    assert specification.contributors is not None
    found = coefficients_in(trial)
    # At epsilon 4 and 3,000 rows nu is .0015: six in a hundred rows are shrunk, so that both fits differ a little.
    for slope in found.judgement.slopes:
        assert 0 < abs(slope.own - slope.weighted) < 0.03


def test_a_gain_is_what_four_fifths_of_the_draws_say() -> None:
    assert gains([1.0, 0.8, 0.79, 0.5, 0.21, 0.2, 0.0]) == (2, 3)


def test_least_squares_alone_is_scored_on_the_rows_of_everybody(trial: Trial) -> None:
    rows = np.round(values()[0], 4)
    design = np.column_stack([np.ones(ROWS), rows[:, 1:]])
    own = np.linalg.lstsq(design[2500:2997], rows[2500:2997, 0], rcond=None)[0]
    left = rows[:, 0] - design @ own
    expected = 1 - left @ left / np.square(rows[:, 0] - rows[:, 0].mean()).sum()
    assert pooled_in(trial).alone[1].r2.non_private == pytest.approx(expected, abs=1e-9)


def test_the_pooled_part_is_a_trial_like_any_other(trial: Trial) -> None:
    assert (trial.rows, trial.epsilon) == (ROWS, pytest.approx(4.0, abs=1e-3))
    for each in coefficients_in(trial).coefficients:
        assert each.interval is not None
        assert each.weighted is not None
        low, high = each.interval
        # Five standard errors either way of each of three: a false alarm has probability 2e-6; seeded besides.
        assert abs(each.weighted - (low + high) / 2) <= 2.6 * (high - low) / 2, each.name


def test_the_specification_asks_for_as_many_organisations_and_their_largest(trial: Trial) -> None:
    asked = Specification.model_validate(json.loads(json.dumps(trial.specification)))
    assert asked.contributors is not None
    assert (asked.min_clients, asked.contributors.max_rows, asked.contributors.rows_per_person) == (3, 2500, 1)


def test_what_is_shown_names_the_promise_and_every_organisation(trial: Trial) -> None:
    text = show(trial)
    for words in (
        "3,000 rows of 3 organisations; epsilon 4",
        "persons, each with at most 1 row in at most 1 organisation; epsilon 2",
        "if 2 do",
        "all together  ",
        "tiny",
        "All together:",
        "R2 of the table itself",
    ):
        assert words in text
    document = trial.document()
    assert json.loads(json.dumps(document))["alone"][2]["organisation"] == "tiny"


def test_rows_of_a_person_are_clipped_together_and_counted_with_noise(file: Path) -> None:
    found = tried(file, "who")
    contributors = found.specification["contributors"]
    assert isinstance(contributors, dict)
    assert (contributors["rows_per_person"], contributors["organisations_per_person"]) == (2, 2)
    squared = 2 * float(str(found.specification["row_bound"])) ** 2
    assert float(contributors["person_bound"]) ** 2 < squared
    assert "2 rows in at most 2 organisations" in pooled_in(found).promised_to
    assert pooled_in(found).alone[0].persons == 1250
    assert any("counted their rows with noise" in said for said in coefficients_in(found).estimate.warnings)


def test_only_the_first_rows_of_each_person_are_kept_if_asked(file: Path) -> None:
    found = tried(file, "who", keep=1)
    # Person 1498 has one row at the small organisation and one at the tiny one, which are both kept.
    assert (found.rows, pooled_in(found).dropped_rows) == (1501, 1499)
    assert "1,499 rows beyond those that are kept" in show(found)


def test_whose_numbers_persons_within_organisations_and_across() -> None:
    whose = Whose.named(["b", "a", "a", "b", "a"], ["x", "x", "y", "x", "y"])
    assert whose.organisations == ("a", "b")
    assert (whose.rows_per_person, whose.organisations_per_person) == (2, 2)
    assert whose.first(1).tolist() == [0, 1, 2]
    places, persons = whose.files[0]
    assert (places.tolist(), persons.tolist()) == ([1, 2, 4], [0, 1, 1])


def test_a_person_is_spelled_in_a_trial_as_where_contributions_are_sent() -> None:
    whose = Whose.named(["a", "b", "a", "b", "a"], ["17", "17.0", "Ann", "ANN", "\uff11\uff17"])
    assert whose.persons.tolist() == [0, 0, 1, 1, 0]
    assert (whose.rows_per_person, whose.organisations_per_person) == (2, 2)
    with pytest.raises(InvalidTableError, match="row 2, whose row it is: nobody is named here"):
        Whose.named(["a", "b"], ["17", "\u200b"])


def test_what_cannot_be_tried_is_told(file: Path) -> None:
    def said(*words: str) -> str:
        return str(CliRunner().invoke(COMMAND, ["trial", str(file), "--target", "y", *words]).exception)

    assert "the file has no column 'hospital'" in said("--organisation", "hospital")
    assert "--person and --keep are read only with --organisation" in said("--person", "who")
    assert "must name two different columns" in said("--organisation", "place", "--person", "place")
    with pytest.raises(InvalidTableError, match="all rows are of one organisation, 'a'"):
        Whose.named(["a", "a"], None)
    gap = file.with_name("gap.csv")
    gap.write_text("y,place\n1,a\n2,\n3,b\n", "utf-8")
    with pytest.raises(InvalidTableError, match="row 2 has nothing in column 'place'"):
        read_table_beside(gap, ["place"])


def test_the_command_prints_the_table_and_writes_the_specification(file: Path) -> None:
    spec = file.with_name("spec.json")
    words = ["trial", str(file), "--target", "y", "--organisation", "place", "--person", "who", "--epsilon", "4"]
    result = CliRunner().invoke(COMMAND, [*words, "--spec", str(spec)])
    assert result.exit_code == 0, result.output
    assert "3,000 rows of 3 organisations" in result.output
    assert "contributors" in json.loads(spec.read_text("utf-8"))
