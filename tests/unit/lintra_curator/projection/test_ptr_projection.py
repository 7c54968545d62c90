"""Propose, test, release: less ridge where a noisy eigenvalue is large."""

import functools
import math

import numpy as np
import pytest
from papers.calibrated import plan_ptr_published

from lintra_curator.claims.claim import CalibrationError, curator_claim
from lintra_curator.ndis.closed_form import delta_rp
from lintra_curator.projection.eigenvalue_test import EigenvalueTest
from lintra_curator.projection.ptr_projection import joint_delta, plan_ptr, ptr_delta, ptr_projection
from lintra_curator.projection.random_projection import plan_projection
from lintra_protocol.privacy.gaussian import gaussian_delta, gaussian_mu
from support import source

CLAIM = curator_claim(1.0, 1e-6, "zero-out")
CLOSE = functools.cache(lambda: plan_ptr(CLAIM, 100, 2.0, deviation=8.0, margin=1.0))
DATA = np.random.default_rng(2).uniform(-0.5, 0.5, size=(3000, 3))


def test_the_published_accounting_spends_less_than_a_thousandth_of_its_delta() -> None:
    published = plan_ptr_published(CLAIM, 100, 1.0)
    assert ptr_delta(1.0, published.test, 100) < 1e-3 * CLAIM.float_delta


def test_a_test_that_never_lowers_the_ridge_has_the_delta_of_both_parts_composed() -> None:
    # With a huge margin the ridge is the cap, so t and the sketch are independent: a Gaussian times a projection.
    test = EigenvalueTest(5.0, 1e6, 40.0)
    z = np.linspace(-9, 9, 20001)
    loss = z / 5 + 1 / 50
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    composed = np.trapezoid(density * delta_rp(1.0 - loss, 1 / 41, 50), z)
    assert joint_delta(1.0, 1.0, 1.0, test, 50) == pytest.approx(composed, rel=1e-8)
    # And where the sketch is worthless to the attacker, the Gaussian alone.
    assert joint_delta(1.0, 1.0, 1.0, EigenvalueTest(2.0, 0.0, 1e14), 2) == pytest.approx(gaussian_delta(1.0, 0.5))


def test_the_worst_neighbour_moves_the_eigenvalue_as_far_as_it_can() -> None:
    test = EigenvalueTest(8.0, 1.0, 62.5)
    for at in (0.5, 1.0, 10.0, 40.0, 70.0):
        values = [joint_delta(1.0, at, share, test, 100) for share in (0.0, 0.5, 1.0)]
        assert values == sorted(values)


@pytest.mark.slow
def test_a_smaller_cap_or_deviation_breaks_the_promise() -> None:
    plan = CLOSE()
    assert ptr_delta(1.0, plan.test, 100) <= CLAIM.float_delta
    assert ptr_delta(1.0, EigenvalueTest(8.0, 1.0, 0.98 * plan.test.cap), 100) > CLAIM.float_delta
    assert ptr_delta(1.0, EigenvalueTest(6.0, 1.0, plan.test.cap), 100) > CLAIM.float_delta


@pytest.mark.slow
def test_data_that_fill_every_direction_get_less_ridge_and_the_release_says_so() -> None:
    plan = CLOSE()
    release = ptr_projection(np.vstack([DATA] * 2), plan, source("test"))
    smallest = np.linalg.eigvalsh(2 * DATA.T @ DATA)[0]
    assert abs(release.noisy_eigenvalue - smallest) < 6 * 4 * 8
    ridge = 4 * max(plan.test.cap - max(release.noisy_eigenvalue / 4 - 1, 0), 0)
    assert release.projection.sigma2 == pytest.approx(ridge)
    assert release.projection.sigma2 < plan_projection(CLAIM, 100, 2.0).sigma2
    assert release.projection.promise == plan.promise


@pytest.mark.slow
def test_singular_data_get_about_the_cap() -> None:
    plan = CLOSE()
    rows = np.array([[1.0, 0.0]])
    ridges = [ptr_projection(rows, plan, source(f"singular {i}")).projection.sigma2 / 4 for i in range(20)]
    assert max(ridges) == pytest.approx(plan.test.cap)
    assert min(ridges) > plan.test.cap - 6 * 8


def test_a_deviation_that_breaks_the_claim_alone_is_refused() -> None:
    deviation = 0.9 / gaussian_mu(1.0, 1e-6)
    with pytest.raises(CalibrationError, match="eigenvalue alone"):
        plan_ptr(CLAIM, 10, 1.0, deviation=deviation, margin=0.0)


@pytest.mark.parametrize("numbers", [(0.0, 1.0, 1.0), (1.0, math.nan, 1.0), (1.0, 1.0, -1.0), (math.inf, 1.0, 1.0)])
def test_tests_without_a_meaning_are_refused(numbers: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="positive deviation"):
        EigenvalueTest(*numbers)
    with pytest.raises(ValueError, match="zero-out"):
        plan_ptr(curator_claim(1.0, 1e-6, "replace-one"), 10, 1.0, deviation=8.0, margin=1.0)
    with pytest.raises(CalibrationError, match="epsilon"):
        plan_ptr_published(curator_claim(1000.0, 1e-6, "zero-out"), 10, 1.0)
