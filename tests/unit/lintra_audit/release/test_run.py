"""The audited pipeline is the protocol's: with the noise taken out it computes matrix times rows exactly."""

import numpy as np
import pytest

from lintra_audit.release.run import far_rows, near_rows
from lintra_audit.trials.audit_case import Case
from lintra_audit.trials.simulated_release import HONEST, Scene, Seams, request_release, set_scene
from support import SEED
from support.audit_cases import CASES, reached
from support.measured import document_of, setting_of

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


@pytest.mark.parametrize("case", RELEASED, ids=lambda case: case.name)
@pytest.mark.grid(3)
@pytest.mark.slow
def test_the_two_worlds_are_as_far_apart_as_the_claim_allows(case: Case) -> None:
    # The farthest rows that are not on an axis are rounded to the grid, and inwards: by less than a step a coordinate.
    # Reports are at most quadratic, so that their squared distance falls by at most twice as much as a squared length;
    # what rounding does to the direction is of second order, since the pair is a maximum.
    mechanism = case.task.mechanism
    rows = [
        document_of(mechanism).clip(each[:1], setting_of(mechanism))[0].astype(np.float64) for each in far_rows(case, 0)
    ]
    # Against the null report there is one row only.
    squares = [float(row @ row) for row in rows[case.task.claim.neighbours == "zero-out" :]]
    # Cells of a histogram are numbers of cells, and nothing is rounded.
    shortened = 0.0 if mechanism.kind == "histogram" else 1 - min(squares) / max(squares)
    if mechanism.kind == "range_finder":
        # With a clip counter one row stays inside on purpose: each is held against what it was before it was rounded.
        asked = [np.square(each[0] * 2.0**mechanism.fraction_bits).sum() for each in far_rows(case, 0)]
        before = [min(float(square), float(mechanism.squared_bound)) for square in asked]
        shortened = max(1 - square / whole for square, whole in zip(squares, before[-len(squares) :], strict=True))
    assert shortened <= 2 * (rows[0].size / mechanism.squared_bound) ** 0.5
    if mechanism.kind == "range_finder":
        # Rows that share the longest projection have that much in common, and only the rest of them differs; and a
        # projection is rounded too. (docs/proofs/moments.md#range-finder).
        shared = float(np.square(rows[0] + rows[1]).sum()) / 4 / mechanism.squared_bound
        common = shared if case.task.claim.neighbours == "replace-one" else 0.0
        assert common < 0.15
        assert 1 - common - 8 * (rows[0].size / mechanism.squared_bound) ** 0.5 < reached(case) <= 1
        return
    assert 1 - 2 * shortened - 1e-5 < reached(case) <= 1


@pytest.mark.parametrize("case", RELEASED, ids=lambda case: case.name)
@pytest.mark.slow
def test_adjacent_worlds_differ_by_one_step_of_one_client(case: Case) -> None:
    worlds = [document_of(case.task).clip(rows, setting_of(case.task)) for rows in near_rows(case, 1)]
    difference = worlds[1] - worlds[0]
    # Rows within one cell of a histogram are the same row to it; anywhere else one step is the least there is.
    steps = 0 if case.task.mechanism.kind == "histogram" else 1
    assert difference[1].max() == steps
    assert np.abs(difference).sum() == steps
