"""Readings: they are known words, and answer the questions that offer them."""

import pytest

from lintra_protocol.errors import InvalidTableError
from lintra_protocol.tables.readings import READINGS, Reading


def test_a_reading_that_nobody_knows_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidTableError, match="number-comma"):
        Reading("numbers")


def test_a_reading_answers_what_offers_it_or_its_first_word() -> None:
    assert Reading("number-comma").answers(("number", "drop"))
    assert Reading("category-merged").answers(("category",))
    assert not Reading("number").answers(("number-point", "number-comma"))
    assert not Reading(None).answers(READINGS)
