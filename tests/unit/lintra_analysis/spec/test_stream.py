"""The plan of a stream: the usual damping, what is gained, and the advice where it is little."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from lintra_analysis.spec.stream import gain_of, option_rows, stream_options, usual_damping
from lintra_protocol.privacy.stream_matrix import StreamMatrix

BLUR = Fraction(1, 10)


@pytest.mark.parametrize(
    ("rows", "reports", "damping"),
    [(12, 1, "0.65"), (12, 2, "0.4"), (12, 4, "0.25"), (52, 1, "0.55"), (52, 4, "0.2"), (52, 12, "0.1")],
)
def test_the_usual_damping_is_that_of_the_design(rows: int, reports: int, damping: str) -> None:
    assert usual_damping(rows, reports, BLUR, None) == Fraction(damping)


def test_a_year_of_which_a_source_answers_one_week_is_worthwhile_and_one_of_all_weeks_is_not() -> None:
    one, every = StreamMatrix(52, 1, Fraction("0.55"), BLUR), StreamMatrix(52, 52, Fraction("0.05"), BLUR)
    gain = gain_of(one)
    assert gain.is_worthwhile
    assert gain.total == pytest.approx(2.66, abs=0.011)
    assert gain.single == pytest.approx(1.25, abs=0.0051)
    assert len(gain.lines(one)) == 1
    assert not gain_of(every).is_worthwhile
    assert "leave windows.stream out" in gain_of(every).lines(every)[-1]


def test_moving_sums_and_slopes_are_those_of_dense_algebra() -> None:
    stream = StreamMatrix(9, 2, Fraction("0.4"), BLUR)
    dense = stream.dense()
    back = [[float(entry) for entry in row] for row in np.linalg.inv(dense)]
    gain = gain_of(stream)
    price = sqrt(stream.squared_norm / 2)
    for weights, found in (([0.0] * 5 + [1.0] * 4, gain.moving), ([(i - 4) / 60 for i in range(9)], gain.slope)):
        fresh = [sum(back[i][j] * weights[i] for i in range(9)) for j in range(9)]
        blurred = [sum((dense[i][j] - (i == j)) * fresh[i] for i in range(9)) for j in range(9)]
        expected = sum(value**2 for value in fresh) + 0.01 * sum(value**2 for value in blurred)
        assert found == pytest.approx(price * sqrt(expected), rel=1e-12)


def test_the_table_of_a_plan_is_the_row_of_the_design_for_its_own_number_of_windows() -> None:
    asked = StreamMatrix(52, 4, Fraction("0.2"), BLUR)
    options = stream_options(asked)
    assert [option.reports for option in options] == [1, 2, 4, 12, 52]
    totals = [None if option.gain is None else round(option.gain.total, 2) for option in options]
    # The design's table, where the law gives 4.57 and 5.99 and a printed digit may differ by one.
    for total, expected in zip(totals[:4], (2.66, 3.66, 4.57, 5.99), strict=True):
        assert total == pytest.approx(expected, abs=0.011)
    assert totals[4] is None
    rows = option_rows(options, asked)
    assert rows[2][0] == "at most 4, as asked"
    assert rows[2][2:5:2] == ["1.22", "0.63"]
    assert rows[4][2] == "no gain"
