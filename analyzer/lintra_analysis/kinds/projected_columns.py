"""What both rounds of `ron_gauss` read alike: the columns, the label and the promise behind their numbers."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lintra_analysis.releases.features import ClassLabel, Feature, Label, NumericLabel
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.joint_rows import Edges
from lintra_protocol.mechanisms.projected import ProjectedRows
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.transforms.orthonormal import FRAME_BITS


def promise_of(statement: PrivacyStatement, mechanism: str, num_rows: int) -> PrivacyStatement:
    """Return a statement that goes about without its task: with its mechanism, and what it rests on in words.

    `num_rows` is n, the clients, or where organisations contribute the rows that they counted.
    """
    who = f"organisations' noise counted, to {statement.persons}" if statement.persons else "clients' noise counted"
    note = (
        f"exact Gaussian differential privacy of {num_rows} rows, {statement.honest_clients} honest {who}, "
        f"{statement.max_corrupt_clients} corrupt ones tolerated"
    )
    return replace(statement, mechanism=mechanism, note=note)


def frame_of(mechanism: ProjectedRows) -> FloatArray | None:
    """Return the public frame in real units, shape `(m, p)`; None if rows are not projected."""
    frame = mechanism.public_frame()
    return None if frame is None else frame.astype(np.float64) * 2.0**-FRAME_BITS


def features_of(
    mechanism: ProjectedRows, columns: Sequence[Column], bins: Sequence[int], edges: Edges = ()
) -> tuple[Feature, ...]:
    """Return the columns that are no label, with the cells of their histograms."""
    every = [
        _feature(column, cells, own)
        for column, cells, own in zip(columns, bins, edges or ((),) * len(bins), strict=True)
    ]
    return tuple(feature for number, feature in enumerate(every) if number != mechanism.label)


def label_of(
    mechanism: ProjectedRows, columns: Sequence[Column], bins: Sequence[int], edges: Edges = ()
) -> Label | None:
    """Return the label, or None."""
    if mechanism.label < 0:
        return None
    column = columns[mechanism.label]
    if column.kind == "category":
        return ClassLabel(column.name, column.levels)
    own = edges[mechanism.label] if edges else ()
    feature = _feature(column, bins[mechanism.label], own)
    return NumericLabel(feature, mechanism.label_bound * 2.0**-mechanism.fraction_bits)


def _feature(column: Column, cells: int, edges: Sequence[int]) -> Feature:
    if column.kind == "category":
        return Feature(column.name, "category", levels=column.levels, cells=cells, unit=column.unit)
    return Feature(
        column.name,
        column.kind,
        float(fraction(column.lower)),
        float(fraction(column.upper)),
        (),
        cells,
        column.unit,
        tuple(edges),
    )
