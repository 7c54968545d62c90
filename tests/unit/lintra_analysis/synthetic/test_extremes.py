"""Rows from releases that are nothing but noise, however large: always values that their columns may hold."""

import numpy as np
import pytest

from lintra_analysis.releases.features import ClassLabel, Feature
from lintra_analysis.releases.joint_sums import NoiseDeviations
from lintra_analysis.synthetic.generator import plain_rows, synthesize
from lintra_analysis.synthetic.model import fit
from support.made_projected_sums import numeric, released

FEATURES = (
    Feature("tiny", "real", 0, 1e-39, cells=4),
    Feature("wide", "real", -9e17, 9e17, cells=16),
    Feature("far", "real", 1e9, 1e9 + 1e-3),
    Feature("whole", "integer", -5, 12, cells=7),
    Feature("yes", "boolean", cells=2),
    Feature("pair", "category", levels=("u", "v"), cells=2),
    Feature("many", "category", levels=tuple("abcde"), cells=5),
)
CLASSES, NUMBER = ClassLabel("k", ("A", "B", "C")), numeric("y", -1e6, 3e6, 0.3, cells=5)


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9, 1e19])
@pytest.mark.parametrize("label", [None, CLASSES, NUMBER], ids=["none", "classes", "number"])
@pytest.mark.parametrize("sign", [-1, 0, 1])
@pytest.mark.grid(4)
def test_all_noise_makes_rows_inside_their_bounds_twice_the_same(
    size: float, label: ClassLabel | None, sign: int
) -> None:
    width = sum(feature.width for feature in FEATURES) + (label is NUMBER)
    columns = (*FEATURES, NUMBER.feature) if label is NUMBER else FEATURES
    release = released(
        np.full((2, width), 1e-3),
        features=FEATURES,
        label=label,
        # A deviation of counts of 0 keeps every class, also one that has fewer rows than none.
        noise=NoiseDeviations(0.0, size, size, 2**0.5 * size, size / 2, "discrete Gaussian"),
        histograms=[np.full(feature.cells, sign * size) for feature in columns],
        seed=sign + 1,
    )
    model = fit(release)
    made = synthesize(model, 37, 7)
    for rows in (made, synthesize(model, 37, 7, "projected")):
        assert rows.to_csv() == plain_rows(model, 37, 7, rows.space).to_csv()
        for name, values in rows.columns.items():
            assert values.dtype.kind != "f" or np.isfinite(values).all(), name
    for feature in columns:
        values = made.columns[feature.name]
        if feature.kind == "category":
            assert set(values.tolist()) <= set(feature.levels)
        else:
            assert feature.lower <= values.min() <= values.max() <= feature.upper
