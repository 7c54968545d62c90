"""The sketch as a mechanism."""

import math

import numpy as np
import pytest

from lintra_protocol.errors import InvalidTaskError, RowUnderfilledError
from lintra_protocol.mechanisms import Osnap, Sum
from lintra_protocol.privacy.statement import Claim
from support.measured import calibrated_for, layout_of, measurement_of

CLAIM = Claim(epsilon="1", delta="0.000001", min_clients=64)


def test_balance_makes_a_row_cost_what_its_share_of_the_clients_would() -> None:
    sketch = Osnap(row_bound="1", fraction_bits=10, sigma=1000, rows=8)
    total = Sum(row_bound="1", fraction_bits=10, sigma=1000)
    assert measurement_of(sketch, 5, CLAIM).privacy(64).mu == measurement_of(total, 5, CLAIM).privacy(8).mu


def test_a_static_coalition_costs_less_than_an_adaptive_one() -> None:
    sketch = Osnap(row_bound="1", fraction_bits=10, sigma=1000, rows=8)
    corrupt = {"max_corrupt_clients": 100, "min_clients": 8000}
    static = CLAIM.model_copy(update=corrupt | {"delta_coalition": "0.0000001"})
    adaptive = static.model_copy(update={"threat": "adaptive"})
    assert (
        measurement_of(sketch, 5, static).privacy(8000).honest_clients
        > measurement_of(sketch, 5, adaptive).privacy(8000).honest_clients
        == 900
    )


def overlapping(sparsity: int = 2, rows: int = 8, given: Claim = CLAIM) -> Osnap:
    uncalibrated = Osnap(row_bound="1", fraction_bits=10, sigma=8, rows=rows, sparsity=sparsity)
    return calibrated_for(uncalibrated, 5, given, 1000)


@pytest.mark.parametrize(("sparsity", "smoothing"), [(1, 0), (2, 3), (3, 4), (4, 4), (5, 5), (16, 8), (64, 16)])
def test_smoothing_is_the_smallest_integer_whose_square_is_four_times_the_sparsity(
    sparsity: int, smoothing: int
) -> None:
    sketch = Osnap(row_bound="1", fraction_bits=10, sigma=8, rows=64, sparsity=sparsity)
    assert measurement_of(sketch).smoothing == smoothing
    if sparsity > 1:
        assert (smoothing - 1) ** 2 < 4 * sparsity <= smoothing**2


def test_with_overlapping_rows_privacy_is_the_leverage_of_the_matrix_that_was_drawn() -> None:
    sketch = overlapping()
    for seed in (bytes(32), b"x" * 32):
        matrix = sketch.public_matrix(64, seed)
        row_numbers, signs = matrix.entries(np.arange(64))
        dense = np.zeros((8, 64))
        for block in range(2):
            dense[row_numbers[:, block], np.arange(64)] = signs[:, block]
        leverage = np.einsum("ri,rq,qi->i", dense, np.linalg.inv(dense @ dense.T), dense).max()
        statement = measurement_of(sketch, 5, CLAIM).release_privacy(matrix)
        assert statement.mu == pytest.approx(2 * sketch.squared_bound**0.5 * leverage**0.5 / sketch.sigma, rel=1e-8)
        assert statement.mu <= measurement_of(sketch, 5, CLAIM).privacy(64).mu
        assert statement.slack < 1e-20


def test_a_matrix_worse_than_planned_is_refused_with_both_numbers() -> None:
    sketch = overlapping().model_copy(update={"leverage": "0.126"})
    with pytest.raises(RowUnderfilledError, match=r"has leverage 0\.1\d+, the claim needs 0\.126 or less"):
        measurement_of(sketch, 5, CLAIM).release_privacy(sketch.public_matrix(64, bytes(32)))


def test_the_plan_is_a_few_percent_above_what_is_drawn() -> None:
    given = CLAIM.model_copy(update={"min_clients": 20_000})
    sketch = overlapping(4, 64, given)
    matrix = sketch.public_matrix(20_000, b"y" * 32)
    assert (
        1.0
        < measurement_of(sketch, 5, given).privacy(20_000).mu
        / measurement_of(sketch, 5, given).release_privacy(matrix).mu
        < 1.05
    )


def test_a_static_coalition_costs_less_than_an_adaptive_one_where_rows_overlap_too() -> None:
    corrupt = {"max_corrupt_clients": 100, "min_clients": 8000}
    adaptive = CLAIM.model_copy(update=corrupt | {"threat": "adaptive"})
    static = CLAIM.model_copy(update=corrupt | {"delta_coalition": "0.0000001"})
    sketch = overlapping(2, 32, adaptive)
    matrix = sketch.public_matrix(8000, bytes(32))
    assert measurement_of(sketch, None, static).quota < measurement_of(sketch, None, adaptive).quota == 100
    mus = [measurement_of(sketch, 5, given).release_privacy(matrix).mu for given in (static, adaptive, CLAIM)]
    assert mus[1] > mus[0] > mus[2]


def test_a_coalition_that_may_isolate_somebody_is_refused() -> None:
    given = CLAIM.model_copy(update={"max_corrupt_clients": 15})
    with pytest.raises(RowUnderfilledError):
        overlapping(given=given)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"leverage": "0"}, "leverage 0 does not fit sparsity 2"),
        ({"leverage": "1.5"}, r"leverage 1\.5 does not fit"),
        ({"leverage": "-0.5"}, "does not fit"),
        ({"sparsity": 1}, "does not fit sparsity 1"),
        ({"sparsity": 9}, "9 entries in a column need as many rows, got 8"),
        ({"rows": 5000}, "more than 4096 rows need sparsity 1, got 5000"),
        ({"sigma": 7}, "sigma 7 is below 8"),
    ],
)
def test_parameters_that_do_not_fit_together_are_refused(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidTaskError, match=complaint):
        measurement_of(overlapping().model_copy(update=change), 5, CLAIM).check(1000)


def test_the_ring_has_room_for_the_servers_noise_too() -> None:
    sketch = overlapping()
    room = 2.0**63 - measurement_of(sketch).fullest_row(1000) * layout_of(sketch).bound
    variance = 250 * sketch.sigma**2 + 16 * measurement_of(sketch).smoothing ** 2
    assert measurement_of(sketch, 5).log_wrap_probability(1000) == pytest.approx(
        math.log(80) - room**2 / (2 * variance)
    )


def test_decoding_keeps_rows_and_columns() -> None:
    sketch = np.array([[4, -8], [0, 1]])
    decoded = measurement_of(Osnap(row_bound="1", fraction_bits=2, sigma=4, rows=2), 2).decode(sketch)
    np.testing.assert_array_equal(decoded, [[1.0, -2.0], [0.0, 0.25]])
