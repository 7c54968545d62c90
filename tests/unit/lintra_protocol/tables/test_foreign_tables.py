"""No column of a foreign file is misread in silence, and what is written plainly is read without a question."""

import pytest

from support.foreign_tables import FAMILIES, MORE_FAMILIES, attack

ALL = FAMILIES | MORE_FAMILIES
NOBODY_KNOWS = {"a scale with 0 for no answer", "a scale with 9"}
"""What the cells do not show: 0 may well be a step of a scale, and 9 in two rows of forty an answer."""


@pytest.mark.parametrize("family", sorted(ALL.keys() - NOBODY_KNOWS))
def test_what_people_and_programs_write_is_read_as_they_meant_it_or_asked_about(family: str) -> None:
    assert [each for each in attack({family: ALL[family]}, seed=1) if each.misread] == []


@pytest.mark.parametrize(
    "family",
    [
        "thousands of the dialect", "plain numbers of the dialect", "French thousands", "NBSP thousands", "percent",
        "Swiss francs", "euros behind", "dollars before", "kilograms", "accountants' losses", "minus sign U+2212",
        "Indian thousands", "scientific, as Excel", "missing as NA", "ISO dates", "German dates", "US dates",
        "yes and no", "none is a level", "reais", "dollars in parentheses", "negative percent", "spaces around",
        "missing as NULL", "missing as None", "days and months without zeros", "German midnight", "ranges",
    ],
)  # fmt: skip
def test_what_is_written_plainly_is_read_without_a_question(family: str) -> None:
    assert [each for each in attack({family: ALL[family]}, seed=1) if each.asked] == []
