"""The table of late flights follows its stated rules, and a trial of it keeps what the note on models asks for."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from lintra_analysis.trial.files.table import read_table
from lintra_analysis.trial.logistic import LogisticComparison
from lintra_analysis.trial.trial import try_logistic
from lintra_protocol.crypto.randomness import keystream

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
NOW = 1_800_000_000


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(DEPLOY))
    monkeypatch.setattr(sys, "argv", ["late_flights.py", str(tmp_path / "late.csv")])
    runpy.run_path(str(DEPLOY / "late_flights.py"), run_name="__main__")
    return tmp_path / "late.csv"


def test_a_quarter_of_the_flights_is_late_and_the_features_are_those_of_the_timetable(file: Path) -> None:
    table = read_table(file)
    assert [(column.name, column.kind) for column in table.columns] == [
        ("month", "integer"),
        ("hour", "integer"),
        ("distance", "integer"),
        ("late", "boolean"),
    ]
    assert table.num_rows == 20_000
    assert 0.24 < table.column("late").values.mean() < 0.26


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "kept"), [(0.5, 0.96), (1.0, 0.98), (3.0, 0.985)])
def test_rounds_of_late_flights_keep_the_deviance_that_the_timetable_explains(
    file: Path, epsilon: float, kept: float
) -> None:
    found = try_logistic(read_table(file), "late", epsilon, 1e-6, NOW, keystream(bytes(32)))
    assert isinstance(found.answer, LogisticComparison)
    judged = found.answer.judgement
    assert judged.r2 >= kept * judged.own_r2
    slopes = {one.name: one for one in judged.slopes}
    assert slopes["hour"].own == pytest.approx(0.1, abs=0.005)
    assert slopes["hour"].seen is not None
    assert slopes["hour"].seen >= 0.9
    assert np.isfinite(slopes["hour"].seen_from or np.inf)
