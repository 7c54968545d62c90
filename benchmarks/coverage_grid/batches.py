"""What `regression` says about many releases of one cohort, for all of them at once, where only the truth is asked for.

An interval of section "Intervals that hold whatever the data" of docs/explanation/estimators.md holds a number if and
only if the smallest Q of that number's hyperplane is at most the quantile, or if the sets are unbounded. Asking for the
truth alone takes one minimisation where the two ends of an interval take some thirty. That both agree is checked on the
first draws of every cell, by `regression` itself.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from lintra_analysis.estimators.concentrated.equations import Equations
from lintra_analysis.estimators.concentrated.hyperplanes import Statements
from lintra_analysis.estimators.concentrated.regressions import Residual
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_protocol.crypto.ring import FloatArray

LIMIT = float(special.chdtri(1, 0.05))
RESIDUAL_LIMIT = float(special.chdtri(1, 0.04))
TOTAL_LIMIT = float(special.chdtri(1, 0.01))
AT_ONCE = 20_000
"""Minimisations at once, times columns: beyond this the processor's cache is left."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Releases of one cohort, as equations of its regression.

    Attributes:
        matrices: M, the target last, shape `(B, q, q)`.
        law: of the noise.
        num_clients: n, for the population; 0 for the cohort.
        longest: for the population, the norm of rows that takes the place of their second moments
            (`residuals="any"`); 0 for one variance of residuals.
    """

    matrices: FloatArray
    law: SymmetricNoise
    num_clients: int = 0
    longest: float = 0.0

    def parts(self) -> list["Batch"]:
        """Return the batch in pieces that fit the cache."""
        size = self.matrices.shape[1]
        count = max(1, AT_ONCE // size**2)
        return [replace(self, matrices=self.matrices[i : i + count]) for i in range(0, len(self.matrices), count)]

    def equations(self, penalty: float = 0.0, unpenalised: tuple[int, ...] = ()) -> Equations:
        """Return the equations of least squares of all releases, with a penalty but for some columns."""
        size = self.matrices.shape[1]
        kernel = self.law.kernel(size)
        assert kernel is not None
        equations = Equations.of_matrix(self.matrices, self.law.sigma, kernel)
        equations = replace(equations, penalty=penalty, unpenalised=unpenalised)
        if not self.num_clients:
            return equations
        clipped = np.maximum(equations.values, 0)
        spread = np.full_like(clipped, self.num_clients * self.longest**2) if self.longest else clipped
        return replace(equations, residual=clipped / (self.num_clients - (size - 1)), spread=spread)

    def bounded(self) -> NDArray[np.bool_]:
        """Return for every release whether intervals are given: sets are bounded, and no eigenvalue is negative."""
        definite = np.linalg.eigvalsh(self.matrices[:, :-1, :-1])[:, 0] > 0
        told = np.concatenate([_statements(part.equations()).at_infinity()[0] > LIMIT for part in self.parts()])
        return np.asarray(told & definite)

    def accepts(
        self, solution: FloatArray, penalty: float = 0.0, unpenalised: tuple[int, ...] = ()
    ) -> NDArray[np.bool_]:
        """Return whether each release accepts each true coefficient, unbounded sets aside, shape `(B, p)`."""
        parts = [_statements(part.equations(penalty, unpenalised)) for part in self.parts()]
        accepted = [part.at(np.tile(solution, len(part.solutions))) <= LIMIT for part in parts]
        return np.concatenate(accepted).reshape(-1, solution.size)


def _statements(equations: Equations) -> Statements:
    """Return the statements about every coefficient of every release."""
    return Statements.about(equations, np.eye(equations.size - 1))


def r2_accepts(matrices: FloatArray, law: SymmetricNoise, constant: bool, r2: float) -> NDArray[np.bool_]:
    """Return whether 1 - RSS/TSS from both intervals holds r2, and whether it is told at all, shape `(B, 2)`.

    The interval of RSS is connected, so that it holds a number below its point if that number is accepted.
    """
    size = matrices.shape[1]
    kernel = law.kernel(size)
    assert kernel is not None
    kept = [0, size - 1] if constant else [size - 1]
    if constant:
        block = Equations.of_matrix(matrices[:, kept][:, :, kept], law.sigma, kernel[np.ix_(kept, kept)], sums=True)
        low, high = Residual.about(block).intervals(TOTAL_LIMIT).T
    else:
        low, high = _lone(matrices[:, -1, -1], law.sigma * np.sqrt(kernel[-1, -1] + 1))
    residual = Residual.about(Equations.of_matrix(matrices, law.sigma, kernel, sums=True))
    most = np.maximum(high, 0)
    near_zero = residual.at(np.zeros(len(low))) <= RESIDUAL_LIMIT
    everything = near_zero & (residual.at(most) <= RESIDUAL_LIMIT)
    smallest, largest = (1 - r2) * low, (1 - r2) * high
    above = (smallest <= residual.values) | (residual.at(smallest) <= RESIDUAL_LIMIT)
    below = (largest >= residual.values) | (residual.at(largest) <= RESIDUAL_LIMIT)
    to_total = (low <= residual.values) | (residual.at(low) <= RESIDUAL_LIMIT)
    nothing = everything | ~(low > 0) | (to_total & ((residual.values <= 0) | near_zero))
    return np.column_stack([nothing | (above & below), ~nothing])


def _lone(squares: FloatArray, sd: float) -> tuple[FloatArray, FloatArray]:
    """Return the ends of a total without an intercept: one number with normal noise of a known deviation."""
    reach = sd * float(np.sqrt(TOTAL_LIMIT))
    return squares - reach, squares + reach
