"""`ron_gauss_centred` a second time, in plain Python integers; it shares no code with the package.

Written from docs/reference/mechanisms/ron_gauss_centred.md; what it has in common with `ron_gauss` stands in
`plain_joint`.
"""

import math
from fractions import Fraction
from math import isqrt

import plain_joint
from plain import lift
from plain_joint import Mechanism


def centred_vector(mechanism: Mechanism, row: list[float | None], frame: list[list[int]] | None = None) -> list[int]:
    """Return the noiseless report of a row: products about the centre of its class; what is missing is as there."""
    label, bits, most = _int(mechanism, "label"), _int(mechanism, "fraction_bits"), plain_joint.bound(mechanism)
    features: list[int] = []
    own_class = 0
    for column, (given, levels) in enumerate(zip(row, _ints(mechanism, "levels"), strict=True)):
        value = 0.0 if given is None else given
        level = max(0, min(levels - 1, round(Fraction(value))))
        if column == label:
            own_class = level if levels else 0
        elif given is None:
            features += [0] * (levels if levels > 2 else 1)
        elif levels > 2:
            features += [plain_joint.ONE if number == level else -plain_joint.ONE for number in range(levels)]
        else:
            features.append((2 * level - 1) * plain_joint.ONE if levels else plain_joint.steps(value))
    vector = plain_joint.project(features, frame, bits)
    centre = _centers(mechanism)[own_class]
    shifted = [(entry + 2 ** (15 - bits) // 2) // 2 ** (15 - bits) for entry in centre]
    if label >= 0 and not _ints(mechanism, "levels")[label]:
        unit = (most + 1) // 2
        vector = [*vector, max(-unit, min(unit, round(Fraction(row[label] or 0) * unit)))]
        shifted[-1] = (centre[-1] * unit + 2**14) // 2**15
    vector = plain_joint.clip([entry - middle for entry, middle in zip(vector, shifted, strict=True)], most)
    products = [vector[i] * vector[j] for i in range(len(vector)) for j in range(i, len(vector))]
    if mechanism["covariance"] == "pooled":
        return products
    blocks = [products if number == own_class else [0] * len(products) for number in range(len(_centers(mechanism)))]
    return [word for block in blocks for word in block]


def clip_count(mechanism: Mechanism, row: list[float | None], outside: bool) -> int:
    """What a row sends in the clip counter: 0, or the weight times T^2; clipped is one that is too far from its centre.

    Without the bound, the products on the diagonal say how far a row is from the centre of its class.
    """
    weight, most = Fraction(str(mechanism["clip_count_weight"])), plain_joint.bound(mechanism)
    label = _int(mechanism, "label")
    wide = mechanism | {"row_bound": "100000", "covariance": "pooled"}
    size = len(_centers(mechanism)[0])
    if label >= 0 and not _ints(mechanism, "levels")[label]:
        raise ValueError("a numeric label counts steps of the bound: not told here")
    products = centred_vector(wide, row)
    diagonal = [place for place, (i, j) in enumerate((i, j) for i in range(size) for j in range(i, size)) if i == j]
    far = sum(products[place] for place in diagonal) > most**2
    return math.floor(weight * most**2) if outside or far else 0


def sigmas(mechanism: Mechanism) -> list[int]:
    """Return the deviation of every word: sigma, and on the diagonal the next integer above sqrt(2) sigma."""
    sigma, size = _int(mechanism, "sigma"), len(_centers(mechanism)[0])
    square = isqrt(2 * sigma**2) + 1  # sqrt(2) is irrational
    block = [square if i == j else sigma for i in range(size) for j in range(i, size)]
    counter = [sigma] * ("clip_count_weight" in mechanism)
    return block * (1 if mechanism["covariance"] == "pooled" else len(_centers(mechanism))) + counter


def squared_distance(mechanism: Mechanism, *, replace: bool) -> Fraction:
    """Return the largest squared distance of neighbouring reports in multiples of sigma."""
    counter = math.floor(Fraction(str(mechanism.get("clip_count_weight", "0"))) * plain_joint.bound(mechanism) ** 2)
    return Fraction(plain_joint.bound(mechanism) ** 4, 1 if replace else 2) + counter**2


def decode(mechanism: Mechanism, words: list[int]) -> list[float]:
    """Return the products in squared feature units."""
    own = words[:-1] if "clip_count_weight" in mechanism else words
    return [lift(word) * 4.0 ** -_int(mechanism, "fraction_bits") for word in own]


def _int(mechanism: Mechanism, name: str) -> int:
    return int(str(mechanism[name]))


def _ints(mechanism: Mechanism, name: str) -> list[int]:
    values = mechanism[name]
    assert isinstance(values, list)
    return [int(value) for value in values]


def _centers(mechanism: Mechanism) -> list[list[int]]:
    values = mechanism["centers"]
    assert isinstance(values, list)
    return [[int(entry) for entry in centre] for centre in values]
