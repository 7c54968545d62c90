"""Pure epsilon audited exactly: the law by convolution against its closed form, and claims that are too good."""

import math
from dataclasses import replace

import numpy as np
import pytest

from lintra_audit.exact.laplace_release import audit_laplace_release, deltas_of, largest_loss, summed_law
from lintra_protocol.mechanisms import SumLaplace
from lintra_protocol.task import Task
from support import make_task


@pytest.mark.parametrize(("scale", "shares"), [(4, 1), (5, 3), (100, 40)])
def test_the_convolved_shares_of_h_clients_are_the_laplace_law(scale: int, shares: int) -> None:
    law, steps = summed_law(scale, shares, shares), np.arange(3 * scale)
    np.testing.assert_allclose(law[: 3 * scale], (scale / (scale + 1)) ** steps / (2 * scale + 1), rtol=1e-9)
    assert law.sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("clients", [8, 9, 20])
def test_the_largest_loss_is_pure_epsilon_and_more_clients_do_not_raise_it(clients: int) -> None:
    scale, shift = 30, 12
    epsilon = shift * math.log1p(1 / scale)
    law = summed_law(scale, 8, clients, shift)
    assert largest_loss(law, shift) <= epsilon * (1 + 1e-5)
    at_epsilon, at_half = deltas_of(law, shift, [epsilon * 1.00001, epsilon / 2])
    assert at_epsilon < 1e-8
    assert at_half > 0.01
    assert clients > 8 or largest_loss(law, shift) == pytest.approx(epsilon, rel=1e-5)


def test_the_noise_of_fewer_clients_than_make_a_whole_has_larger_losses() -> None:
    law = summed_law(30, 8, 5, 12)
    assert largest_loss(law, 12) > 12 * math.log1p(1 / 30) * 1.05


def on_a_coarse_grid(task: Task) -> Task:
    """Return the same task with the smallest scale for eight bits of a fraction: the law has fewer values."""
    if isinstance(task.mechanism, SumLaplace):
        coarse = replace(task.measurement, mechanism=task.mechanism.model_copy(update={"fraction_bits": 8}))
        sigma = replace(coarse, claim=task.claim).smallest_sigma()
        return task.model_copy(update={"mechanism": coarse.mechanism.model_copy(update={"sigma": sigma})})
    return task


@pytest.mark.parametrize("kind", ["sum_laplace", "histogram_laplace"])
def test_a_task_passes_and_one_of_a_smaller_scale_or_of_too_many_shares_does_not(kind: str) -> None:
    task = on_a_coarse_grid(make_task(kind, min_clients=60))
    matrix = task.mechanism.public_matrix(60, bytes(32))
    audit = audit_laplace_release(task, matrix)
    assert audit.passed
    assert 0.5 * audit.stated.mu < audit.mu < audit.stated.mu
    smaller = task.mechanism.model_copy(update={"sigma": task.mechanism.sigma * 99 // 100})
    assert not audit_laplace_release(task.model_copy(update={"mechanism": smaller}), matrix).passed
