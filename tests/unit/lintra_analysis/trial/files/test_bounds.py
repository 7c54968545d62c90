"""The rule for bounds: stated beforehand, the same for every table, and short of clipping many rows."""

import numpy as np
import pytest

from lintra_analysis.trial.files.bounds import bounds_of, clipped
from lintra_analysis.trial.files.table import FileColumn, FileTable
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.fields.schema import OTHER


def of(**columns: FloatArray) -> FileTable:
    made = tuple(FileColumn(name, "real", values) for name, values in columns.items())
    return FileTable(made, len(made[0].values), {})


def test_the_bounds_of_a_number_are_its_outer_percentiles_and_the_centre_its_mean() -> None:
    values = np.arange(10_001) / 100
    (column,) = bounds_of(of(a=values)).columns
    assert float(fraction(column.lower)) == pytest.approx(0.1, abs=0.02)
    assert float(fraction(column.upper)) == pytest.approx(99.9, abs=0.02)
    assert float(fraction(column.center)) == pytest.approx(50, abs=0.02)
    # Half of the width between the 10 % and the 90 % points is 40, a quarter of the range 25.
    assert float(fraction(column.scale)) == pytest.approx(40, abs=0.02)


def test_a_heavy_tail_is_scaled_by_its_range() -> None:
    values = np.concatenate([np.zeros(9000), np.linspace(0, 1000, 1000)])
    (column,) = bounds_of(of(a=values)).columns
    assert float(fraction(column.scale)) == pytest.approx(float(fraction(column.upper)) / 4, rel=0.01)


@pytest.mark.parametrize("offset", [0.0, 1e6, -1e9])
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e5])
def test_units_and_offsets_change_nothing_of_importance(offset: float, unit: float) -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(size=(2000, 3))
    plain = bounds_of(of(**{name: values[:, place] for place, name in enumerate("abc")}))
    moved = bounds_of(of(**{name: values[:, place] * unit + offset * unit for place, name in enumerate("abc")}))
    assert float(fraction(moved.row_bound)) == pytest.approx(float(fraction(plain.row_bound)), rel=2e-3)


@pytest.mark.parametrize("law", ["normal", "lognormal", "uniform", "cauchy", "rare", "equal"])
def test_at_most_a_fifth_of_the_rows_is_longer_than_the_bound_whatever_their_law(law: str) -> None:
    rng = np.random.default_rng(7)
    draw = {
        "normal": lambda: rng.normal(size=(4000, 8)),
        "lognormal": lambda: rng.lognormal(0, 2, size=(4000, 8)),
        "uniform": lambda: rng.uniform(size=(4000, 8)),
        "cauchy": lambda: rng.standard_cauchy(size=(4000, 8)),
        "rare": lambda: (rng.uniform(size=(4000, 8)) < 0.002) * 1.0 + rng.normal(0, 1e-3, size=(4000, 8)),
        # All columns the same, which is the worst dependence.
        "equal": lambda: np.repeat(rng.lognormal(0, 1, size=(4000, 1)), 8, axis=1),
    }[law]
    block = draw()
    bounds = bounds_of(of(**{f"c{place}": block[:, place] for place in range(8)}))
    # Percentiles leave out .2 % of each column besides.
    assert clipped(bounds.columns, float(fraction(bounds.row_bound)), block)[1] <= 0.2 + 8 * 0.002


def test_the_bound_is_never_more_than_any_row_can_have() -> None:
    values = np.tile([0.0, 1.0], 500)
    table = FileTable((FileColumn("a", "boolean", values), FileColumn("b", "boolean", values[::-1])), 1000, {})
    assert float(fraction(bounds_of(table).row_bound)) <= 2**0.5


def test_categories_need_no_bounds_and_count_once() -> None:
    levels = ("x", "y", OTHER)
    values = np.tile([0.0, 1.0, 1.0, 2.0], 300)
    bounds = bounds_of(FileTable((FileColumn("c", "category", values, levels),), 1200, {}))
    assert bounds.columns[0].levels == levels
    assert float(fraction(bounds.row_bound)) <= 1
