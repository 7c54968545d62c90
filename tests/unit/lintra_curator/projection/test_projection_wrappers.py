"""Sampling before projecting, and testing before projecting: what the wrappers promise and what they cost."""

import functools
import math

import numpy as np
import pytest
from papers.calibrated import plan_ptr_published
from papers.subsampled_projection import plan_subsampled, subsampled_projection, unsampled_claim

from lintra_curator.claims.claim import CalibrationError, curator_claim
from lintra_curator.ndis.closed_form import rp_pstar
from lintra_curator.projection.eigenvalue_test import EigenvalueTest
from lintra_curator.projection.ptr_projection import plan_ptr
from lintra_curator.projection.random_projection import plan_projection, rp_sigma
from lintra_protocol.errors import InvalidAnalysisError
from support import source

CLAIM = curator_claim(1.0, 1e-6, "zero-out")
CLOSE = functools.cache(lambda: plan_ptr(CLAIM, 100, 2.0, deviation=8.0, margin=1.0))
DATA = np.random.default_rng(2).uniform(-0.5, 0.5, size=(3000, 3))


# --- sampling -------------------------------------------------------------------------------------------------


def test_the_claim_on_the_sample_is_the_published_one() -> None:
    inner = unsampled_claim(CLAIM, 0.1)
    assert inner.float_epsilon == pytest.approx(2.900477097889, rel=1e-12)
    assert inner.float_delta == pytest.approx(1e-5)
    assert rp_pstar(inner.float_epsilon, inner.float_delta, 100) == pytest.approx(0.07879872862204, rel=1e-9)
    plan = plan_subsampled(CLAIM, 0.1, 100, 2.0)
    assert plan.sigma2 == pytest.approx(4 * (1 / 0.07879872862204 - 1), rel=1e-9)
    assert (plan.promise.epsilon, plan.promise.neighbours) == (1.0, "zero-out")
    assert plan.promise.delta <= CLAIM.float_delta
    assert unsampled_claim(CLAIM, 1.0) == CLAIM


@pytest.mark.slow
def test_sampling_never_makes_the_estimate_more_accurate() -> None:
    for epsilon in (0.1, 1.0, 4.0):
        for sketch_rows in (10, 100, 1000):
            whole = rp_sigma(epsilon, 1e-6, sketch_rows, 1.0) ** 2
            claim = curator_claim(epsilon, 1e-6, "zero-out")
            for rate in (0.9, 0.3, 0.01):
                assert plan_subsampled(claim, rate, sketch_rows, 1.0).sigma2 / rate > whole


def test_the_estimate_of_a_sample_is_scaled_to_all_rows() -> None:
    # The trace has deviation below sqrt(2 / r) (tr + d sigma2) / q + sqrt(tr / q); five of them.
    release = subsampled_projection(DATA, curator_claim(8.0, 1e-3, "zero-out"), 0.2, 2**14, 1.0, source("rate"))
    truth = np.trace(DATA.T @ DATA)
    slack = 5 * (math.sqrt(2 / 2**14) * (0.2 * truth + 3 * release.sigma2) / 0.2 + math.sqrt(truth / 0.2))
    assert slack < truth / 2
    assert abs(np.trace(release.gram()) - truth) < slack
    assert release.num_clients == len(DATA)


def test_a_sample_gives_no_interval() -> None:
    release = subsampled_projection(DATA, CLAIM, 0.5, 10, 1.0, source("interval"))
    with pytest.raises(InvalidAnalysisError, match="sample"):
        release.second_moment()


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, math.nan])
def test_rates_that_are_none_are_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="rate"):
        plan_subsampled(CLAIM, rate, 10, 1.0)


def test_a_rate_below_delta_and_replaced_rows_are_refused() -> None:
    with pytest.raises(CalibrationError, match="exceed delta"):
        plan_subsampled(CLAIM, 1e-7, 10, 1.0)
    with pytest.raises(ValueError, match="zero-out"):
        plan_subsampled(curator_claim(1.0, 1e-6, "replace-one"), 0.5, 10, 1.0)


# --- testing --------------------------------------------------------------------------------------------------


def break_even(test: EigenvalueTest, sigma2: float) -> float:
    """Return the smallest eigenvalue from which the ridge is usually below that without a test."""
    return test.cap + test.margin - sigma2


@pytest.mark.slow
def test_the_exact_law_moves_the_break_even_eigenvalue_from_80_to_28() -> None:
    sigma2 = plan_projection(CLAIM, 100, 1.0).sigma2
    published = plan_ptr_published(CLAIM, 100, 1.0)
    assert published.promise.status == "proved"
    assert break_even(published.test, sigma2) == pytest.approx(80.02, abs=0.01)
    exact = CLOSE()
    assert exact.promise.status == "numerical supremum"
    assert exact.promise.delta <= CLAIM.float_delta
    assert exact.test.cap == pytest.approx(62.5, abs=0.1)
    assert break_even(exact.test, sigma2) == pytest.approx(28.0, abs=0.1)
