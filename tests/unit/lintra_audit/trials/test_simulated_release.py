"""Releases of an audit: what is simulated is what the real pipeline gives."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_audit.release.cases import seams_of
from lintra_audit.release.run import far_rows
from lintra_audit.trials.audit_case import Case
from lintra_audit.trials.planted_faults import FAULTS
from lintra_audit.trials.simulated_release import (
    HONEST,
    Scene,
    Seams,
    exact_reports,
    request_release,
    run_world,
    set_scene,
)
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import AlreadyReleasedError, CohortTooSmallError
from lintra_protocol.mechanisms.measurement import Measurement
from support import SEED, source
from support.audit_cases import CASES
from support.measured import measurement_of

RELEASED = [case for case in CASES.values() if not case.must_refuse]
UNSMOOTHED = [case for case in RELEASED if not case.name.startswith("osnap-2")]


def without_noise(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    return np.stack([exact_reports(measurement, run) for run in rows])


def scene_of(case: Case, seams: Seams = HONEST) -> Scene:
    everybody = np.arange(case.num_clients)
    return set_scene(case.task, case.num_clients, [request_release(case.task, everybody, set(), SEED, seams)])


@pytest.mark.parametrize("case", UNSMOOTHED, ids=lambda case: case.name)
@pytest.mark.grid(3)
@pytest.mark.slow
def test_without_noise_the_release_is_matrix_times_rows_of_the_honest_clients(case: Case) -> None:
    assert measurement_of(case.task).smoothing == 0
    scene = scene_of(case)
    rows = far_rows(case, scene.victim)[1]
    silent = replace(HONEST, encode=without_noise, add_noise=lambda *_: None)
    released, reports = run_world(scene, rows, 3, source("exact"), silent)
    encoded = exact_reports(case.task.measurement, rows)
    expected = scene.applied(scene.honest, encoded[scene.honest])
    assert_array_equal(released, np.broadcast_to(expected, released.shape))
    assert_array_equal(reports, np.broadcast_to(encoded[scene.corrupt], reports.shape))


def test_smoothing_noise_of_every_server_is_all_that_is_left_of_a_smoothed_sketch() -> None:
    case = CASES["osnap-2"]
    scene = scene_of(case)
    rows = far_rows(case, scene.victim)[0]
    released, _ = run_world(scene, rows, 4000, source("smoothed"), replace(HONEST, encode=without_noise))
    rest = released - scene.matrix @ exact_reports(case.task.measurement, rows)
    expected = case.task.num_servers * measurement_of(case.task).smoothing ** 2
    assert rest.var() == pytest.approx(expected, rel=0.05)


def test_the_noise_of_corrupt_clients_is_taken_out_of_the_release() -> None:
    case = CASES["sum"]
    scene = scene_of(case)
    assert len(scene.corrupt) == case.task.claim.max_corrupt_clients == 1

    def only_corrupt_noise(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
        noised = without_noise(measurement, rows, random_bytes)
        noised[:, scene.corrupt] += 12345
        return noised

    rows = far_rows(case, scene.victim)[0]
    seams = replace(HONEST, encode=only_corrupt_noise)
    released, _ = run_world(scene, rows, 2, source("corrupt"), seams)
    expected = exact_reports(case.task.measurement, rows)[scene.honest].sum(axis=0)
    assert_array_equal(released[0, 0], expected)


def test_a_small_cohort_gets_no_matrix_and_one_report_no_second_release() -> None:
    task = CASES["twice"].task
    released: set[int] = set()
    request_release(task, np.arange(12), released, SEED)
    with pytest.raises(AlreadyReleasedError):
        request_release(task, np.arange(1, 12), released, SEED)
    with pytest.raises(CohortTooSmallError):
        request_release(task, np.arange(12, 15), released, SEED)


def test_every_fault_replaces_one_seam() -> None:
    honest = vars(HONEST)
    for name, seams in FAULTS.items():
        assert seams_of(name) is seams
        assert sum(vars(seams)[seam] is not honest[seam] for seam in honest) == 1
    assert seams_of(None) is HONEST
    with pytest.raises(ValueError, match="no fault"):
        seams_of("luck")
