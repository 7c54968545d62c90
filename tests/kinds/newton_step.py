"""The conformance data of `newton_step`."""

from fractions import Fraction
from typing import Any

import numpy as np

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import real
from lintra_protocol.mechanisms import NewtonStep
from support.conformance import Conformance, Member, Reference, Small

NEARLY_ZERO = "0.0000000000000001"
"""A number of a parameter that is not 0, so that the law of a later round holds, at which residuals are one half."""

LATER = {"parameter": (NEARLY_ZERO,) * 3, "after": "A" * 43}


def uncalibrated(small: Small) -> NewtonStep:
    return NewtonStep(
        row_bound=real(small.row_bound),
        fraction_bits=0,
        sigma=4,
        target=small.columns - 1,
        intercept=real(small.row_bound / 2),
        residual_bits=8,
        parameter=("0",) * small.columns,
    )


def decoded(mechanism: Any, row: FloatArray, bound: float) -> FloatArray:
    """Return gradient and Hessian of one row at a parameter that is as good as 0."""
    vector = np.append(bound / 2, np.delete(row, mechanism.target))
    residual = 0.5 if row[mechanism.target] > 0 else -0.5
    sums: FloatArray = np.vstack([residual * vector, 0.25 * np.outer(vector, vector)])
    return sums


def squared_length(mechanism: Any, largest: int, num_words: int) -> int:
    square, levels = mechanism.squared_bound, 2**mechanism.residual_bits
    count = largest**2 // 25 + 1
    return (mechanism.gradient_factor * levels) ** 2 * square + (levels * square // 4) ** 2 + count


def decode(words: list[list[int]], columns: int) -> list[object]:
    """Return gradient and Hessian of two columns: 8 residual bits, 4 fraction bits, Gamma 4 as R = 256."""
    del columns
    g1, g2, a, b, c, _ = (word - (word >> 63 << 64) for word in words[0])
    gradient = [float(Fraction(each, 4 * 2**12)) for each in (g1, g2)]
    return [gradient, *([float(Fraction(each, 2**16)) for each in line] for line in ((a, b), (b, c)))]


CONFORMANCE = Conformance(
    uncalibrated=uncalibrated,
    decoded=decoded,
    degree=2,
    row_bounds=(1,),
    run={"kind": "newton_step"},
    reference=Reference(
        {
            "kind": "newton_step",
            "row_bound": "1",
            "fraction_bits": 4,
            "sigma": 1000,
            "target": 1,
            "intercept": "0.5",
            "residual_bits": 8,
            "parameter": ["0", "0"],
            "clip_count_weight": "0.2",
        },
        num_words=6,
        decode=decode,
    ),
    squared_length=squared_length,
    members={
        # sqrt(1/4 + beta/16) against 1.25 with beta = 8.
        "": Member(null_mu=0.75**0.5 / 1.25, null_tolerance=1e-2),
        # The largest t^2 + beta c^2 against 4, beta = R / (2 Gamma^2).
        "a later round": Member(options=lambda _: LATER, null_mu=0.66858, null_tolerance=1e-3),
    },
)
