"""Linear sketches: leverages by an independent route, both layouts, both adjacencies, and failing closed."""

import math

import numpy as np
import pytest

from lintra_curator.ndis import delta, delta_rp, pair_from_gaussians, rp_pstar
from lintra_curator.ndis.linear import Layout, SparseSketch, absence_pair, ltm_certificate, replacement_pair
from lintra_protocol.errors import FalseClaimError, RowUnderfilledError
from lintra_protocol.privacy.gaussian import gaussian_delta, gaussian_mu
from lintra_protocol.privacy.leverage import gram_inverse
from lintra_protocol.transforms.osnap import BalancedOsnap
from support import SEED

ROWS = np.array([[0, 1], [1, 2], [0, 2], [0, 1], [1, 2], [0, 2], [0, 1]])
SIGNS = np.array([[1, 1], [1, -1], [1, 1], [-1, 1], [1, 1], [1, -1], [1, -1]])


SEEDS = (SEED, SEED[::-1])


def small(layout: Layout) -> SparseSketch:
    return SparseSketch(3, ROWS, SIGNS, layout)


def osnap(rows: int, clients: int, sparsity: int, layout: Layout) -> SparseSketch:
    matrix = BalancedOsnap(rows, clients, SEED, sparsity)
    return SparseSketch(rows, *matrix.entries(np.arange(clients)), layout)


def dense(sketch: SparseSketch) -> np.ndarray:
    result = np.zeros((sketch.rows, sketch.clients))
    np.put_along_axis(result.T, sketch.row_numbers, sketch.signs.astype(float), axis=1)
    return result / math.sqrt(sketch.sparsity)


def test_the_small_sketch_has_its_vectors() -> None:
    assert small("block").counts().tolist() == [5, 5, 4]
    assert small("block").leverages() == pytest.approx([0.4, 0.45, 0.45, 0.4, 0.45, 0.45, 0.4])
    third, h = 1 / 3, 0.4583333333333
    assert small("single").leverages() == pytest.approx([0.5, h, h, third, h, h, third])


@pytest.mark.parametrize(("layout", "value"), [("block", 0.02442102624532), ("single", 0.03963259300475)])
def test_replacement_has_its_vectors(layout: Layout, value: float) -> None:
    leverage = float(small(layout).leverages()[0])
    assert delta(replacement_pair(leverage, 2.0, 2.0), 1.0).value == pytest.approx(value, rel=1e-11, abs=0)


def test_absence_has_its_vectors() -> None:
    pair = absence_pair(small("block"), 0, 3, 1.0, 2.0)
    assert delta(pair, 0.5, 1e-8).value == pytest.approx(0.0777167779, rel=1e-7, abs=0)
    assert delta(pair.reverse(), 0.5, 1e-8).value == pytest.approx(0.0238478847, rel=1e-7, abs=0)


@pytest.mark.parametrize("layout", ["single", "block"])
def test_absence_is_the_pair_of_the_released_gaussians_themselves(layout: Layout) -> None:
    sketch, sigma, row = osnap(4, 20, 2, layout), 1.5, 2.0
    matrix, client = dense(osnap(4, 20, 2, layout)), 3

    def covariance(clients: np.ndarray) -> np.ndarray:
        if layout == "single":
            return sigma**2 * matrix[:, clients] @ matrix[:, clients].T
        return sigma**2 * np.diag((matrix[:, clients] ** 2).sum(axis=1))

    everybody, others = np.arange(20), np.delete(np.arange(20), client)
    direct = pair_from_gaussians(matrix[:, client] * row, covariance(everybody), np.zeros(4), covariance(others))
    pair = absence_pair(sketch, client, 1, row, sigma)
    for at in (0.1, 0.7):
        assert delta(pair, at, 1e-6).value == pytest.approx(delta(direct, at, 1e-6).value, rel=1e-5, abs=0)


