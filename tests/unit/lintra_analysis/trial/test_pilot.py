"""A pilot and its main task: one promise for both, and bounds by the rule that a whole table would give."""

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from lintra_analysis.commands.plan import app
from lintra_analysis.releases.cell_counts import CellCounts
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.spec.build_task import build_task
from lintra_analysis.spec.specification import Specification
from lintra_analysis.trial.collection import placeholder_keys, placeholder_servers
from lintra_analysis.trial.files.bounds import bounds_of, clipped
from lintra_analysis.trial.files.table import read_table
from lintra_analysis.trial.pilot import SHARE, bounds_of_pilot, main_document, pilot_document, rows_of_cells
from lintra_analysis.trial.row_weights import row_weighting
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Schema
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.discrete import discrete_epsilon
from lintra_protocol.privacy.statement import MAX_SLACK
from lintra_protocol.task import Task
from support import source

STUDY: dict[str, object] = {
    "purpose": "How blood pressure depends on age.",
    "columns": [
        {"name": "age", "lower": 0, "upper": 150, "kind": "integer", "unit": "years"},
        {"name": "bmi", "lower": 0, "upper": 200, "center": 30},
        {"name": "female", "kind": "boolean"},
        {"name": "smoker", "kind": "category", "levels": ["never", "former", "now"]},
    ],
    "mechanism": {"kind": "second_moment"},
    "epsilon": 1,
    "delta": 1e-6,
    "min_clients": 5000,
}
PILOT = "A" * 43
COLUMNS = (
    ScaledColumn("age", 0, 1, 0, 150, "years", "integer"),
    ScaledColumn("bmi", 0, 1, 0, 200),
    ScaledColumn("female", 0, 1, 0, 1, "", "boolean"),
    ScaledColumn("smoker", 0, 1, 0, 2, "", "category"),
)
LEVELS = ((), (), ("0", "1"), ("never", "former", "now"))
AGES, BMIS, NONE = np.concatenate([[0], np.arange(150) + 0.5, [150]]), np.linspace(0, 200, 2001), np.array([])


def people(count: int = 20_000) -> FloatArray:
    generator = np.random.default_rng(1)
    smoker = generator.choice(3, count, p=[0.6, 0.3, 0.1])
    return np.column_stack(
        [
            generator.integers(18, 90, count),
            25 + 4 * generator.normal(size=count),
            generator.random(count) < 0.52,
            smoker,
        ]
    )


def counted(rows: FloatArray, noise_sd: float = 0.0) -> CellCounts:
    generator = np.random.default_rng(2)
    counts = [
        np.histogram(rows[:, 0], AGES)[0],
        np.histogram(rows[:, 1], BMIS)[0],
        np.bincount(rows[:, 2].astype(int), minlength=2),
        np.bincount(rows[:, 3].astype(int), minlength=3),
    ]
    noised = tuple(count + noise_sd * generator.normal(size=count.size) for count in counts)
    return CellCounts(
        COLUMNS, (AGES, BMIS, NONE, NONE), LEVELS, noised, noise_sd * generator.normal(size=4), noise_sd, len(rows)
    )


def task_of(document: dict[str, object]) -> Task:
    random_bytes = source("pilot")
    asked = Specification.model_validate(document)
    return build_task(asked, placeholder_servers(random_bytes), placeholder_keys(random_bytes), 10**9, random_bytes)


def test_noise_without_a_mu_shares_nothing_with_a_pilot() -> None:
    study = STUDY | {"mechanism": {"kind": "second_moment_wishart"}}
    for propose in (pilot_document, lambda asked: main_document(asked, counted(people()), PILOT)):
        with pytest.raises(InvalidTaskError, match="no mu to share"):
            propose(study)


