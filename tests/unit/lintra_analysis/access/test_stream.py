"""Windows of a stream added up: their errors are right with a gap and with one server's memory lost."""

from collections.abc import Sequence

import numpy as np
import pytest

from lintra_analysis.access.stream import WindowNumbers, WindowStream, noise_covariance
from lintra_analysis.estimators.means import means
from lintra_analysis.estimators.quantities import Quantity
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.fields.windows import Stream, Windows
from lintra_protocol.mechanisms.stream_noise import stream_noise
from lintra_protocol.task import Task
from support import make_task
from support.tasks import columns_of

STREAMS = 400
WINDOWS = Windows(window=1, grace=0, max_windows=6, reports_per_source=2, stream=Stream(damping="1", blur="0.5"))
GAP = 2


def a_task() -> Task:
    times = {"batches": "windowed", "windows": WINDOWS, "not_before": 1, "not_after": 7}
    return make_task("sum", columns=columns_of(f"c{number}" for number in range(STREAMS)), noise="servers", **times)


def released(task: Task, label: str) -> dict[int, WindowNumbers]:
    """Return windows whose reports are all 0: nobody releases window 2, and server 1 loses its memory before 3."""
    memories: list[dict[int, IntArray]] = [{}, {}, {}]
    sources = [expand(bytes(32), f"{label} server {server}") for server in range(3)]
    found = {}
    for window in sorted(set(range(6)) - {GAP}):
        if window == 3:
            memories[1].clear()
        used, total = tuple(tuple(sorted(memory)) for memory in memories), np.zeros(STREAMS, np.int64)
        for memory, source in zip(memories, sources, strict=True):
            noise, memory[window] = stream_noise(task.measurement, window, memory, source)
            total += noise
        found[window] = WindowNumbers(used, total[np.newaxis], np.array([7]))
    return found


def covered(task: Task, windows: dict[int, WindowNumbers], weights: FloatArray, covariance: FloatArray) -> float:
    """Return in which part of the streams the interval of 95 % of a weighted sum holds 0, the truth."""
    sums = np.array([windows[number].sketch[0] for number in sorted(windows)], np.float64)
    sd = task.mechanism.sigma * np.sqrt(weights @ covariance @ weights)
    return float((np.abs(weights @ sums) < 1.96 * sd).mean())


def test_intervals_of_totals_windows_and_slopes_cover_with_a_gap_and_a_lost_memory() -> None:
    """400 streams a run, four runs: a rate outside .93 to .97 has a chance below 3e-4 for each of seven."""
    task = a_task()
    runs = [released(task, f"run {run}") for run in range(4)]
    assert task.stream is not None
    covariance = noise_covariance(task.stream, {number: each.remembered for number, each in runs[0].items()})
    slope = np.array([0.0, 1.0, 3.0, 4.0, 5.0]) - 2.6
    for weights in (np.ones(5), slope, *np.eye(5)):
        rate = np.mean([covered(task, windows, weights, covariance) for windows in runs])
        assert 0.93 < rate < 0.97
    # Whoever takes noise for independent, or overlooks the loss, states other errors.
    independent = 3 * np.eye(5)
    assert not 0.93 < np.mean([covered(task, windows, np.ones(5), independent) for windows in runs]) < 0.97
    whole = noise_covariance(
        task.stream, {number: (tuple(earlier for earlier in runs[0] if earlier < number),) * 3 for number in runs[0]}
    )
    assert whole.sum() < 0.9 * covariance.sum()


def test_a_release_of_an_interval_has_the_sum_and_one_factor_on_its_noise() -> None:
    task = a_task()
    windows = released(task, "interval")
    assert task.stream is not None
    covariance = noise_covariance(task.stream, {number: each.remembered for number, each in windows.items()})
    release = WindowStream(task, windows).release(1, 5)
    assert release.totals is not None
    unit = 2.0**-task.mechanism.fraction_bits
    chosen = np.array([0.0, 1, 1, 1, 1])
    expected = unit * task.mechanism.sigma * np.sqrt(chosen @ covariance @ chosen)
    assert release.totals.noise_sd == pytest.approx(expected, rel=1e-4)
    assert release.totals.num_clients == 28
    np.testing.assert_allclose(release.totals.values, unit * sum(windows[n].sketch[0] for n in (1, 3, 4, 5)))
    with pytest.raises(InvalidAnalysisError, match="no window from 2 to 2"):
        WindowStream(task, windows).release(2, 2)