@pytest.mark.parametrize("layout", ["single", "block"])
def test_replacement_is_the_pair_of_the_released_gaussians_themselves(layout: Layout) -> None:
    sketch, sigma, distance, client = osnap(4, 20, 2, layout), 1.5, 2.0, 5
    matrix = dense(sketch)
    covariance = matrix @ matrix.T if layout == "single" else np.diag((matrix**2).sum(axis=1))
    direct = pair_from_gaussians(
        matrix[:, client] * distance, sigma**2 * covariance, np.zeros(4), sigma**2 * covariance
    )
    pair = replacement_pair(float(sketch.leverages()[client]), distance, sigma)
    assert pair.tsq.sum() == pytest.approx(direct.tsq.sum(), rel=1e-10, abs=0)


def test_leverages_agree_with_the_services_own_which_are_never_below() -> None:
    for rows, clients, sparsity in ((8, 60, 2), (16, 100, 4), (24, 90, 3)):
        sketch = osnap(rows, clients, sparsity, "single")
        own = gram_inverse(rows, sketch.row_numbers, sketch.signs).leverages(sketch.row_numbers, sketch.signs)
        independent = sketch.leverages()
        assert own == pytest.approx(independent, rel=1e-9, abs=0)
        assert (own >= independent - 1e-13).all()
        assert independent.sum() == pytest.approx(rows)


def independent_columns(rows: int, clients: int, sparsity: int) -> SparseSketch:
    """Return a sketch whose columns are drawn independently, so that its rows differ in size."""
    rng = np.random.default_rng(8)
    numbers = np.argsort(rng.random((clients, rows)), axis=1)[:, :sparsity]
    return SparseSketch(rows, numbers, np.ones_like(numbers), "block")


def needed_sigma(sketch: SparseSketch, corrupt: int) -> float:
    """Return the noise for epsilon 1 and delta 1e-6 where rows have norm at most 1, and check it from both sides."""
    sigma = 2 * math.sqrt(sketch.leverages(corrupt).max()) / gaussian_mu(1.0, 1e-6)
    found = ltm_certificate(sketch, sigma=sigma * (1 + 1e-9), distance=2.0, epsilon=1.0, corrupt=corrupt)
    found.require(1e-6)
    assert found.mu is not None
    assert found.delta.value == pytest.approx(gaussian_delta(1.0, found.mu), rel=1e-10, abs=0)
    less = ltm_certificate(sketch, sigma=sigma * (1 - 1e-9), distance=2.0, epsilon=1.0, corrupt=corrupt)
    with pytest.raises(FalseClaimError, match="up to"):
        less.require(1e-6)
    return sigma


@pytest.mark.slow
def test_a_balanced_sketch_needs_less_noise_than_independent_columns() -> None:
    balanced, independent = osnap(512, 20000, 4, "block"), independent_columns(512, 20000, 4)
    assert [needed_sigma(balanced, t) for t in (0, 10)] == pytest.approx([1.3529, 1.3985], abs=1e-4)
    assert [needed_sigma(independent, t) for t in (0, 10)] == pytest.approx([1.47, 1.53], abs=0.03)
    assert 2 / gaussian_mu(1.0, 1e-6) == pytest.approx(8.449, abs=1e-3)


def test_absence_shows_in_the_covariance_whatever_the_noise() -> None:
    # The emptiest rows have 156 clients; every one of s d = 4096 numbers shows a variance of 1/156 more or less.
    sketch = osnap(512, 20000, 4, "block")
    for columns in (64, 1024):
        found = ltm_certificate(sketch, sigma=1e9, distance=0.0, epsilon=1.0, adjacency="absence", columns=columns)
        assert found.delta.value == pytest.approx(float(delta_rp(1.0, 1 / 156, 4 * columns)), rel=1e-8, abs=0)
    assert found.delta.value == pytest.approx(5.06e-5, rel=1e-2, abs=0)
    # Hiding presence at epsilon 1 and delta 1e-6 takes rows of 75 clients for s d = 512, of 198 for 4096.
    assert [math.ceil(1 / rp_pstar(1.0, 1e-6, numbers)) for numbers in (512, 4096)] == [75, 198]


