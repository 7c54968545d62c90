"""Asking for a histogram: cells of equal width, edges of one's own, and what does not fit."""

from itertools import pairwise
from typing import cast

import numpy as np
import pytest

from lintra_analysis.kinds.histogram import histogram_of
from lintra_analysis.spec.build_task import build_task
from lintra_analysis.spec.specification import Specification
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms import Histogram
from lintra_protocol.task import ServerEntry
from support.analyzer_world import KEYS, NOW, seeded, specification

AGE = Column(name="age", lower="18", upper="90", kind="integer")
INCOME = Column(name="income", lower="0", upper="100.5")
SEX = Column(name="sex", lower="0", upper="1", kind="category", levels=("male", "female"))


def test_numbers_have_cells_of_equal_width_and_levels_one_each() -> None:
    found = histogram_of([INCOME, SEX], 4, {})
    assert found.edges == (("0", "25.125", "50.25", "75.375", "100.5"), ())
    assert found.cells == (4, 2)


def test_an_integer_has_no_more_cells_than_values_and_none_lies_on_an_edge() -> None:
    few = Column(name="children", lower="0", upper="3", kind="integer")
    assert histogram_of([few], 64, {}).edges == (("0", "0.5", "1.5", "2.5", "3"),)
    ends = [float(end) for end in histogram_of([AGE], 10, {}).edges[0]]
    assert len(ends) == 11
    assert all(end % 1 == 0.5 for end in ends[1:-1])
    widths = [b - a for a, b in pairwise(ends[1:-1])]
    assert set(widths) <= {7.0, 8.0}


def test_edges_can_be_named() -> None:
    assert histogram_of([INCOME], 64, {"income": ["0", "10", "100.5"]}).edges == (("0", "10", "100.5"),)


@pytest.mark.parametrize(
    ("edges", "said"),
    [({"sex": ["0", "1"]}, "one cell for each of its 2 levels"), ({"income": ["0", "5", "5"]}, "that increase")],
)
def test_edges_that_do_not_fit_are_refused(edges: dict[str, list[str]], said: str) -> None:
    with pytest.raises(InvalidTaskError, match=said):
        histogram_of([INCOME, SEX], 4, edges)


SERVERS = [
    ServerEntry(url=f"http://server-{server}.test", identity_key=SigningKey.generate(seeded(f"s {server}")).public_key)
    for server in range(2)
]
LIFE = [{"name": "months", "lower": 0, "upper": 60}, {"name": "relapse", "kind": "boolean"}]


def planned(clients: int, **options: object) -> Histogram:
    asked = specification(
        columns=LIFE, mechanism={"kind": "histogram", **options}, row_bound=None, min_clients=clients, epsilon=1
    )
    found = build_task(Specification.model_validate(asked), SERVERS, KEYS.public_keys, NOW, seeded("salt")).mechanism
    return cast("Histogram", found)


@pytest.mark.parametrize(("clients", "bins"), [(10_000, 20), (10_001, 60)])
def test_a_survival_curve_has_bins_by_the_number_of_clients_and_a_cell_beyond_its_end(clients: int, bins: int) -> None:
    found = planned(clients, survival={"time": "months", "event": "relapse", "end": 36})
    assert found.crossed
    assert found.cells == (bins + 1, 2)
    ends = [float(end) for end in found.edges[0]]
    assert ends[0] == 0
    assert ends[-2:] == [36, 60]
    assert np.allclose(np.diff(ends[:-1]), 36 / bins)


def test_what_no_survival_curve_can_be_of_is_refused_in_words() -> None:
    asked = {"time": "months", "event": "relapse", "end": 36}
    for wrong, said in (
        ({"end": 60}, "less than 60, the bounds of 'months'"),
        ({"end": 0}, "more than 0"),
        ({"time": "relapse"}, "'relapse' is no column of the kind real or integer"),
        ({"event": "months"}, "'months' is no column of the kind boolean"),
    ):
        with pytest.raises(InvalidTaskError, match=said):
            planned(100, survival=asked | wrong)
    assert planned(100, crossed=True, cells=2048).counted_cells == (4096,)
    with pytest.raises(InvalidTaskError, match="2 columns have 8192 cells together"):
        planned(100, crossed=True, cells=4096)
