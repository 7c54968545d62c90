"""Minimises Q over subspaces of directions, from several starts each, by Levenberg and Marquardt's steps.

The Hessian is that of Gauss and Newton with a multiple of the current direction's projector, since Q is constant along
it. What this leaves out is of the order of Q itself, which is where the damping starts. In the eigenbasis the Hessian
is a diagonal matrix plus few rank-one ones, so that a step takes O(q) operations.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lintra_analysis.estimators.concentrated.equations import Local
from lintra_protocol.crypto.ring import FloatArray, IntArray

MOST_STEPS = 25
_CONVERGED = 1e-5
_AT_ONCE = 1 << 17
"""Numbers of the directions that are worked on at once: enough to keep NumPy busy, few enough for the cache."""


class Near(Protocol):
    """Noisy equations about n directions of q coordinates, whose left sides have p entries."""

    theta: FloatArray  #: the directions, shape `(n, q)`

    @property
    def distance(self) -> FloatArray:
        """Return Q, shape `(n,)`."""
        ...

    @property
    def gradient(self) -> FloatArray:
        """Return the gradient of Q, shape `(n, q)`."""
        ...

    def image(self, vectors: FloatArray, /) -> FloatArray:
        """Return E v, shape `(n, k, p)`, for vectors of shape `(n, k, q)`."""
        ...

    def solve(self, vectors: FloatArray, /) -> FloatArray:
        """Return Sigma^-1 v for vectors of shape `(n, k, p)`."""
        ...


class Systems(Protocol):
    """Noisy equations in a direction."""

    def of(self, index: IntArray, /) -> "Systems":
        """Return the systems at the positions `index`, shape `(n,)`, which may repeat."""
        ...

    def at(self, theta: FloatArray, /) -> Near:
        """Return the equations about directions, shape `(n, q)`."""
        ...


class Subspaces(Protocol):
    """Subspaces of directions, one for each problem."""

    def of(self, index: IntArray, /) -> "Subspaces":
        """Return those of the problems `index`, shape `(n,)`."""
        ...

    def dimension(self, size: int, /) -> int:
        """Return that of the subspaces of `size` coordinates."""
        ...

    def step(self, local: Any, damping: FloatArray, /) -> FloatArray:
        """Return one step of Levenberg and Marquardt for each direction, shape `(n, q)`; damping has shape `(n,)`."""
        ...


@dataclass(frozen=True, eq=False)
class Hyperplanes:
    """Directions orthogonal to a normal, in the eigenbasis.

    Attributes:
        normals: of length 1, one for each problem, shape `(n, q)`; none for all directions.
    """

    normals: FloatArray | None = None

    def of(self, index: IntArray) -> "Hyperplanes":
        """Return those of the problems `index`."""
        return self if self.normals is None else Hyperplanes(self.normals[index])

    def dimension(self, size: int) -> int:
        """Return that of the subspaces of `size` coordinates."""
        return size if self.normals is None else size - 1

    def within(self, directions: FloatArray) -> FloatArray:
        """Return directions, shape `(n, k, q)`, less what leaves the subspace, of length 1."""
        if self.normals is not None:
            directions = directions - (directions @ self.normals[:, :, np.newaxis]) * self.normals[:, np.newaxis]
        return np.asarray(directions / np.linalg.norm(directions, axis=2, keepdims=True))

    def step(self, local: Local, damping: FloatArray) -> FloatArray:
        """Return one step of Levenberg and Marquardt for each direction, shape `(n, q)`.

        With E = diag(h) less its dents, D the diagonal of Sigma and w = 1 / (2 h^2 / D + damping), a step is
        s = w (f - 2 (h / D) z), and the noise that it explains is x = (h / D) w f + (damping / D) w z. Here f holds the
        gradient, the projectors and the dents of E^T x; z holds the dents of E s and what Sigma has beside D. All of
        it lies in the span of few vectors, so that their weights solve a small system.
        """
        columns = [local.frame, local.gradient[:, np.newaxis]]
        trace = 2 * local.trace
        if self.normals is not None:
            own = local.image(self.normals[:, np.newaxis])
            trace = trace - 2 * np.sum(own * local.solve(own), axis=(1, 2))
            columns.append(self.normals[:, np.newaxis])
        span = np.concatenate(columns, axis=1)
        diagonal, noise = local.equations.diagonal, local.noise
        share = diagonal / noise
        width = 1 / (2 * diagonal * share + damping[:, np.newaxis])
        system = _SmallSystem(local, damping + trace, free=self.normals is not None)
        outer, inner = system.weights(
            _gram(span, width), _gram(span, width * share), _gram(span, width * damping[:, np.newaxis] / noise)
        )
        force, moved = (np.sum(each[:, :, np.newaxis] * span, axis=1) for each in (outer, inner))
        step = width * (force - 2 * share * moved)
        step -= np.sum(step * local.theta, axis=1, keepdims=True) * local.theta
        return np.asarray(step)


def _gram(span: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the products of vectors, shape `(n, k, q)`, with weights of shape `(n, q)`."""
    return np.asarray((span * weights[:, np.newaxis]) @ np.swapaxes(span, 1, 2))


