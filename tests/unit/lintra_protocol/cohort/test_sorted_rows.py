"""Identifiers that somebody made begin alike are sorted and compared like any others."""

import numpy as np
import pytest

from lintra_protocol.cohort import sorted_rows
from lintra_protocol.cohort.report_ids import ReportIds, apply_difference
from lintra_protocol.cohort.sorted_rows import compared


@pytest.mark.parametrize("alike", [0, 8, 30])
@pytest.mark.parametrize("part", [0.0, 0.1, 0.9, 1.0])
def test_two_lists_differ_as_their_sets_do_however_they_are_cut(
    monkeypatch: pytest.MonkeyPatch, alike: int, part: float
) -> None:
    monkeypatch.setattr(sorted_rows, "_SLICE", 37)
    rng = np.random.default_rng(alike)
    ids = rng.integers(0, 256, (300, 32)).astype(np.uint8)
    ids[:, :alike] = rng.integers(0, 3 if alike > 8 else 150, (300, 1))  # at 8, often one of each in either list
    pool = sorted({row.tobytes() for row in ids})
    for _ in range(5):
        first, second = ([own for own in pool if rng.random() < part] for _ in range(2))
        mine, theirs = ReportIds.of(first), ReportIds.of(second)
        missing, extra, places = compared(mine.rows, theirs.rows)
        assert [first[place] for place in missing] == sorted(set(first) - set(second))
        assert [row.tobytes() for row in extra] == sorted(set(second) - set(first))
        assert places.tolist() == [sum(own < row.tobytes() for own in first) for row in extra]
        rebuilt = apply_difference(mine, missing, ReportIds(extra))
        begin = int(rng.integers(0, len(second) + 1))
        end = int(rng.integers(begin, len(second) + 1))
        assert [row.tobytes() for row in rebuilt.rows[begin:end]] == second[begin:end]


def test_two_that_begin_alike_and_stand_alone_in_their_lists_are_not_taken_for_one() -> None:
    first, second = ([bytes([place]) * 8 + bytes([end] * 24) for place in range(9)] for end in (1, 2))
    second[4] = first[4]
    missing, extra, places = compared(ReportIds.of(first).rows, ReportIds.of(second).rows)
    assert missing.tolist() == [0, 1, 2, 3, 5, 6, 7, 8]
    assert [row.tobytes() for row in extra] == second[:4] + second[5:]
    assert places.tolist() == [1, 2, 3, 4, 6, 7, 8, 9]
