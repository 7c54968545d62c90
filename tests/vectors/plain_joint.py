"""`ron_gauss` a second time, in plain Python integers; it shares no code with the package.

Written from docs/reference/mechanisms/ron_gauss.md and docs/reference/protocol.md, to be read beside them. A mechanism
is the dictionary that stands in a task, a row a list of normalised values.
"""

import hashlib
from decimal import Decimal, localcontext
from fractions import Fraction
from math import isqrt

from plain import b64, lift

ONE = 2**15
Mechanism = dict[str, object]


def orthonormal(matrix: list[list[int]]) -> list[list[int]]:
    """Gram-Schmidt of the columns with 60 digits, in steps of 2^-15."""
    with localcontext() as context:
        context.prec = 60
        found: list[list[Decimal]] = []
        for column in zip(*matrix, strict=True):
            rest = [Decimal(entry) for entry in column]
            for unit in found:
                along = sum((a * b for a, b in zip(unit, rest, strict=True)), Decimal(0))
                rest = [a - along * b for a, b in zip(rest, unit, strict=True)]
            norm = sum((a * a for a in rest), Decimal(0)).sqrt()
            found.append([a / norm for a in rest])
        return [[int((entry * ONE).to_integral_value()) for entry in row] for row in zip(*found, strict=True)]


def frame_digest(frame: list[list[int]]) -> str:
    entries = b"".join((entry % 2**32).to_bytes(4, "little") for row in frame for entry in row)
    return b64(hashlib.sha256(entries).digest())


def steps(value: float) -> int:
    return max(-ONE, min(ONE, round(Fraction(value) * ONE)))


def project(features: list[int], frame: list[list[int]] | None, bits: int) -> list[int]:
    if frame is None:
        return [_halves_up(feature, 15 - bits) for feature in features]
    sums = [sum(f * w for f, w in zip(features, column, strict=True)) for column in zip(*frame, strict=True)]
    return [_halves_up(total, 30 - bits) for total in sums]


