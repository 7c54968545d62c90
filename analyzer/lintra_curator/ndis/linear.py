"""What a public linear sketch S (A + noise) of noisy rows tells, from the sketch itself.

S is public, so it hides nothing: only the clients' noise counts. In layout `single` a client adds one noise vector to
its row, and the release has covariance sigma^2 S S^T per column; in layout `block` it adds fresh noise to a copy of its
row for each entry of its column of S, and the rows of the release are independent. The leverages here come from an
orthogonal factorisation, the service's own from an inverse: they share no step.
"""

import hashlib
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lintra_curator.ndis.certified_value import CertifiedValue
from lintra_curator.ndis.gaussian_pair import GaussianPair
from lintra_curator.ndis.profile_evaluation import delta
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import FalseClaimError, RowUnderfilledError

Layout = Literal["single", "block"]
Adjacency = Literal["replacement", "absence"]

MAX_ENTRIES = 1 << 26
"""Largest dense sketch, rows times clients, that is factorised here."""


@dataclass(frozen=True, eq=False)
class SparseSketch:
    """The columns of a public sketch.

    Attributes:
        rows: m.
        row_numbers: rows of the nonzero entries, distinct within a column, shape `(n, s)`.
        signs: those entries before division by sqrt(s), -1 or +1, same shape.
        layout: how the noise enters.
    """

    rows: int
    row_numbers: IntArray
    signs: IntArray
    layout: Layout

    def __post_init__(self) -> None:
        numbers, signs = self.row_numbers, self.signs
        if numbers.ndim != 2 or numbers.shape != signs.shape or not numbers.size:
            raise ValueError(f"row numbers and signs have one shape (n, s), got {numbers.shape} and {signs.shape}")
        if numbers.min() < 0 or numbers.max() >= self.rows or not (np.abs(signs) == 1).all():
            raise ValueError(f"row numbers lie in [0, {self.rows}) and signs are -1 or +1")
        if (np.diff(np.sort(numbers, axis=1), axis=1) == 0).any():
            raise ValueError("the row numbers of a column are distinct")

    @property
    def clients(self) -> int:
        """The number of clients, n."""
        return len(self.row_numbers)

    @property
    def sparsity(self) -> int:
        """The entries in a column, s."""
        return int(self.row_numbers.shape[1])

    def counts(self) -> IntArray:
        """Return how many clients have an entry in each row, shape `(m,)`."""
        counts: IntArray = np.bincount(self.row_numbers.ravel(), minlength=self.rows).astype(np.int64)
        return counts

    def leverages(self, corrupt: int = 0) -> FloatArray:
        """Return every client's leverage h, shape `(n,)`: mu of its row is distance times sqrt(h) over sigma.

        Block: the sum of 1 / max(N - t, 1) over its rows, N clients each. Single: s^T (S S^T)^+ s, the squared norm
        of its row of an orthonormal basis of the range of S^T.

        Args:
            corrupt: t, clients whose noise is known; block only, since for `single` it depends on who they are (take
                `without`).

        Raises:
            ValueError: if `corrupt` is negative, or positive for `single`, or the sketch is too large to factorise.
        """
        if corrupt < 0 or (corrupt and self.layout == "single" and self.sparsity > 1):
            raise ValueError(f"a coalition is a number of clients for layout block only, got {corrupt}")
        if self.layout == "block" or self.sparsity == 1:
            result: FloatArray = (1 / np.maximum(self.counts() - corrupt, 1))[self.row_numbers].sum(axis=1)
            return result
        if self.rows * self.clients > MAX_ENTRIES:
            raise ValueError(f"a sketch of {self.rows} x {self.clients} is too large to factorise here")
        transposed = np.zeros((self.clients, self.rows))
        np.put_along_axis(transposed, self.row_numbers, self.signs.astype(np.float64), axis=1)
        left, singular, _ = np.linalg.svd(transposed, full_matrices=False)
        # Rows may depend on each other: what is only rounding is cut as numpy.linalg.matrix_rank cuts it.
        kept = singular > max(transposed.shape) * 2.0**-52 * singular[0]
        squares: FloatArray = (left[:, kept] ** 2).sum(axis=1)
        # A leverage is at most 1, but for rounding.
        return np.minimum(squares, 1.0)

    def without(self, clients: IntArray) -> "SparseSketch":
        """Return the sketch without some clients, shape `(k,)`: if they are corrupt, only others' noise protects."""
        kept = np.setdiff1d(np.arange(self.clients), clients)
        return SparseSketch(self.rows, self.row_numbers[kept], self.signs[kept], self.layout)

    def stacked(self, other: "SparseSketch") -> "SparseSketch":
        """Return both sketches of the same noisy rows as one: layout `single`, since the noise is drawn once.

        Two releases of the same noise tell more than the sum of each; only the stacked sketch says how much.

        Raises:
            ValueError: if the sketches have different clients, or noise drawn more than once.
        """
        if self.clients != other.clients or {self.layout, other.layout} != {"single"}:
            raise ValueError("sketches of the same noisy rows have the same clients and layout single")
        numbers = np.hstack([self.row_numbers, self.rows + other.row_numbers])
        return SparseSketch(self.rows + other.rows, numbers, np.hstack([self.signs, other.signs]), "single")

    def digest(self) -> str:
        """Return SHA-256 over sizes, row numbers and signs, in hexadecimal."""
        parts = [np.array([self.rows, *self.row_numbers.shape]), self.row_numbers, self.signs]
        return hashlib.sha256(b"".join(np.ascontiguousarray(part, "<i8").tobytes() for part in parts)).hexdigest()


