"""TukeyEM, as we read it: the Tukey median of many small regressions, by a checked exponential mechanism.

Amin, Joseph, Ribero, Vassilvitskii, "Easy differentially private linear regression" (ICLR 2023), Algorithms 1 to 3. No
package of it is in the registries; its authors published a program beside the paper, whose constants are taken here.
Written anew for this race, and no part of Lintra. One departure: their program scales the Laplace noise of its check by
epsilon, where the proof needs one over epsilon, as here.
"""

import math

import numpy as np
from showing import FloatArray

MODELS = 1000
"""As many as its authors take, and at most one for as many rows as there are coefficients."""


def tukey_em(rows: FloatArray, epsilon: float, delta: float, seed: int) -> FloatArray | None:
    """Return the coefficients of the last column by the others, or None where the check refuses."""
    rng, size = np.random.default_rng([seed, 4]), rows.shape[1] - 1
    count = min(MODELS, len(rows) // size)
    each = len(rows) // count
    parts = rows[rng.permutation(len(rows))[: count * each]].reshape(count, each, size + 1)
    models = (np.linalg.pinv(parts[:, :, :-1]) @ parts[:, :, -1:])[:, :, 0]
    ordered, half, least = np.sort(models, axis=0), count // 2, count // 4
    low, high = ordered[:half], ordered[::-1][:half]
    # volumes[i]: logarithm of the volume of the box of depth i + 1 or more.
    volumes = np.log(np.maximum(high - low, 1e-300)).sum(axis=1)
    share = epsilon / 2
    distance = safe_distance(volumes, share, delta, least)
    if distance + rng.laplace(scale=1 / share) <= math.log(1 / (2 * delta)) / share:
        return None
    # The exact depth by racing: volume of a shell times e to the epsilon by depth, which grows when rows are added.
    inner = np.append(volumes[1:], -np.inf)
    shells = volumes + np.log1p(-np.exp(np.minimum(inner - volumes, -1e-300))) + share * np.arange(1, half + 1)
    depth = int(np.argmax((shells + rng.gumbel(size=half))[least - 1 :])) + least - 1
    while True:
        point: FloatArray = rng.uniform(low[depth], high[depth])
        deeper = depth + 1 < half and bool(np.all((point >= low[depth + 1]) & (point <= high[depth + 1])))
        if not deeper:
            return point


def safe_distance(volumes: FloatArray, epsilon: float, delta: float, least: int) -> int:
    """Return the largest k at which the volumes of depths around `least` keep every neighbour within k safe, or -1."""
    threshold = math.log(delta / 8) - epsilon
    found = -1
    for k in range(least - 1):
        inner = volumes[least + k + 1 : -1]
        gains = epsilon / 2 * np.arange(1, len(inner) + 1)
        if not len(inner) or float(np.min(volumes[least - k - 2] - inner - gains)) > threshold:
            break
        found = k
    return found
