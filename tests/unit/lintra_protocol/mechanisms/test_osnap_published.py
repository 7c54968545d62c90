"""The published calibration as a mechanism: what it adds, what it promises, and what it refuses."""

import math
from itertools import product

import numpy as np
import pytest

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import FalseClaimError, InvalidTaskError, LintraError, RowUnderfilledError
from lintra_protocol.mechanisms import OsnapPublished
from lintra_protocol.mechanisms.osnap_published import row_bound_of
from lintra_protocol.privacy.calibration import published_mu, published_sigma
from lintra_protocol.privacy.discrete import row_slack
from lintra_protocol.privacy.gaussian import gaussian_delta, gaussian_epsilon
from lintra_protocol.privacy.statement import Claim
from support import source
from support.measured import (
    calibrated_for,
    document_of,
    encode_rows,
    layout_of,
    measurement_of,
    setting_of,
    words_of_steps,
)

CLAIM = Claim(epsilon="1", delta="0.000001", min_clients=2000)


def published(given: Claim = CLAIM, columns: int = 5, **changes: object) -> OsnapPublished:
    values = {"entry_bound": "0.5", "fraction_bits": 0, "sigma": 4, "rows": 8, "sparsity": 2}
    return calibrated_for(OsnapPublished.model_validate(values | changes), columns, given, 10_000)


def alone(claimed: str, asked: str = "1") -> OsnapPublished:
    """Return the case where equation (4) does not keep its promise: one column, one entry, one row, 120 clients."""
    given = CLAIM.model_copy(update={"epsilon": claimed, "min_clients": 120})
    return published(given, 1, entry_bound="1", rows=1, sparsity=1, published_epsilon=asked)


@pytest.mark.parametrize(("rows", "sparsity", "columns", "corrupt"), [(8, 1, 5, 0), (8, 2, 5, 3), (9, 3, 2, 0)])
def test_sigma_is_that_of_equation_4_up_to_one_step(rows: int, sparsity: int, columns: int, corrupt: int) -> None:
    given = CLAIM.model_copy(update={"max_corrupt_clients": corrupt})
    mechanism = published(given, columns, rows=rows, sparsity=sparsity)
    expected = published_sigma(1, 1e-6, 2000, rows, sparsity, columns, 0.5, corrupt) * 2**mechanism.fraction_bits
    assert expected <= mechanism.sigma < expected + 1


@pytest.mark.parametrize(("rows", "sparsity", "clients"), [(8, 1, 2000), (8, 2, 2000), (8, 2, 2001), (7, 3, 2003)])
def test_the_promise_is_the_exact_one_of_the_matrix_that_was_drawn(rows: int, sparsity: int, clients: int) -> None:
    given = CLAIM.model_copy(update={"max_corrupt_clients": 4})
    mechanism = published(given, rows=rows, sparsity=sparsity)
    matrix = mechanism.public_matrix(clients, b"m" * 32)
    supports, _ = matrix.entries(np.arange(clients))
    statement = measurement_of(mechanism, 5, given).release_privacy(matrix)
    sigma = mechanism.sigma / 2.0**mechanism.fraction_bits
    expected = published_mu(sigma, matrix.row_counts(), sparsity, 5, 0.5, 4, supports)
    assert statement.mu == pytest.approx(expected, rel=1e-6)
    assert statement.epsilon == pytest.approx(gaussian_epsilon(expected, 1e-6), rel=1e-5)
    assert statement.mu <= measurement_of(mechanism, 5, given).privacy(clients).mu
    halved = measurement_of(mechanism, 5, given.model_copy(update={"neighbours": "zero-out"})).release_privacy(matrix)
    assert halved.mu == pytest.approx(expected / 2, rel=1e-6)


def test_the_price_of_integers_is_that_of_each_of_the_rows_added_up() -> None:
    mechanism = published(sparsity=2)
    # Equal blocks of four rows: 500 clients in each.
    assert measurement_of(mechanism, 5, CLAIM).privacy(2000).slack == pytest.approx(
        2 * row_slack(500, 5, float(mechanism.sigma) ** 2, 4.0), rel=1e-12
    )


def test_in_one_dimension_the_published_claim_is_refused_with_both_numbers() -> None:
    with pytest.raises(FalseClaimError, match=r"promised epsilon 1 .* give epsilon 1\.115"):
        alone("1")
    with pytest.raises(FalseClaimError, match=r"promised epsilon 1\.11 .* give epsilon 1\.115"):
        alone("1.11")


