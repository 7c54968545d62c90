"""The clip counter of a Wishart sum: products and counter together stay below the statement, by the exact curve."""

from math import sqrt

import numpy as np
import pytest

from lintra_audit.exact.wishart_release import audit_wishart_release, beside_gaussian
from lintra_curator.second_moment.curves import wishart_delta
from lintra_protocol.mechanisms import WishartSecondMoment
from lintra_protocol.privacy.gaussian import gaussian_delta
from lintra_protocol.privacy.statement import Claim, Neighbours
from support import make_task
from support.measured import calibrated_for, clip_steps, measurement_of

CLIENTS, COLUMNS = 60, 2


def claim(neighbours: Neighbours) -> Claim:
    return Claim(epsilon="2", delta="0.01", min_clients=CLIENTS, neighbours=neighbours)


def counting(neighbours: Neighbours) -> WishartSecondMoment:
    plain = WishartSecondMoment(row_bound="1", fraction_bits=0, sigma=4100, clip_count_weight="1")
    return calibrated_for(plain, COLUMNS, claim(neighbours), 1000)


def test_beside_a_gaussian_curve_it_is_the_gaussian_curve_of_both() -> None:
    for mu, other, epsilon in ((0.3, 0.1, 0.0), (0.3, 0.1, 1.0), (0.5, 0.5, 2.0), (0.8, 0.2, 3.0)):
        found = beside_gaussian(lambda at, mu=mu: gaussian_delta(at, mu), other, epsilon)  # type: ignore[misc]
        assert found == pytest.approx(gaussian_delta(epsilon, sqrt(mu**2 + other**2)), rel=1e-9)


@pytest.mark.parametrize("neighbours", ["zero-out", pytest.param("replace-one", marks=pytest.mark.slow)])
def test_products_and_counter_together_stay_below_what_is_stated_at_every_epsilon(neighbours: Neighbours) -> None:
    mechanism = counting(neighbours)
    stated = measurement_of(mechanism, COLUMNS, claim(neighbours)).privacy(CLIENTS)
    counter = clip_steps(mechanism) / (sqrt(CLIENTS) * mechanism.sigma)
    freedom, weight = CLIENTS - COLUMNS + 1, mechanism.squared_bound / mechanism.variance

    def curve(epsilon: float) -> float:
        return wishart_delta(epsilon, freedom, weight, neighbours, thorough=False)

    # Without its counter the statement would be false of both together.
    bare = measurement_of(mechanism.model_copy(update={"clip_count_weight": "0"}), COLUMNS, claim(neighbours)).privacy(
        CLIENTS
    )
    epsilons = np.linspace(0, 3, 7).tolist()
    found = [beside_gaussian(curve, counter, epsilon) for epsilon in epsilons]
    assert all(delta <= stated.delta_at(epsilon) for epsilon, delta in zip(epsilons, found, strict=True))
    assert any(delta > 1.2 * bare.delta_at(epsilon) for epsilon, delta in zip(epsilons, found, strict=True))


@pytest.mark.slow
def test_how_much_of_the_stated_delta_is_really_spent() -> None:
    found = []
    for neighbours in ("zero-out", "replace-one"):
        mechanism = counting(neighbours)
        stated = measurement_of(mechanism, COLUMNS, claim(neighbours)).privacy(CLIENTS)
        counter = clip_steps(mechanism) / (sqrt(CLIENTS) * mechanism.sigma)
        freedom, weight = CLIENTS - COLUMNS + 1, mechanism.squared_bound / mechanism.variance
        for epsilon in np.linspace(0, 2, 5).tolist():
            exact = beside_gaussian(
                lambda at, w=weight, n=neighbours: wishart_delta(at, freedom, w, n, thorough=False),  # noqa: B023
                counter,
                epsilon,
            )
            found.append(exact / stated.delta_at(epsilon))
    assert (round(min(found), 2), round(max(found), 2)) == (0.60, 0.94)


def test_the_exact_audit_of_a_task_counts_the_counter() -> None:
    mechanism = counting("zero-out")
    task = make_task(mechanism, columns=COLUMNS, claim=claim("zero-out"))
    matrix = mechanism.public_matrix(CLIENTS, bytes(32))
    audit = audit_wishart_release(task, matrix)
    assert audit.passed
    bare = mechanism.model_copy(update={"clip_count_weight": "0"})
    without = audit_wishart_release(task.model_copy(update={"mechanism": bare}), matrix)
    assert without.mu < 0.95 * audit.mu <= 0.95 * audit.stated.mu
    (counted,), (uncounted,) = audit.findings, without.findings
    assert uncounted.found.hi < 0.8 * counted.found.hi