def test_a_window_that_one_server_alone_released_stays_in_its_matrix() -> None:
    task = a_task()
    assert task.stream is not None
    alone = noise_covariance(task.stream, {0: [()], 2: [(0, 1)]})
    dense = task.stream.dense()[:3, :3]
    back = np.linalg.inv(dense)
    part = dense - np.eye(3)
    whole = back @ (np.eye(3) + 0.25 * part @ part.T) @ back.T
    np.testing.assert_allclose(alone, whole[np.ix_([0, 2], [0, 2])])


def test_estimates_over_windows_cover_with_a_gap_and_a_lost_memory() -> None:
    """400 streams, one a column: 16 rates, each outside .91 to .98 with a chance below 2e-4."""
    stream = WindowStream(task := a_task(), released(task, "estimates"))
    totals = stream.release().totals
    assert totals is not None
    names, centers = [column.name for column in task.columns], [column.center for column in totals.columns]
    found = {
        "windows": stream.windows(),
        "totals": stream.totals(since=1),
        "moving": stream.moving(3),
    }
    for timeline in found.values():
        assert (timeline.gaps, timeline.columns) == ((GAP,), tuple(names))
        for span in timeline.spans:
            assert span.totals is not None
            assert 0.91 < _rate(span.means, centers) < 0.98
            truth = [span.num_clients * center for center in centers]
            assert 0.91 < _rate(span.totals, truth) < 0.98
    # The last running total is the release of the interval, whatever estimator reads it.
    last = found["totals"].spans[-1]
    assert last.means == means(stream.release(1), of="cohort").means
    assert (last.first, last.last, last.num_windows, last.num_clients) == (1, 5, 4, 28)
    assert [(span.first, span.last) for span in found["moving"].spans] == [(1, 3), (2, 4), (3, 5)]


def test_the_slope_has_the_error_of_the_whole_covariance() -> None:
    stream = WindowStream(task := a_task(), released(task, "slope"))
    found = stream.trend("c0", of="cohort")
    weights = np.array([0.0, 1, 3, 4, 5]) - 2.6
    weights /= weights @ weights
    error = found.windows[0].mean.standard_error
    assert error is not None
    assert found.slope.standard_error is not None
    covariance = stream.covariance / stream.covariance[0, 0]
    assert found.slope.standard_error.total == pytest.approx(error.total * np.sqrt(weights @ covariance @ weights))
    independent = np.sqrt(weights**2 @ covariance.diagonal())
    assert found.slope.standard_error.total != pytest.approx(error.total * independent, rel=0.05)
    last = stream.totals(["c0"]).spans[-1].means[0]
    assert found.combined.interval == pytest.approx(last.interval)


def _rate(quantities: Sequence[Quantity], truth: Sequence[float]) -> float:
    """Return in which part of the streams the interval holds the truth."""
    ends = [(each.interval, true) for each, true in zip(quantities, truth, strict=True)]
    return float(np.mean([interval is not None and interval[0] < true < interval[1] for interval, true in ends]))


def test_what_cannot_be_asked_of_a_stream_is_refused_in_words() -> None:
    stream = WindowStream(task := a_task(), released(task, "refused"))
    for width, complaint in ((0, "at least one window"), (7, "no 7 windows in a row")):
        with pytest.raises(InvalidAnalysisError, match=complaint):
            stream.moving(width)
    with pytest.raises(InvalidAnalysisError, match="no window of this stream was released yet"):
        WindowStream(task, {})
    with pytest.raises(InvalidAnalysisError, match="no stream"):
        WindowStream(make_task("sum"), {})