@pytest.mark.parametrize("kind", ["second_moment", "sum", "osnap"])
def test_both_tasks_together_keep_the_promise_of_the_study_and_use_it_up(kind: str) -> None:
    study = STUDY | {"mechanism": {"kind": kind} | ({"rows": 40} if kind == "osnap" else {})}
    pilot = task_of(pilot_document(study))
    main = task_of(main_document(study, counted(people()), pilot.task_id))
    squares = [task.privacy(5000).mu ** 2 for task in (pilot, main)]
    noise_delta = main.claim.noise_delta
    together = discrete_epsilon(math.sqrt(sum(squares)), noise_delta, 2 * MAX_SLACK)
    assert 0.999 < together <= 1
    assert squares[0] / sum(squares) == pytest.approx(0.1, abs=1e-3)
    assert pilot.claim.noise_delta <= noise_delta
    assert noise_delta + float(main.claim.delta_coalition) == pytest.approx(1e-6)
    assert pilot.mechanism.kind == "histogram"
    assert (pilot.claim.min_clients, pilot.claim.max_corrupt_clients) == (5000, main.claim.max_corrupt_clients)


@pytest.mark.parametrize("kind", ["second_moment", "osnap"])
def test_both_tasks_name_their_study_so_that_devices_charge_them_once(kind: str) -> None:
    study = STUDY | {"mechanism": {"kind": kind} | ({"rows": 40} if kind == "osnap" else {})}
    pilot = task_of(pilot_document(study))
    main = task_of(main_document(study, counted(people()), pilot.task_id))
    assert pilot.study is not None
    assert (pilot.study.epsilon, pilot.study.share, pilot.study.pilot) == ("1", "0.1", None)
    assert main.study == pilot.study.model_copy(update={"pilot": pilot.task_id})
    set_aside = pilot.study.set_aside(pilot.worst_privacy())
    assert Spending.of(main.worst_privacy()).fits_into(Spending.of(set_aside))
    assert (Spending.of(pilot.worst_privacy()) + Spending.of(set_aside)).delta_at(1.0) <= 1e-6
    # Both have both layers of noise, and share what may be seen if all others are invented.
    assert (pilot.noise, main.noise, pilot.study.epsilon_alone) == ("both", "both", "3")
    alone = [task.bound_alone() for task in (pilot, main)]
    together = sum((Spending.of(each) for each in alone if each is not None), Spending.zero())
    # A sketch keeps half of delta for crowded rows, and its pilot has the other half alone.
    assert (0.99e-6 if kind == "second_moment" else 0.5e-6) < together.delta_at(3.0) <= 1e-6


def test_a_study_of_two_rounds_would_be_three_tasks_and_names_none() -> None:
    study = STUDY | {"mechanism": {"kind": "ron_gauss", "rounds": 2}}
    assert "study" not in pilot_document(study)
    assert "study" not in main_document(study, counted(people()), PILOT)


def test_without_noise_the_cells_give_what_the_rows_would(tmp_path: Path) -> None:
    rows = people(4000)
    lines = ["age,bmi,female,smoker"]
    names = LEVELS[3]
    lines += [f"{int(a)},{b},{int(f)},{names[int(s)]}" for a, b, f, s in rows.tolist()]
    file = tmp_path / "people.csv"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    table = read_table(file)
    truth, found = bounds_of(table), bounds_of_pilot(counted(rows))
    for one, other in zip(truth.columns[:3], found.columns[:3], strict=True):
        for end in ("lower", "upper", "center", "scale"):
            assert float(getattr(other, end)) == pytest.approx(float(getattr(one, end)), rel=0.01, abs=0.7), one.name
    assert float(found.row_bound) == pytest.approx(float(truth.row_bound), rel=0.02)
    assert float(found.intercept) == pytest.approx(float(found.row_bound) / 2, rel=1e-3)


