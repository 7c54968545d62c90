"""Decoding and the plausible band, on releases whose every client is known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lintra_analysis.kinds.decode import implausible_rows, read
from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_analysis.releases.sketch import Sketch
from lintra_analyzer.exchange.reconstruct import FrozenCohort, reconstruct
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidReleaseError
from lintra_protocol.task import Task
from support import make_task, sealing_key
from support.measured import layout_of, measurement_of

SEED = bytes(range(32))
CLIENTS = 400
KINDS = ("osnap", "sum", "second_moment", "osnap_published")


def released(task: Task, rows: FloatArray, label: str = "noise") -> tuple[IntArray, IntArray]:
    """Return the released integers and the row counts, without shares."""
    matrix = task.mechanism.public_matrix(len(rows), SEED)
    sketch = np.zeros((matrix.rows, task.sketch_words), np.uint64)
    words = task.encode(rows, expand(SEED, label)).view(np.uint64)
    matrix.add_reports(sketch, np.arange(len(rows)), words)
    return sketch.view(np.int64), matrix.row_counts()


def a_task(kind: str) -> Task:
    if kind == "osnap_published":
        return make_task(kind, rows=4, sparsity=2, row_bound=0.5, epsilon=2, delta=1e-4, min_clients=CLIENTS)
    return make_task(kind, rows=8, epsilon=2, min_clients=CLIENTS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_stated_noise_is_the_noise_and_this_test_would_notice_if_not(kind: str) -> None:
    task = a_task(kind)
    drawn = []
    for repetition in range(40):
        whole = read(task, *released(task, np.zeros((CLIENTS, 3)), f"noise {repetition}"))
        release = whole.moments or whole.totals
        if isinstance(release, Sketch):
            drawn.append((release.values / np.sqrt(release.noise_variance)[:, np.newaxis]).ravel())
        elif isinstance(release, SecondMomentSum):
            drawn.append(release.values[np.triu_indices(3)] / release.noise_sd / [2**0.5, 1, 1, 2**0.5, 1, 2**0.5])
        else:
            drawn.append(release.values / release.noise_sd)
    ratios = np.concatenate(drawn)
    # The mean square of k standard normals has deviation sqrt(2 / k); 4 deviations are a false alarm in 16 000.
    allowance = 4 * np.sqrt(2 / ratios.size)
    assert abs(np.mean(ratios**2) - 1) < allowance
    assert abs(np.mean((2 * ratios) ** 2) - 1) > allowance


@pytest.mark.parametrize("sparsity", [2, 4])
def test_with_overlapping_rows_the_stated_noise_includes_every_servers_smoothing(sparsity: int) -> None:
    # A sketch of null rows by hand: what one client's noise and three servers' noise add up to, at a coarse sigma at
    # which a tenth of the variance is smoothing.
    mechanism = make_task("osnap", rows=8, sparsity=sparsity, min_clients=CLIENTS).mechanism
    coarse = mechanism.model_copy(update={"sigma": 1})
    task = make_task(coarse, min_clients=CLIENTS, check=False)
    drawn = []
    for repetition in range(60):
        sketch, row_counts = released(task, np.zeros((CLIENTS, 3)), f"noise {repetition}")
        for server in range(task.num_servers):
            measurement_of(coarse, 3).add_server_noise(
                sketch.view(np.uint64), expand(SEED, f"server {server} {repetition}")
            )
        release = read(task, sketch, row_counts).moments
        assert isinstance(release, Sketch)
        assert release.num_clients == CLIENTS
        drawn.append((release.values / np.sqrt(release.noise_variance)[:, np.newaxis]).ravel())
    ratios = np.concatenate(drawn)
    # 1440 squares: one deviation of their mean is 3.7 %; four are a false alarm in 16 000.
    assert abs(np.mean(ratios**2) - 1) < 4 * np.sqrt(2 / ratios.size)
    without = CLIENTS * sparsity / 8 * 2.0 ** (-2 * coarse.fraction_bits) / sparsity
    smoothing = 3 * coarse.noise_law.smoothing(task.setting) ** 2 * 2.0 ** (-2 * coarse.fraction_bits) / sparsity
    assert_allclose(release.noise_variance, without + smoothing)


def test_over_matrices_the_gram_of_an_overlapping_sketch_is_unbiased() -> None:
    rows = np.random.default_rng(3).uniform(-0.5, 0.5, (60, 3))
    task = make_task("osnap", rows=6, sparsity=2, min_clients=60)
    grams = []
    for index in range(400):
        matrix = task.mechanism.public_matrix(60, expand(SEED, f"matrix {index}")(32))
        sketch = np.zeros((6, 3), np.uint64)
        exact = np.round(rows * 2.0**task.mechanism.fraction_bits).astype(np.int64)
        matrix.add_reports(sketch, np.arange(60), exact.view(np.uint64))
        values = read(task, sketch.view(np.int64), matrix.row_counts()).moments.values
        grams.append(values.T @ values)
    deviation = np.std(grams, axis=0) / 20
    # Six means of 400; five deviations each are a false alarm below 1e-5.
    assert np.all(np.abs(np.mean(grams, axis=0) - rows.T @ rows) < 5 * deviation)
    assert np.all(np.abs(np.diag(np.mean(grams, axis=0) - 1.5 * rows.T @ rows)) > 5 * np.diag(deviation))


def test_every_mechanism_becomes_its_own_kind_of_release() -> None:
    rows = np.random.default_rng(1).uniform(-0.5, 0.5, (CLIENTS, 3))
    for kind, expected in zip(KINDS, (Sketch, Totals, SecondMomentSum, Sketch), strict=True):
        task = a_task(kind)
        sketch, row_counts = released(task, rows)
        whole = read(task, sketch, row_counts)
        release = whole.moments or whole.totals
        assert isinstance(release, expected)
        assert release.num_clients == CLIENTS
        assert_array_equal(release.values, measurement_of(task, 3).decode(sketch))


@pytest.mark.parametrize("kind", KINDS)
def test_honest_rows_are_never_flagged_and_a_lie_is(kind: str) -> None:
    task = a_task(kind)
    # All clients sit in one corner of the ball: nobody honest can give larger sums.
    rows = np.full((CLIENTS, 3), 3**-0.5)
    sketch, row_counts = released(task, rows)
    assert implausible_rows(task, sketch, row_counts)[1] == []
    lie = sketch.copy()
    lie[0, 1] += 4 * CLIENTS * layout_of(task).bound
    assert implausible_rows(task, lie, row_counts)[1] == [0]


def test_the_threshold_grows_with_the_number_of_entries() -> None:
    few, many = make_task("sum"), make_task("sum", columns=26)
    ones = np.zeros((1, 3), np.int64), np.zeros((1, 26), np.int64)
    counts = np.array([10])
    assert implausible_rows(few, ones[0], counts)[0] < implausible_rows(many, ones[1], counts)[0]
    assert_allclose(implausible_rows(few, ones[0], counts)[0], np.sqrt(2 * np.log(6e9)))


def test_all_sketch_shares_are_needed() -> None:
    task = a_task("sum")
    cohort = FrozenCohort(ReportIds.of([]), SEED, task.privacy(CLIENTS), np.array([CLIENTS]), {})
    with pytest.raises(InvalidReleaseError, match="2 of 3"):
        reconstruct(task, 0, [b"", b""], cohort, sealing_key("analyzer"))
