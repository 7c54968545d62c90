"""Notes on an estimate say no more than its intervals do."""

from lintra_analysis.estimators.notes import apart_from_zero, listed


def test_a_coefficient_whose_interval_holds_zero_is_never_said_to_be_told() -> None:
    said = apart_from_zero([("a", 0.2, (-0.1, 0.5)), ("b", 3.0, (2.0, 4.0)), ("c", 9.0, (8.9, 9.1)), ("d", 1.0, None)])
    assert said == (
        "Told apart from 0: c: 9 (between 8.9 and 9.1) and b: 3 (between 2 and 4). "
        "Not told apart from 0: a. Without an interval: d."
    )
    assert listed(list("abcdefgh")) == "a, b, c, d, e, f and 2 more"
