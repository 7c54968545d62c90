"""The grid on which rows are dithered: the coarsest of the rule, and never one that the rule refuses."""

from math import sqrt

import pytest

from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.mechanisms import Mechanism, Osnap, SecondMoment, Sum
from lintra_protocol.mechanisms.grid import FINE_SIGMA, least_squared_steps
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Claim

WEIGHTED = SecondMoment(
    row_bound="2.5", fraction_bits=0, sigma=4, intercept="1", trace=True, rounding="dithered", row_weights="all"
)
KINDS = [
    WEIGHTED,
    Sum(row_bound="0.3", fraction_bits=0, sigma=4, rounding="dithered"),
    Osnap(row_bound="1", fraction_bits=0, sigma=4, rounding="dithered", rows=16),
]


def least(asked: Measurement, max_clients: int) -> int:
    return least_squared_steps(asked.mechanism, asked.num_columns, asked.setting, asked.claim, max_clients)


def claim_of(clients: int, epsilon: str = "1") -> Claim:
    return Claim(epsilon=epsilon, delta="0.000001", min_clients=clients)


@pytest.mark.parametrize("mechanism", KINDS, ids=lambda mechanism: mechanism.kind)
@pytest.mark.parametrize(("clients", "epsilon"), [(1000, "1"), (1_000_000, "1"), (3_000_000, "3")])
def test_the_coarsest_grid_keeps_the_rule(mechanism: Mechanism, clients: int, epsilon: str) -> None:
    asked = Measurement(mechanism, 12, Setting(), claim_of(clients, epsilon))
    found = asked.calibrated(10 * clients).mechanism
    squared = found.squared_bound
    entries, n, mu = 12 + (mechanism is WEIGHTED), 10 * clients, gaussian_mu(float(epsilon), 1e-6)
    kept = [
        squared >= 40_000 * entries,
        squared >= 12.5 * n * mu**2,
        squared >= 3.54 * n * mu,
        squared >= 100 * entries * sqrt(n),
    ]
    assert all(kept)
    assert found.sigma >= FINE_SIGMA == 1000
    # Of a grid twice as coarse, a line is broken.
    assert squared / 4 < least(asked, n) * (1 + 1e-6) or found.sigma < 2 * FINE_SIGMA + 2


def test_of_organisations_the_rule_is_about_rows_and_all_rows_of_a_person() -> None:
    held = Contributors(rows_per_person=4, organisations_per_person=1, max_rows=1000, count="noisy")
    alone = Measurement(WEIGHTED, 3, Setting(), claim_of(50))
    together = Measurement(WEIGHTED, 3, Setting(held), claim_of(50))
    assert least(alone, 100) == 40_000 * 4
    assert least(together, 10_000) == int(3.54 * 10**7 * gaussian_mu(1.0, 1e-6)) + 1
    assert least(together, 100) == 40_000 * 16
    assert together.calibrated(100).mechanism.person_bound(Setting(held)) >= 40_000 * 16


def test_where_no_grid_fits_the_ring_the_refusal_says_how_many_steps_dithering_takes() -> None:
    asked = Measurement(WEIGHTED, 3, Setting(), claim_of(400_000_000, "20"))
    with pytest.raises(InvalidTaskError, match=r"takes .* steps or more in it to dither.*may overflow the ring"):
        asked.calibrated(4_000_000_000)


def test_a_grid_that_is_too_coarse_to_dither_is_refused() -> None:
    coarse = WEIGHTED.model_copy(update={"sigma": 1000})
    with pytest.raises(InvalidTaskError, match="too coarse to dither 3 columns"):
        Measurement(coarse, 3, Setting(), claim_of(50)).check(100)


def test_what_is_not_dithered_keeps_the_finest_grid() -> None:
    plain = Sum(row_bound="1", fraction_bits=0, sigma=4)
    assert Measurement(plain, 3, Setting(), claim_of(50)).calibrated(100).mechanism.fraction_bits == 24
