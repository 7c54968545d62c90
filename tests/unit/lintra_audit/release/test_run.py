"""The audited pipeline is the protocol's: with the noise taken out it computes matrix times rows exactly."""

import numpy as np
import pytest

from lintra_audit.release.run import far_rows, near_rows
from lintra_audit.trials.audit_case import Case
from lintra_audit.trials.simulated_release import AT_ZERO, HONEST, Scene, Seams, request_release, set_scene
from lintra_protocol.crypto.ring import FloatArray, IntArray
from support import SEED
from support.audit_cases import CASES, reached
from support.measured import clip_steps

RELEASED = [case for case in CASES.values() if not case.must_refuse]


def scene_of(case: Case, seams: Seams = HONEST) -> Scene:
    everybody = np.arange(case.num_clients)
    return set_scene(case.task, case.num_clients, [request_release(case.task, everybody, set(), SEED, seams)])


def test_the_victim_and_the_coalition_sit_in_the_smallest_row() -> None:
    scene = scene_of(CASES["osnap"])
    row = int(np.flatnonzero(scene.matrix[:, scene.victim])[0])
    assert np.count_nonzero(scene.matrix[row]) == np.count_nonzero(scene.matrix, axis=1).min() == 8
    assert scene.matrix[row, scene.corrupt].all()
    assert len(scene.honest) == 22
    assert scene.victim in scene.honest


def rounding_of(case: Case) -> float:
    """Return which part of a squared distance rounding may take.

    A row falls short of its bound by less than a step a number, each time that it is rounded, and once more where it is
    dithered. Reports are at most products of two rows, so that a squared distance loses four times that part.
    """
    mechanism, entries = case.task.mechanism, case.task.num_columns + 1
    if mechanism.kind in ("histogram", "histogram_laplace"):
        return 0.0
    steps, bound = entries**0.5 * (1 + (mechanism.rounding == "dithered")), mechanism.squared_bound**0.5
    if getattr(mechanism, "basis", None) is not None:
        # The row is rounded before it is taken along directions of at most twice its length, and once more there. Of
        # two rows one stays inside on purpose where a clip counter tells it from the other.
        steps += 2 * steps + (4 * case.task.num_columns if clip_steps(mechanism) else 0)
    return 4 * steps / bound + (4 * 2.0 ** -float(getattr(mechanism, "residual_bits", np.inf)))


@pytest.mark.parametrize("case", RELEASED, ids=lambda case: case.name)
@pytest.mark.slow
def test_the_two_worlds_are_as_far_apart_as_the_claim_allows(case: Case) -> None:
    common = 0.0
    if case.task.mechanism.kind == "range_finder" and case.task.claim.neighbours == "replace-one":
        # Rows that share the longest projection have that much in common, and only the rest of them differs
        # (docs/proofs/moments.md#range-finder).
        rows = [clipped(case, far_rows(case, 0)[world][:1])[0].astype(np.float64) for world in range(2)]
        common = float(np.square(rows[0] + rows[1]).sum()) / 4 / case.task.mechanism.squared_bound
        assert common < 0.15
    assert 1 - common - rounding_of(case) - 1e-8 < reached(case) <= 1


def clipped(case: Case, rows: FloatArray) -> IntArray:
    """Return rows, shape `(n, d)`, as a client clips them; those that are dithered are rounded up."""
    measurement = case.task.measurement
    return measurement.mechanism.clip(rows, measurement.setting, AT_ZERO)


@pytest.mark.parametrize("case", RELEASED, ids=lambda case: case.name)
@pytest.mark.slow
def test_adjacent_worlds_differ_by_one_step_of_one_client(case: Case) -> None:
    worlds = [clipped(case, rows) for rows in near_rows(case, 1)]
    difference = worlds[1] - worlds[0]
    # Rows within one cell of a histogram are the same row to it, and so are targets on one side of their centre to a
    # Newton step; anywhere else one step is the least there is.
    steps = 0 if case.task.mechanism.kind in ("histogram", "histogram_laplace", "newton_step") else 1
    assert difference[1].max() == steps
    assert np.abs(difference).sum() == steps
