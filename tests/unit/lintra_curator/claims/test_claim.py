"""Claims of a curator: those that nothing can be calibrated to are refused."""

import math

import pytest

from lintra_curator.claims.claim import CalibrationError, curator_claim, point_statement


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0, 1e-6), (-1, 1e-6), (math.inf, 1e-6), (math.nan, 1e-6), (1, 0), (1, 1), (1, 9e-16), (1, math.nan)],
)
def test_a_claim_that_cannot_be_calibrated_to_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(CalibrationError, match="must"):
        curator_claim(epsilon, delta)


CLAIM = curator_claim(1.0, 1e-6, "zero-out")


def test_a_not_a_number_is_infeasible() -> None:
    with pytest.raises(ValueError, match="does not keep"):
        point_statement(CLAIM, math.nan, "proved", "none")
