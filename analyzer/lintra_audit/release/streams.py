"""The audit of a stream: a source in its worst windows, told by the optimal test, by a learned one, and by the law."""

import numpy as np
from scipy import stats

from lintra_audit.release.checks import FALSE_ALARM, Check
from lintra_audit.trials.audit_case import Case, numbers, task_of
from lintra_audit.trials.likelihood_test import Bound, black_box_bound, threshold_bound
from lintra_audit.trials.streams import MOST_WINDOWS, DrawWindows, StreamScene
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.fields.windows import Stream, Windows
from lintra_protocol.mechanisms import Sum
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task

NUM_SERVERS = 3


def stream_case() -> Case:
    """Return the standard case: six windows, of which a source answers two."""
    windows = Windows(window=1, grace=0, max_windows=6, reports_per_source=2, stream=Stream(damping="0.5", blur="0.1"))
    claim = Claim(
        epsilon="4", delta="0.00001", neighbours="replace-one", min_clients=8, max_corrupt_clients=0, threat="adaptive"
    )
    return Case("stream", "a source in two of six windows", lambda: _task(windows, claim), 8)


def twin_of_stream(task: Task) -> Case:
    """Return a twin: a sum of one column, at most `MOST_WINDOWS` windows, the task's matrix and claim."""
    windows = task.windows
    if windows is None or windows.stream is None:
        raise ValueError("the windows of this task are no stream")
    few = min(windows.max_windows, MOST_WINDOWS)
    stream = windows.stream
    if stream.memory is not None and stream.memory > few:
        stream = stream.model_copy(update={"memory": None})
    twin = windows.model_copy(
        update={"max_windows": few, "reports_per_source": min(windows.reports_per_source, few), "stream": stream}
    )
    claim = task.claim.model_copy(update={"min_clients": 8, "max_corrupt_clients": 0})
    about = f"twin: a sum of one column in {few} windows, a source in {twin.reports_per_source} of them"
    return Case("task", about, lambda: _task(twin, claim), 8)


def _task(windows: Windows, claim: Claim) -> Task:
    mechanism = Sum(row_bound="1", fraction_bits=20, sigma=2**20, clip_count_weight="0")
    setting = Setting(noising_servers=NUM_SERVERS, stream=windows.matrix)
    calibrated = Measurement(mechanism, 1, setting, claim).calibrated(1000)
    return task_of(calibrated, numbers(1), windows=windows)


def measure_stream(task: Task, trials: int, seed: bytes, draw: DrawWindows) -> tuple[float, Bound, Bound, list[Check]]:
    """Run windows with and without a source; return its exact mu, the bounds of two tests, and all checks."""
    scene, claimed = StreamScene.of(task), task.worst_together().mu
    without, with_it = (
        scene.runs(trials, expand(seed, f"stream {world}"), draw) + world * scene.shift for world in (0, 1)
    )
    optimal = threshold_bound((scene.scores(without), scene.scores(with_it)), 0.0)
    black_box = black_box_bound((without, with_it))
    checks = [
        Check("optimal test", optimal.mu_lower <= claimed, _within(optimal, claimed)),
        Check("black box", black_box.mu_lower <= claimed, _within(black_box, claimed)),
        Check("worst windows", scene.exact_mu <= claimed, f"mu is {scene.exact_mu:.4f}, claimed {claimed:.4f}"),
        check_covariance(scene.covariance, np.concatenate([without, with_it - scene.shift])),
    ]
    return scene.exact_mu, optimal, black_box, checks


def check_covariance(expected: FloatArray, noise: IntArray) -> Check:
    """Compare the noise of windows, shape `(trials, windows)`, with the covariance that the promise rests on."""
    residuals = noise.astype(np.float64)
    measured = residuals.T @ residuals / len(residuals)
    # What is rounded away has a variance of a twelfth, and another in what follows.
    spread = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / len(residuals))
    upper = np.triu_indices(len(expected))
    deviations = np.abs(measured - expected)[upper] / spread[upper]
    limit = float(stats.norm.isf(FALSE_ALARM / (2 * deviations.size)))
    ratio = float(np.sqrt((np.diag(measured) / np.diag(expected)).min()))
    return Check(
        "noise law",
        bool(deviations.max() < limit),
        f"least deviation {ratio:.4f} of the stated one; largest departure {deviations.max():.1f} of {limit:.1f} sd",
    )


def _within(bound: Bound, claimed: float) -> str:
    return f"mu is at least {bound.mu_lower:.4f}, claimed {claimed:.4f}"
