"""Vectors of dithered rounding and row weights: rows, the 32-bit words u that were read, and what becomes of them."""

from fractions import Fraction
from math import floor, isqrt
from typing import Any

import plain
import plain_dithered
from given import Vector, bad, claim, definition, good, seed, task_id, texts
from plain import canonical
from plain_dithered import Row, Words

Document = dict[str, Any]

DITHERED = {"rounding": "dithered"}
SUM: Document = {"kind": "sum", "row_bound": "1", "fraction_bits": 8, "sigma": 1000} | DITHERED
OSNAP: Document = SUM | {"kind": "osnap", "rows": 2, "sparsity": 1, "leverage": "0"}
PUBLISHED: Document = SUM | {
    "kind": "osnap_published", "rows": 2, "sparsity": 2, "entry_bound": "0.3", "published_epsilon": "1"
}  # fmt: skip
PRODUCTS: Document = {
    "kind": "second_moment", "row_bound": "2.5", "fraction_bits": 6, "sigma": 60000, "intercept": "1", "trace": True
} | DITHERED  # fmt: skip
WISHART: Document = SUM | {"kind": "second_moment_wishart", "sigma": 60000}
RANGE: Document = {
    "kind": "range_finder", "row_bound": "5", "fraction_bits": 4, "sigma": 1000, "rank": 1,
    "omega_seed": plain.b64(bytes(range(32))), "projected_bound": "6", "intercept": "2",
    "targets": [{"column": 1, "bound": "3", "bits": 0}], "trace": True,
} | DITHERED  # fmt: skip
FEATURES: Document = PRODUCTS | {"row_weights": "features", "target": 1, "target_bound": "2"}
EVERYTHING: Document = PRODUCTS | {"row_weights": "all", "target": 1, "target_factor": "1.4"}
NO_TARGET: Document = PRODUCTS | {"row_weights": "all", "trace": False}
TURN = {"features_basis": [["0.7", "-0.3"], ["-0.3", "1.1"]]}
ONE: Document = {
    "kind": "organisations", "rows_per_person": 1, "organisations_per_person": 1, "max_rows": 1000, "count": "exact"
}  # fmt: skip
THREE = ONE | {"rows_per_person": 3, "count": "noisy"}


def dithered() -> list[Vector]:
    return [*_rows(), *_reports(), *_contributions(), *_distances(), *_tasks()]


def stream(name: str, count: int) -> list[int]:
    data = plain.keystream(seed(f"dither {name}"), 4 * count)
    return [int.from_bytes(data[start : start + 4], "little") for start in range(0, len(data), 4)]


def _rows() -> list[Vector]:
    least, most = [0] * 3, [2**32 - 1] * 3
    rows: list[tuple[str, list[float], int, list[int]]] = [
        ("u is 0: up, unless it is whole", [1.25, -1.25, 3.0], 100, least),
        ("u is largest: down", [1.25, -1.25, 3.0], 100, most),
        ("u just below the part behind the point", [0.5, -0.25, 0.125], 100, [2**31 - 1, 3 * 2**30 - 1, 2**29 - 1]),
        ("u just at the part behind the point", [0.5, -0.25, 0.125], 100, [2**31, 3 * 2**30, 2**29]),
        ("a part behind the point below one in 2^32", [2.0**-40, -(2.0**-40), 0.0], 100, [0, 2**32 - 1, 0]),
        ("a row that is shrunk", [30.0, 40.0, 0.5], 100, stream("shrunk", 3)),
        ("a row on the sphere", [6.0, -8.0, 0.0], 100, stream("sphere", 3)),
        ("at 2^28 steps", [2.0**28 - 0.5, 0.25, 0.0], 2**58, most),
        ("a huge row", [1e200, -1e200, 1.0], 10**12, least),
        ("the null row", [0.0, -0.0, 0.0], 100, least),
    ]
    return [
        good(name, "dither", texts(plain_dithered.dithered(row, bound, Words(u))),
             row=[repr(x) for x in row], squared_bound=str(bound), u=texts(u))
        for name, row, bound, u in rows
    ]  # fmt: skip


def _reports() -> list[Vector]:
    near: Row = [0.3, -0.41, 0.123]
    far: Row = [3.1, -4.7, 0.9]
    hole: Row = [0.3, None, 0.123]
    kinds: list[tuple[str, Document]] = [
        ("sum", SUM), ("sum, counted", SUM | {"count": "noisy"}), ("osnap", OSNAP), ("osnap_published", PUBLISHED),
        ("products", PRODUCTS), ("products, counted", PRODUCTS | {"count": "noisy"}), ("wishart", WISHART),
        ("range finder", RANGE), ("weights by features", FEATURES), ("weights by all", EVERYTHING),
        ("weights without a target", NO_TARGET),
        ("turned features, weights by features", FEATURES | TURN),
        ("turned features, weights by all", EVERYTHING | TURN),
        ("weights by features, counted and clipped rows counted",
         FEATURES | {"count": "noisy", "clip_count_weight": "0.2"}),
    ]  # fmt: skip
    given = [
        (f"{kind}: {name}", mechanism, row, name == "a row far out")
        for kind, mechanism in kinds
        for name, row in (("a row", near), ("a row far out", far), ("a number missing", hole))
    ]
    result = []
    for name, mechanism, row, outside in given:
        u = stream(name, len(row) + ("row_weights" in mechanism) + int(mechanism.get("rank", 0)))
        found = plain_dithered.report(mechanism, row, outside, Words(u))
        result.append(
            good(name, "dithered_report", texts(found), mechanism=mechanism, outside=outside, u=texts(u),
                 row=[None if x is None else repr(x) for x in row])
        )  # fmt: skip
    return result


