"""Noisy linear equations in a direction, and how far the noise would have to go to make them true.

M is the released matrix of q columns, the target last; theta = (b, -1) for coefficients b. At the b of the rows
themselves M theta is pure noise in every equation of least squares, with a covariance Sigma(theta) that is known. So
Q(theta) = r^T Sigma^-1 r, r = E theta, is chi-square there, however badly conditioned M is (Fieller 1954; Anderson and
Rubin 1949). Q does not change if theta is scaled: theta is a direction, and infinite coefficients are ordinary points.

All directions are written in the eigenbasis of M. There E is a diagonal matrix less few rank-one ones, and Sigma is a
diagonal matrix plus few, so that Q and its derivatives take O(q) operations for each direction:

1. The kernel K of the noise is one number, but in the rows and columns of few *special* columns (the constant). So
   (t t^T) o K is a combination of t and the special unit vectors.
2. The equation of the target is left out by giving it infinite noise: its row may then hold anything.
3. A penalty is a multiple of I, less that of the columns that are not shrunk.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lintra_protocol.crypto.ring import FloatArray, IntArray

_JITTER = 1e-13


@dataclass(frozen=True, eq=False)
class NoiseKernel:
    """A kernel K that is `base`, but in the rows and columns of the special columns.

    Attributes:
        special: positions of the m special columns.
        base: K_ij for i and j that are not special.
        cross: by how much K_ij differs from it where i is special and j is not, shape `(m,)`.
        own: what is left of K_ij where both are special, less `base` and both `cross`, shape `(m, m)`.
    """

    special: tuple[int, ...]
    base: float
    cross: FloatArray
    own: FloatArray

    @classmethod
    def of(cls, kernel: FloatArray) -> "NoiseKernel":
        """Read a kernel, shape `(q, q)`, whose last column is not special."""
        base = float(kernel[-1, -1])
        special = np.flatnonzero((kernel[:, -1] != base) | (np.diagonal(kernel) != base))
        cross = kernel[special, -1] - base
        own = kernel[np.ix_(special, special)] - base - cross - cross[:, np.newaxis]
        return cls(tuple(special.tolist()), base, cross, own)


@dataclass(frozen=True, eq=False)
class Equations:
    """The equations E theta = 0 of one release, or of B releases, with noise of covariance Sigma in their left sides.

    Sigma(theta) = sigma^2 (|theta|^2 I + (t t^T) o K) + (theta^T P theta) S, t the entries of theta that stand for the
    equations. P and S have the eigenvectors of M.

    Attributes:
        matrix: M, shape `(q, q)` or `(B, q, q)`.
        values: its eigenvalues, shape `(q,)` or `(B, q)`.
        vectors: its eigenvectors in columns, shape `(q, q)` or `(B, q, q)`.
        sigma: sd of the noise in a released product of two columns; positive.
        kernel: K.
        sums: whether the target's own equation is one of them, with a residual sum of squares that is taken off.
        penalty: lambda, on the diagonal of E.
        unpenalised: positions of the columns that it leaves out.
        squares: what is taken off M_yy, one number for each direction, shape `(n,)`; none for 0.
        residual: eigenvalues of P, such that theta^T P theta is the variance of a residual; none for the cohort.
        spread: eigenvalues of S, second moments of the columns that the equations are about.
    """

    matrix: FloatArray
    values: FloatArray
    vectors: FloatArray
    sigma: float
    kernel: NoiseKernel
    sums: bool = False
    penalty: float = 0.0
    unpenalised: tuple[int, ...] = ()
    squares: FloatArray | None = None
    residual: FloatArray | None = None
    spread: FloatArray | None = None

    @classmethod
    def of_matrix(cls, matrix: FloatArray, sigma: float, kernel: FloatArray, *, sums: bool = False) -> "Equations":
        """Return the equations of M, shape `(q, q)` or `(B, q, q)`, for the cohort and without a penalty."""
        values, vectors = np.linalg.eigh(matrix)
        return cls(matrix, values, vectors, sigma, NoiseKernel.of(kernel), sums)

    @property
    def size(self) -> int:
        """Return q."""
        return int(self.values.shape[-1])

    @cached_property
    def anchors(self) -> FloatArray:
        """The unit vectors of the special columns, of those without a penalty, and of the target last.

        Shape `(a, q)` or `(B, a, q)`; in the eigenbasis.
        """
        return np.ascontiguousarray(self.vectors[..., [*self.special, self.size - 1], :])

    @property
    def special(self) -> tuple[int, ...]:
        """Return the positions of the columns that stand out: the kernel's, then those without a penalty."""
        return tuple(dict.fromkeys([*self.kernel.special, *(self.unpenalised if self.penalty else ())]))

    @cached_property
    def diagonal(self) -> FloatArray:
        """The diagonal part of E, in the shape of `values`."""
        return self.values + self.penalty

    def dents(self, count: int) -> FloatArray:
        """Return what is taken off E along each anchor, for `count` directions; shape `(count, a)`."""
        taken = np.zeros((count, len(self.special) + 1))
        if self.penalty:
            taken[:, [self.special.index(column) for column in self.unpenalised]] = self.penalty
        if self.squares is not None:
            taken[:, -1] = self.squares
        return taken

    def block(self) -> FloatArray:
        """Return the part of E that stands before the coefficients, shape `(p, p)` or `(B, p, p)`."""
        block = self.matrix[..., :-1, :-1].copy()
        shrunk = [i for i in range(self.size - 1) if i not in self.unpenalised]
        block[..., shrunk, shrunk] += self.penalty
        return np.asarray(block)

    def points(self) -> FloatArray:
        """Return theta at the solution of each system, shape `(B, q)`, in the columns' own coordinates."""
        solution = np.linalg.solve(self.block(), self.matrix[..., :-1, -1:])[..., 0]
        count = self.values.size // self.size
        return np.column_stack([solution.reshape(count, self.size - 1), -np.ones(count)])

    def of(self, index: IntArray) -> "Equations":
        """Return the systems at the positions `index`, shape `(n,)`, which may repeat; itself if there is one."""
        squares = self.squares if self.squares is None else self.squares[index]
        if self.values.ndim == 1:
            return self if squares is self.squares else replace(self, squares=squares)
        residual = self.residual if self.residual is None else self.residual[index]
        spread = self.spread if self.spread is None or self.spread.ndim == 1 else self.spread[index]
        chosen = replace(self, values=self.values[index], squares=squares, residual=residual, spread=spread)
        # Only single rows of the eigenvectors are needed from here on: all of them are not copied for every direction.
        chosen.__dict__["anchors"] = self.anchors[index]
        return chosen

    def inward(self, directions: FloatArray, index: IntArray) -> FloatArray:
        """Return directions, shape `(n, q)`, in the eigenbasis of the system that `index` names for each."""
        if self.vectors.ndim == 2:
            return directions @ self.vectors
        return _by_system(directions, self.vectors, index)

    def outward(self, directions: FloatArray, index: IntArray) -> FloatArray:
        """Return directions of the eigenbasis, shape `(n, q)`, in the columns' own coordinates."""
        if self.vectors.ndim == 2:
            return directions @ self.vectors.T
        return _by_system(directions, np.swapaxes(self.vectors, 1, 2), index)

    def at(self, theta: FloatArray) -> "Local":
        """Return the equations about directions in the eigenbasis, shape `(n, q)`."""
        return Local(self, theta)


