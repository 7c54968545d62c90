"""Orthonormal frames: fixed vectors, exact arithmetic beside, other processes."""

import os
import subprocess
import sys
from decimal import Decimal, localcontext

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from plain_gaussian import reader, samples

from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.transforms.orthonormal import frame, frame_digest, orthonormal

SMALL = np.array([[3, 1], [-1, 2], [2, 2], [0, -4]])
SHOW_DIGEST = (
    "from lintra_protocol.transforms.orthonormal import frame, frame_digest; "
    "print(frame_digest(frame(bytes(32), 60, 12)))"
)


def exactly_orthonormal(matrix: IntArray) -> list[list[int]]:
    """Run Gram-Schmidt with 60 digits, on whole columns; the result is rounded to steps of 2^-15."""
    with localcontext() as context:
        context.prec = 60
        found: list[list[Decimal]] = []
        for column in matrix.T.tolist():
            rest = [Decimal(entry) for entry in column]
            for unit in found:
                along = sum((a * b for a, b in zip(unit, rest, strict=True)), Decimal(0))
                rest = [a - along * b for a, b in zip(rest, unit, strict=True)]
            norm = sum((a * a for a in rest), Decimal(0)).sqrt()
            found.append([a / norm for a in rest])
        return [[int((entry * 2**15).to_integral_value()) for entry in row] for row in zip(*found, strict=True)]


def test_a_known_frame() -> None:
    assert_array_equal(orthonormal(SMALL), [[26273, -486], [-8758, 16031], [17515, 8744], [0, -27204]])


@pytest.mark.parametrize("shape", [(1, 1), (5, 1), (9, 4), (40, 39)])
def test_a_frame_is_exact_gram_schmidt_rounded_once(shape: tuple[int, int]) -> None:
    # The twin reads the same words one by one, and the rows of the matrix one after the other.
    gaussians = samples(shape[0] * shape[1], 2**16, reader(expand(bytes(32), "frame")))
    assert_array_equal(frame(bytes(32), *shape), exactly_orthonormal(np.reshape(gaussians, shape)))


@pytest.mark.parametrize(("rows", "columns"), [(64, 10), (200, 105), (150, 149)])
def test_the_columns_are_orthonormal_up_to_rounding(rows: int, columns: int) -> None:
    found = frame(bytes(32), rows, columns)
    gram = (found.T @ found).astype(float) / 2**30
    assert np.abs(gram - np.eye(columns)).max() < 1e-4


@pytest.mark.parametrize("kernels", ["Haswell", "Nehalem"])
def test_a_fresh_process_with_other_linear_algebra_has_the_same_digest(kernels: str) -> None:
    environment = os.environ | {"OPENBLAS_CORETYPE": kernels, "OPENBLAS_NUM_THREADS": "1"}
    fresh = subprocess.run([sys.executable, "-c", SHOW_DIGEST], env=environment, capture_output=True, check=True)
    assert fresh.stdout.decode().strip() == frame_digest(frame(bytes(32), 60, 12))


def test_the_digest_is_that_of_little_endian_32_bit_integers() -> None:
    assert frame_digest(np.array([[1, -2], [3, 4]])) == "YvPo7kW7vtMxAviPmEOQgZAJjH4cwxxZX7rOjkbp7pc"


def test_digests_tell_seeds_and_shapes_apart() -> None:
    others = [frame(b"x" * 32, 6, 3), frame(bytes(32), 6, 2), frame(bytes(32), 3, 3)]
    assert len({frame_digest(found) for found in [frame(bytes(32), 6, 3), *others]}) == 4


def test_nobody_can_change_a_frame_that_others_use() -> None:
    with pytest.raises(ValueError, match="read-only"):
        frame(bytes(32), 3, 2)[0, 0] = 0


@pytest.mark.parametrize(("rows", "columns"), [(3, 4), (3, 0), (0, 0)])
def test_a_shape_that_no_frame_has_is_refused(rows: int, columns: int) -> None:
    with pytest.raises(ValueError, match="columns"):
        frame(bytes(32), rows, columns)


@pytest.mark.parametrize("matrix", [[[1, 2], [2, 4], [3, 6]], [[0], [0]], [[1, 0, 1], [0, 1, 1]]])
def test_columns_that_depend_on_one_another_are_refused(matrix: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="full rank"):
        orthonormal(np.array(matrix))
