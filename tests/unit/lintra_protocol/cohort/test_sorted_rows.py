"""Identifiers that somebody made begin alike are sorted and compared like any others."""

import numpy as np
import pytest

from lintra_protocol.cohort import row_order, sorted_rows
from lintra_protocol.cohort.report_ids import ReportIds, apply_difference
from lintra_protocol.cohort.row_order import rows_in, sort_order, strictly_ascending
from lintra_protocol.cohort.sorted_rows import compared
from lintra_protocol.errors import InvalidMessageError


@pytest.mark.parametrize("long_run", [0, 3, 1 << 12])
@pytest.mark.parametrize("alike", [0, 5, 8, 13, 24, 31, 32])
def test_the_order_is_that_of_all_bytes_and_stable_however_long_identifiers_agree(
    monkeypatch: pytest.MonkeyPatch, long_run: int, alike: int
) -> None:
    monkeypatch.setattr(row_order, "_LONG_RUN", long_run)
    monkeypatch.setattr(row_order, "_SLICE", 37)
    rng = np.random.default_rng(alike)
    ids = rng.integers(0, 256, (500, 32)).astype(np.uint8)
    ids[:, :alike] = rng.integers(0, 3, (500, 1))  # three groups, each of which begins alike
    ids[400:] = ids[:100]
    expected = sorted(range(500), key=lambda place: (ids[place].tobytes(), place))
    assert sort_order(ids).tolist() == expected


def test_a_pair_out_of_order_or_twice_is_found_among_many_that_begin_alike() -> None:
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 256, (300, 32)).astype(np.uint8)
    ids[:, :9] = 7
    ids = ids[sort_order(ids)]
    assert strictly_ascending(ids) is ids
    for place in (0, 150, 298):
        swapped, doubled = ids.copy(), ids.copy()
        swapped[[place, place + 1]] = ids[[place + 1, place]]
        doubled[place + 1] = ids[place]
        with pytest.raises(InvalidMessageError, match="not sorted"):
            strictly_ascending(swapped)
        with pytest.raises(InvalidMessageError, match="listed twice"):
            strictly_ascending(doubled)
    with pytest.raises(InvalidMessageError, match="not sorted"):
        strictly_ascending(rows_in(b"\2" * 32 + b"\1" * 32))


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


def test_a_slice_that_ends_before_it_begins_is_empty_in_a_list_that_was_edited_too() -> None:
    edited = apply_difference(ReportIds.of([]), np.zeros(0, np.int64), ReportIds.of([bytes(32)]))
    assert edited.rows[1:0].shape == (0, 32)


def test_a_list_is_sorted_without_moving_an_identifier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_order, "_SLICE", 37)
    ids = np.random.default_rng(2).integers(0, 256, (300, 32)).astype(np.uint8)
    rows = ids.copy()
    found, order = ReportIds.sort(rows)
    assert list(found) == sorted(map(bytes, ids))
    assert found == ReportIds.sorted(ids)
    assert np.array_equal(rows, ids)
    assert np.array_equal(ids[order], found.array)
    assert [found.position(own.tobytes()) for own in ids[order]] == list(range(300))
    for place in (36, 37, 298):  # the two stand on either side of a slice's end, or in one
        twice = ids.copy()
        twice[order[place + 1]] = ids[order[place]]
        with pytest.raises(InvalidMessageError, match="listed twice"):
            ReportIds.sort(twice)
