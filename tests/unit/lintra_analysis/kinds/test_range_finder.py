"""Asking for a range finder: what follows where nothing is said, and targets by the names of their columns."""

import math

import numpy as np
import pytest

from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.range_finder import (
    UNCLIPPED_FOR_INTERVALS,
    RangeFinderSpecification,
    build,
    usual_projected_bound,
    usual_rank,
    warnings,
)
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.range_finder import RangeFinder
from lintra_protocol.privacy.statement import Claim
from support import make_task, source

CLAIM = Claim(epsilon="1", delta="0.000001", min_clients=1000)
NUMBERS = [Column(name=f"x{i}", lower="-1", upper="3", center="1", scale="3") for i in range(40)]
SEX = Column(name="sex", lower="0", upper="1", kind="category", levels=("male", "female"))


def wanted(columns: list[Column], row_bound: str = "2", **asked: object) -> RangeFinder:
    options = RangeFinderSpecification.model_validate({"kind": "range_finder", **asked})
    measurement = build(CalibrationContext(options, CLAIM, columns, row_bound, 2000, source("signs")))
    assert measurement.num_columns == sum(len(column.indicators()) for column in columns)
    measurement.check(2000)
    assert isinstance(measurement.mechanism, RangeFinder)
    return measurement.mechanism


def test_the_rank_is_64_then_32_and_never_more_than_half_of_the_columns() -> None:
    assert [usual_rank(d) for d in (2, 40, 127, 128, 2500, 2501, 20_000)] == [1, 20, 63, 64, 64, 32, 32]
    assert wanted(NUMBERS).rank == 20


@pytest.mark.parametrize(("rank", "bound"), [(20, 1.2502), (32, 1.1978), (64, 1.1383)])
def test_projections_are_clipped_at_the_95_percent_point_of_their_law(rank: int, bound: float) -> None:
    assert float(usual_projected_bound("1", 1000, rank)) == pytest.approx(bound, abs=5e-5)
    assert float(usual_projected_bound("3", 1000, rank)) == pytest.approx(3 * bound, abs=2e-4)
    wider = float(usual_projected_bound("1", 1000, rank, UNCLIPPED_FOR_INTERVALS))
    assert 1.05 < wider / bound < 1.2


def test_signs_shrink_one_row_in_twenty_as_a_frame_would() -> None:
    rng, columns, rank, draws = np.random.default_rng(1), 100, 8, 2000
    row = rng.normal(size=columns)
    row /= np.linalg.norm(row)
    seen = np.linalg.norm(rng.choice(np.array([-1.0, 1.0]), (draws, rank, columns)) @ row, axis=1)
    # 100 are expected, with a deviation of 10; six of them.
    longer = int((seen / math.sqrt(rank) > float(usual_projected_bound("1", columns, rank))).sum())
    assert 40 < longer < 160


def test_targets_are_named_and_get_the_bound_of_their_column_rounded_up() -> None:
    found = wanted([*NUMBERS, SEX], targets=[{"column": "x3", "bits": 1}, {"column": "sex[female]"}])
    assert [target.column for target in found.targets] == [3, 40]
    assert found.targets[0].bits == 1
    assert [target.bound for target in found.targets] == ["0.666667", "1"]


def test_targets_count_as_often_as_adds_six_percent_of_noise_at_most() -> None:
    for names in (["x3"], ["x3", "x4", "x5"]):
        found = wanted(NUMBERS, row_bound="8", targets=[{"column": name} for name in names])
        own = sum(bound**2 for bound in found.anchor_bounds)
        assert own <= found.projected_squared_bound / 8 < 4 * own + 4 * len(names) * 256
    stated = wanted(NUMBERS, row_bound="8", targets=[{"column": "x3", "bits": 0}])
    assert found.targets[0].bits > stated.targets[0].bits == 0


def test_intervals_take_a_wider_bound_and_a_bound_of_ones_own_is_kept() -> None:
    usual, wide = wanted(NUMBERS), wanted(NUMBERS, intervals=True)
    assert float(wide.projected_bound) > 1.05 * float(usual.projected_bound)
    assert wanted(NUMBERS, projected_bound=1.5).projected_bound == "1.5"
    assert usual.clip_count_weight == "0.2"


def test_two_tasks_have_different_signs() -> None:
    options = RangeFinderSpecification(kind="range_finder")
    given = CalibrationContext(options, CLAIM, NUMBERS, "2", 2000, source("two"))
    seeds = {build(given).mechanism.model_dump()["omega_seed"] for _ in range(2)}
    assert len(seeds) == 2


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"targets": [{"column": "nobody"}]}, "there is no column 'nobody'"),
        ({"targets": [{"column": "sex"}]}, r"as in 'sex\[female\]'"),
        ({"rank": 21}, "half of 41 columns"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(asked: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidTaskError, match=said):
        wanted([*NUMBERS, SEX], **asked)


def test_an_analyst_is_warned_of_large_reports_and_of_full_disks() -> None:
    mechanism = wanted(NUMBERS)
    few = make_task(mechanism, columns=NUMBERS, claim=CLAIM, max_clients=2000, share_form="seeded")
    assert warnings(few, mechanism) == []
    uniform = few.model_copy(update={"share_form": "uniform"})
    assert ["share_form 'spread'" in each for each in warnings(uniform, mechanism)] == [True]
    many = few.model_copy(update={"max_clients": 1_000_000})
    assert ["6.41 GB" in each for each in warnings(many, mechanism)] == [True]
    spread = many.model_copy(update={"share_form": "spread"})
    assert ["2.14 GB" in each for each in warnings(spread, mechanism)] == [True]
