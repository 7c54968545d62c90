"""What would become of a table: levels, losses and values that move are counted, and no row is shown."""

import numpy as np
import pytest

from lintra_client.organisations.rehearsal import rehearse
from lintra_client.organisations.table import values_of
from lintra_protocol.fields.schema import OTHER, Column
from lintra_protocol.mechanisms.second_moment import SecondMoment
from support import make_task
from support.measured import calibrated_for

COLUMNS = (
    Column(name="age", lower="0", upper="100", center="50", scale="50"),
    Column(name="sex", lower="0", upper="2", kind="category", levels=("M", "F", OTHER)),
)


def test_levels_losses_and_moved_values_are_counted() -> None:
    task = make_task("sum", columns=COLUMNS)
    table = {"age": ["30", "130", "", "40"], "sex": ["M", "F", "M", ""]}
    values, read = values_of(task, table, None, strict=False)
    found = rehearse(task, values, read)
    age, sex = found.columns
    assert (found.rows, age.moved, age.missing, sex.missing) == (4, 1, 1, 1)
    assert sex.levels == {"M": 2, "F": 1, OTHER: 1}
    assert found.left_out_rows == (1 if task.measurement.leaves_out else 0)
    assert "130" not in str(found.document())


def test_rows_longer_than_the_bound_are_counted_as_the_client_counts_them() -> None:
    task = make_task("sum", columns=COLUMNS)
    values, read = values_of(task, {"age": ["0", "50"], "sex": ["F", "M"]}, None, strict=False)
    clipped = task.measurement.is_clipped(task.schema_arrays.normalise(values))
    assert rehearse(task, values, read).shrunk == int(np.sum(clipped))


def test_the_average_weight_is_that_of_the_rows_as_they_are_sent() -> None:
    mechanism = SecondMoment(
        row_bound="1", fraction_bits=8, sigma=400, intercept="0.5", rounding="dithered", row_weights="all"
    )
    task = make_task(calibrated_for(mechanism, 2, make_task().claim, 1000), columns=COLUMNS[:1], check=False)
    ages = {"age": ["50", "100", "0", "50", ""]}
    values, read = values_of(task, ages, None, strict=False)
    # c = .5 and |z| is 0 or 1: t^2 is 1 / max(1, .25 + z^2), and the row without an age counts nothing.
    assert rehearse(task, values, read).weight == pytest.approx((1 + 0.8 + 0.8 + 1 + 0) / 5, rel=0.02)
