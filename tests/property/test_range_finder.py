"""No report of the range finder leaves either ball, whatever the row."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.mechanisms.range_finder import RangeFinder, Target
from support import few
from support.measured import layout_of, reports_without_noise

EXTREMES = st.sampled_from([0.0, -0.0, 5e-324, 1e290, -1e290, 1e154, -1e17, 2.0**30, 0.5, 1.5, np.nan])
FLOATS = st.floats(-1e290, 1e290) | EXTREMES
BOUNDS = st.sampled_from(["0.01", "0.3", "1", "1.2", "7"])
COLUMNS = 6


@few
@given(
    arrays(np.float64, (2, COLUMNS), elements=FLOATS),
    st.binary(min_size=32, max_size=32),
    st.integers(1, 3),
    st.sampled_from([0, 5, 14, 26]),
    BOUNDS,
    BOUNDS,
    st.integers(0, 8),
)
def test_no_report_leaves_what_the_promise_rests_on(
    rows: FloatArray, seed: bytes, rank: int, bits: int, bound: str, target: str, times: int
) -> None:
    mechanism = RangeFinder(
        row_bound="1",
        fraction_bits=bits,
        sigma=4,
        rank=rank,
        omega_seed=base64url(seed),
        projected_bound=bound,
        intercept="0.5",
        targets=(Target(column=2, bound=target, bits=min(times, (28 - bits) // 2)),),
        trace=True,
    )
    if not mechanism.projected_squared_bound:
        return
    words = [[int(word) for word in report] for report in reports_without_noise(mechanism, rows)]
    longest, other = mechanism.squared_bound, mechanism.factor_squared_bound
    for report in words:
        # The norm of the products is that of the row times that of q, both checked apart.
        assert sum(word**2 for word in report[:-1]) <= longest * other
        assert 0 <= report[-1] <= longest
        assert max(map(abs, report)) <= layout_of(mechanism).bound
    assert sum((a - b) ** 2 for a, b in zip(words[0][:-1], words[1][:-1], strict=True)) <= 4 * longest * other