def test_a_client_alone_in_a_row_is_always_seen() -> None:
    for layout in ("single", "block"):
        sketch = SparseSketch(3, np.array([[0, 1], [1, 0], [1, 2]]), np.ones((3, 2), np.int64), layout)  # type: ignore[arg-type]
        assert absence_pair(sketch, 2, 4, 1.0, 9.0).disjoint
        found = ltm_certificate(sketch, sigma=9.0, distance=1.0, epsilon=5.0, adjacency="absence")
        assert (found.worst_client, found.delta.lo) == (2, 1.0)
        with pytest.raises(FalseClaimError):
            found.require(0.99)


def test_the_certificate_says_whom_it_found_and_in_what() -> None:
    found = ltm_certificate(small("block"), sigma=2.0, distance=2.0, epsilon=1.0)
    assert (found.rows, found.clients, found.sparsity, found.smallest_row) == (3, 7, 2, 4)
    assert found.worst_client == 1
    assert found.leverage == pytest.approx(0.45)
    assert found.digest == small("block").digest() != small("block").without(np.array([6])).digest()


def test_corrupt_clients_raise_leverages_and_may_leave_nobody() -> None:
    assert small("block").leverages(1) == pytest.approx([0.5, 7 / 12, 7 / 12, 0.5, 7 / 12, 7 / 12, 0.5])
    fewer = small("single").without(np.array([3, 6]))
    assert (fewer.leverages() >= small("single").leverages()[[0, 1, 2, 4, 5]] - 1e-12).all()
    with pytest.raises(RowUnderfilledError):
        ltm_certificate(small("block"), sigma=1.0, distance=1.0, epsilon=1.0, corrupt=4)
    with pytest.raises(ValueError, match="coalition"):
        small("single").leverages(1)


def test_two_sketches_of_the_same_noise_tell_more_than_both_alone() -> None:
    one, other = (SparseSketch(8, *BalancedOsnap(8, 40, seed, 2).entries(np.arange(40)), "single") for seed in SEEDS)
    joint, sum_of_both = one.stacked(other).leverages(), one.leverages() + other.leverages()
    assert joint.sum() == pytest.approx(16)
    assert (joint / sum_of_both).max() > 1.05
    # The whole cohort's sum, and its sum without client 0: alone each tells 1/n, together everything about client 0.
    everybody = SparseSketch(1, np.zeros((9, 1), np.int64), np.ones((9, 1), np.int64), "single")
    columns = np.vstack([np.ones(9), np.concatenate([[0.0], np.ones(8)])])
    hat = columns.T @ np.linalg.pinv(columns @ columns.T) @ columns
    assert everybody.leverages() == pytest.approx(1 / 9)
    assert hat[0, 0] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="same clients"):
        one.stacked(everybody)


def test_linearly_dependent_rows_are_projected_on_their_range() -> None:
    sketch = SparseSketch(2, np.array([[0, 1], [0, 1], [0, 1]]), np.ones((3, 2), np.int64), "single")
    assert sketch.leverages() == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize(
    ("numbers", "signs", "words"),
    [
        ([[0, 0]], [[1, 1]], "distinct"),
        ([[0, 3]], [[1, 1]], "lie in"),
        ([[0, 1]], [[1, 2]], "signs"),
        ([[0, 1]], [[1]], "shape"),
    ],
)
def test_what_is_no_sketch_is_refused(numbers: list[list[int]], signs: list[list[int]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SparseSketch(3, np.array(numbers), np.array(signs), "block")


@pytest.mark.parametrize("bad", [{"sigma": 0.0}, {"distance": -1.0}, {"columns": 0}, {"sigma": math.nan}])
def test_numbers_out_of_range_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="sketch needs"):
        ltm_certificate(small("block"), **({"sigma": 1.0, "distance": 1.0, "epsilon": 1.0} | bad))  # type: ignore[arg-type]
