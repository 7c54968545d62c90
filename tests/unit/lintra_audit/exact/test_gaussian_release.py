"""The exact audit of noise by servers: mu from the columns that were drawn, and none for a mechanism that says less."""

import numpy as np
import pytest

from lintra_audit.exact.gaussian_release import audit_server_release
from lintra_audit.task.cli import audit_task
from lintra_curator.ndis.linear import SparseSketch
from lintra_protocol.task import Task
from support import make_task

CLIENTS = 40


def a_task(kind: str, sparsity: int = 1, **changes: object) -> Task:
    return make_task(kind, rows=5, sparsity=sparsity, min_clients=CLIENTS, noise="servers", **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "sparsity"), [("sum", 1), ("osnap", 1), ("osnap", 3), ("second_moment", 1)])
def test_the_statement_of_a_release_is_recomputed_from_its_columns_and_not_beaten(kind: str, sparsity: int) -> None:
    task = a_task(kind, sparsity)
    found = audit_task(task, CLIENTS, bytes(32))
    assert found.passed
    assert found.corrupt == CLIENTS - 1
    assert found.recomputed.leverage == sparsity
    # The statement pays for the lattice, and for nothing else: sigma^2 - 4 in the place of sigma^2.
    sigma = task.mechanism.sigma
    assert found.mu == pytest.approx(found.stated.mu * (1 - 4 / sigma**2) ** 0.5, rel=1e-9)


@pytest.mark.parametrize("verification", ["none", "norm"])
def test_a_claim_for_half_of_the_noise_is_refuted(verification: str) -> None:
    rejected = {"max_rejected": "0.1"} if verification == "norm" else {}
    task = a_task("osnap", 2, verification=verification, **rejected)
    less = task.mechanism.model_copy(update={"sigma": task.mechanism.sigma // 2})
    matrix = less.public_matrix(CLIENTS, bytes(32))
    numbers, signs = matrix.entries(np.arange(CLIENTS))
    sketch = SparseSketch(matrix.rows, numbers, signs, "single")
    assert audit_server_release(task, matrix, sketch).passed
    assert not audit_server_release(task.model_copy(update={"mechanism": less}), matrix, sketch).passed
