"""A look at the smallest eigenvalue, and a projection whose ridge rests on it: what mechanisms that look first share.

Both propose-test-release (Wei et al. 2023) and the adaptive ridge (Sheffet 2019, Algorithms 2 and 5) add noise to the
smallest eigenvalue, add less of a ridge where it is large, and pay for the look by the joint curve of both releases.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lintra_protocol.crypto.ring import FloatArray


@dataclass(frozen=True)
class EigenvalueTest:
    """How the smallest eigenvalue is tested and the ridge chosen; in units of the squared row bound.

    The noisy eigenvalue is t = lambda_min + deviation Z, and the ridge max(cap - max(t - margin, 0), 0).
    """

    deviation: float  #: of the noise on the smallest eigenvalue, which one row moves by at most 1
    margin: float  #: subtracted from t, so that the result is rarely above lambda_min
    cap: float  #: the ridge of data that may be singular

    def __post_init__(self) -> None:
        if not (0 < self.deviation < math.inf and math.isfinite(self.margin) and 0 < self.cap < math.inf):
            raise ValueError(f"a test needs a positive deviation and cap and a finite margin, got {self}")

    def ridge(self, noisy_eigenvalue: FloatArray) -> FloatArray:
        """Return the ridge for values of t, any shape."""
        ridge: FloatArray = np.maximum(self.cap - np.maximum(noisy_eigenvalue - self.margin, 0), 0)
        return ridge


def delta_after_look(
    epsilon: float, losses: FloatArray, weights: FloatArray, curve: Callable[[FloatArray], FloatArray]
) -> float:
    """Return delta(epsilon) of a look and a projection together: the mean, over what the look shows, of the latter's.

    `epsilon` is at least 0. `losses` are privacy losses of the look, shape `(k,)`: nodes of a quadrature under the
    first of two neighbours. `weights` are those of the nodes, shape `(k,)`. `curve` leads from what each loss leaves of
    epsilon, shape `(k,)`, to the delta of the projection that follows.
    """
    return float(weights @ curve(epsilon - losses))