def _contributions() -> list[Vector]:
    rows: list[Row] = [[0.3, -0.41], [3.1, 4.7], [None, 0.5], [-0.2, 0.9], [0.1, 0.2], [1.9, -2.2]]
    given: list[tuple[str, Document, Document, list[int]]] = [
        ("weights by features, one row each", FEATURES, ONE, [0, 1, 2, 3, 4, 5]),
        ("weights by features, up to three rows", FEATURES, THREE, [1, 0, 1, 0, 1, 2]),
        ("weights by features, persons shrunk further", FEATURES, THREE | {"person_bound": "3"}, [1, 0, 1, 0, 1, 2]),
        ("weights by all, up to three rows", EVERYTHING, THREE, [1, 0, 1, 0, 1, 2]),
        ("a sum, up to three rows", SUM, THREE, [1, 0, 1, 0, 1, 2]),
        ("products, one row each", PRODUCTS, ONE, [0, 1, 2, 3, 4, 5]),
    ]
    result = []
    for name, mechanism, who, persons in given:
        u = stream(name, len(rows) * (2 + ("row_weights" in mechanism)))
        reader = Words(u)
        found = plain_dithered.contribution(mechanism, who, rows, persons, reader)
        result.append(
            good(name, "dithered_contribution", texts(found), mechanism=mechanism, contributors=who, persons=persons,
                 u=texts(u[: len(u) - len(reader.left)]),
                 rows=[[None if x is None else repr(x) for x in row] for row in rows])
        )  # fmt: skip
    return result


def _distances() -> list[Vector]:
    asked: list[tuple[str, Document, Document | None, str]] = [
        ("a weighted row replaced", FEATURES, None, "replace-one"),
        ("a weighted row to null", FEATURES | {"trace": False}, None, "zero-out"),
        ("a weighted row replaced, counted", EVERYTHING | {"count": "noisy"}, None, "replace-one"),
        ("a weighted row replaced, counted, without the trace", NO_TARGET | {"count": "noisy"}, None, "replace-one"),
        ("three weighted rows replaced", FEATURES, THREE, "replace-one"),
        ("three weighted rows replaced, without the trace", NO_TARGET, THREE, "replace-one"),
        ("three weighted rows removed", NO_TARGET, THREE | {"organisations_per_person": 2}, "add-remove"),
        ("weighted rows of one person to null", NO_TARGET, ONE, "zero-out"),
    ]
    result = []
    for name, mechanism, who, neighbours in asked:
        square = plain_dithered.squared_distance(mechanism, who, neighbours)
        result.append(
            good(f"{name}: distance", "squared_distance", texts([square.numerator, square.denominator]),
                 mechanism=mechanism, contributors=who, columns=2, neighbours=neighbours)
        )  # fmt: skip
    return result


def _tasks() -> list[Vector]:
    """A task of weighted rows of two columns, the number of its least sigma, and options that do not fit."""
    promise = claim(min_clients=1000, max_corrupt_clients=0)
    given = {"claim": promise, "max_clients": 10_000}
    fine = FEATURES | {"fraction_bits": 8}
    square = plain_dithered.squared_distance(fine, None, "replace-one")
    sigma = isqrt(floor((square / Fraction(plain.gaussian_mu(1.0, 1e-6)) ** 2 + 4) / 1000)) + 1
    right = definition("second_moment", mechanism=fine | {"sigma": sigma}, **given)
    wrong: dict[str, Document] = {
        "weights without dithering": {name: value for name, value in fine.items() if name != "rounding"},
        "weights without a constant": fine | {"intercept": "0"},
        "features without a target": {name: value for name, value in fine.items() if name != "target"},
        "a target beyond the columns": fine | {"target": 2},
        "a target without weights": {name: value for name, value in fine.items() if name != "row_weights"},
        "too coarse to dither": fine | {"fraction_bits": 0, "sigma": 100},
    }
    return [
        good("weighted rows", "check_task", plain.b64(task_id(right)), text=canonical(right)),
        bad("weighted rows with too little noise", "check_task", "false_claim",
            text=canonical(definition("second_moment", mechanism=fine | {"sigma": sigma - 2}, **given))),
        *(
            bad(name, "check_task", "invalid_task",
                text=canonical(definition("second_moment", mechanism={"sigma": sigma} | mechanism, **given)))
            for name, mechanism in wrong.items()
        ),
    ]  # fmt: skip
