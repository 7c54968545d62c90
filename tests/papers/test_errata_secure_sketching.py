"""Counterexamples to Burkhardt et al. 2025 (docs/explanation/errata.md): each fails for the printed statement."""

import math

import numpy as np
import pytest
from scipy import stats

from lintra_protocol.privacy.calibration import published_mu, published_sigma
from lintra_protocol.privacy.gaussian import gaussian_delta, gaussian_epsilon

DELTA = 1e-6


def test_the_gaussian_mechanism_of_lemma_2_3_breaks_its_claim_at_large_epsilon() -> None:
    mu_of = {epsilon: epsilon / math.sqrt(2 * math.log(1.25 / DELTA)) for epsilon in (1.0, 40.0)}
    assert gaussian_delta(1.0, mu_of[1.0]) < DELTA
    assert gaussian_delta(40.0, mu_of[40.0]) > 100 * DELTA


@pytest.mark.parametrize(("claimed", "given"), [(1, 1.14), (8, 12.0), (16, 29.0)])
def test_equation_4_in_one_dimension_gives_more_than_it_claims(claimed: float, given: float) -> None:
    clients, rows = 10**6, 1024
    sigma = published_sigma(claimed, DELTA, clients, rows, 1, 1, 1, 0)
    mu = published_mu(sigma, np.array([clients // rows]), 1, 1, 1, 0)
    assert gaussian_epsilon(mu, DELTA) == pytest.approx(given, rel=0.03)


def test_a_coalition_that_knows_the_matrix_isolates_a_client_long_before_the_theorem_fails() -> None:
    clients, rows = 10**6, 1024
    drawn = np.random.default_rng(20_2412).multinomial(clients, np.full(rows, 1 / rows), size=400).min(axis=1)
    emptiest = int(np.median(drawn))
    assert abs(emptiest - 878) <= 2  # 3 standard errors of the median are 2.2
    assert 0.01 < np.mean(drawn <= 852) < 0.06  # 3 %; three deviations of 400 draws are 2.6 %
    corrupt = emptiest - 1
    assert corrupt < 0.001 * clients  # the theorem allows any number below n
    sigma = published_sigma(1, DELTA, clients, rows, 1, 10, 1, corrupt)
    mu = published_mu(sigma, np.array([emptiest]), 1, 10, 1, corrupt)
    assert gaussian_epsilon(mu, DELTA) > 10


def test_the_upper_tail_of_lemma_b_1_is_heavier_than_printed() -> None:
    clients, rows, share = 10**4, 100, 0.9
    mean = clients / rows
    exact = stats.binom.sf(math.floor((1 + share) * mean), clients, 1 / rows)  # of one row; the union is no less
    assert exact == pytest.approx(2.7e-16, rel=0.02, abs=0)
    assert math.exp(-(share**2) * mean / 2) == pytest.approx(2.6e-18, rel=0.02, abs=0)
    assert exact < math.exp(-(share**2) * mean / 3)


def test_lemma_4_1_lost_its_leading_term() -> None:
    # E = sum S_i G_i with s = 1, k = 1, b = 1/e: |E x|^2 is n sigma^2 |x|^2 for all m; the bound falls with m.
    clients, features = 4096, 4
    generator = np.random.default_rng(20_2411)
    for rows in (256, 2048):
        noise = generator.normal(size=(clients, features))
        sketched = np.zeros((rows, features))
        np.add.at(sketched, generator.integers(0, rows, clients), noise * generator.choice([-1, 1], clients)[:, None])
        found = float(np.square(sketched[:, 0]).sum()) / clients
        assert found == pytest.approx(1, abs=0.15)  # six deviations at 256 rows: false alarm below 1e-6
    printed = {rows: 2 / rows * (math.sqrt(2 * rows) + 2) for rows in (256, 2048, 10**6)}
    assert printed[2048] < 0.07
    assert printed[10**6] < 0.003  # so no constant C will do


def test_the_noise_of_section_3_1_lacks_a_square() -> None:
    bound, power = 10.0, 2
    sensitivity = bound**power
    printed = math.sqrt(2 * sensitivity * math.log(1.25 / DELTA))
    squared = math.sqrt(2 * sensitivity**2 * math.log(1.25 / DELTA))
    assert gaussian_epsilon(sensitivity / printed, DELTA) > 10
    assert gaussian_epsilon(sensitivity / squared, DELTA) < 1


def published_error(alpha: float, rank: int, features: int) -> float:
    """Return n sigma^2 of equation (4) at Cohen's sizes, its logarithm left out."""
    failure = 0.01
    rows = math.ceil(rank * math.log(rank / failure) / alpha**2)
    sparsity = math.ceil(math.log(rank / failure) / alpha)
    clients, delta = 10**15, 1e-6
    sigma = published_sigma(1, delta, clients, rows, sparsity, features, 1, 0)
    return clients * sigma**2 / math.log(1.25 * sparsity * features / delta)


def slope(first: float, second: float, factor: float) -> float:
    return math.log(second / first) / math.log(factor)


def test_the_additive_errors_of_theorems_4_2_and_4_4_have_other_exponents() -> None:
    halved = published_error(0.01, 100, 100), published_error(0.005, 100, 100)
    assert slope(*halved, 2) == pytest.approx(5, abs=0.05)  # text: 4
    doubled = published_error(0.01, 100, 100), published_error(0.01, 200, 200)
    logs = math.log(200 / 0.01) / math.log(100 / 0.01)
    assert slope(doubled[0], doubled[1] / logs**4, 2) == pytest.approx(3, abs=0.05)  # text: 2


def test_the_experiments_add_far_less_noise_than_equation_4_demands() -> None:
    clients, rows, features = 10**7, 100, 50
    demanded = clients * published_sigma(1, DELTA, clients, rows, 1, features, 1, 0) ** 2
    added = 2 * math.log(1.25 / DELTA)  # n times the variance c / n
    assert demanded / added == pytest.approx(6.4e5, rel=0.01)


def test_the_generalised_triangle_inequality_holds_with_its_constant_and_with_no_smaller_one() -> None:
    # Lemma 4.3 is true: a^2 <= (1 + c) b^2 + (1 + 1/c) (a - b)^2, with equality where a - b is c b.
    rng = np.random.default_rng(43)
    first, second = rng.standard_normal((2, 10_000))
    for part in (0.01, 0.3, 1.0):
        gaps = (1 + part) * second**2 + (1 + 1 / part) * (first - second) ** 2 - first**2
        assert gaps.min() > -1e-9
        assert (1 + part) * 1 + 0.999 * (1 + 1 / part) * part**2 < (1 + part) ** 2


def megabytes(clients: int, rows: int, servers: int, sparsity: int = 1) -> float:
    return 8 * 10 * (sparsity * clients + rows) * servers / 1e6


def test_the_tables_of_bytes_are_of_a_hundred_rows_and_one_of_them_of_two_servers() -> None:
    printed = {100_000: 24.024, 250_000: 60.024, 500_000: 120.024, 750_000: 180.024, 1_000_000: 240.024}
    for clients, value in printed.items():
        assert megabytes(clients, 100, 3) == pytest.approx(value, abs=5e-4)
        assert megabytes(clients, 50, 3) != pytest.approx(value, abs=5e-4)  # the text says 50 rows
    for sparsity, value in {1: 80.016, 50: 4000.016}.items():
        assert megabytes(500_000, 100, 2, sparsity) == pytest.approx(value, abs=5e-4)
        assert megabytes(500_000, 100, 3, sparsity) != pytest.approx(value, abs=5e-4)  # the table says 3


def test_noise_on_a_lattice_breaks_a_claim_made_for_continuous_noise() -> None:
    # S = (1, 10), both clients with discrete noise of deviation 2: sums are multiples of 10 plus a small number.
    grid = np.arange(-40, 41)
    mass = np.exp(-(grid**2) / 8.0)
    mass /= mass.sum()
    law = np.zeros(901)
    for value, weight in zip(grid, mass, strict=True):
        law[450 + grid + 10 * value] += weight * mass
    moved = np.roll(law, 1)
    exact = float(np.maximum(law - math.exp(0.3) * moved, 0).sum())
    assert exact == pytest.approx(7.8e-2, rel=0.02)
    assert gaussian_delta(0.3, 1 / (2 * math.sqrt(101))) == pytest.approx(7.5e-12, rel=0.05, abs=0)
