"""The form in which a module of `tests/kinds` says what its kind owes to the conformance tests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.mechanisms import AnyMechanism


@dataclass(frozen=True)
class Small:
    """The sizes of a small task.

    Attributes:
        row_bound: B; the bound of an entry for `osnap_published`.
        rows: m of a sketch.
        sparsity: s of a sketch.
        columns: d.
    """

    row_bound: float = 1.0
    rows: int = 2
    sparsity: int = 1
    columns: int = 3


@dataclass(frozen=True)
class Member:
    """A variant of a kind that the tests hold to account.

    Attributes:
        rows: m of a sketch.
        sparsity: s of a sketch.
        options: further fields of the document, by the row bound.
        null_mu: mu against the null row over mu where a row is replaced.
        null_tolerance: relative; larger where the grid rounds a constant.
    """

    rows: int = 2
    sparsity: int = 1
    options: Callable[[float], Mapping[str, object]] = lambda _: {}
    null_mu: float = 0.5
    null_tolerance: float = 1e-9


@dataclass(frozen=True)
class Reference:
    """A second implementation of a kind, from which `make vectors` writes a sketch and its decoding.

    Vectors of kinds that have files of their own are written by `tests/vectors/cases_*.py`.

    Attributes:
        document: the mechanism of the vectors, of one row and two columns.
        num_words: of a report.
        decode: from the released words, shape `(1, w)`, and the number of columns to what is decoded.
    """

    document: Mapping[str, object]
    num_words: int
    decode: Callable[[list[list[int]], int], list[object]]


def _in_the_ball(mechanism: Any, largest: int, num_words: int) -> int:
    """Return the squared length that no row's words exceed: they are clipped into a ball."""
    del mechanism, num_words
    return (largest + 1) ** 2 - 1


@dataclass(frozen=True)
class Conformance:
    """What the conformance tests know of one kind.

    Attributes:
        uncalibrated: the mechanism of a small task, with the smallest noise that a document may state.
        decoded: the reference's formula: what is decoded of one row without noise, shape `(d,)`; signs of a sketch and
            which row a report enters are left out.
        run: options of the end-to-end run, the field `mechanism` of its specification.
        task: other fields of that specification.
        members: variants by a word for each; the first, without a word, is the kind as it is.
        clients: the smallest cohort for which it is defined.
        run_clients: clients of the end-to-end run; None for the usual number.
        reference: from which the vectors are written, unless cases of the kind's own write them.
        squared_length: bound of a hostile row's squared words, from mechanism, largest word and number of words.
        second_round: whether the run begins with the first of two rounds.
        noise_limits: relative error that measured variances may have, and a factor of sigma that must be noticed.
        noise_shared: whether a whole noise is that of as many honest clients as a claim leaves, and no other law.
        null_range: the same as `null_mu` where only a range is known.
        degree: of what is decoded in the row bound: 2 for products.
        row_bounds: with which a row is decoded; 1 alone where the grid is the mechanism's own.
        is_tight: whether calibration uses a claim up.
        one_sigma: whether no word has less noise than `sigma`.
        refuses_infinity: whether the encoder itself refuses what is not finite and not missing.
        cells: whether a row moves cells and no number of its own, so that infinity is the outermost cell.
        slow: cells of the table, and "run", that are for the long tests.
    """

    uncalibrated: Callable[[Small], AnyMechanism]
    decoded: Callable[[Any, FloatArray, float], FloatArray]
    run: Mapping[str, object]
    task: Mapping[str, object] = field(default_factory=dict)
    members: Mapping[str, Member] = field(default_factory=lambda: {"": Member()})
    clients: int = 11
    run_clients: int | None = None
    reference: Reference | None = None
    squared_length: Callable[[Any, int, int], int] = _in_the_ball
    second_round: bool = False
    noise_limits: tuple[float, float] = (0.06, 1.05)
    noise_shared: bool = False
    null_range: tuple[float, float] | None = None
    degree: int = 1
    row_bounds: tuple[float, ...] = (0.001, 1, 1000)
    is_tight: bool = True
    one_sigma: bool = True
    refuses_infinity: bool = False
    cells: bool = False
    slow: frozenset[str] = frozenset({"run"})


def conformance(kind: str) -> Conformance:
    """Return what the tests know of a kind.

    Raises:
        ModuleNotFoundError: tests/kinds has no module of this name.
    """
    found: Conformance = import_module(f"kinds.{kind}").CONFORMANCE
    return found


def upper_triangle(row: FloatArray) -> FloatArray:
    """Return the products of a row with itself, shape `(d (d + 1) / 2,)`."""
    products: FloatArray = np.outer(row, row)[np.triu_indices(row.size)]
    return products
