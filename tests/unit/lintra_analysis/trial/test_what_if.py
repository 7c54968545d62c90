"""Other cohorts and other epsilons: the verdict follows the strength."""

from lintra_analysis.trial.what_if import Prospect


def test_verdicts_follow_the_strength() -> None:
    words = [Prospect(1.0, 100, strength).verdict for strength in (1.9, 2.0, 4.9, 5.0)]
    assert words == ["hardly any told", "some told", "some told", "told"]
