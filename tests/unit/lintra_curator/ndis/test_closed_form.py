"""Random projection in closed form: vectors, its shape, calibration at the feasible end, and no overflow."""

import math

import numpy as np
import pytest

from lintra_curator.ndis import delta, delta_rp, rp_pair, rp_pstar
from lintra_curator.ndis.closed_form import rp_ceiling


def published_delta(epsilon: float, p: float, r: float) -> float:
    """The formula as the authors' program evaluates it, for comparison; overflows."""
    from scipy.special import gammaincc

    t = (1 - p) * (2 * epsilon - r * math.log(1 - p)) / p
    with np.errstate(all="ignore"):
        factor = np.exp(epsilon - r / 2 * np.log(1 - p)) * np.float64(1 - p) ** (r / 2)
        return float(gammaincc(r / 2, t / 2) - factor * gammaincc(r / 2, t / (2 * (1 - p))))


@pytest.mark.parametrize(
    ("at", "p", "r", "direction", "value"),
    [
        (1, 0.05, 30, "remove", 8.85509089968e-6),
        (0.5, 0.2, 1, "remove", 0.004882050006045),
        (0.05, 0.2, 1, "add", 0.0236198197555),
        (0.1, 0.002, 1000, "remove", 2.629474867538e-4),
        (0.1, 0.002, 1000, "add", 1.600113552443e-4),
    ],
)
def test_the_closed_form_has_its_vectors(at: float, p: float, r: float, direction: str, value: float) -> None:
    assert float(delta_rp(at, p, r, direction)) == pytest.approx(value, rel=1e-11, abs=0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("at", "target", "r", "value"),
    [
        (1, 1e-6, 100, 0.02736713984467),
        (0.5, 1e-9, 1000, 0.003868653970551),
        (1, 1 / 2809, 300, 0.0261369651493),
        (1, 1e-6, 1000, 0.009901827474096),
        (0.1, 1e-6, 10, 0.00777493381308),
    ],
)
def test_the_largest_leverage_has_its_vectors_and_is_feasible(at: float, target: float, r: float, value: float) -> None:
    found = rp_pstar(at, target, r)
    assert found == pytest.approx(value, rel=1e-9, abs=0)
    assert delta(rp_pair(found, r), at, 1e-11).hi <= target
    assert delta(rp_pair(found * (1 + 1e-9), r), at, 1e-11).lo > target


@pytest.mark.parametrize("r", [1.0, 1.5, 2.0, 3.0, 5.0])
@pytest.mark.slow
def test_few_columns_are_calibrated_on_the_safe_side_too(r: float) -> None:
    found = rp_pstar(0.7, 1e-7, r)
    assert delta(rp_pair(found, r), 0.7, 1e-10).hi <= 1e-7
    assert delta(rp_pair(found * (1 + 1e-6), r), 0.7, 1e-10).lo > 1e-7


# Computed with 60 digits; the closed form alone is below the first, third and fourth of them.
@pytest.mark.parametrize(
    ("at", "p", "r", "truth"),
    [
        (1e-6, 5e-8, 2, 3.7912841000201657e-17),
        (1e-6, 5e-8, 3, 1.2572991926706613e-16),
        (1e-5, 4e-7, 1.5, 9.3336200923779152e-19),
        (2e-8, 1e-9, 4, 6.6947235573377887e-18),
    ],
)
def test_the_ceiling_is_above_the_truth_where_the_closed_form_has_lost_its_digits(
    at: float, p: float, r: float, truth: float
) -> None:
    assert truth <= rp_ceiling(at, p, r) <= truth * (1 + 1e-3)
    assert abs(float(delta_rp(at, p, r)) / truth - 1) > 1e-9


def test_a_tiny_claim_of_few_columns_is_calibrated_although_the_closed_form_has_no_digits_there() -> None:
    found = rp_pstar(0.0, 1e-13, 3)
    assert delta(rp_pair(found, 3), 0.0, 1e-6).hi <= 1e-13
    assert delta(rp_pair(found * 1.02, 3), 0.0, 1e-6).lo > 1e-13


@pytest.mark.parametrize(("at", "r"), [(-0.1, 3), (math.nan, 3), (0.1, 6)])
def test_the_ceiling_is_for_few_columns_and_no_negative_epsilon(at: float, r: float) -> None:
    with pytest.raises(ValueError, match="few columns"):
        rp_ceiling(at, 0.1, r)


