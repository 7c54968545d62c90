"""What the vectors of streams ask of the protocol."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from lintra_protocol.mechanisms import stream_noise
from lintra_protocol.privacy.stream_matrix import StreamMatrix


def stream_matrix(rows: int, reports: int, damping: str, memory: int | None) -> dict[str, object]:
    matrix = StreamMatrix(rows, reports, Fraction(damping), Fraction(0), memory)
    return {"steps": matrix.steps.tolist(), "squared_price": str(matrix.squared_norm)}


def carried(rows: int, damping: str, row: int, memories: Mapping[str, list[str]]) -> list[str]:
    known = {int(window): np.array([int(word) for word in words], np.int64) for window, words in memories.items()}
    matrix = StreamMatrix(rows, 1, Fraction(damping), Fraction(0))
    size = len(next(iter(known.values())))
    return [str(word) for word in stream_noise.carried(matrix, row, known, size).tolist()]


OPERATIONS: dict[str, Callable[..., Any]] = {"stream_matrix": stream_matrix, "carried": carried}
