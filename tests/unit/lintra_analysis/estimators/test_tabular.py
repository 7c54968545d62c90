"""Tables of estimates: a number has two digits of its error."""

import pytest

from lintra_analysis.estimators.tabular import digits_beside, number


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (2022.014504, 0.00602, "2022.0145"),
        (-0.00413261, 0.0003248, "-0.004133"),
        (786.5295, 41389.0, "786.5"),
        (1.0, 0.0, "1"),
        (0.0, 0.1, "0"),
        (1.0, float("nan"), "1"),
        (123456789.0, 1e-30, "123456789"),
    ],
)
def test_a_number_is_shown_with_two_digits_of_its_error(value: float, error: float, shown: str) -> None:
    assert number(value, digits_beside(value, error)) == shown
