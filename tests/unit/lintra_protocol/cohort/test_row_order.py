"""The order of rows of bytes: that of all bytes, however long two of them agree."""

import numpy as np
import pytest

from lintra_protocol.cohort import row_order
from lintra_protocol.cohort.row_order import rows_in, sort_order, strictly_ascending
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