def _halves_up(value: int, bits: int) -> int:
    return (value + 2**bits // 2) // 2**bits


def clip(vector: list[int], bound: int) -> list[int]:
    square = sum(entry**2 for entry in vector)
    if square <= bound**2:
        return vector
    norm = isqrt(square - 1) + 1
    return [(1 if entry > 0 else -1) * (abs(entry) * bound // norm) for entry in vector]


def bound(mechanism: Mechanism) -> int:
    scaled = Fraction(str(mechanism["row_bound"])) * 2 ** _int(mechanism, "fraction_bits")
    return scaled.numerator // scaled.denominator


def joint_vector(mechanism: Mechanism, row: list[float | None], frame: list[list[int]] | None = None) -> list[int]:
    """Return the noiseless report of a row: class counts, class sums, products, histogram cells.

    What is missing has 0 for every feature and no cell; as a label it has the first class or the middle.
    """
    levels, bins = _ints(mechanism, "levels"), _ints(mechanism, "bins")
    label, unit = _int(mechanism, "label"), _int(mechanism, "indicator")
    features: list[int] = []
    cells: list[list[int]] = []
    own_class, classes = 0, 1
    for column, given in enumerate(row):
        value = 0.0 if given is None else given
        level = max(0, min(levels[column] - 1, round(Fraction(value))))
        if column == label and levels[column]:
            own_class, classes = level, levels[column]
        elif column != label:
            own = _features(value, level, levels[column])
            features += [0] * len(own) if given is None else own
        if bins[column]:
            cell = level if levels[column] else cell_of(mechanism, column, steps(value))
            cells.append([unit * (place == cell and given is not None) for place in range(bins[column])])
    vector = clip(project(features, frame, _int(mechanism, "fraction_bits")), bound(mechanism))
    if label >= 0 and not levels[label]:
        most = (bound(mechanism) + 1) // 2
        vector = [*vector, max(-most, min(most, round(Fraction(row[label] or 0) * most)))]
    size = len(vector)
    products = [vector[i] * vector[j] for i in range(size) for j in range(i, size)]
    own = mechanism["covariance"] == "per_class"
    result = [unit * (number == own_class) for number in range(classes)] if classes > 1 else []
    for number in range(classes):
        result += vector if number == own_class else [0] * size
    for number in range(classes if own else 1):
        result += products if number == own_class or not own else [0] * len(products)
    return result + [word for histogram in cells for word in histogram] + pair_words(mechanism, row)


def cell_of(mechanism: Mechanism, column: int, step: int) -> int:
    """Return the cell of a number: how many edges it has reached, or one of equal width."""
    edges = mechanism.get("edges")
    if isinstance(edges, list) and edges[column]:
        return sum(1 for edge in edges[column] if step >= edge)
    cells = _ints(mechanism, "bins")[column]
    return min(cells - 1, (step + ONE) * cells // (2 * ONE))


def pair_words(mechanism: Mechanism, row: list[float | None]) -> list[int]:
    """Return U at one cell of each pair table: the two columns' own cells, neighbours merged, row by row.

    In no cell, if a value is missing that is not a label with classes.
    """
    levels, bins, unit = _ints(mechanism, "levels"), _ints(mechanism, "bins"), _int(mechanism, "indicator")
    words: list[int] = []
    pairs = mechanism.get("pairs", [])
    assert isinstance(pairs, list)
    for pair in pairs:
        places, there = [], 1
        for column in pair:
            value = row[column] or 0.0
            if row[column] is None and not (column == _int(mechanism, "label") and levels[column]):
                there = 0
            level = max(0, min(levels[column] - 1, round(Fraction(value))))
            cell = level if levels[column] else cell_of(mechanism, column, steps(value))
            merged = _ints(mechanism, "pair_bins")[column]
            places.append((cell * merged // (levels[column] or bins[column]), merged))
        (first, high), (second, wide) = places
        words += [there * unit * (one == first and other == second) for one in range(high) for other in range(wide)]
    return words


def num_pairs(mechanism: Mechanism) -> int:
    pairs = mechanism.get("pairs", [])
    assert isinstance(pairs, list)
    return len(pairs)


def _features(value: float, level: int, levels: int) -> list[int]:
    if levels == 0:
        return [steps(value)]
    if levels == 2:
        return [ONE if level else -ONE]
    return [ONE if number == level else -ONE for number in range(levels)]


def deviations(mechanism: Mechanism) -> dict[str, int]:
    """Return the smallest integers whose squares are at least the planned variances."""
    return {name: _ceil_root(variance) for name, variance in variances(mechanism).items()}


def variances(mechanism: Mechanism) -> dict[str, Fraction]:
    """Return the planned variances."""
    unit = Fraction(2 * _int(mechanism, "sigma") ** 2)
    length, indicator = squared_length(mechanism), _int(mechanism, "indicator")
    weight = Fraction(str(mechanism["mean_weight"])) ** 2
    histograms = max(1, sum(1 for number in _ints(mechanism, "bins") if number))
    counted = Fraction(str(mechanism.get("count_weight", "1"))) ** 2
    planned = {
        "counts": 4 * unit * indicator**2 / (length * weight) ** 2 / counted,
        "sums": unit / (length * weight),
        "squares": unit,
        "products": unit / 2,
        "histograms": unit * indicator**2 * histograms / length**2,
    }
    if num_pairs(mechanism):
        paired = Fraction(str(mechanism.get("pair_weight", "1"))) ** 2
        planned["tables"] = unit * indicator**2 * num_pairs(mechanism) / length**2 / paired
    return planned


def clip_count(mechanism: Mechanism, row: list[float | None], outside: bool) -> int:
    """What a row sends in the clip counter: 0, or the weight times the planned distance of two replaced rows.

    Clipped is a row that is longer than the bound, without the label; what is missing has length 0.
    """
    features: list[int] = []
    for column, (value, levels) in enumerate(zip(row, _ints(mechanism, "levels"), strict=True)):
        if column != _int(mechanism, "label"):
            level = 0 if value is None else max(0, min(levels - 1, round(Fraction(value))))
            own = _features(0.0 if value is None else value, level, levels)
            features += [0] * len(own) if value is None else own
    projected = project(features, None, _int(mechanism, "fraction_bits"))
    clipped = outside or sum(entry**2 for entry in projected) > bound(mechanism) ** 2
    weight = Fraction(str(mechanism["clip_count_weight"])) ** 2
    square = weight * _int(mechanism, "sigma") ** 2 * _squared_mu(mechanism, variances(mechanism), replace=True)
    return isqrt(square.numerator // square.denominator) if clipped else 0


def _ceil_root(value: Fraction) -> int:
    root = 0
    while root * root < value:
        root += max(1, isqrt(int(value)) - root)
    return root


def squared_length(mechanism: Mechanism) -> int:
    label, most = _int(mechanism, "label"), bound(mechanism)
    numeric = label >= 0 and not _ints(mechanism, "levels")[label]
    return most**2 + ((most + 1) // 2) ** 2 * numeric


def squared_mu(mechanism: Mechanism, honest: int, *, replace: bool) -> Fraction:
    """Return the largest squared distance of neighbouring vectors in deviations of the noise of `honest` clients."""
    own = {name: Fraction(honest * deviation**2 - 4) for name, deviation in deviations(mechanism).items()}
    return _squared_mu(mechanism, own, replace=replace)


def _squared_mu(mechanism: Mechanism, variance: dict[str, Fraction], *, replace: bool) -> Fraction:
    """Return the same from the variances of the whole noise, each less what the lattice takes."""
    label, length = _int(mechanism, "label"), squared_length(mechanism)
    cell = Fraction(_int(mechanism, "indicator") ** 2)
    many = label >= 0 and _ints(mechanism, "levels")[label] > 0
    sums, products = length / variance["sums"], length**2 / (2 * variance["products"])
    counts = cell / variance["counts"] * many
    histograms = cell / variance["histograms"] * sum(1 for number in _ints(mechanism, "bins") if number)
    if num_pairs(mechanism):
        # A replaced row leaves one cell of every pair table and enters another, as with histograms.
        histograms += cell / variance["tables"] * num_pairs(mechanism)
    if not replace:
        return counts + sums + products + histograms
    # The worst cosine of two rows of one class, and two rows of different classes at a right angle.
    cosine = max(Fraction(-1), -sums / (2 * products))
    within = 2 * sums * (1 - cosine) + 2 * products * (1 - cosine**2)
    across = (2 * counts + 2 * sums + 2 * products) * many
    return max(within, across) + 2 * histograms


def decode(mechanism: Mechanism, words: list[int]) -> list[float]:
    """Return counts and cells in rows, sums and products in feature units."""
    label, bits = _int(mechanism, "label"), _int(mechanism, "fraction_bits")
    levels = _ints(mechanism, "levels")
    classes = levels[label] if label >= 0 and levels[label] else 1
    size = _int(mechanism, "dimension") + (label >= 0 and not levels[label])
    blocks = classes if mechanism["covariance"] == "per_class" else 1
    rows = 1 / _int(mechanism, "indicator")
    scales = [rows] * classes * (classes > 1) + [2.0**-bits] * classes * size
    scales += [4.0**-bits] * blocks * (size * (size + 1) // 2)
    scales += [rows] * (len(words) - len(scales))
    return [lift(word) * scale for word, scale in zip(words, scales, strict=True)]


def _int(mechanism: Mechanism, name: str) -> int:
    return int(str(mechanism[name]))


def _ints(mechanism: Mechanism, name: str) -> list[int]:
    values = mechanism[name]
    assert isinstance(values, list)
    return [int(value) for value in values]
