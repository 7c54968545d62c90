"""Columns over the windows of a stream: what errors hold, lines of a table, and the picture."""

import numpy as np
import pytest

from lintra_analysis import WindowStream, stream_trial
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.errors import InvalidAnalysisError

ASKED = {
    "purpose": "a test",
    "columns": [{"name": f"c{number}", "lower": 0, "upper": 2} for number in range(3)],
    "mechanism": {"kind": "sum"},
    "row_bound": 2,
    "noise": "servers",
    "epsilon": 1,
    "min_clients": 20,
    "reports_per_source": 2,
    "windows": {"window_seconds": 604800, "grace_seconds": 86400, "max_windows": 12, "stream": {}},
}
GAP = 2


def collected(**changes: object) -> WindowStream:
    """Return a stream of six windows, one of them a gap, in which every row is 1, 1.25 and 1.5."""
    rows = np.tile([1.0, 1.25, 1.5], (20, 1))
    windows = {window: rows for window in range(6) if window != GAP}
    return stream_trial({**ASKED, **changes}, windows, expand(bytes(32), "timeline"))


def test_of_a_population_the_same_people_may_be_in_every_window() -> None:
    stream = collected()
    single, whole = stream.windows(["c0"], of="population").spans[0], stream.totals(["c0"], of="population").spans[-1]
    one, all_together = single.means[0].standard_error, whole.means[0].standard_error
    assert one is not None
    assert all_together is not None
    assert all_together.sampling == pytest.approx(one.sampling)
    assert all_together.total == pytest.approx(np.hypot(all_together.privacy, all_together.sampling))


def test_a_timeline_has_a_line_for_each_point_and_its_picture_breaks_at_a_gap() -> None:
    stream = collected()
    timeline = stream.totals(["c1", "c2"])
    assert len(timeline.to_csv().splitlines()) == 1 + 2 * 5
    assert "No release of window 2" in timeline.in_words()
    assert timeline.pictures == ("c1", "c2")
    (curve,) = stream.plot("c1").lines
    assert np.isnan(np.asarray(curve.get_ydata())).tolist() == [False, False, True, False, False, False]


def test_totals_are_means_times_those_who_answered_and_have_their_error() -> None:
    for span in collected().totals().spans:
        assert span.totals is not None
        for mean, total in zip(span.means, span.totals, strict=True):
            assert total.value == pytest.approx(span.num_clients * mean.value)
            assert total.standard_error is not None
            assert mean.standard_error is not None
            assert total.standard_error.total == pytest.approx(span.num_clients * mean.standard_error.total)


def test_where_the_number_of_rows_carries_noise_no_total_is_told() -> None:
    columns = [{"name": "c0", "lower": 0, "upper": 2, "missing": True}]
    stream = stream_trial(
        ASKED | {"columns": columns},
        {0: np.ones((20, 1)), 1: np.ones((20, 1))},
        expand(bytes(32), "missing"),
    )
    timeline = stream.totals()
    assert [span.totals for span in timeline.spans] == [None, None]
    assert any("number of rows carries noise" in note for note in timeline.notes)
    assert timeline.to_csv().splitlines()[1].endswith(",,,,")


def test_a_histogram_has_no_means_and_another_analysis_reads_its_windows() -> None:
    columns = [{"name": "c0", "lower": 0, "upper": 2}]
    kind = {"columns": columns, "mechanism": {"kind": "histogram", "cells": 4}}
    asked = {name: value for name, value in ASKED.items() if name != "row_bound"} | kind
    stream = stream_trial(asked, {0: np.ones((20, 1)), 1: np.ones((20, 1))}, expand(bytes(32), "histogram"))
    with pytest.raises(InvalidAnalysisError, match="ask for `histogram`"):
        stream.totals()
    assert stream.release().num_clients == 40
