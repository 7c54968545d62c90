"""What a specification will tell: the errors of every number, and the strength at other cohorts and epsilons."""

from pathlib import Path

import numpy as np
import pytest

from lintra_analysis.estimators.means import means
from lintra_analysis.kinds.decode import read
from lintra_analysis.trial.error_forecast import foresee
from lintra_analysis.trial.files.table import read_table
from lintra_analysis.trial.plan_text import document, show
from lintra_analysis.trial.what_if import outlook
from lintra_protocol.errors import InvalidRowError, InvalidTaskError
from lintra_protocol.privacy.gaussian import gaussian_mu
from support import source
from support.measured import measurement_of

COLUMNS = [{"name": name, "lower": -3, "upper": 3, "scale": 1} for name in ("a", "b", "y")]


def asked(clients: int, epsilon: float = 1.0) -> dict[str, object]:
    return {
        "purpose": "a test",
        "columns": COLUMNS,
        "mechanism": {"kind": "second_moment", "intercept": 1, "trace": True},
        "row_bound": 3,
        "epsilon": epsilon,
        "delta": "0.000001",
        "min_clients": clients,
        "max_corrupt_clients": 0,
        "noise": "clients",
    }


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator = np.random.default_rng(3)
    first, second = generator.normal(size=(2, 300))
    rows = np.column_stack([first, second, first - second])
    file = tmp_path_factory.mktemp("sample") / "sample.csv"
    lines = [",".join(f"{value:.6f}" for value in row) for row in rows]
    file.write_text("\n".join(["a,b,y", *lines]), "utf-8")
    return file


def test_every_mean_pair_and_coefficient_has_an_expected_error(sample: Path) -> None:
    found = foresee(asked(5000), read_table(sample), "y", 10**9, source("foresee"))
    assert found.means is not None
    assert set(found.means) == {"a", "b", "y"}
    assert found.correlations is not None
    assert set(found.correlations) == {("a", "b"), ("a", "y"), ("b", "y")}
    assert found.coefficients is not None
    assert set(found.coefficients) == {"a", "b", "(intercept)"}
    plain = document(found)
    text = show(found)
    for name in ("correlation of", "a, y", "How well coefficients could be told"):
        assert name in text
    assert isinstance(plain["prospects"], list)
    assert len(plain["prospects"]) == 12


def test_without_a_sample_strengths_are_a_guess_and_a_tenth_of_those_of_made_up_rows(sample: Path) -> None:
    guessed = foresee(asked(5000), None, "y", 10**9, source("guess"))
    assert guessed.prospects is not None
    assert all(each.guessed for each in guessed.prospects)
    assert any("a pilot or a public sample tells them" in warning for warning in guessed.warnings)
    first = guessed.prospects[0]
    assert first.told == f"guess: {first.verdict} ({first.strength / 10:.2g} to {10 * first.strength / 3:.2g})"
    assert "guess: " in show(guessed)
    made_up = outlook(50.0, 1.0, 5000, 1.0, 1e-6)
    tenths = [each.strength / 10 for each in made_up]
    assert [each.strength for each in outlook(50.0, 1.0, 5000, 1.0, 1e-6, guessed=True)] == pytest.approx(tenths)
    told = foresee(asked(5000), read_table(sample), "y", 10**9, source("sample"))
    assert "guess" not in show(told)


def test_the_strength_grows_with_the_cohort_and_as_the_noise_falls(sample: Path) -> None:
    table = read_table(sample)
    here = foresee(asked(5000), table, "y", 10**9, source("here")).prospects
    other = foresee(asked(20_000, 2.0), table, "y", 10**9, source("other")).prospects
    assert here is not None
    assert other is not None
    cells = {(each.num_clients, each.epsilon): each.strength for each in here}
    assert cells[20_000, 2.0] == pytest.approx(next(x for x in other if x.epsilon == 2.0).strength, rel=5e-3)
    ratio = gaussian_mu(4, 1e-6) / gaussian_mu(1, 1e-6)
    assert cells[5000, 4.0] == pytest.approx(cells[5000, 1.0] * ratio, rel=1e-6)


def test_a_level_of_the_sample_that_the_task_lacks_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "sample.csv"
    file.write_text("sex,y\n" + "".join(f"{'male' if row % 2 else 'F'},{row % 7}\n" for row in range(60)), "utf-8")
    columns: list[dict[str, object]] = [{"name": "sex", "kind": "category", "levels": ["M", "F"]}]
    columns.append({"name": "y", "lower": 0, "upper": 9})
    document = {**asked(5000), "columns": columns}
    complaint = "'sex' of the sample has the level 'male', which is none of its 2 levels, M, F"
    with pytest.raises(InvalidRowError, match=complaint):
        foresee(document, read_table(file), "y", 10**9, source("levels"))


def asked_of_organisations(rows_per_person: int) -> dict[str, object]:
    """Return the same of four organisations, whose rows are counted with noise if a person may have several."""
    held = {"rows_per_person": rows_per_person, "max_rows": 500_000}
    return {**asked(4), "max_corrupt_clients": None, "max_clients": 4, "contributors": held}


@pytest.mark.parametrize("rows_per_person", [1, 3])
@pytest.mark.slow
def test_organisations_expect_the_errors_that_their_release_states(sample: Path, rows_per_person: int) -> None:
    each, table = 60_000, read_table(sample)
    found = foresee(asked_of_organisations(rows_per_person), table, "y", 10**9, source("organisations"), each)
    task, rows = found.task, np.tile(table.block(), (each // 300, 1))
    normalised, persons = task.schema_arrays.normalise(rows), np.arange(each)
    total = sum(
        measurement_of(task, normalised.shape[1]).contribution(normalised, persons, source(f"organisation {k}"))
        for k in range(4)
    )
    stated = means(read(task, np.atleast_2d(total), np.array([4])), of="cohort")
    assert stated.means is not None
    assert found.means is not None
    errors = [each.standard_error.privacy for each in stated.means if each.standard_error is not None]
    assert list(found.means.values()) == pytest.approx(errors, rel=1e-2)
    fewer = foresee(asked_of_organisations(rows_per_person), table, "y", 10**9, source("fewer"), each // 2)
    assert fewer.means is not None
    assert fewer.means["a"] == pytest.approx(2 * found.means["a"], rel=0.05)


def test_a_plan_of_organisations_says_what_is_promised_to_whom() -> None:
    found = foresee(asked_of_organisations(3), None, "y", 10**9, source("words"))
    text = show(found)
    assert "from 4 organisations with 500,000 rows each" in text
    assert "to persons, each with at most 3 rows in at most 1 organisation, if at most 3 of the organisations" in text
    assert "if none of 4 organisations colludes" in text
    assert "2,000,000 " in text
    plain = document(found)
    assert (plain["organisation_rows"], plain["row_count"], plain["max_corrupt_clients"]) == (500_000, "noisy", 3)


def test_rows_of_organisations_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidTaskError, match="between 1 and max_rows 500000"):
        foresee(asked_of_organisations(1), None, None, 10**9, source("many"), 500_001)
    with pytest.raises(InvalidTaskError, match="has no contributors"):
        foresee(asked(5000), None, None, 10**9, source("none"), 10)
