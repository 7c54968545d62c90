"""Vectors of `histogram`: which cell a value lies in, which tasks are refused, and what the analyzer reads."""

import plain
import plain_histogram
from given import Vector, bad, canonical, claim, definition, good, seed, text_rows, texts

COLUMNS: list[dict[str, object]] = [
    {"name": "age", "lower": "0", "upper": "100", "center": "0", "scale": "1", "unit": "years"},
    {"name": "smoker", "lower": "0", "upper": "1", "center": "0", "scale": "1", "unit": "", "kind": "boolean"},
    {"name": "colour", "lower": "0", "upper": "2", "center": "0", "scale": "1", "unit": "", "kind": "category",
     "levels": ["red", "green", "blue"]},
]  # fmt: skip
CELLS: dict[str, object] = {
    "kind": "histogram", "row_bound": "1", "fraction_bits": 0, "indicator": 4096, "sigma": 24000,
    "edges": [["0", "0.1", "18", "65.5", "100"], [], []], "levels": [0, 2, 3],
}  # fmt: skip
ROWS = [
    [0.0, 0.0, 0.0],
    [0.1, 1.0, 1.0],
    # The doubles before and after one tenth, then just below an edge, on it, at the end and far beyond both ends.
    [0.09999999999999999, 0.0, 2.0],
    [0.10000000000000002, 0.0, 2.0],
    [17.999999999999996, 1.0, 0.0],
    [18.0, 1.0, 0.0],
    [65.5, 0.0, 1.0],
    [100.0, 1.0, 2.0],
    [-1e300, 0.0, 0.0],
    [1e300, 1.0, 2.0],
    [float("nan"), 1.0, 2.0],
    [20.0, float("nan"), float("nan")],
]


def histogram() -> list[Vector]:
    return [*_rows(), *_tasks()]


def _rows() -> list[Vector]:
    return [
        good(f"row {number}", "joint_vector", texts(plain_histogram.vector(CELLS, row)), mechanism=CELLS,
             row=[str(value) for value in row])
        for number, row in enumerate(ROWS)
    ]  # fmt: skip


def _tasks() -> list[Vector]:
    """One column, H = 1, at least 5 clients of whom 1 is corrupt: 12236 is the least sigma of epsilon 1 at 1e-6."""
    one: dict[str, object] = CELLS | {"edges": [["0", "50", "100"]], "levels": [0]}
    two: dict[str, object] = CELLS | {"edges": [["0", "50", "100"]] * 2, "levels": [0, 0]}
    columns = [COLUMNS[0]]
    pair = [COLUMNS[0], COLUMNS[0] | {"name": "size"}]
    promise, many = claim(min_clients=5, max_corrupt_clients=1), claim(min_clients=20, max_corrupt_clients=1)
    kept = [
        ("three kinds of columns", {"columns": COLUMNS, "mechanism": CELLS}),
        ("one column", {"columns": columns, "mechanism": one | {"sigma": 12236}, "claim": promise}),
        ("two columns", {"columns": pair, "mechanism": two | {"sigma": 7940}, "claim": many}),
    ]
    refused: list[tuple[str, str, dict[str, object], dict[str, object]]] = [
        ("a little less noise", "false_claim", {"sigma": 12235}, {}),
        ("edges that are not the bounds", "invalid_task", {"edges": [["0", "50", "99"]]}, {}),
        ("edges that fall", "invalid_message", {"edges": [["0", "60", "50", "100"]]}, {}),
        ("the same edge twice", "invalid_message", {"edges": [["0", "50", "50", "100"]]}, {}),
        ("one edge", "invalid_message", {"edges": [["0"]]}, {}),
        ("no cells at all", "invalid_message", {"edges": [[]]}, {}),
        ("edges and levels", "invalid_message", {"levels": [2]}, {}),
        ("levels of another column", "invalid_message", {"levels": [0, 2]}, {}),
        ("levels of a number", "invalid_task", {"edges": [[]], "levels": [2]}, {}),
        ("a column too many", "invalid_task", {"edges": [["0", "50", "100"]] * 2, "levels": [0, 0]}, {}),
        ("a row bound of its own", "invalid_task", {"row_bound": "2"}, {}),
        ("a finer grid", "invalid_task", {"fraction_bits": 1}, {}),
        ("a clip counter", "invalid_task", {"clip_count_weight": "0.2"}, {}),
        ("a centre", "invalid_task", {}, {"center": "50"}),
        ("a scale", "invalid_task", {}, {"scale": "50"}),
    ]
    result = []
    for name, fields in kept:
        text = canonical(definition(**{"max_missing": "0.4", **fields}))
        result.append(
            good(f"a histogram of {name}", "check_task", plain.b64(plain.H("task", text.encode())), text=text)
        )
    for name, token, change, column in refused:
        mechanism = one | {"sigma": 12236} | change
        fields = {"columns": [columns[0] | column], "mechanism": mechanism, "claim": promise, "max_missing": "0.4"}
        result.append(bad(f"a histogram with {name}", "check_task", token, text=canonical(definition(**fields))))
    return result


def histogram_sketches() -> list[Vector]:
    """The sum of five reports mod 2^64, and what the analyzer reads from one."""
    size = len(plain_histogram.vector(CELLS, ROWS[0]))
    stream = plain.bytes_words(plain.keystream(seed("histogram"), 8 * 5 * size))
    shares = [stream[start : start + size] for start in range(0, len(stream), size)]
    sums = plain.sketch(1, [[(0, 1)]] * 5, shares)
    small = [plain.to_words([word % 2**40 - 2**39 for word in sums[0]])]
    return [
        good("histogram: a sketch", "sketch", text_rows(sums), shares=text_rows(shares), seed=seed("matrix").hex(),
             mechanism=CELLS),
        good("histogram: decoding", "decode", plain_histogram.decode(CELLS, small[0]), sketch=text_rows(small),
             columns=3, mechanism=CELLS),
    ]  # fmt: skip
