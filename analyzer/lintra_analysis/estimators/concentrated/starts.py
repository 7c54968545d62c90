"""Where the search for the smallest Q begins: with Sigma held, Q is quadratic over quadratic.

Eigenvectors of A = E^T Sigma^-1 E minimise it over all directions. Over the hyperplane with normal n the eigenvectors
are (A - l)^-1 n, at the roots l of the secular equation sum n_i^2 / (a_i - l) = 0, in the eigenbasis of A (Golub 1973).
So one eigendecomposition serves all hyperplanes.
"""

from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.concentrated.equations import Equations
from lintra_analysis.estimators.concentrated.minimise import Hyperplanes
from lintra_protocol.crypto.ring import FloatArray, IntArray

_TINY = 1e-15
_ITERATIONS = 40
_CLOSE = 1e-13
_DENSE = 48


def held_matrix(equations: Equations, about: FloatArray) -> FloatArray:
    """Return A with Sigma at the directions `about`, shape `(n, q)`, in the eigenbasis of M; shape `(n, q, q)`."""
    local = equations.at(about)
    every = np.broadcast_to(np.eye(equations.size), (len(about), equations.size, equations.size))
    image = local.image(every)
    held = image @ np.swapaxes(local.solve(image), 1, 2)
    return np.asarray((held + np.swapaxes(held, 1, 2)) / 2)


def smallest_directions(equations: Equations, about: FloatArray) -> FloatArray:
    """Return the two eigenvectors of A with the smallest eigenvalues, or the only one, shape `(s, q)`.

    `equations` are one system with all q equations, `about` is one direction, shape `(1, q)`. Lanczos' method finds
    them from products with A^-1 = E^-1 Sigma E^-1, each of O(q) operations.
    """
    size = equations.size
    if size < _DENSE:
        return np.asarray(np.linalg.eigh(held_matrix(equations, about))[1][0, :, :2].T)
    # Loaded only for many columns: it takes as long as a small regression.
    from scipy.sparse.linalg import LinearOperator, eigsh

    local = equations.at(about)
    diagonal, target, taken = equations.diagonal.ravel(), local.frame[0, -2], local.dents[0, -1]
    along = target / diagonal
    scale = taken / (1 - taken * float(along @ target))

    def inverse(vector: FloatArray) -> FloatArray:
        return np.asarray(vector / diagonal + scale * float(along @ vector) * along)

    def product(vector: FloatArray) -> FloatArray:
        return inverse(local.covariance(inverse(vector.ravel())[np.newaxis, np.newaxis])[0, 0])

    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    return np.asarray(eigsh(operator, k=2, which="LA", v0=about[0])[1].T)


@dataclass(frozen=True, eq=False)
class Starts:
    """Eigenvalues of A, shape `(B, q)`, and its eigenvectors in columns, `(B, q, q)`, for each of B systems."""

    values: FloatArray
    vectors: FloatArray

    @classmethod
    def of(cls, equations: Equations, about: FloatArray) -> "Starts":
        """Hold Sigma at one direction for each system, shape `(B, q)`, in the eigenbasis of M."""
        values, vectors = np.linalg.eigh(held_matrix(equations, about))
        return cls(values, vectors)

    def on(self, hyperplanes: Hyperplanes, systems: IntArray, number: int) -> tuple[FloatArray, FloatArray]:
        """Return `number` starts on each of n hyperplanes, or as many as it has dimensions.

        `systems` says to which system each belongs, shape `(n,)`.

        Returns:
            Directions in the eigenbasis of M, shape `(n, s, q)`, and their eigenvalues, shape `(n, s)`.
        """
        assert hyperplanes.normals is not None
        normals, size = hyperplanes.normals, self.values.shape[1]
        starts, levels = np.empty((len(normals), min(number, size - 1), size)), []
        for system in np.unique(systems):
            mine = np.flatnonzero(systems == system)
            turned = normals[mine] @ self.vectors[system]
            poles = _apart(self.values[system])
            for place in range(starts.shape[1]):
                nearest, offset = _root(poles, turned, place)
                inverse = turned / ((poles - poles[nearest][:, np.newaxis]) - offset[:, np.newaxis])
                starts[mine, place] = inverse @ self.vectors[system].T
                levels.append((mine, place, poles[nearest] + offset))
        found = np.empty(starts.shape[:2])
        for mine, place, level in levels:
            found[mine, place] = level
        return hyperplanes.within(starts), found


def _apart(poles: FloatArray) -> FloatArray:
    """Return ascending eigenvalues, shape `(q,)`, of which no two are the same."""
    return np.asarray(poles + np.arange(poles.size) * (_TINY * max(float(np.abs(poles).max()), 1e-300)))


def _root(poles: FloatArray, normals: FloatArray, place: int) -> tuple[IntArray, FloatArray]:
    """Find the root of the secular equation between the poles `place` and `place` + 1 for each normal.

    `normals` has shape `(n, q)`, and no entry is taken for 0. On either side of the root a rational function that
    agrees in value and slope stands for the terms of the poles there; where its root leaves the bracket, the bracket
    is halved.

    Returns:
        The number of the nearer pole, and how far the root is from it, each of shape `(n,)`.
    """
    squares = np.maximum(normals**2, _TINY**2)
    gap = poles[place + 1] - poles[place]
    middle = squares @ (1 / (poles - (poles[place] + gap / 2)))
    nearest = np.where(middle >= 0, place, place + 1)
    shifted = poles - poles[nearest][:, np.newaxis]
    low, high = np.where(middle >= 0, 0.0, -gap / 2), np.where(middle >= 0, gap / 2, 0.0)
    root, active = (low + high) / 2, np.arange(len(normals))
    for _ in range(_ITERATIONS):
        here = root[active]
        terms = squares[active] / (shifted[active] - here[:, np.newaxis])
        slopes = terms / (shifted[active] - here[:, np.newaxis])
        value, size = terms.sum(axis=1), np.abs(terms).sum(axis=1)
        low[active], high[active] = np.where(value < 0, here, low[active]), np.where(value < 0, high[active], here)
        left, right = (shifted[active, place + side] - here for side in (0, 1))
        below, above = slopes[:, : place + 1].sum(axis=1), slopes[:, place + 1 :].sum(axis=1)
        # value + below left (d / (left - d)) + above right (d / (right - d)) = 0 for a step d.
        rest = value - below * left - above * right
        linear = -(rest * (left + right) + below * left**2 + above * right**2)
        constant = value * left * right
        root_of = np.sqrt(np.maximum(linear**2 - 4 * rest * constant, 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.where(linear <= 0, 2 * constant / (root_of - linear), -(linear + root_of) / (2 * rest))
        moved = here + step
        inside = (moved > low[active]) & (moved < high[active])
        still = (np.abs(value) > _CLOSE * size) & (high[active] - low[active] > _TINY * np.abs(here))
        root[active] = np.where(still, np.where(inside, moved, (low[active] + high[active]) / 2), here)
        active = active[still]
        if not active.size:
            break
    return nearest, root
