"""The plan of a stream: the usual damping, what is gained, and the advice where it is little."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from lintra_analysis.spec.stream import gain_of, usual_damping
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
    assert len(gain.lines(one)) == 2
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
