"""A release is one record of parts: what it lacks is refused by one table, and restricting is one function."""

from typing import get_args

import numpy as np
import pytest

from lintra_analysis.releases.cell_counts import CellCounts
from lintra_analysis.releases.release import REFUSALS, Name, Release
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import columns, second_moment, total

ROWS = np.random.default_rng(1).normal(size=(60, 4))
CELLS = CellCounts(columns(1), (np.array([0.0, 1.0, 2.0]),), ((),), (np.array([4.0, 6.0]),), np.zeros(1), 1.0, 10)


def test_a_part_that_is_there_is_given_and_one_that_is_absent_is_refused_by_the_table() -> None:
    release = Release(cells=CELLS)
    assert release.need("cells") is CELLS
    for name in ("range_sums", "joint_sums", "totals", "centred"):
        with pytest.raises(InvalidAnalysisError) as refused:
            release.need(name)  # type: ignore[call-overload]
        assert refused.value.detail == REFUSALS[name]
    with pytest.raises(InvalidAnalysisError) as refused:
        release.second_moment()
    assert refused.value.detail == REFUSALS["moments of cells"]


def test_every_part_has_a_sentence_for_its_absence() -> None:
    told = {key.partition(" of ")[0] for key in REFUSALS}
    assert told == set(get_args(Name))


def test_restricting_restricts_every_part_and_keeps_no_other() -> None:
    moments, sums = (
        second_moment(ROWS, 0.5, np.random.default_rng(2)),
        total(ROWS, 0.5, np.random.default_rng(3)).totals,
    )
    part = Release(moments=moments, totals=sums).restrict(["c2", "c0"])
    assert part.moments is not None
    assert part.totals is not None
    for each in (part, part.moments, part.totals):
        assert [column.name for column in each.columns] == ["c2", "c0"]
    assert part.cells is part.range_sums is part.joint_sums is part.centred is None
