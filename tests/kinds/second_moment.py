"""The conformance data of `second_moment`."""

from typing import Any

import numpy as np

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import real
from lintra_protocol.mechanisms import SecondMoment
from support.conformance import Conformance, Member

WEIGHTED = {"rounding": "dithered", "row_weights": "features", "target": 1, "target_bound": "1"}


def decoded(mechanism: Any, row: FloatArray, bound: float) -> FloatArray:
    """Return the products; with an intercept, half of the bound, it is the first factor, counted or left out.

    With row weights the constant is a factor like any other, and the target, the second column, is
    moved to its bound and has its own factor.
    """
    if mechanism.row_weights is not None:
        vector = np.append(float(mechanism.intercept), row)
        if mechanism.target is not None:
            weights = mechanism.weights(row.size)
            moved = np.clip(vector[mechanism.target + 1], -weights.target_bound, weights.target_bound)
            vector[mechanism.target + 1] = moved * weights.target_factor
        return np.outer(vector, vector)
    if not mechanism.intercept_steps:
        return np.outer(row, row)
    factors = np.append(bound / 2, row)
    products: FloatArray = np.outer(factors, factors)
    if mechanism.count != "noisy":
        products[0, 0] = 0
    return products


def squared_length(mechanism: Any, largest: int, num_words: int) -> int:
    constant = mechanism.intercept_steps if mechanism.row_weights is None else 0
    return (largest + 1) ** 2 - 1 + constant**2 * mechanism.squared_bound


CONFORMANCE = Conformance(
    uncalibrated=lambda small: SecondMoment(row_bound=real(small.row_bound), fraction_bits=0, sigma=4),
    decoded=decoded,
    degree=2,
    run={"kind": "second_moment"},
    squared_length=squared_length,
    members={
        # |u u^T| = B^2 against sqrt(2) B^2.
        "": Member(null_mu=2**-0.5),
        # With c = B/2 before the row: sqrt(2 c^2 B^2 + B^4) against sqrt(2) (c^2 + B^2).
        "intercept": Member(
            options=lambda bound: {"intercept": real(bound / 2)},
            null_mu=1.5**0.5 / (2**0.5 * 1.25),
            null_tolerance=1e-3,
        ),
        # The null row has no constant either: c^2 + B^2 against its root of 2.
        "intercept and count": Member(
            options=lambda bound: {"intercept": real(bound / 2), "count": "noisy"}, null_mu=2**-0.5
        ),
        # The null row is among those that may replace another: |f f^T| = R^2 against sqrt(2) R^2.
        "weights by features": Member(options=lambda bound: WEIGHTED | {"intercept": real(bound / 4)}, null_mu=2**-0.5),
        # The count adds a fifth of R^2: sqrt(1/2 + 1/25) against 1.
        "weights by all and count": Member(
            options=lambda bound: {
                "intercept": real(bound / 2),
                "count": "noisy",
                "rounding": "dithered",
                "row_weights": "all",
            },
            null_mu=0.54**0.5,
            null_tolerance=1e-3,
        ),
    },
)