def test_an_epsilon_beyond_all_exponentials_is_a_delta_of_0_without_a_warning() -> None:
    assert delta_rp([710.0, 1e4, 1e308], [[0.0], [0.1]], 3).tolist() == [[0.0] * 3] * 2
    assert rp_ceiling(1e4, 0.1, 3) <= 1e-305


def test_many_columns_do_not_overflow_as_the_published_program_does() -> None:
    # 0.224128987 is the row norm of the paper's third data set; 4.565 its noise, where the paper prints 0.224.
    assert math.isnan(published_delta(1, 0.5, 2200))
    assert float(delta_rp(1, 0.5, 2200)) == pytest.approx(1.0)
    noise = 0.224128987 / math.sqrt(rp_pstar(1, 1 / 515345, 20000))
    assert noise == pytest.approx(4.565, abs=5e-4)


@pytest.mark.parametrize(
    ("n", "r", "bound", "value"), [(2809, 300, 1.107512718, 6.850482207), (327346, 1200, 0.07320812693, 0.7452002357)]
)
def test_the_noise_of_the_papers_tables_is_reproduced(n: int, r: int, bound: float, value: float) -> None:
    assert bound / math.sqrt(rp_pstar(1, 1 / n, r)) == pytest.approx(value, rel=1e-9, abs=0)


def test_delta_grows_with_leverage_and_columns_and_falls_with_epsilon() -> None:
    at = np.linspace(-2, 4, 61)
    for direction in ("remove", "add"):
        assert (np.diff(delta_rp(at, 0.03, 40, direction)) <= 1e-15).all()
        assert (np.diff(delta_rp(0.3, np.linspace(0, 1, 101), 40, direction)) >= -1e-14).all()
        assert (np.diff(delta_rp(0.3, 0.03, np.geomspace(1, 1e5, 51), direction)) >= -1e-13).all()


def test_removing_is_the_harder_direction_for_positive_epsilon_and_they_meet_at_0() -> None:
    p, r = np.meshgrid(np.linspace(0.001, 0.9, 40), [1, 2, 10, 300])
    for at in (0.01, 0.5, 3.0):
        assert (delta_rp(at, p, r, "remove") >= delta_rp(at, p, r, "add") - 1e-14).all()
    assert np.allclose(delta_rp(0, p, r, "remove"), delta_rp(0, p, r, "add"), rtol=1e-10)


def test_the_ends_are_exact() -> None:
    assert delta_rp([0.5, -0.5], 0.0, 7).tolist() == [0.0, pytest.approx(1 - math.exp(-0.5))]
    assert delta_rp(50.0, 1.0, 7).item() == 1.0
    assert delta_rp([math.inf, -math.inf], 0.3, 7).tolist() == [0.0, 1.0]
    assert delta_rp(1, [[0.1], [0.2]], [5, 6, 7]).shape == (2, 3)
    assert rp_pair(1.0, 3).disjoint


@pytest.mark.parametrize(
    ("at", "p", "r"), [(math.nan, 0.1, 3), (1, -0.1, 3), (1, 1.1, 3), (1, math.nan, 3), (1, 0.1, 0), (1, 0.1, math.inf)]
)
def test_arguments_out_of_range_are_refused(at: float, p: float, r: float) -> None:
    with pytest.raises(ValueError, match="projection"):
        delta_rp(at, p, r)


@pytest.mark.parametrize(("at", "target", "r"), [(-1, 1e-6, 3), (math.nan, 1e-6, 3), (1, 0, 3), (1, 1e-6, math.nan)])
def test_a_calibration_out_of_range_is_refused(at: float, target: float, r: float) -> None:
    with pytest.raises(ValueError, match=r"epsilon|delta|projection"):
        rp_pstar(at, target, r)


@pytest.mark.parametrize(("p", "r"), [(-0.1, 3), (1.5, 3), (math.nan, 3), (0.1, 0), (0.1, math.inf)])
def test_a_pair_out_of_range_is_refused(p: float, r: float) -> None:
    with pytest.raises(ValueError, match=r"leverage|column"):
        rp_pair(p, r)
