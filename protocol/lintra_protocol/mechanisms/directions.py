"""Rows along a few public directions: what a second round of products takes instead of the columns.

The directions come from the release of a `range_finder` and stand in the second task. Whatever they are, what is made
of a row is clipped in integers, so that the promise does not rest on them
(docs/proofs/moments.md#second-round-of-a-range-finder).
"""

import base64
from functools import lru_cache

import numpy as np

from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.errors import InvalidMessageError, InvalidTaskError, UnsupportedFeatureError

BASIS_BITS = 14
"""An entry of the basis counts steps of 2^-14."""

MAX_BASIS_BYTES = 2 << 20
MAX_SQUARED_COLUMN = 1 << 29
"""A column of norm 1 has 2^28; rounding and a little room are added."""

MAX_DIRECTIONS = 256

SECOND_OF_TWO = (
    "second of two rounds: this promise is of this round alone, and the first was about the same people; the squares "
    "of both mu add up"
)


def num_directions(basis: str, num_columns: int) -> int:
    """Return r, how many directions a basis has; a basis of another size than d r numbers is refused by `directions`.

    `basis` holds int16 steps of 2^-14, little-endian, row by row, in base64url; `num_columns` is d.
    """
    return len(basis) * 3 // 4 // (2 * num_columns)


@lru_cache(maxsize=4)
def directions(basis: str, num_columns: int) -> IntArray:
    """Return a basis in steps of 2^-14, shape `(d, r)`, read-only.

    Raises:
        InvalidTaskError: it is not base64url of 1 to 256 directions, too large, or a direction is too long.
    """
    try:
        data = parse_base64url(basis)
    except InvalidMessageError as error:
        raise InvalidTaskError(f"basis: {error.detail}") from None
    rank = num_directions(basis, num_columns)
    if not 1 <= rank <= MAX_DIRECTIONS or len(data) != 2 * num_columns * rank or len(basis) > MAX_BASIS_BYTES:
        raise InvalidTaskError(
            f"basis: {len(data)} bytes are not 1 to {MAX_DIRECTIONS} directions of {num_columns} numbers of 2 "
            f"bytes, in at most {MAX_BASIS_BYTES} characters"
        )
    steps = np.frombuffer(data, "<i2").astype(np.int64).reshape(num_columns, rank)
    longest = int(np.square(steps).sum(axis=0).max())
    if longest > MAX_SQUARED_COLUMN:
        raise InvalidTaskError(f"basis: a direction has the squared norm {longest}; 2^28 is 1, and 2^29 the most")
    steps.flags.writeable = False
    return steps


def encode_basis(steps: IntArray) -> str:
    """Return what stands in a task for directions in steps of 2^-14, shape `(d, r)`."""
    return base64.urlsafe_b64encode(steps.astype("<i2").tobytes()).rstrip(b"=").decode("ascii")


def along(steps: IntArray, basis: IntArray, targets: tuple[int, ...]) -> IntArray:
    """Return clipped integer rows along directions, rounded half up, and their targets beside; shape `(n, r + k)`.

    The products are exact in floating point: no partial sum exceeds |x| times the norm of a direction, 2^44.5. `steps`
    are clipped integer rows, shape `(n, d)`, squared norms at most 2^60; `basis` has shape `(d, r)`. `targets` are
    numbers of columns that are taken as they are.
    """
    exact = (steps.astype(np.float64) @ basis.astype(np.float64)).astype(np.int64)
    rounded = exact + (1 << BASIS_BITS - 1) >> BASIS_BITS
    return np.concatenate([rounded, steps[:, list(targets)]], axis=1)


def check_second_round(
    basis: str | None, after: str | None, targets: tuple[int, ...], num_columns: int, noised_by_servers: bool
) -> None:
    """Raise InvalidTaskError or UnsupportedFeatureError for a second round that lacks a part, or parts without one."""
    if basis is None:
        if after is not None or targets:
            raise InvalidTaskError("after and targets belong to a second round, beside a basis; leave them out")
        return
    if after is None:
        raise InvalidTaskError("after: a second round names the task of the first")
    if noised_by_servers:
        raise UnsupportedFeatureError("noise: servers cannot add that of a second round; use 'clients'")
    directions(basis, num_columns)
    if len(set(targets)) < len(targets) or max(targets, default=0) >= num_columns:
        raise InvalidTaskError(f"targets are different numbers of columns, from 0 to {num_columns - 1}")


def check_room(rank: int, num_targets: int, squared_bound: int, fraction_bits: int) -> None:
    """Raise InvalidTaskError where squares of rows along `rank` directions, joined by targets, may leave 62 bits."""
    # No entry along a direction exceeds sqrt(2) |x| and a half.
    if 4 * (2 * rank + num_targets) * squared_bound >= 1 << 62:
        raise InvalidTaskError(
            f"{rank} directions of rows of {fraction_bits} fraction bits may overflow; use fewer bits"
        )
