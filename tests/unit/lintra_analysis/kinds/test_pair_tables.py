"""Pairs and cells of a planned task: by public numbers alone, and refused in plain words."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from lintra_analysis.kinds.joint_question import JointQuestion, log_edges, plan_ron_gauss
from lintra_analysis.kinds.pair_tables import FINER, GOAL, LEAST_CELLS, MAX_WORDS, side_of_tables
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.joint_rows import feature_steps, histogram_cells
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.privacy.statement import Claim
from support.measured import calibrated_for, measurement_of

COLUMNS = (
    Column(name="month", lower="1", upper="12", center="6.5", scale="5.5", kind="integer"),
    Column(name="visits", lower="0", upper="200", center="100", scale="100", kind="integer"),
    Column(name="warmth", lower="-20", upper="40", center="10", scale="30"),
    Column(name="town", lower="0", upper="2", kind="category", levels=("a", "b", "c")),
)


def planned(clients: int, **asked: object) -> RonGauss:
    claim = Claim(epsilon="1", delta="0.000001", min_clients=clients)
    return plan_ron_gauss(claim, COLUMNS, JointQuestion(**asked), bytes(32))  # type: ignore[arg-type]


def test_the_rule_counts_all_pairs_of_many_people_those_with_the_label_of_fewer_and_none_of_few() -> None:
    assert planned(50_000, pairs="rule").pairs == ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
    fewer = [n for n in (1000, 1500, 2000, 3000) if len(planned(n, pairs="rule", label="town").pairs) == 3]
    assert fewer
    assert planned(max(fewer) + 1000, pairs="rule", label="town").pair_bins[3] == 3
    assert planned(300, pairs="rule").pairs == ()
    assert planned(50_000).pairs == ()


@pytest.mark.parametrize("clients", [2000, 10_000])
def test_so_many_cells_are_asked_for_as_the_noise_of_the_calibrated_task_allows(clients: int) -> None:
    claim = Claim(epsilon="1", delta="0.000001", min_clients=clients)
    for count, pairs in enumerate(([["month", "warmth"]], [["month", "warmth"], ["month", "visits"]]), start=1):
        mechanism = calibrated_for(planned(clients, pairs=pairs), len(COLUMNS), claim, 10 * clients)
        mechanism.check_columns(COLUMNS)
        measurement_of(mechanism, len(COLUMNS), claim).check(10 * clients)
        side = side_of_tables(planned(clients), claim, count, "1")
        deviation = np.sqrt(clients) * mechanism.deviations.tables / mechanism.indicator
        share = deviation * np.sqrt(2 / np.pi) / 2 / clients
        assert side**2 * share <= GOAL * 1.01 < (side + 1) ** 2 * share * 1.03
        assert mechanism.pair_bins[0] == min(12, FINER * side)


def test_twice_as_many_cells_are_counted_as_say_whether_tables_are_worth_it_unless_words_run_out() -> None:
    claim = Claim(epsilon="1", delta="0.000001", min_clients=2000)
    least = next(n for n in range(500, 20_000, 100) if planned(n, pairs="rule").pairs)
    side = side_of_tables(planned(least), claim.model_copy(update={"min_clients": least}), 6, "1")
    assert side == LEAST_CELLS
    assert planned(least, pairs="rule").pair_bins[2] == 2 * LEAST_CELLS


@pytest.mark.parametrize("clients", [60_000, 400_000])
def test_many_columns_of_many_people_have_coarser_tables_rather_than_none(clients: int) -> None:
    wide = [Column(name=f"x{number}", lower="0", upper="1") for number in range(12)]
    claim = Claim(epsilon="1", delta="0.000001", min_clients=clients)
    coarse = plan_ron_gauss(claim, wide, JointQuestion(pairs="rule", bins=64), bytes(32))
    assert len(coarse.pairs) == 66
    assert sum(coarse.counted.tables) <= MAX_WORDS < 66 * (coarse.pair_bins[0] + 1) ** 2


REFUSED: list[tuple[dict[str, object], str]] = [
    ({"pairs": [["month", "rain"]]}, "two different columns"),
    ({"pairs": [["month", "month"]]}, "two different columns"),
    ({"pairs": [["month", "town"]], "bins": 0}, "no histogram"),
    ({"edges": {"rain": ["1"]}}, "no column of numbers"),
    ({"cells": {"town": "log"}}, "no column of numbers"),
    ({"edges": {"visits": ["1"]}, "cells": {"visits": "log"}}, "not both"),
    ({"edges": {"visits": ["5", "5"]}}, "must ascend"),
    ({"edges": {"visits": ["0", "5"]}}, "must ascend"),
    ({"edges": {"visits": ["0.5"]}}, "whole numbers"),
    ({"edges": {"warmth": ["1", "1.0001"]}}, "closer than"),
    ({"pairs": [["month", "visits", "town"]]}, "two different columns"),
]


@pytest.mark.parametrize(("asked", "said"), REFUSED, ids=lambda given: str(given)[:40])
def test_what_cannot_be_counted_is_refused_in_plain_words(asked: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidTaskError, match=said):
        planned(5000, **asked)


def cells_of(values: Sequence[float], lower: float, upper: float, edges: Sequence[int]) -> list[int]:
    mapped = feature_steps(2 * (np.array(values) - lower) / (upper - lower) - 1)
    return histogram_cells(mapped, len(edges) + 1, edges).tolist()  # type: ignore[no-any-return]


def test_an_integer_lies_in_the_cell_that_begins_at_its_edge_and_the_one_before_does_not() -> None:
    edges: Mapping[str, list[str]] = {"visits": ["1", "2", "5", "100", "200"]}
    mechanism = planned(5000, edges=edges)
    found = cells_of([0, 1, 2, 4, 5, 99, 100, 199, 200], 0, 200, mechanism.edges[1])
    assert found == [0, 1, 2, 2, 3, 3, 4, 4, 5]
    assert mechanism.bins[1] == 6


def test_logarithmic_cells_of_counts_are_single_values_at_first_and_then_ever_wider() -> None:
    mechanism = planned(5000, cells={"visits": "log", "warmth": "log"})
    counts = np.bincount(cells_of(range(201), 0, 200, mechanism.edges[1]))
    assert counts[:3].tolist() == [1, 1, 1]
    assert (np.diff(counts[:-1]) >= 0).all()
    assert counts.sum() == 201
    assert 10 <= counts.size <= 16
    widths = np.diff(mechanism.edges[2])
    assert (np.diff(widths) > 0).all()
    assert len(log_edges(COLUMNS[2], 16)) == 15
