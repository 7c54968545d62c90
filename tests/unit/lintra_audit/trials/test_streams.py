"""An audited stream: its scene is the worst set of windows, and each planted fault is what it says."""

from math import sqrt

import numpy as np
import pytest

from lintra_audit.release.streams import stream_case
from lintra_audit.trials.streams import STREAM_FAULTS, StreamScene, stream_windows
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.mechanisms.stream_noise import carried

TASK = stream_case().task
RUNS = 4000


def test_the_source_answers_the_first_windows_and_moves_them_by_s_k() -> None:
    scene = StreamScene.of(TASK)
    assert np.flatnonzero(scene.shift).tolist() == [0, 1]
    stream = TASK.stream
    assert stream is not None
    distance = sqrt(float(TASK.measurement.squared_distance))
    assert scene.exact_mu == pytest.approx(sqrt(stream.squared_norm) * distance / TASK.mechanism.sigma, rel=1e-6)
    assert TASK.worst_together().mu > scene.exact_mu


def test_runs_are_windows_of_the_servers_own_law() -> None:
    """4,000 runs: a variance is off by more than a tenth with a chance below 1e-5."""
    scene = StreamScene.of(TASK)
    noise = scene.runs(RUNS, expand(bytes(32), "runs"), stream_windows)
    assert noise.shape == (RUNS, 6)
    np.testing.assert_allclose(noise.var(axis=0), scene.covariance.diagonal(), rtol=0.1)


def test_the_second_window_of_the_fault_has_the_fresh_noise_of_the_first() -> None:
    scene, stream = StreamScene.of(TASK), TASK.stream
    assert stream is not None
    for name, repeats in (("fresh-noise-twice", True), ("other-matrix", False)):
        noise = scene.runs(RUNS, expand(bytes(32), name), STREAM_FAULTS[name])
        fresh = noise[:, 0] - (noise[:, 1] + carried(stream, 1, {0: noise[:, 0]}, RUNS))
        # Only the blur of what is remembered is left of it, a twentieth of a deviation.
        assert (fresh.std() < 0.1 * TASK.mechanism.sigma) == repeats
