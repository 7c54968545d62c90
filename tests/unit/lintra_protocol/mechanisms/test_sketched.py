"""The clip counter of sketches, a total beside the matrix: where it stands, and that its price is exact."""

from itertools import product
from math import exp, sqrt

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol.crypto.ring import FloatArray, to_ring
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms import Osnap, OsnapPublished
from lintra_protocol.mechanisms.sketched import SketchedRows
from lintra_protocol.privacy.statement import Claim, Neighbours
from lintra_protocol.transforms.base import PublicMatrix
from support.measured import calibrated_for, clip_steps, layout_of, measurement_of, noise_sigmas, reports_without_noise

CLIENTS, COLUMNS = 24, 2
SKETCHES: dict[str, SketchedRows] = {
    "osnap": Osnap(row_bound="1", fraction_bits=6, sigma=400, rows=3, clip_count_weight="0.7"),
    "osnap, s=2": Osnap(
        row_bound="1", fraction_bits=6, sigma=400, rows=4, sparsity=2, leverage="1", clip_count_weight="0.7"
    ),
    "osnap_published, s=2": OsnapPublished(
        entry_bound="1", row_bound="1.41421356238", fraction_bits=6, sigma=400, rows=4, sparsity=2,
        published_epsilon="1", clip_count_weight="0.7",
    ),
}  # fmt: skip
each_sketch = pytest.mark.parametrize("name", SKETCHES)


def claim(neighbours: Neighbours = "replace-one", **changes: object) -> Claim:
    values = {"epsilon": "1", "delta": "0.00001", "min_clients": CLIENTS, "neighbours": neighbours}
    return Claim.model_validate(values | changes)


def rows_on_the_bound(name: str) -> FloatArray:
    """Return rows in many directions, each at the bound and half beyond it, and the row of zeros."""
    angles = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    rows = np.column_stack([np.cos(angles), np.sin(angles)])
    if "published" in name:
        rows = np.array(list(product((-1.0, 1.0), repeat=2)))
    return np.concatenate([rows, rows * 1.5, 0 * rows[:1]])


def linear_map(mechanism: SketchedRows, matrix: PublicMatrix) -> FloatArray:
    """Return what each word of each report adds to the release: shape `(clients, words, numbers of the release)`."""
    words = layout_of(mechanism, COLUMNS).num_noised
    found = np.empty((CLIENTS, words, mechanism.rows * layout_of(mechanism, COLUMNS).num_released))
    for client, word in np.ndindex(CLIENTS, words):
        sketch = np.zeros((mechanism.rows, layout_of(mechanism, COLUMNS).num_released), np.uint64)
        matrix.add_reports(sketch, np.array([client]), to_ring(np.eye(1, words, word, dtype=np.int64)))
        found[client, word] = sketch.view(np.int64).ravel()
    return found


@each_sketch
def test_the_last_words_are_added_up_in_row_0_without_signs_and_nothing_else_stands_in_their_column(name: str) -> None:
    mechanism = SKETCHES[name]
    matrix = mechanism.public_matrix(CLIENTS, bytes(32))
    reports = np.arange(CLIENTS * layout_of(mechanism, COLUMNS).num_noised).reshape(CLIENTS, -1)
    sketch = np.zeros((mechanism.rows, COLUMNS + 1), np.uint64)
    matrix.add_reports(sketch, np.arange(CLIENTS), to_ring(reports))
    assert_array_equal(sketch[:, -1], [reports[:, -1].sum()] + [0] * (mechanism.rows - 1))
    bare = mechanism.model_copy(update={"clip_count_weight": "0"})
    alone = np.zeros((mechanism.rows, COLUMNS), np.uint64)
    bare.public_matrix(CLIENTS, bytes(32)).add_reports(alone, np.arange(CLIENTS), to_ring(reports[:, :-1]))
    assert_array_equal(sketch[:, :-1], alone)
    integers = sketch.view(np.int64)
    assert_array_equal(
        measurement_of(mechanism, COLUMNS).decode(integers), measurement_of(bare, COLUMNS).decode(integers[:, :-1])
    )


@each_sketch
@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_mu_is_that_of_the_whole_covariance_for_the_worst_client_and_pair_of_rows(
    name: str, neighbours: Neighbours
) -> None:
    """Theorem "sketch with a total", docs/proofs/clips.md#clip-counter, without any of its formulas."""
    mechanism = SKETCHES[name]
    matrix = mechanism.public_matrix(CLIENTS, bytes(32))
    applied = linear_map(mechanism, matrix)
    variances = noise_sigmas(mechanism, COLUMNS).astype(np.float64) ** 2
    inverse = np.linalg.pinv(np.einsum("ikp,k,ikq->pq", applied, variances, applied), hermitian=True)
    reports = reports_without_noise(mechanism, rows_on_the_bound(name)).astype(np.float64)
    others = reports if neighbours == "replace-one" else 0 * reports[:1]
    differences = (reports[:, np.newaxis] - others).reshape(-1, reports.shape[1])
    moved = np.einsum("dk,ikp->idp", differences, applied)
    largest = sqrt(float(np.einsum("idp,pq,idq->id", moved, inverse, moved).max()))
    stated = measurement_of(mechanism, COLUMNS, claim(neighbours)).release_privacy(matrix).mu
    # The statement gives up 4 of a variance of 160,000 for each client, which is all that it is above.
    assert stated * (1 - 1e-5) < largest <= stated
    bare = mechanism.model_copy(update={"clip_count_weight": "0"})
    without = (
        measurement_of(bare, COLUMNS, claim(neighbours)).release_privacy(bare.public_matrix(CLIENTS, bytes(32))).mu
    )
    assert without < 0.9 * largest