def test_with_its_exact_larger_epsilon_it_is_accepted_and_says_both() -> None:
    mechanism = alone("1.12")
    given = CLAIM.model_copy(update={"epsilon": "1.12", "min_clients": 120})
    measurement_of(mechanism, 1, given).check(10_000)
    assert mechanism.remark(measurement_of(mechanism, 1, given).privacy(120)) == (
        "published calibration, for comparison: claimed epsilon 1 by Theorem 3.4, exactly 1.11502 at delta 1e-06"
    )


def test_the_exact_epsilon_in_a_remark_is_rounded_up() -> None:
    statement = measurement_of(published(), 5, CLAIM).privacy(2000)
    said = published().remark(statement).split("exactly ")[1].split(" at")[0]
    assert statement.epsilon <= float(said) < statement.epsilon * (1 + 1e-5)


@pytest.mark.parametrize("epsilon", ["0.1", "1", "2"])
def test_with_more_columns_or_copies_the_exact_epsilon_is_far_below_the_claimed_one(epsilon: str) -> None:
    given = CLAIM.model_copy(update={"epsilon": epsilon})
    exact = [
        measurement_of(published(given, 5, sparsity=copies), 5, given).privacy(2000).epsilon for copies in (1, 2, 4)
    ]
    assert float(epsilon) > 1.5 * exact[0] > 3 * exact[1] > 6 * exact[2]


@pytest.mark.parametrize("clients", [2, 3, 100, 245, 246, 300])
def test_a_logarithm_without_a_value_is_a_refusal_and_not_made_up(clients: int) -> None:
    given = CLAIM.model_copy(update={"min_clients": clients})
    defined = clients > 2 and 2 * math.exp(-(clients - 2) / 16) < 1e-6 / 2
    if defined:
        measurement_of(published(given, 2, rows=2), 2, given).check(10_000)
    else:
        with pytest.raises(RowUnderfilledError, match="undefined"):
            published(given, 2, rows=2)


def test_another_sigma_is_refused_even_where_it_would_keep_the_claim() -> None:
    mechanism = published()
    for sigma in (mechanism.sigma - 1, mechanism.sigma + 1, 2 * mechanism.sigma):
        changed = mechanism.model_copy(update={"sigma": sigma})
        assert measurement_of(changed, 5, CLAIM).privacy(2000).epsilon < 1
        with pytest.raises(FalseClaimError, match=rf"sigma {sigma} is not what equation \(4\) gives for epsilon 1: "):
            measurement_of(changed, 5, CLAIM).check(10_000)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"row_bound": "1.2"}, r"row_bound 1\.2 is not entry_bound times sqrt\(d\), 1\.118"),
        ({"sparsity": 9}, "9 entries in a column need as many rows, got 8"),
        ({"entry_bound": "0"}, "must be positive"),
        ({"entry_bound": "-0.5"}, "must be positive"),
        ({"published_epsilon": "0"}, "published_epsilon 0 must be positive"),
        ({"published_epsilon": "-1"}, "must be positive"),
        ({"fraction_bits": 0}, "below one step"),
        ({"sigma": 2**40}, "exceeds"),
    ],
)
def test_parameters_that_do_not_fit_together_are_refused(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidTaskError, match=complaint):
        measurement_of(published().model_copy(update=change), 5, CLAIM).check(10_000)


@pytest.mark.parametrize("change", [{"entry_bound": "0"}, {"entry_bound": "-1"}, {"entry_bound": "1000000000000"}])
def test_a_bound_that_fits_no_grid_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(LintraError):
        published(**change)


def test_very_much_noise_is_refused_and_does_not_overflow() -> None:
    given = CLAIM.model_copy(update={"epsilon": "0.0000000000001"})
    with pytest.raises(InvalidTaskError, match="no fixed-point grid of 0 to 40 bits fits"):
        published(given)


