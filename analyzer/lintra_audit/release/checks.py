"""Checks beside the distinguishers: the bound on encoded rows, the lattice of the release, and the law of its noise.

The first is exact. The other two raise a false alarm with probability `FALSE_ALARM` each, whatever the number of
comparisons inside.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np
from scipy import stats

from lintra_audit.kinds.kind_audit import AUDITS
from lintra_audit.trials.likelihood_test import noise_gram
from lintra_audit.trials.simulated_release import Scene, Seams, exact_report
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.task import Task

FALSE_ALARM = 1e-6
MODULI = (2, 3, 4, 5, 7, 8, 16)
_MISSING = 20  # a residue this frequent in one world would not be missing in the other by chance


@dataclass(frozen=True)
class Check:
    """One question with its answer: whether it was passed, and the numbers in words."""

    name: str
    passed: bool
    detail: str


def check_encoder(task: Task, seams: Seams) -> Check:
    """Send hostile rows and measure, in integers, how far apart their noiseless reports lie.

    A report less that of a row of zeros under the same randomness, which has the same noise, plus the latter without
    noise, is the encoding without noise. No two of them, and none and the null report, may be farther apart than the
    claim's sensitivity.
    """
    mechanism, measurement, zeros = task.mechanism, task.measurement, np.zeros(task.num_columns)
    rows = AUDITS[mechanism.kind].hostile(mechanism, task.num_columns)
    stream = [expand(bytes(32), "encoder check") for _ in range(len(rows) + 1)]
    null = seams.encode(measurement, zeros[None, None], stream[-1])[0, 0] - exact_report(measurement, zeros)
    with np.errstate(over="ignore"):
        exact = [
            seams.encode(measurement, row[None, None], one)[0, 0] - null for row, one in zip(rows, stream, strict=False)
        ]
    weights = [Fraction(mechanism.sigma**2, int(sigma) ** 2) for sigma in measurement.layout.sigmas]
    pairs = combinations(exact, 2) if task.claim.neighbours == "replace-one" else ((one, 0 * one) for one in exact)
    farthest = max(squared_distance_of(one, other, weights) for one, other in pairs)
    allowed = measurement.squared_distance
    ratio = float(farthest / allowed) ** 0.5
    return Check("encoder", farthest <= allowed, f"hostile rows reach {ratio:.6f} of the sensitivity")


def check_lattice(scene: Scene, worlds: tuple[IntArray, IntArray]) -> Check:
    """Compare the residues of released integers between worlds whose rows differ by one step.

    Under the claim these worlds are nearly equal. A difference can only come from the lattice: values that one world
    reaches and the other does not, or less often. `worlds` are released integers of world 0 and world 1, each of shape
    `(trials, rows, w)`.
    """
    touched = np.flatnonzero(np.any([part.columns[..., scene.victim].any(axis=0) for part in scene.parts], axis=0))
    moduli = sorted({*MODULI, *(int(np.abs(scene.matrix[row][scene.honest]).sum()) for row in touched)} - {0, 1})
    comparisons = [(row, word, q) for row in touched for word in range(worlds[0].shape[2]) for q in moduli]
    smallest, unreached = 1.0, 0
    for row, word, modulus in comparisons:
        counts = np.array([np.bincount(world[:, row, word] % modulus, minlength=modulus) for world in worlds])
        unreached += int(((counts.min(axis=0) == 0) & (counts.max(axis=0) >= _MISSING)).sum())
        counts = counts[:, counts.any(axis=0)]
        if counts.shape[1] > 1:
            smallest = min(smallest, float(stats.chi2_contingency(counts, correction=False).pvalue))
    level = FALSE_ALARM / len(comparisons)
    passed = smallest > level and not unreached
    return Check(
        "lattice", passed, f"{unreached} residues reached in one world only; smallest p {smallest:.1e} of {level:.0e}"
    )


def check_law(scene: Scene, worlds: tuple[IntArray, IntArray]) -> Check:
    """Compare variances and covariances of what is released with those that the claim was computed from.

    `worlds` are released integers of world 0 and world 1, each of shape `(trials, rows, w)`.
    """
    measurement = scene.task.measurement
    audit = AUDITS[measurement.mechanism.kind]
    variances = audit.variances(measurement)
    grams = np.empty((scene.task.sketch_words, len(scene.matrix), len(scene.matrix)))
    for part in scene.parts:
        # All copies of a row have noise alike.
        own, floors = variances[part.sent][: part.width], np.multiply.outer(scene.floors(part), np.eye(len(grams[0])))
        grams[part.released] = own[:, np.newaxis, np.newaxis] * noise_gram(scene.noise_columns(part)) + floors
    # Every server adds its own smoothing noise to every word of every release.
    smoothing = scene.task.num_servers * float(measurement.smoothing) ** 2
    size = len(scene.matrix) * len(grams)
    expected = np.einsum("wrq,wv->rwqv", grams, np.eye(len(grams))).reshape(size, size) + smoothing * np.eye(size)
    flat = [world.reshape(len(world), -1).astype(np.float64) for world in worlds]
    residuals = np.concatenate([world - world.mean(axis=0) for world in flat])
    measured = residuals.T @ residuals / (len(residuals) - 2)
    spread = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / len(residuals))
    # Heavier tails raise the variance of squares: a sum of h clients has 1/h of the excess of one, of which half
    # enters.
    spread *= np.sqrt(1 + audit.excess / 2 / len(scene.honest))
    upper = np.triu_indices(len(expected))
    off, scale = np.abs(measured - expected)[upper], spread[upper]
    # Where there is no noise, as beside a total, there must be none.
    deviations = np.divide(off, scale, out=np.where(off > 0, np.inf, 0.0), where=scale > 0)
    limit = float(stats.norm.isf(FALSE_ALARM / (2 * deviations.size)))
    noisy = np.diag(expected) > 0
    ratio = float(np.sqrt((np.diag(measured)[noisy] / np.diag(expected)[noisy]).min()))
    return Check(
        "noise law",
        bool(deviations.max() < limit),
        f"least deviation {ratio:.4f} of the stated one; largest departure {deviations.max():.1f} of {limit:.1f} sd",
    )


def squared_distance_of(one: IntArray, other: IntArray, weights: list[Fraction]) -> Fraction:
    """Return the exact squared distance of two reports, shape `(w,)`, in multiples of each word's noise over sigma."""
    return sum(((int(a) - int(b)) ** 2 * weight for a, b, weight in zip(one, other, weights, strict=True)), Fraction(0))
