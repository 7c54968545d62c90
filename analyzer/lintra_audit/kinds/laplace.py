"""What the audits of kinds with Laplace noise share: the adversary's best test, variances, and faults to plant."""

from dataclasses import dataclass
from math import log1p
from typing import cast

import numpy as np

from lintra_audit.kinds.kind_audit import Planted, Reports
from lintra_audit.trials.planted_faults import noiseless, only_for
from lintra_audit.trials.simulated_release import Encode, Scene
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.mechanisms.laplace_law import LaplaceNoise
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.noise.discrete_laplace import laplace_shares

EXCESS = 50.0
"""Largest excess kurtosis of one client's noise in the cases: thrice the clients that make a whole, and a margin."""


@dataclass(frozen=True)
class LaplaceTest:
    """The likelihood ratio of two Laplace laws moved by what is known: b words of L1 distance, each worth ln(1 + 1/b).

    It is the best test where exactly as many clients are honest as make a whole.
    """

    means: tuple[FloatArray, FloatArray]  #: what the sum would be without noise, in both worlds, shape `(w,)`
    worth: float  #: the loss of one step

    mu: None = None

    def scores(self, released: IntArray) -> FloatArray:
        """Return the log-likelihood ratio of releases of shape `(trials, 1, w)`; shape `(trials,)`."""
        far, near = (np.abs(released[:, 0].astype(np.float64) - mean).sum(axis=1) for mean in self.means)
        result: FloatArray = np.asarray(self.worth * (far - near), np.float64)
        return result


def laplace_test(scene: Scene, reports: Reports) -> LaplaceTest:
    """Form the adversary's test from the rows that it knows."""
    first, second = (world[scene.honest].sum(axis=0).astype(np.float64) for world in reports)
    return LaplaceTest((first, second), log1p(1 / scene.task.mechanism.sigma))


def variances(measurement: Measurement) -> FloatArray:
    """Return the variance of one client's noise in every word, shape `(w,)`."""
    mechanism = cast("LaplaceNoise", measurement.mechanism)
    result: FloatArray = measurement.layout.sigmas.astype(np.float64) ** 2 * mechanism.spread**2
    return result


def noised_with(halved: int, corrupt: int) -> Encode:
    """Return an encoder with a scale divided by `halved`, and shares as if `corrupt` more clients were honest."""

    def encode(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
        exact, own = noiseless(measurement, rows), cast("LaplaceNoise", measurement.mechanism)
        return exact + laplace_shares(exact.shape, own.sigma // halved, own.shares + corrupt, random_bytes)

    return encode


def faults_of(kind: str, one_word: str, case: str, corrupt: int) -> dict[str, Planted]:
    """Return the faults of a kind, shown by a case in which one word moves, and one with so many corrupt clients."""
    return {
        f"half-the-scale-of-{one_word}": Planted(
            "the scale is that of a row against the null row, where rows are replaced",
            only_for(kind, noised_with(2, 0)),
            one_word,
            frozenset({"optimal test", "noise law"}),
        ),
        f"corrupt-shares-of-{case}": Planted(
            "the shares of corrupt clients count as if they hid anybody",
            only_for(kind, noised_with(1, corrupt)),
            case,
            frozenset({"noise law"}),
        ),
    }