def test_a_report_is_several_copies_of_one_clipped_row_each_with_noise_of_its_own() -> None:
    mechanism = published(columns=3, sparsity=2)
    rows = np.array([[0.1, -0.2, 7.0], [0.0, -1.7e308, 0.4999]])
    exact = words_of_steps(mechanism, document_of(mechanism).clip(rows, setting_of(mechanism)))
    assert layout_of(mechanism, 3).num_noised == 6
    assert layout_of(mechanism, 3).num_released == 3
    np.testing.assert_array_equal(exact[:, :3], exact[:, 3:])
    np.testing.assert_array_equal(exact[:, :3], np.rint(np.clip(rows, -0.5, 0.5) * 2**mechanism.fraction_bits))
    noise = encode_rows(mechanism, rows, source("copies")) - exact
    assert (noise[:, :3] != noise[:, 3:]).all()


def test_copies_have_independent_noise_and_this_test_would_notice_if_not() -> None:
    noise = measurement_of(published(columns=1, sparsity=2), 1).noise(40_000, source("independent")).astype(np.float64)
    # A correlation of 40 000 pairs has deviation 0.005: six of them are a false alarm below 1e-8.
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.03
    assert abs(np.corrcoef(noise[:, 0], noise[:, 0] + 10 * noise[:, 1])[0, 1]) > 0.03


@pytest.mark.parametrize("bound", ["1", "0.3", "0.0000123", "12345.678"])
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 1000])
def test_the_norm_that_follows_from_the_box_is_not_below_it(bound: str, columns: int) -> None:
    norm = fraction(row_bound_of(bound, columns))
    assert fraction(bound) ** 2 * columns <= norm**2
    assert norm**2 <= fraction(bound) ** 2 * columns * (1 + 10**-10)


def test_a_static_coalition_costs_less_than_an_adaptive_one() -> None:
    corrupt = {"max_corrupt_clients": 60, "min_clients": 8000}
    adaptive = CLAIM.model_copy(update=corrupt | {"threat": "adaptive"})
    static = CLAIM.model_copy(update=corrupt | {"delta_coalition": "0.0000001"})
    mechanism = published(adaptive)
    assert measurement_of(mechanism, None, static).quota < measurement_of(mechanism, None, adaptive).quota == 60
    assert (
        measurement_of(mechanism, 5, static).privacy(8000).mu < measurement_of(mechanism, 5, adaptive).privacy(8000).mu
    )


def sum_of_noise(clients: int, sigma: int, reach: int = 80) -> FloatArray:
    """Return the exact law of a sum of discrete Gaussians at -reach..reach, by convolution."""
    points = np.arange(-reach, reach + 1)
    one = np.exp(-(points**2) / (2 * sigma**2))
    one /= one.sum()
    total = one
    for _ in range(clients - 1):
        total = np.convolve(total, one)[reach:-reach]
    return total


@pytest.mark.parametrize("epsilon", [0.2, 0.5, 1.0])
def test_two_copies_in_integers_are_as_private_as_stated_by_enumeration_and_one_copy_would_be_an_understatement(
    epsilon: float,
) -> None:
    # Two rows of three clients; one entry of +-1 step, replaced.
    coarse = OsnapPublished(entry_bound="1", fraction_bits=0, sigma=4, rows=2, sparsity=2)
    statement = measurement_of(coarse, 1, CLAIM).privacy(3)
    law = sum_of_noise(3, 4)
    first, second = (np.outer(np.roll(law, shift), np.roll(law, shift)) for shift in (-1, 1))
    exact = float(np.maximum(first - math.exp(epsilon) * second, 0).sum())
    assert exact <= statement.delta_at(epsilon) < 1.35 * exact + 0.01
    assert gaussian_delta(epsilon, statement.mu / math.sqrt(2)) < exact


def test_whatever_a_stranger_writes_into_the_parameters_ends_in_words() -> None:
    values = {"entry_bound": ["0.5", "999999999999999999", "0.0000000000000000000000000000000000000001", "-1"],
              "published_epsilon": ["1", "0.0000000000000000000000000000000000000001", "999999999999999999"],
              "fraction_bits": [0, 20, 40], "rows": [1, 2, 2**20], "sparsity": [1, 2, 64]}  # fmt: skip
    claims = [CLAIM, CLAIM.model_copy(update={"min_clients": 2**32}), CLAIM.model_copy(update={"delta": "0.9"})]
    honest = published()
    for *parameters, given in product(*values.values(), claims):
        changed = honest.model_copy(update=dict(zip(values, parameters, strict=True)))
        with pytest.raises(LintraError):
            measurement_of(changed, 5, given).check(2**32)
