"""Vectors of `newton_step`: rows and the words that were read, contributions, distances."""

from typing import Any

import plain_newton
from cases_dithered import ONE, THREE, stream
from given import Vector, good, texts
from plain_dithered import Row, Words

Document = dict[str, Any]

START: Document = {
    "kind": "newton_step", "row_bound": "2", "fraction_bits": 8, "sigma": 5000000, "target": 1, "intercept": "1",
    "residual_bits": 8, "parameter": ["0", "0", "0"], "rounds": 3,
}  # fmt: skip
LATER: Document = START | {"parameter": ["-0.75", "1.5", "0.125"], "after": "A" * 43}
NULL: Document = LATER | {"neighbours": "zero-out", "residual_bits": 12}
COUNTING: Document = LATER | {"clip_count_weight": "0.2"}
FAR: Document = LATER | {"parameter": ["1000000", "-1000000", "0"]}


def newton() -> list[Vector]:
    rows: list[tuple[str, Row, bool]] = [
        ("a row", [0.3, 1.0, -0.41], False), ("a row of a zero", [0.3, -1.0, 0.9], False),
        ("a row far out", [3.1, 1.0, -4.7], True), ("a number missing", [0.3, None, 0.1], False),
    ]  # fmt: skip
    kinds = [("start", START), ("a later round", LATER), ("against null rows", NULL), ("a counter", COUNTING),
             ("a huge parameter", FAR)]  # fmt: skip
    reports = []
    for kind, mechanism in kinds:
        for name, row, outside in rows:
            u = stream(f"newton {kind} {name}", 3)
            found = plain_newton.report(mechanism, row, outside, Words(u))
            reports.append(
                good(f"newton step, {kind}: {name}", "dithered_report", texts(found), mechanism=mechanism,
                     outside=outside, u=texts(u), row=[None if x is None else repr(x) for x in row])
            )  # fmt: skip
    asked: list[tuple[str, Document, Document | None, str]] = [
        ("start", START, None, "replace-one"), ("start, to null", START, None, "zero-out"),
        ("later", LATER, None, "replace-one"), ("later, to null", LATER, None, "zero-out"),
        ("made for null rows", NULL, None, "zero-out"), ("made for null rows, replaced", NULL, None, "replace-one"),
        ("three rows of a person", LATER, THREE, "replace-one"),
        ("three rows of a person removed", NULL, THREE | {"organisations_per_person": 2}, "add-remove"),
    ]  # fmt: skip
    distances = []
    for name, mechanism, who, neighbours in asked:
        square = plain_newton.squared_distance(mechanism, who, neighbours)
        distances.append(
            good(f"newton step, {name}: distance", "squared_distance", texts([square.numerator, square.denominator]),
                 mechanism=mechanism, contributors=who, columns=3, neighbours=neighbours)
        )  # fmt: skip
    return reports + distances


def contributions() -> list[Vector]:
    rows: list[Row] = [[0.3, 1.0, -0.41], [3.1, -1.0, 4.7], [None, 0.5, 0.1], [-0.2, 0.9, 0.3]]
    result = []
    for name, mechanism, who in (("one row each", START, ONE), ("up to three rows", LATER, THREE)):
        u = stream(f"newton {name}", 3 * len(rows))
        reader = Words(u)
        found = plain_newton.contribution(mechanism, who, rows, [0, 1, 2, 0 if who is THREE else 3], reader)
        result.append(
            good(f"a newton step, {name}", "dithered_contribution", texts(found), mechanism=mechanism,
                 contributors=who, persons=[0, 1, 2, 0 if who is THREE else 3],
                 u=texts(u[: len(u) - len(reader.left)]),
                 rows=[[None if x is None else repr(x) for x in row] for row in rows])
        )  # fmt: skip
    return result