def replacement_pair(leverage: float, distance: float, sigma: float) -> GaussianPair:
    """Return the pair when one client's row changes and all noise stays: N(0, 1) against N(mu, 1)."""
    return GaussianPair([0.0], [1.0], [(distance / sigma) ** 2 * leverage])


def absence_pair(
    sketch: SparseSketch, client: int, columns: int, norm: float, sigma: float, corrupt: int = 0
) -> GaussianPair:
    """Return the pair when one client is there with its noise, against when it is not there at all.

    Presence alone shows in the covariance, whatever sigma is: a client alone in a row is always seen. `sketch` is all
    clients, this one included; `columns` is d, the numbers of a row. `sigma` is the deviation of one client's noise.
    """
    shift = (norm / sigma) ** 2
    if sketch.layout == "block" or sketch.sparsity == 1:
        counts = np.maximum(sketch.counts() - corrupt, 1)[sketch.row_numbers[client]].astype(np.float64)
        # Without this client the row has no noise at all.
        if counts.min() <= 1:
            return GaussianPair([], [], [], disjoint=True)
        return GaussianPair(1 / (counts - 1), np.full(len(counts), float(columns)), shift / counts)
    leverage = float(sketch.leverages(corrupt)[client])
    # Some direction of the release has no noise but this client's.
    if leverage >= 1 - 1e-12:
        return GaussianPair([], [], [], disjoint=True)
    return GaussianPair([leverage / (1 - leverage)], [columns], [leverage * shift])


@dataclass(frozen=True)
class SketchCertificate:
    """What one release of a sketch tells about its worst client, recomputed from public numbers.

    Attributes:
        adjacency: `replacement` of a row, all noise staying, or `absence` of a client together with its noise.
        layout: see `SparseSketch`.
        sparsity: s.
        rows: m.
        clients: n.
        corrupt: t, clients whose noise is known.
        smallest_row: clients in the emptiest row, corrupt ones included.
        worst_client: the client with the largest leverage.
        leverage: its h.
        sigma: deviation of one client's noise.
        distance: of two neighbouring rows, or the length of the absent one.
        mu: of the Gaussian mechanism; None for absence, where covariances differ.
        epsilon: where delta was evaluated.
        delta: at `epsilon`, the larger of both directions.
        digest: of the sketch.
    """

    adjacency: Adjacency
    layout: Layout
    sparsity: int
    rows: int
    clients: int
    corrupt: int
    smallest_row: int
    worst_client: int
    leverage: float
    sigma: float
    distance: float
    mu: float | None
    epsilon: float
    delta: CertifiedValue
    digest: str

    def require(self, target: float) -> None:
        """Refuse unless delta is certainly at most `target`.

        Raises:
            FalseClaimError: it may be above; the detail has both numbers.
        """
        if not self.delta.hi <= target:
            raise FalseClaimError(
                f"delta {target:g} at epsilon {self.epsilon:g}, but the sketch gives up to {self.delta.hi:.6g}"
            )