def test_with_the_noise_of_a_tenth_hardly_a_row_is_clipped_and_bounds_stay_inside_the_studys() -> None:
    rows = people()
    pilot = task_of(pilot_document(STUDY | {"min_clients": len(rows)}))
    sd = math.sqrt(len(rows)) * pilot.mechanism.sigma / 4096
    found = bounds_of_pilot(counted(rows, sd))
    assert clipped(found.columns, float(found.row_bound), rows)[1] < 0.05
    for given, column in zip(COLUMNS, found.columns, strict=True):
        assert given.lower <= float(column.lower) < float(column.upper) <= given.upper


def test_the_main_task_has_the_bounds_and_everything_else_of_the_study() -> None:
    document = main_document(STUDY | {"purpose": "P", "retention": 60}, counted(people()), PILOT)
    assert document["retention"] == 60
    assert document["mechanism"]["row_weights"] == "all"  # type: ignore[index]
    age, bmi, female, smoker = document["columns"]  # type: ignore[misc]
    assert (age["unit"], age["kind"]) == ("years", "integer")
    assert float(bmi["center"]) == pytest.approx(25, abs=0.2)
    assert female.keys() == {"name", "kind", "center", "scale"}
    assert smoker == STUDY["columns"][3]  # type: ignore[index]
    given = {"mechanism": {"kind": "second_moment", "intercept": "0.3"}}
    kept = main_document(STUDY | given, counted(people()), PILOT)
    assert kept["mechanism"]["intercept"] == "0.3"  # type: ignore[index]
    assert kept["row_bound"] == bounds_of_pilot(counted(people())).row_bound


def test_rows_drawn_from_the_cells_give_nearly_the_weights_that_the_rows_would() -> None:
    rows = people(4000)
    release = counted(rows)
    columns = bounds_of_pilot(release).columns
    drawn, whole = rows_of_cells(release, columns, PILOT)
    true = Schema(columns, indicators=True).normalise(rows)
    assert (drawn.shape, whole) == ((4000, true.shape[1]), 1.0)
    ours, theirs = (row_weighting(each, 20_000, 0.2) for each in (drawn, true))
    assert ours.by == theirs.by
    assert ours.constant == pytest.approx(theirs.constant, rel=0.03)
    assert ours.row_bound == pytest.approx(theirs.row_bound, rel=0.05)
    assert np.array_equal(drawn, rows_of_cells(release, columns, PILOT)[0])
    assert not np.array_equal(drawn, rows_of_cells(release, columns, "B" * 43)[0])


def test_the_weighted_main_task_of_a_pilot_can_be_made() -> None:
    target = {"mechanism": {"kind": "second_moment", "target": "bmi"}}
    task = task_of(main_document(STUDY | target, counted(people()), PILOT))
    assert task.mechanism.model_dump()["row_weights"] == "all"


def test_a_release_of_other_columns_is_refused() -> None:
    with pytest.raises(InvalidTaskError, match=r"the pilot's release has bmi, age"):
        main_document(STUDY, counted(people()).restrict(["bmi", "age"]), PILOT)
    with pytest.raises(InvalidTaskError, match="between 0 and 1"):
        pilot_document(STUDY, share=Fraction(1))
    with pytest.raises(InvalidTaskError, match="columns"):
        pilot_document(STUDY | {"columns": []})


def test_the_command_prints_a_pilot_that_can_be_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "study.json"
    file.write_text(json.dumps(STUDY), "utf-8")
    answer = CliRunner().invoke(app, [str(file), "--pilot"])
    assert answer.exit_code == 0
    pilot = tmp_path / "pilot.json"
    pilot.write_text(answer.stdout, "utf-8")
    assert json.loads(answer.stdout) == pilot_document(STUDY)
    told = CliRunner().invoke(app, [str(pilot)])
    assert "Pilot of a study of epsilon 1 at delta 0.000001, which devices charge once" in told.stdout, told.output
    assert task_of(json.loads(answer.stdout)).mechanism.kind == "histogram"
    assert CliRunner().invoke(app, ["--pilot"]).exit_code != 0
    assert Fraction(1, 10) == SHARE
