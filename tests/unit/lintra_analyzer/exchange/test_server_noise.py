"""Releases of tasks whose servers add the noise: its law in what is read, and its words in the certificate."""

import numpy as np
import pytest

from lintra_analysis.kinds.decode import implausible_rows, read
from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_analysis.releases.sketch import Sketch
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.task import Task
from support import make_task
from support.measured import measurement_of

SEED = bytes(range(32))
COHORT = 60
"""Far more clients than servers: noise of as many draws would be told from three at once."""


def released(task: Task, label: str) -> tuple[IntArray, IntArray]:
    """Return what all servers release of rows of zeros: their noise alone."""
    counts = task.mechanism.public_matrix(COHORT, SEED).row_counts()
    share = np.zeros((len(counts), task.sketch_words), np.uint64)
    for server in range(task.num_servers):
        measurement_of(task, task.num_columns).add_server_noise(share, expand(SEED, f"{label} {server}"))
    return share.view(np.int64), counts


def ratios_of(task: Task, label: str) -> FloatArray:
    """Return released numbers over the deviation that the reading states for each."""
    sketch, counts = released(task, label)
    assert implausible_rows(task, sketch, counts)[1] == []
    whole = read(task, sketch, counts)
    release = whole.moments or whole.totals
    if isinstance(release, Sketch):
        return (release.values / np.sqrt(release.noise_variance)[:, np.newaxis]).ravel()
    if isinstance(release, SecondMomentSum):
        upper = np.triu_indices(len(release.values))
        ratios: FloatArray = release.values[upper] / release.noise_sd / np.where(upper[0] == upper[1], 2**0.5, 1.0)
        return ratios
    assert isinstance(release, Totals)
    return release.values / release.noise_sd


@pytest.mark.parametrize(
    ("kind", "sparsity", "servers", "columns"),
    [
        ("sum", 1, 3, 26),
        ("osnap", 3, 3, 4),
        pytest.param("sum", 1, 2, 26, marks=pytest.mark.slow),
        pytest.param("osnap", 1, 2, 4, marks=pytest.mark.slow),
        pytest.param("second_moment", 1, 3, 8, marks=pytest.mark.slow),
    ],
)
def test_what_is_read_has_the_root_of_n_servers_noise_whatever_the_clients(
    kind: str, sparsity: int, servers: int, columns: int
) -> None:
    task = make_task(
        kind, num_servers=servers, rows=8, sparsity=sparsity, columns=columns, min_clients=COHORT, noise="servers"
    )
    ratios = np.concatenate([ratios_of(task, f"{kind} {repetition}") for repetition in range(50)])
    # The mean square of k standard normals has deviation sqrt(2 / k); 5 deviations are a false alarm in a million.
    allowance = 5 * np.sqrt(2 / ratios.size)
    assert abs(np.mean(ratios**2) - 1) < allowance
    # With one server more or less, let alone with 60 clients, it would be noticed.
    for other in (servers - 1, servers + 1, COHORT):
        assert abs(servers / other - 1) > allowance
        assert abs(np.mean(ratios**2) * servers / other - 1) > allowance / 2