class _SmallSystem:
    """The system of the weights that f and z of a step have in the span of k vectors.

    The vectors are the anchors, the direction, the gradient, and the normal where there is one.
    """

    def __init__(self, local: Local, projector: FloatArray, *, free: bool) -> None:
        count, number = local.theta.shape[0], local.frame.shape[1] - 1
        size = number + 2 + free
        self.start = np.zeros((count, 2 * size))
        self.start[:, number + 1] = -1.0
        # What f and z take of the products of the vectors with s, the first k columns, and with x, the others.
        self.taken = np.zeros((count, 2 * size, 2 * size))
        for anchor in range(number):
            self.taken[:, anchor, size + anchor] = 2 * local.dents[:, anchor]
            self.taken[:, size + anchor, anchor] = -local.dents[:, anchor]
        self.taken[:, number, number] = -projector
        noise = local.span @ local.core @ np.swapaxes(local.span, 1, 2)
        self.taken[:, size : size + number + 1, size : size + number + 1] -= noise
        # The normal's weight keeps s in the hyperplane, that of the target's unit vector keeps its equation out of x.
        self.held = [size - 1] * free + [size + number - 1] * (not local.equations.sums)

    def weights(self, width: FloatArray, mixed: FloatArray, left: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights of f and of z, each of shape `(n, k)`.

        Takes the vectors' products with the weights w, w h / D and w damping / D, each of shape `(n, k, k)`.
        """
        products = np.concatenate(
            [np.concatenate([width, -2 * mixed], axis=2), np.concatenate([mixed, left], axis=2)], axis=1
        )
        size, extra = products.shape[1], len(self.held)
        system = np.zeros((len(products), size + extra, size + extra))
        system[:, :size, :size] = -self.taken @ products
        system[:, range(size), range(size)] += 1.0
        for number, row in enumerate(self.held):
            system[:, row, size + number] = -1.0
            system[:, size + number, :size] = products[:, row]
        right = np.concatenate([self.start, np.zeros((len(products), extra))], axis=1)
        solved = np.linalg.solve(system, right[:, :, np.newaxis])[:, :size, 0]
        return solved[:, : size // 2], solved[:, size // 2 :]


@dataclass(frozen=True, eq=False)
class Planes:
    """Directions in the span of orthonormal vectors, shape `(n, k, q)`."""

    basis: FloatArray

    def of(self, index: IntArray) -> "Planes":
        """Return those of the problems `index`."""
        return Planes(self.basis[index])

    def dimension(self, size: int) -> int:
        """Return that of the subspaces."""
        del size
        return int(self.basis.shape[1])

    def step(self, local: Near, damping: FloatArray) -> FloatArray:
        """Return one step of Levenberg and Marquardt for each direction, shape `(n, q)`."""
        image = local.image(self.basis)
        curvature = 2 * image @ np.swapaxes(local.solve(image), 1, 2)
        point = (self.basis @ local.theta[:, :, np.newaxis])[:, :, 0]
        size = point.shape[1]
        trace = np.trace(curvature, axis1=1, axis2=2) + damping
        curvature += trace[:, np.newaxis, np.newaxis] * point[:, :, np.newaxis] * point[:, np.newaxis]
        curvature[:, range(size), range(size)] += damping[:, np.newaxis]
        slope = self.basis @ local.gradient[:, :, np.newaxis]
        step = np.sum(-np.linalg.solve(curvature, slope) * self.basis, axis=1)
        step -= np.sum(step * local.theta, axis=1, keepdims=True) * local.theta
        return np.asarray(step)


def minimise(equations: Systems, subspaces: Subspaces, starts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Minimise Q over subspaces, from several starts each.

    `equations` are one system, or one for each of n problems; `subspaces` are as many. `starts` are directions in them,
    shape `(n, s, q)`; NaN for none, but not all of them.

    Returns:
        The smallest Q found for each subspace, shape `(n,)`, and its direction of length 1, shape `(n, q)`.
    """
    count, tries, size = starts.shape
    together = max(1, _AT_ONCE // (tries * size))
    parts = [np.arange(first, min(first + together, count)) for first in range(0, count, together)]
    found = [_minimised(equations.of(part), subspaces.of(part), starts[part]) for part in parts]
    return np.concatenate([value for value, _ in found]), np.concatenate([theta for _, theta in found])


def _minimised(equations: Systems, subspaces: Subspaces, starts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Minimise as many problems as are worked on at once."""
    count, tries, size = starts.shape
    which = np.repeat(np.arange(count), tries)
    point = starts.reshape(-1, size)
    point = point / np.linalg.norm(point, axis=1, keepdims=True)
    given = np.flatnonzero(np.isfinite(point[:, 0]))
    value = np.full(which.size, np.inf)
    value[given] = equations.of(which[given]).at(point[given]).distance
    damping = np.maximum(value, 1e-3)
    active = given if subspaces.dimension(size) > 1 else np.array([], np.int64)
    for _ in range(MOST_STEPS):
        if not active.size:
            break
        own = which[active]
        local = equations.of(own).at(point[active])
        step = subspaces.of(own).step(local, damping[active])
        promised = -np.sum(step * local.gradient, axis=1) / 2
        trial = point[active] + step
        trial /= np.linalg.norm(trial, axis=1, keepdims=True)
        found = equations.of(own).at(trial).distance
        better = found < value[active]
        gain = value[active] - found
        point[active[better]], value[active[better]] = trial[better], found[better]
        damping[active] *= np.where(better, 0.1, 8.0)
        small = _CONVERGED * (1 + value[active])
        done = (better & (gain < small)) | (promised < 0.1 * small)
        active = active[~done]
    best = np.arange(count) * tries + value.reshape(count, tries).argmin(axis=1)
    return value[best], point[best]
