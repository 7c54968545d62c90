"""The yardsticks: the published calibration with its domain, its exact privacy, the central and the local sigma."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from lintra_protocol.privacy.calibration import (
    central_sigma,
    local_sigma,
    published_mu,
    published_sigma,
    published_steps,
)
from lintra_protocol.privacy.gaussian import gaussian_delta, gaussian_epsilon

# (epsilon, delta, n, m, s, d, eta, t) and the variance of equation (4).
PUBLISHED = [
    ((1, 1e-6, 10**6, 1024, 4, 10, 1, 0), 464.7185147183),
    ((1, 1e-6, 10**5, 64, 1, 50, 1, 100), 115.0004840230),
    ((0.5, 1e-5, 20000, 50, 2, 5, 0.5, 10), 28.09416471739),
]


@pytest.mark.parametrize(("arguments", "variance"), PUBLISHED)
def test_equation_4_has_its_reference_values(arguments: tuple[int, ...], variance: float) -> None:
    assert published_sigma(*arguments) ** 2 == pytest.approx(variance, rel=1e-12)


@pytest.mark.parametrize(("arguments", "variance"), PUBLISHED)
def test_in_integer_steps_equation_4_is_rounded_up(arguments: tuple[int, ...], variance: float) -> None:
    epsilon, delta, *counts, eta, corrupt = arguments
    steps = Decimal(repr(eta)) * 2**20
    sigma = published_steps(Decimal(repr(epsilon)), Decimal(repr(delta)), *counts, steps, corrupt)  # type: ignore[call-arg]
    assert sigma - 1 < math.sqrt(variance) * 2**20 * (1 + 1e-12)
    assert sigma >= math.sqrt(variance) * 2**20 * (1 - 1e-12)


def test_the_integer_does_not_depend_on_the_decimal_context_of_the_caller() -> None:
    arguments = Decimal("0.1"), Decimal("0.000001"), 10**6, 64, 3, 7, Decimal(2**30), 5
    with localcontext(prec=3):
        assert published_steps(*arguments) == 25827705542
    assert published_steps(*arguments) == 25827705542


def test_equation_4_is_refused_where_it_takes_the_logarithm_of_a_negative_number() -> None:
    epsilon, delta, clients, rows, sparsity, features = 1, 1e-6, 16579, 100, 8, 10
    assert clients >= 8 * rows * math.log(features * rows / delta)  # the published encoder goes ahead
    with pytest.raises(ValueError, match="undefined"):
        published_sigma(epsilon, delta, clients, rows, sparsity, features, 1, 0)
    with pytest.raises(ValueError, match="undefined"):
        published_sigma(epsilon, delta, 5, 1, sparsity, features, 1, 0)


def test_the_published_noise_does_not_keep_a_promise_in_one_dimension() -> None:
    sigma = published_sigma(1, 1e-6, 120, 1, 1, 1, 1, 0)
    mu = published_mu(sigma, np.array([120]), 1, 1, 1, 0)
    assert mu == pytest.approx(0.2618, abs=5e-5)
    assert gaussian_epsilon(mu, 1e-6) > 1.1


def test_the_published_noise_is_three_times_too_much_in_ten_dimensions() -> None:
    sigma = published_sigma(1, 1e-6, 10**6, 1024, 1, 10, 1, 0)
    mu = published_mu(sigma, np.array([852, 1100]), 1, 10, 1, 0)
    assert gaussian_epsilon(mu, 1e-6) == pytest.approx(0.33, abs=0.005)


def test_the_published_mu_looks_for_the_client_with_the_fewest_companions() -> None:
    counts = np.array([3, 2, 5, 0])
    supports = np.array([[0, 2], [1, 2]])
    assert published_mu(2.0, counts, 2, 4, 0.5, 0, supports) == pytest.approx(math.sqrt(1 / 2 + 1 / 5))
    assert published_mu(2.0, counts, 2, 4, 0.5, 0) == pytest.approx(math.sqrt(1 / 2 + 1 / 3))
    assert published_mu(2.0, counts, 1, 4, 0.5, 1) == pytest.approx(1.0)
    assert published_mu(2.0, counts, 1, 4, 0.5, 2) == math.inf


def test_curator_and_lone_client_need_the_same_exact_deviation() -> None:
    assert central_sigma(2, 1, 1e-6) == local_sigma(2, 1, 1e-6) == pytest.approx(8.449, abs=5e-4)
    assert gaussian_delta(1, 2 / central_sigma(2, 1, 1e-6)) == pytest.approx(1e-6, rel=1e-12)
    # Squared bound 50, second moments: sigma * mu = 50.
    assert central_sigma(50, 0.1, math.exp(-9)) == pytest.approx(1194.864439, abs=6e-7)
    assert central_sigma(50 / math.sqrt(2), 1, 1e-6) == pytest.approx(149.364955, abs=6e-7)


def test_senseless_arguments_are_refused() -> None:
    for sensitivity in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="sensitivity"):
            central_sigma(sensitivity, 1, 1e-6)
    reals = [(0, 1e-6, 1), (1, 1, 1), (1, 1e-6, 0), (math.nan, 1e-6, 1), (1, math.nan, 1), (math.inf, 1e-6, 1)]
    for arguments in [(epsilon, delta, 10**6, 4, 1, 1, eta, 0) for epsilon, delta, eta in reals]:
        with pytest.raises(ValueError, match="no calibration"):
            published_sigma(*arguments)
    for arguments in [(1, 1e-6, 0, 4, 1, 1, 1, 0), (1, 1e-6, 10**6, 4, 1, 1, 1, -1)]:
        with pytest.raises(ValueError, match="counts"):
            published_sigma(*arguments)
    with pytest.raises(ValueError, match="no mu"):
        published_mu(0.0, np.array([3]), 1, 1, 1, 0)
    with pytest.raises(ValueError, match="row counts"):
        published_mu(1.0, np.array([0, 0]), 1, 1, 1, 0)
    with pytest.raises(ValueError, match="supports"):
        published_mu(1.0, np.array([3, 3]), 2, 1, 1, 0, np.array([[0], [1]]))
