"""What would become of a table: levels, losses and values that move are counted, and no row is shown."""

import numpy as np

from lintra_client.organisations.rehearsal import rehearse
from lintra_client.organisations.table import values_of
from lintra_protocol.fields.schema import OTHER, Column
from support import make_task

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
