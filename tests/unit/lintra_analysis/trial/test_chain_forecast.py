"""A forecast of rounds: what a trial of the same rows sees, and none where rounds are of other people."""

from pathlib import Path

import pytest

from lintra_analysis.trial.error_forecast import foresee
from lintra_analysis.trial.files.table import Readings, read_table
from lintra_protocol.crypto.randomness import keystream
from unit.lintra_analysis.trial.test_logistic import NOW, answer, tried, write


@pytest.mark.slow
def test_a_plan_with_these_rows_as_its_sample_foresees_what_the_trial_sees(tmp_path: Path) -> None:
    file = write(tmp_path / "rows.csv")
    trial = tried(file)
    found = foresee(trial.specification, read_table(file, Readings()), None, NOW, keystream(bytes(32))).chain
    assert found is not None
    assert found.rounds == answer(trial).rounds
    for ours, theirs in zip(found.slopes, answer(trial).judgement.slopes, strict=True):
        assert ours.name == theirs.name
        # A plan has the rows as a task takes them, each column within its bounds.
        assert ours.own == pytest.approx(theirs.own, rel=0.02)
        assert ours.seen_from == pytest.approx(theirs.seen_from, rel=0.15)
        assert ours.weighted == pytest.approx(theirs.weighted, rel=1e-3)
    windows = trial.specification | {"mechanism": {"kind": "newton_step", "rounds": 1, "intercept": "0.5"}}
    assert foresee(windows, None, None, NOW, keystream(bytes(32))).chain is None