def discrete(sigma: float) -> FloatArray:
    """Return the probabilities of a discrete Gaussian at -60 to 60."""
    values = np.exp(-(np.arange(-60, 61) ** 2) / (2 * sigma**2))
    return values / values.sum()  # type: ignore[no-any-return]


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_integers_keep_the_statement_in_an_exact_enumeration_of_all_they_may_give(neighbours: Neighbours) -> None:
    """Four clients, two rows, one column: the victim's row has 2 clients' noise behind it, the total that of 4."""
    mechanism = Osnap(row_bound="3", fraction_bits=0, sigma=4, rows=2, clip_count_weight="0.7")
    given = claim(neighbours, min_clients=4)
    stated = measurement_of(mechanism, 1, given).privacy(4)
    assert clip_steps(mechanism) == 5  # floor(.7 * 6 sqrt(2))
    two = np.convolve(discrete(4), discrete(4))
    behind = [two, np.convolve(two, two)]
    distance = 6 if neighbours == "replace-one" else 3
    shifted = [np.pad(law, (0, move)) for law, move in zip(behind, (distance, 5), strict=True)]
    others = [np.pad(law, (move, 0)) for law, move in zip(behind, (distance, 5), strict=True)]
    first, second = np.outer(*shifted), np.outer(*others)
    spent = []
    for epsilon in (0.1, 0.5, 1.0, 1.5, 2.0):
        delta = float(np.maximum(first - exp(epsilon) * second, 0).sum())
        assert delta <= stated.delta_at(epsilon)
        spent.append(delta / stated.delta_at(epsilon))
    # The lattice's 4 of 32 are the rest; without the counter's part the statement would be broken.
    assert min(spent) > 0.2
    bare = measurement_of(mechanism.model_copy(update={"clip_count_weight": "0"}), 1, given).privacy(4)
    assert float(np.maximum(first - exp(0.5) * second, 0).sum()) > bare.delta_at(0.5)


@pytest.mark.parametrize("sparsity", [1, 2, 4])
@pytest.mark.parametrize("rows", [8, 64])
def test_noise_grows_by_the_root_of_one_plus_the_squared_weight_and_the_count_is_as_exact_as_a_sums(
    rows: int, sparsity: int
) -> None:
    given = claim(min_clients=2000)
    plain = Osnap(row_bound="1", fraction_bits=0, sigma=8, rows=rows, sparsity=sparsity)
    bare = calibrated_for(plain, 3, given, 3000)
    counting = calibrated_for(plain.model_copy(update={"clip_count_weight": "0.2"}), 3, given, 3000)
    ratio = counting.sigma / bare.sigma * 2.0 ** (bare.fraction_bits - counting.fraction_bits)
    # Where rows overlap the planned leverage is up to a fifth above its mean, m/n: so much less is the counter's part.
    assert sqrt(1 + 0.04 * (0.98 if sparsity == 1 else 0.8)) < ratio <= sqrt(1.04) * (1 + 1e-4)
    rows_counted = sqrt(2000) * counting.sigma / clip_steps(counting)
    mu = measurement_of(bare, 3, given).privacy(2000).mu
    assert 0.999 < rows_counted / (sqrt(1.04) / (0.2 * mu)) < (1.01 if sparsity == 1 else 1.1)


@each_sketch
def test_a_row_is_counted_once_however_many_copies_it_has(name: str) -> None:
    mechanism = SKETCHES[name]
    rows = np.array([[0.5, 0.5], [2.0, 0.0], [0.5, 0.0], [np.nan, 2.0]])
    reports = reports_without_noise(mechanism, rows, np.array([True, False, False, False]))
    assert_array_equal(reports[:, -1] // clip_steps(mechanism), [1, 1, 0, 1])
    assert reports.shape[1] == layout_of(mechanism)["row"].copies * COLUMNS + 1
    assert not reports_without_noise(mechanism, np.array([[0.5, 0.5]]))[:, -1].any()


def test_a_counter_that_may_leave_the_ring_is_refused() -> None:
    mechanism = Osnap(row_bound="1", fraction_bits=28, sigma=2**29 - 1, rows=4096, clip_count_weight="1")
    assert 2**32 * clip_steps(mechanism) > 2**63
    given = claim(min_clients=2**31)
    with pytest.raises(InvalidTaskError, match="overflow the ring"):
        measurement_of(mechanism, 2, given).check(2**32)
    measurement_of(mechanism.model_copy(update={"clip_count_weight": "0"}), 2, given).check(2**32)
