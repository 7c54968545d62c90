"""Organisations under audit send what real ones do: every run has its own noise and its own rounding."""

import numpy as np

from lintra_audit.trials.organisations import File, contribute, exact_contribution
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.mechanisms import SecondMoment
from support import make_task, source

ROWS = np.random.default_rng(3).normal(size=(6, 2)) / 4
HELD = Contributors(rows_per_person=2, organisations_per_person=1, max_rows=50, count="exact")


def test_a_dithered_contribution_is_rounded_anew_in_every_run() -> None:
    mechanism = SecondMoment(
        row_bound="1", fraction_bits=0, sigma=4, intercept="0.5", rounding="dithered", row_weights="all"
    )
    task = make_task(mechanism, columns=2, contributors=HELD, check=False)
    coarse = task.model_copy(update={"mechanism": mechanism.model_copy(update={"fraction_bits": 5})})
    file = File.of_persons(ROWS)
    runs = contribute(coarse, 0, file, 400, source("runs"))
    always_up = exact_contribution(coarse, file)
    drawn = np.array([exact_contribution(coarse, file, source(f"{run}")) for run in range(400)])
    assert len(np.unique(drawn, axis=0)) > 200
    # Noise of deviation 4 to 6 cannot hide that every run rounds up: the means of all runs tell it.
    noise = coarse.measurement.layout.sigmas / 20 + 1e-9
    assert (np.abs(runs.mean(axis=0) - drawn.mean(axis=0)) < 6 * (noise + drawn.std(axis=0) / 20)).all()
    assert (np.abs(runs.mean(axis=0) - always_up) > 6 * (noise + drawn.std(axis=0) / 20)).any()


def test_null_rows_are_counted_and_add_nothing() -> None:
    mechanism = SecondMoment(row_bound="1", fraction_bits=8, sigma=4)
    task = make_task(mechanism, columns=2, contributors=HELD, check=False)
    file = File.of_persons(ROWS)
    exact, more = (exact_contribution(task, one) for one in (file, File(file.rows, file.persons, null_rows=3)))
    assert (more - exact).tolist() == [0, 0, 0, 3]