def _by_system(rows: FloatArray, matrices: FloatArray, index: IntArray) -> FloatArray:
    """Return every row, shape `(n, q)`, times the matrix that `index` names for it."""
    found = np.empty_like(rows)
    for system in np.unique(index):
        mine = index == system
        found[mine] = rows[mine] @ matrices[system]
    return found


class Local:
    """The equations about n directions theta, in the eigenbasis: Sigma is D plus a combination of few vectors Z.

    Attributes:
        theta: shape `(n, q)`.
        noise: D, shape `(n, q)`.
        frame: the anchors, then theta, shape `(n, a + 1, q)`.
        span: Z in coordinates of `frame`, shape `(n, a + 1, r)`: t, then the special unit vectors.
        core: J with Sigma = D + Z J Z^T, shape `(n, r, r)`.
    """

    def __init__(self, equations: Equations, theta: FloatArray) -> None:
        self.equations, self.theta = equations, theta
        count, size = theta.shape
        kernel, number = equations.kernel, len(equations.kernel.special)
        anchors = np.broadcast_to(equations.anchors, (count, *equations.anchors.shape[-2:]))
        self.frame = np.concatenate([anchors, theta[:, np.newaxis]], axis=1)
        places = (anchors @ theta[:, :, np.newaxis])[:, :, 0]
        self.heads, last = places[:, :number], anchors.shape[1] - 1
        self.span = np.zeros((count, last + 2, number + 1))
        self.span[:, -1, 0] = 1.0
        if not equations.sums:
            self.span[:, last, 0] = -places[:, -1]
        self.span[:, range(number), range(1, number + 1)] = 1.0
        self.core = np.empty((count, number + 1, number + 1))
        self.core[:, 0, 0] = kernel.base
        self.core[:, 0, 1:] = self.core[:, 1:, 0] = kernel.cross * self.heads
        self.core[:, 1:, 1:] = kernel.own * self.heads[:, :, np.newaxis] * self.heads[:, np.newaxis]
        self.core *= equations.sigma**2
        # A direction that is the exact corner and nothing else would have an equation without noise.
        common = equations.sigma**2 * np.sum(theta**2, axis=1) * (1 + _JITTER)
        self.noise = np.broadcast_to(common[:, np.newaxis], (count, size))
        if equations.residual is not None and equations.spread is not None:
            variance = np.sum(equations.residual * theta**2, axis=1)
            self.noise = self.noise + variance[:, np.newaxis] * equations.spread
        self.dents = equations.dents(count)

    @cached_property
    def left(self) -> FloatArray:
        """E theta, shape `(n, q)`; the entry of an equation that is left out means nothing."""
        return self.image(self.theta[:, np.newaxis])[:, 0]

    @cached_property
    def weighted(self) -> FloatArray:
        """The noise weighted by its precision, x = Sigma^-1 E theta, shape `(n, q)`."""
        return self.solve(self.left[:, np.newaxis])[:, 0]

    @property
    def distance(self) -> FloatArray:
        """Q, shape `(n,)`."""
        return np.asarray(np.sum(self.left * self.weighted, axis=1))

    def image(self, vectors: FloatArray) -> FloatArray:
        """Return E v, or E^T v, for vectors of shape `(n, k, q)`."""
        image = _rows(self.equations.diagonal) * vectors
        if self.dents.any():
            anchors = self.frame[:, :-1]
            image -= ((vectors @ np.swapaxes(anchors, 1, 2)) * self.dents[:, np.newaxis]) @ anchors
        return np.asarray(image)

    @cached_property
    def _system(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Z with the target's unit vector if its equation is left out, over D, and what solves for their weights."""
        span = np.swapaxes(self.span, 1, 2) @ self.frame
        rank = span.shape[1]
        if not self.equations.sums:
            span = np.concatenate([span, self.frame[:, -2:-1]], axis=1)
        over = span / self.noise[:, np.newaxis]
        gram = over @ np.swapaxes(span, 1, 2)
        system = gram.copy()
        system[:, :rank] = self.core @ gram[:, :rank]
        system[:, range(rank), range(rank)] += 1.0
        take = np.zeros_like(gram)
        take[:, :rank, :rank] = self.core
        take[:, rank:, rank:] = 1.0
        return span, over, np.asarray(np.linalg.solve(system, take))

    def solve(self, vectors: FloatArray) -> FloatArray:
        """Return Sigma^-1 v for vectors of shape `(n, k, q)`, 0 in an equation that is left out."""
        _, over, weights = self._system
        plain = vectors / self.noise[:, np.newaxis]
        return np.asarray(plain - ((vectors @ np.swapaxes(over, 1, 2)) @ np.swapaxes(weights, 1, 2)) @ over)

    def covariance(self, vectors: FloatArray) -> FloatArray:
        """Return Sigma v for vectors of shape `(n, k, q)` without an entry in equations that are left out."""
        span = np.swapaxes(self.span, 1, 2) @ self.frame
        along = (vectors @ np.swapaxes(span, 1, 2)) @ self.core
        return np.asarray(vectors * self.noise[:, np.newaxis] + along @ span)

    def variance(self, vectors: FloatArray) -> FloatArray:
        """Return v^T Sigma v for vectors of shape `(n, k, q)` without an entry in equations that are left out."""
        return np.asarray(np.sum(vectors * self.covariance(vectors), axis=2))

    @cached_property
    def trace(self) -> FloatArray:
        """The trace of E^T Sigma^-1 E, shape `(n,)`."""
        diagonal, anchors = self.equations.diagonal, self.frame[:, :-1]
        dents = self.dents[:, :, np.newaxis]
        squares = diagonal**2 + np.sum((dents**2 - 2 * dents * _rows(diagonal)) * anchors**2, axis=1)
        _, over, weights = self._system
        image = self.image(over)
        lost = np.sum(weights * (image @ np.swapaxes(image, 1, 2)), axis=(1, 2))
        return np.asarray(np.sum(squares / self.noise, axis=1) - lost)

    @cached_property
    def gradient(self) -> FloatArray:
        """The gradient of Q, shape `(n, q)`: 2 E^T x less that of x^T Sigma x with x held."""
        equations, weighted, theta = self.equations, self.weighted, self.theta
        kernel, anchors = equations.kernel, self.frame[:, :-1]
        number, variance = len(kernel.special), equations.sigma**2
        heads, tails = self.heads, (anchors[:, :number] @ weighted[:, :, np.newaxis])[:, :, 0]
        along = np.sum(weighted * theta, axis=1)
        slope = 2 * self.image(weighted[:, np.newaxis])[:, 0]
        slope -= 2 * variance * np.sum(weighted**2, axis=1)[:, np.newaxis] * theta
        shared = kernel.base * along + (heads * tails) @ kernel.cross
        slope -= 2 * variance * shared[:, np.newaxis] * weighted
        apart = tails * (kernel.cross * along[:, np.newaxis] + (heads * tails) @ kernel.own)
        slope -= 2 * variance * (apart[:, np.newaxis] @ anchors[:, :number])[:, 0]
        if equations.residual is not None and equations.spread is not None:
            share = np.sum(equations.spread * weighted**2, axis=1)
            slope -= 2 * share[:, np.newaxis] * equations.residual * theta
        return np.asarray(slope)


def _rows(values: FloatArray) -> FloatArray:
    """Return what belongs to each system, shape `(q,)` or `(n, q)`, beside vectors of shape `(n, k, q)`."""
    return values if values.ndim == 1 else values[:, np.newaxis]
