"""Windows combined: weights, errors and gaps, against simulated noise and against clients that never change."""

import math

import numpy as np
import pytest

from lintra_analysis import trend
from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.release import Release
from lintra_protocol.errors import InvalidAnalysisError


def window_of(total: float, count: int) -> Release:
    column = ScaledColumn("x", lower=-1, upper=1, center=0.0, scale=1.0)
    return Release(totals=Totals((column,), np.array([total]), SD, count, row_bound=1.0))


COUNTS = {0: 400, 1: 100, 3: 300, 4: 200}
SLOPE, START, SD = 0.05, 0.2, 30.0


def windows(rng: np.random.Generator | None) -> dict[int, Release]:
    noise = dict.fromkeys(COUNTS, 0.0) if rng is None else {w: rng.normal(0, SD) for w in COUNTS}
    return {w: window_of(n * (START + SLOPE * w) + noise[w], n) for w, n in COUNTS.items()}


def test_windows_count_by_their_cohorts_and_the_line_is_found() -> None:
    found = trend(windows(None), "x", of="cohort")
    mean = sum(n * (START + SLOPE * w) for w, n in COUNTS.items()) / 1000
    assert found.combined.value == pytest.approx(mean)
    assert found.slope.value == pytest.approx(SLOPE)
    assert found.gaps == (2,)
    assert [each.weight for each in found.windows] == [0.4, 0.1, 0.3, 0.2]
    assert found.combined.standard_error is not None
    assert found.combined.standard_error.total == pytest.approx(math.sqrt(4) * SD / 1000)


def test_errors_are_the_deviations_over_noise_drawn_again_and_again() -> None:
    rng = np.random.default_rng(3)
    drawn = [trend(windows(rng), "x", of="cohort") for _ in range(300)]
    for name in ("combined", "slope"):
        values = [getattr(each, name).value for each in drawn]
        stated = getattr(drawn[0], name).standard_error.total
        # 300 draws: within 16 % but for one set of draws in 10,000; a fourth less noise would be outside.
        assert abs(np.std(values) / stated - 1) < 0.16
        assert abs(np.std(values) / (0.75 * stated) - 1) > 0.16


def test_the_same_clients_in_every_window_never_make_an_error_smaller_than_it_is() -> None:
    found = trend(windows(None), "x", of="population")
    alone = [each.mean.standard_error for each in found.windows]
    assert found.combined.standard_error is not None
    # Were they always the same with the same values, the sampling error of all would be that of one window.
    assert found.combined.standard_error.sampling >= min(error.sampling for error in alone if error is not None)
    assert "not independent" in found.notes[0]


def test_texts_show_gaps_and_both_results() -> None:
    found = trend(windows(None), "x")
    lines = found.to_csv().splitlines()
    assert [line.split(",")[0] for line in lines] == ["window", "0", "1", "2", "3", "4"]
    assert lines[3] == "2" + "," * 8
    text = found.summary()
    assert "Gaps" in text
    assert "slope" in text


def test_one_window_is_no_trend() -> None:
    with pytest.raises(InvalidAnalysisError, match="at least two windows, got 1"):
        trend({0: windows(None)[0]}, "x")
