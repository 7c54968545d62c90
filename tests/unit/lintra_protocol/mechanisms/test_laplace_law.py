"""Tasks with pure epsilon: their promise by all pairs of rows, the smallest noise, and what they refuse."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from lintra_protocol.errors import FalseClaimError, InvalidTaskError, LintraError, RowUnderfilledError
from lintra_protocol.mechanisms import HistogramLaplace, SumLaplace
from lintra_protocol.mechanisms.laplace_law import LaplaceNoise
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.discrete_laplace import MAX_SCALE
from lintra_protocol.privacy.statement import Claim, Neighbours
from support import make_task
from support.measured import reports_without_noise

EDGES = ("-1", "0", "1")
SUM = SumLaplace(row_bound="1", fraction_bits=3, sigma=40, shares=6)
CELLS = HistogramLaplace(sigma=40, edges=(EDGES, EDGES), levels=(0, 0), indicator=8, shares=6)


def claim(**changes: object) -> Claim:
    values = {"epsilon": "1", "delta": "0.000001", "min_clients": 10, "max_corrupt_clients": 4}
    return Claim.model_validate(values | changes)


def measured(mechanism: LaplaceNoise = SUM, **changes: object) -> Measurement:
    return Measurement(mechanism, 2, Setting(), claim(**changes))


def distance(mechanism: LaplaceNoise, neighbours: Neighbours) -> int:
    """Return the L1 distance that the promise rests on."""
    found = measured(mechanism, neighbours=neighbours).privacy(10).epsilon / math.log1p(1 / mechanism.sigma)
    assert found == pytest.approx(round(found), rel=1e-9)
    return round(found)


@pytest.mark.parametrize("mechanism", [SUM, CELLS, SUM.model_copy(update={"count": "noisy"})])
@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_no_two_rows_are_farther_apart_than_the_promise_says(mechanism: LaplaceNoise, neighbours: Neighbours) -> None:
    steps = np.linspace(-1, 1, 17)
    rows = np.array(list(product(steps, steps)))
    reports = reports_without_noise(mechanism, rows)
    others = reports if neighbours == "replace-one" else np.zeros((1, reports.shape[1]), np.int64)
    farthest = int(np.abs(reports[:, np.newaxis] - others).sum(axis=2).max())
    allowed = distance(mechanism, neighbours)
    assert farthest <= allowed
    assert farthest > 0.85 * allowed or "count" in mechanism.model_dump()


def test_the_distance_of_histograms_is_attained_and_that_of_sums_is_the_balls_to_a_step() -> None:
    assert distance(CELLS, "replace-one") == 2 * 2 * 8
    assert distance(CELLS, "zero-out") == 2 * 8
    assert distance(SUM, "replace-one") == math.isqrt(2 * 4 * 64)


def test_the_smallest_scale_keeps_epsilon_and_one_less_does_not() -> None:
    for epsilon in ("0.01", "0.3", "2"):
        scale = measured(epsilon=epsilon).smallest_sigma()
        found = measured(SUM.model_copy(update={"sigma": scale}), epsilon=epsilon)
        found.privacy(10).require(found.claim)
        with pytest.raises(FalseClaimError):
            measured(SUM.model_copy(update={"sigma": scale - 1})).privacy(10).require(claim(epsilon=epsilon))


def test_the_promise_is_for_as_many_honest_clients_as_make_a_whole_noise_and_no_fewer() -> None:
    assert measured().privacy(10) == replace(measured().privacy(11), num_clients=10, honest_clients=6, leverage=1 / 6)
    with pytest.raises(RowUnderfilledError, match=r"5 honest clients .* fewer than the 6"):
        measured().privacy(9)
    with pytest.raises(RowUnderfilledError):
        measured(max_corrupt_clients=5).privacy(10)


def test_calibration_takes_as_many_shares_as_the_claim_leaves_honest_clients() -> None:
    mechanism = measured(SUM.model_copy(update={"shares": 1})).calibrated(20).mechanism
    assert mechanism.model_dump()["shares"] == 6


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"noise": "servers", "max_corrupt_clients": 59}, "servers cannot add that of sum_laplace"),
        ({"verification": "norm", "max_rejected": "0.1"}, "sum_laplace with these options have no proven bound"),
        ({"delta_coalition": "0.0000001"}, "pure epsilon has no part of delta"),
        ({"mechanism": {"sigma": MAX_SCALE + 1}}, "largest scale"),
        ({"mechanism": {"clip_count_weight": "0.2"}}, "sum_laplace cannot count clipped rows"),
        ({"mechanism": {"floor": 40}}, "floor 40"),
        ({"mechanism": {"shares": 61}}, "fewer than the 61"),
    ],
)
def test_what_no_proof_covers_is_refused_in_words(changes: dict[str, Any], words: str) -> None:
    task = make_task("sum_laplace", min_clients=60)
    own = {name: changes[name] for name in ("noise", "verification", "max_rejected") if name in changes}
    said = {name: changes[name] for name in ("max_corrupt_clients", "delta_coalition") if name in changes}
    update = own | {
        "claim": task.claim.model_copy(update=said),
        "mechanism": task.mechanism.model_copy(update=changes.get("mechanism", {})),
    }
    with pytest.raises(LintraError, match=words):
        task.model_copy(update=update).check()


def test_two_layers_are_refused() -> None:
    task = make_task("histogram_laplace", min_clients=60)
    both = {"noise": "both", "claim": task.claim.model_copy(update={"epsilon_alone": "3"})}
    with pytest.raises(LintraError, match="histogram_laplace has no bound alone"):
        task.model_copy(update=both).check()


def test_a_task_is_pure_and_says_so() -> None:
    task = make_task("sum_laplace", min_clients=60)
    privacy = task.privacy(60)
    assert privacy.delta_at(task.claim.float_epsilon) == 0
    assert "a delta of 0" in task.mechanism.remark(privacy)


def test_noise_or_rows_that_may_leave_the_ring_are_refused() -> None:
    roomy = measured().log_wrap_probability(10**6)
    assert roomy < -1e15
    # A million clients of whom six make a whole: the wrap is bounded by all their noise.
    assert measured(SUM.model_copy(update={"sigma": MAX_SCALE})).log_wrap_probability(2**32) < -1e10
    wide = SUM.model_copy(update={"fraction_bits": 30})
    assert measured(wide).log_wrap_probability(2**34) == math.inf


def test_the_bound_on_a_wrap_lies_above_the_chance_that_is_simulated() -> None:
    # Markov's bound at p^(-1/2) for one word and two clients, with the room made small.
    law, clients = measured(SUM.model_copy(update={"sigma": 4, "shares": 2})).noise_law, 4
    drawn = np.sum([law.noise(measured().layout, 100_000, np.random.default_rng(k).bytes) for k in range(clients)], 0)
    for room in (20, 30, 40):
        bound = 2 * 2**2 * (1 + 1 / 4) ** (-room / 2)
        assert float((np.abs(drawn) > room).mean()) < bound


def test_a_scale_that_fits_no_grid_is_refused() -> None:
    with pytest.raises(InvalidTaskError, match="no fixed-point grid"):
        measured(epsilon="0.000000001").calibrated(20)
