"""Sketches and decoded numbers of every kind whose second implementation stands in tests/kinds."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import plain
from given import Vector, good, seed, text_rows

TESTS = Path(__file__).resolve().parents[1]


def of_kinds(written: list[Vector]) -> list[Vector]:
    """Return the vectors of kinds that `written` has none of."""
    given = [vector["input"] for vector in written]
    known = {one["mechanism"]["kind"] for one in given if "mechanism" in one}  # type: ignore[operator, index]
    kinds = sorted({path.stem for path in (TESTS / "kinds").glob("*.py")} - known - {"__init__"})
    if kinds:
        sys.path.insert(0, str(TESTS))
    return [vector for kind in kinds for vector in _sketch(kind, import_module(f"kinds.{kind}").CONFORMANCE.reference)]


def _sketch(kind: str, reference: Any) -> list[Vector]:
    """Return what five reports add up to, and what is decoded of smaller words."""
    if reference is None:
        raise ValueError(f"tests/kinds/{kind}.py: there are no vectors of this kind, and no reference to write them")
    words, mechanism = reference.num_words, dict(reference.document)
    stream = plain.bytes_words(plain.keystream(seed(kind), 8 * 5 * words))
    shares = [stream[start : start + words] for start in range(0, len(stream), words)]
    sums = plain.sketch(1, [[(0, 1)]] * 5, shares, 1, 0)
    small = [plain.to_words([word % 2**40 - 2**39 for word in row]) for row in sums]
    return [
        good(f"{kind}: a sketch", "sketch", text_rows(sums), shares=text_rows(shares), seed=seed("matrix").hex(),
             mechanism=mechanism),
        good(f"{kind}: decoding", "decode", reference.decode(small, 2), sketch=text_rows(small), columns=2,
             mechanism=mechanism),
    ]  # fmt: skip
