"""The clip count of a release: its error contains all noise that was added to it."""

import math

import numpy as np
import pytest

from lintra_analysis.kinds.clip_count import clip_count_deviation
from lintra_analysis.kinds.released_parts import clipped_rows
from lintra_analysis.plan.flags import PlanFlags
from lintra_protocol.mechanisms import Osnap
from support import make_task
from support.measured import clip_steps, measurement_of

CLIENTS = 40
SKETCH = Osnap(row_bound="1", fraction_bits=4, sigma=8, rows=8, sparsity=2, clip_count_weight="0.2")


@pytest.mark.parametrize("servers", [2, 3, 7])
def test_the_error_of_the_clip_count_contains_the_smoothing_noise_of_every_server(servers: int) -> None:
    task = make_task(SKETCH, num_servers=servers, check=False)
    sketch, row_counts = np.zeros((8, 4), np.int64), np.full(8, 2 * CLIENTS // 8)
    found = clipped_rows(task, sketch, row_counts, rows_of_a_report=2)
    assert found is not None
    expected = math.sqrt(CLIENTS * 8**2 + servers * task.measurement.smoothing**2) / clip_steps(SKETCH)
    assert (found.sd, found.num_clients) == (pytest.approx(expected, rel=1e-12), CLIENTS)
    assert clip_count_deviation(task.measurement, CLIENTS, servers) == {
        "clipped rows": pytest.approx(expected, rel=1e-12)
    }


@pytest.mark.parametrize("servers", [2, 7])
def test_a_plan_states_the_same_error(servers: int) -> None:
    flags = PlanFlags(
        columns=3, clients=600, epsilon="2", corrupt=0, rows=6, sparsity=2, num_servers=servers, noise="clients"
    )
    option = flags.planned("osnap")
    expected = clip_count_deviation(measurement_of(option.mechanism, 3), 600, servers)
    assert option.deviations["clipped rows"] == expected["clipped rows"]