def ltm_certificate(
    sketch: SparseSketch,
    *,
    sigma: float,
    distance: float,
    epsilon: float,
    adjacency: Adjacency = "replacement",
    columns: int = 1,
    corrupt: int = 0,
) -> SketchCertificate:
    """Recompute the privacy of a release of a linear sketch from the public sketch.

    Args:
        sketch: the matrix that was really drawn.
        sigma: deviation of one client's noise in one word, or in one word of a copy.
        distance: for replacement the largest distance of two rows (of one copy of them), in sigma's unit; for absence
            the largest norm of a row.
        epsilon: where delta is wanted.
        adjacency: what a neighbour is.
        columns: d, which matters for absence only.
        corrupt: t, clients whose noise is known; see `SparseSketch.leverages`.

    Raises:
        ValueError: if a number is out of range.
        RowUnderfilledError: some row has no honest client beyond the tolerated coalition.
    """
    if not (0 < sigma < math.inf and 0 <= distance < math.inf) or columns < 1:
        raise ValueError(f"a sketch needs sigma > 0, distance >= 0, columns >= 1; got {sigma}, {distance}, {columns}")
    leverages = sketch.leverages(corrupt)
    counts = sketch.counts()
    smallest = int(counts[counts > 0].min())
    if smallest <= corrupt:
        raise RowUnderfilledError(f"a row holds {smallest} clients, of whom {corrupt} may be corrupt")
    worst = int(np.argmax(leverages))
    mu = None
    if adjacency == "replacement":
        pair = replacement_pair(float(leverages[worst]), distance, sigma)
        mu = math.sqrt(float(pair.tsq.sum()))
        found = delta(pair, epsilon)
    else:
        worst, found = _worst_absence(sketch, leverages, columns, distance, sigma, corrupt, epsilon)
    return SketchCertificate(
        adjacency=adjacency,
        layout=sketch.layout,
        sparsity=sketch.sparsity,
        rows=sketch.rows,
        clients=sketch.clients,
        corrupt=corrupt,
        smallest_row=smallest,
        worst_client=worst,
        leverage=float(leverages[worst]),
        sigma=sigma,
        distance=distance,
        mu=mu,
        epsilon=epsilon,
        delta=found,
        digest=sketch.digest(),
    )


def _worst_absence(
    sketch: SparseSketch, leverages: FloatArray, columns: int, norm: float, sigma: float, corrupt: int, epsilon: float
) -> tuple[int, CertifiedValue]:
    """Return the client whose absence shows most, and its delta; one client for each multiset of row sizes.

    In layout `single` delta grows with the leverage: adding noise along the client's direction lowers it.
    """
    if sketch.layout == "block" or sketch.sparsity == 1:
        sizes = np.sort(sketch.counts()[sketch.row_numbers], axis=1)
        _, candidates = np.unique(sizes, axis=0, return_index=True)
    else:
        candidates = np.array([np.argmax(leverages)])
    worst, found = -1, CertifiedValue(0.0, 0.0, 0.0)
    for client in candidates.tolist():
        pair = absence_pair(sketch, client, columns, norm, sigma, corrupt)
        for each in (pair, pair.reverse()):
            value = delta(each, epsilon)
            if worst < 0 or value.hi > found.hi:
                worst, found = client, value
    return worst, found
