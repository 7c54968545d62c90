"""How many reports may be missing elsewhere: corrupt clients never stop a release, nor do absent organisations."""

from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_protocol.crypto.tokens import key_commitment
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.missing_reports import (
    MOST_MAX_MISSING,
    USUAL_MAX_MISSING,
    least_max_missing,
    organisations_max_missing,
)
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task
from support import make_task

KEYS = tuple(key_commitment(bytes([index]) * 32) for index in range(3))


def with_tokens(max_missing: str, corrupt: int) -> Task:
    return make_task(
        client_auth="token", token_keys=KEYS, max_missing=max_missing, min_clients=100, max_corrupt_clients=corrupt
    )


@given(st.integers(2, 10_000), st.data())
def test_the_usual_max_missing_is_at_least_twice_the_corrupt_part(min_clients: int, data: st.DataObject) -> None:
    corrupt = data.draw(st.integers(0, min_clients - 1))
    claim = Claim(epsilon="1", delta="0.000001", min_clients=min_clients, max_corrupt_clients=corrupt)
    found = least_max_missing(claim)
    assert found == max(USUAL_MAX_MISSING, min(Fraction(2 * corrupt, min_clients), MOST_MAX_MISSING))


@pytest.mark.parametrize(("corrupt", "least", "below"), [(20, "0.4", "0.39"), (3, "0.06", "0.05"), (49, "0.9", "0.89")])
def test_a_task_with_tokens_allows_at_least_twice_the_corrupt_part_to_be_missing(
    corrupt: int, least: str, below: str
) -> None:
    assert with_tokens(least, corrupt).max_missing == least
    with pytest.raises(InvalidTaskError, match=f"max_missing {below} is below {least}, twice the part of corrupt"):
        with_tokens(below, corrupt)


def test_without_tokens_any_number_may_be_missing_whatever_a_task_says() -> None:
    make_task(max_missing="0", min_clients=100, max_corrupt_clients=20)


@given(st.integers(1, 2000), st.data())
def test_of_organisations_max_missing_is_rounded_up_so_that_the_smallest_cohort_can_be_released(
    most: int, data: st.DataObject
) -> None:
    least = data.draw(st.integers(1, most))
    found = organisations_max_missing(least, most)
    # A server that holds a report of all of them may freeze the smallest cohort.
    assert floor(found * most) >= most - least
    assert 0 <= found < 1
    if 100 * least >= most:  # It is the smallest of all whole hundredths that allow it.
        assert 100 % found.denominator == 0
        assert (found - Fraction(1, 100)) * most < most - least


def test_four_of_seven_organisations_can_release() -> None:
    assert organisations_max_missing(4, 7) == Fraction(43, 100)
    assert floor(Fraction(43, 100) * 7) == 3
