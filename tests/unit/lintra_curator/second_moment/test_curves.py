"""The privacy curves of a curator's second moments: reference values, monotony, and pairs that must not exceed them."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from lintra_curator.second_moment.adaptive import gaussian_then_projection
from lintra_curator.second_moment.curves import (
    projection_delta,
    projection_deltas,
    wishart_delta,
    wishart_pair_delta,
    wishart_zero_out_deltas,
)
from lintra_protocol.privacy.gaussian import gaussian_delta
from lintra_protocol.privacy.statement import Neighbours
from lintra_protocol.privacy.wishart import wishart_delta as tabulated_wishart_delta

PROJECTION: list[tuple[Neighbours, float, float, int, float]] = [
    ("zero-out", 1, 0.05, 44, 2.999577348515e-05),
    ("zero-out", 0.1, 0.004, 1000, 6.510774866331e-03),
    ("replace-one", 1, 0.05, 44, 2.352368635e-04),
    ("replace-one", 0.1, 0.004, 1000, 1.615221738e-02),
]
WISHART_ZERO_OUT = [
    (0.3, 12, 1, (2.933889184714e-02, 3.384857329106e-04)),
    (0.05, 36, 0.5, (9.431900356e-03, 4.798907863e-03)),
]
WISHART_REPLACE = [(0.3, 20, 1, 1.599176320e-02), (0.1, 900, 1, 1.544291994e-05), (0.6, 5, 1, 8.297213226e-02)]


@pytest.mark.parametrize(("neighbours", "epsilon", "weight", "rows", "delta"), PROJECTION)
def test_projection_curves_have_their_reference_values(
    neighbours: Neighbours, epsilon: float, weight: float, rows: int, delta: float
) -> None:
    assert projection_delta(epsilon, weight, rows, neighbours) == pytest.approx(delta, rel=1e-8)


@pytest.mark.parametrize(("epsilon", "freedom", "weight", "deltas"), WISHART_ZERO_OUT)
def test_both_directions_of_the_wishart_zero_out_curve_have_their_reference_values(
    epsilon: float, freedom: float, weight: float, deltas: tuple[float, float]
) -> None:
    assert wishart_zero_out_deltas(epsilon, freedom, weight) == pytest.approx(deltas, rel=1e-8)


@pytest.mark.parametrize(("epsilon", "freedom", "weight", "delta"), WISHART_REPLACE)
def test_the_wishart_replace_curve_has_its_reference_values(
    epsilon: float, freedom: float, weight: float, delta: float
) -> None:
    assert wishart_delta(epsilon, freedom, weight, "replace-one") == pytest.approx(delta, rel=1e-8)


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.parametrize(("epsilon", "freedom", "weight"), [(0.0, 20, 0.5), (0.1, 100, 1.0), (0.5, 900, 12.0)])
def test_the_tables_of_the_parties_and_the_curator_s_integrals_give_the_same_wishart_curve(
    epsilon: float, freedom: int, weight: float, neighbours: Neighbours
) -> None:
    """Two routes that share no code: an audit takes this one because the service takes the other."""
    tabulated = tabulated_wishart_delta(epsilon, freedom, weight, neighbours)
    assert tabulated == pytest.approx(wishart_delta(epsilon, freedom, weight, neighbours), rel=1e-7)


def test_with_few_degrees_of_freedom_the_worst_wishart_pair_is_a_row_against_none_and_not_two_rows() -> None:
    two_rows = wishart_pair_delta(0.6, 5, 1, 1)
    assert two_rows == pytest.approx(7.46700889e-02, rel=1e-8)
    assert wishart_delta(0.6, 5, 1, "replace-one") > 1.1 * two_rows


@pytest.mark.parametrize(
    ("epsilon", "weight", "rows", "delta"),
    [
        (1.0, 0.0181336413588, 44, 9.999999999495531e-16),
        (0.001, 7.441918785485e-05, 44, 9.999999989204482e-7),
        (0.1, 3.888819937544e-05, 10**6, 9.999999984696883e-7),
        (5.0, 0.1676244081163, 1, 9.999999999755281e-16),
    ],
)
def test_curves_keep_their_digits_far_out_and_never_fall_below_the_true_delta(
    epsilon: float, weight: float, rows: int, delta: float
) -> None:
    # The deltas were computed with 40 digits.
    found = projection_delta(epsilon, weight, rows, "zero-out")
    assert delta <= found <= delta * (1 + 1e-8)


def test_joint_curves_have_their_reference_values() -> None:
    assert gaussian_then_projection(1, 0.1, 0.03, 44) == pytest.approx(7.122103244e-07, rel=1e-8)


@pytest.mark.parametrize(
    ("freedom", "at_60", "atom"),
    [
        (5, 0.0374342267527, 0.0374342267527),
        (10, 1.72115800516e-04, 1.72115629956e-04),
        (20, 1.72745720248e-10, 1.70967002935e-10),
    ],
)
def test_even_a_huge_epsilon_leaves_the_atom_of_the_wishart_curve(freedom: float, at_60: float, atom: float) -> None:
    # With 60 digits. The atom is the probability that a chi-square variable of so many degrees lies below the weight of
    # a row. The curve nears it like exp(-2 epsilon / (m - 2)): at epsilon 60 and 20 degrees it is still 1 % above.
    assert wishart_delta(60, freedom, 1, "zero-out") == pytest.approx(at_60, rel=1e-10)
    assert wishart_delta(400, freedom, 1, "zero-out") == pytest.approx(atom, rel=1e-10)


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.slow
def test_delta_falls_with_epsilon_and_grows_with_the_weight_of_a_row(neighbours: Neighbours) -> None:
    epsilons, weights = np.geomspace(0.01, 4, 12), np.geomspace(0.002, 0.5, 12)
    for rows in (1, 30, 3000):
        falling = [projection_delta(e, 0.05, rows, neighbours) for e in epsilons]
        growing = [projection_delta(0.5, q, rows, neighbours) for q in weights]
        more_rows = [projection_delta(0.5, 0.05, r, neighbours) for r in (1, 3, 10, 100, 1000)]
        assert all(later <= earlier for earlier, later in pairwise(falling))
        assert all(later >= earlier for earlier, later in pairwise(growing))
        assert all(later >= earlier for earlier, later in pairwise(more_rows))
    for scale in (0.3, 1.0):
        falling = [wishart_delta(e, 20, scale, neighbours) for e in epsilons]
        fewer = [wishart_delta(0.3, m, scale, neighbours) for m in (3, 5, 10, 30, 100, 1000)]
        assert all(later <= earlier for earlier, later in pairwise(falling))
        assert all(later <= earlier for earlier, later in pairwise(fewer))


@pytest.mark.slow
def test_projections_with_many_rows_and_wishart_noise_of_small_scale_approach_the_gaussian_curve() -> None:
    mu, rows = 0.3, 10**6
    assert projection_delta(0.5, mu / math.sqrt(rows), rows, "replace-one") == pytest.approx(
        gaussian_delta(0.5, mu), rel=2e-3
    )
    assert wishart_delta(0.5, 10**6, mu * 1000, "replace-one") == pytest.approx(gaussian_delta(0.5, mu), rel=2e-2)
    # A mu that is wrong by 2 % would be noticed.
    assert projection_delta(0.5, mu / math.sqrt(rows), rows, "replace-one") < gaussian_delta(0.5, 1.02 * mu) / 1.02


@pytest.mark.parametrize(("epsilon", "freedom"), [(0.05, 900), (0.3, 20), (0.6, 5), (1.0, 44), (4.0, 8)])
@pytest.mark.grid(2)
@pytest.mark.slow
def test_no_wishart_pair_along_the_edges_exceeds_the_curve(epsilon: float, freedom: float) -> None:
    curve = wishart_delta(epsilon, freedom, 1.0, "replace-one")
    for share in np.linspace(0, 1, 33)[1:-1]:
        assert wishart_pair_delta(epsilon, freedom, 1.0, share) <= curve * (1 + 1e-9)
        assert wishart_pair_delta(epsilon, freedom, share, 1.0) <= curve * (1 + 1e-9)


def test_a_pair_with_one_small_eigenvalue_is_the_pair_of_one_row_against_none() -> None:
    without, back = wishart_zero_out_deltas(0.3, 12, 1)
    assert wishart_pair_delta(0.3, 12, 1e-9, 1) == pytest.approx(without, rel=1e-6)
    # Here an integrand has a root at the end of its range, and fewer digits are right.
    assert wishart_pair_delta(0.3, 12, 1, 1e-9) == pytest.approx(back, rel=0.02)


def test_projection_curves_agree_with_plain_numerical_integration() -> None:
    epsilon, weight, rows = 0.7, 0.08, 17
    leverage = weight / (1 + weight)
    law = stats.chi2(rows)

    def integrand(x: float) -> float:
        first = law.sf((1 - leverage) * (2 * epsilon / leverage + x))
        return float(law.pdf(x) * (first - math.exp(epsilon) * law.sf(2 * epsilon / leverage + x / (1 - leverage))))

    expected = integrate.quad(integrand, 0, 200, epsabs=0, epsrel=1e-11, limit=200)[0]
    assert projection_delta(epsilon, weight, rows, "replace-one") == pytest.approx(expected, rel=1e-8)


def test_below_zero_the_projection_curve_continues_by_symmetry() -> None:
    found = projection_deltas(np.array([-0.4, 0.4]), 0.05, 30)
    assert found[0] == pytest.approx(1 - math.exp(-0.4) + math.exp(-0.4) * found[1])


@pytest.mark.parametrize(
    ("epsilon", "freedom", "weight"), [(-1, 5, 1), (math.nan, 5, 1), (1, 2, 1), (1, 5, 0), (1, 5, math.inf)]
)
def test_a_wishart_curve_outside_its_domain_is_refused(epsilon: float, freedom: float, weight: float) -> None:
    with pytest.raises(ValueError, match="no privacy curve"):
        wishart_delta(epsilon, freedom, weight, "replace-one")


@pytest.mark.parametrize(("epsilon", "weight", "rows"), [(-1, 0.1, 5), (1, -0.1, 5), (1, math.nan, 5), (1, 0.1, 0)])
def test_a_projection_curve_outside_its_domain_is_refused(epsilon: float, weight: float, rows: int) -> None:
    with pytest.raises(ValueError, match="no privacy curve"):
        projection_delta(epsilon, weight, rows, "replace-one")
