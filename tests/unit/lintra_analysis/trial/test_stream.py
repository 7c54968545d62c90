"""A stream of a table: its windows are those of the servers' own noise, and what is no stream is refused."""

import numpy as np
import pytest

from lintra_analysis import stream_trial
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.errors import InvalidAnalysisError, LintraError

ASKED = {
    "purpose": "a test",
    "columns": [{"name": "x", "lower": -1, "upper": 1}],
    "mechanism": {"kind": "sum"},
    "row_bound": 1,
    "noise": "servers",
    "epsilon": 1,
    "min_clients": 20,
    "reports_per_source": 1,
    "windows": {"window_seconds": 604800, "grace_seconds": 86400, "max_windows": 12, "stream": {"memory": 3}},
}


def test_each_window_takes_back_what_the_released_ones_before_it_left() -> None:
    rows = np.full((20, 1), 0.5)
    stream = stream_trial(ASKED, {0: rows, 1: rows, 4: rows, 5: rows}, expand(bytes(32), "trial"))
    used = {number: stream._windows[number].remembered for number in stream.numbers}
    assert used == {0: ((),) * 3, 1: ((0,),) * 3, 4: ((),) * 3, 5: ((4,),) * 3}
    release = stream.release()
    assert release.totals is not None
    assert abs(release.totals.values[0] - 40) < 6 * release.totals.noise_sd
    again = stream_trial(ASKED, {0: rows}, expand(bytes(32), "trial"))
    np.testing.assert_array_equal(again._windows[0].sketch, stream._windows[0].sketch)


def test_windows_without_a_stream_and_windows_that_are_too_small_are_refused() -> None:
    rows = np.full((20, 1), 0.5)
    windows = {"window_seconds": 604800, "grace_seconds": 86400, "max_windows": 12}
    with pytest.raises(InvalidAnalysisError, match="no stream"):
        stream_trial(ASKED | {"windows": windows}, {0: rows})
    with pytest.raises(LintraError, match="20"):
        stream_trial(ASKED, {0: rows, 1: rows[:19]})
