"""Checks that every release must pass, whatever its mechanism."""

import math

import numpy as np

from lintra_analysis.releases.columns import ScaledColumn, require_distinct
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidReleaseError


def check_release(columns: tuple[ScaledColumn, ...], num_clients: int, row_bound: float) -> None:
    """Refuse what no release may be, whatever its mechanism.

    Raises InvalidReleaseError if it has no client, or its row bound is none.
    """
    require_distinct(columns)
    if num_clients < 1:
        raise InvalidReleaseError(f"a release has at least 1 client, got {num_clients}")
    if not (math.isfinite(row_bound) and row_bound > 0):
        raise InvalidReleaseError(f"the row bound must be positive and finite, got {row_bound}")


def check_noise_sd(noise_sd: float) -> None:
    """Refuse a noise level that is no standard deviation.

    Raises InvalidReleaseError if it is negative, or not finite.
    """
    if not (math.isfinite(noise_sd) and noise_sd >= 0):
        raise InvalidReleaseError(f"the noise sd must be finite and not negative, got {noise_sd}")


def checked_shape(values: FloatArray | IntArray, shape: tuple[int | None, ...]) -> tuple[int, ...]:
    """Return the shape of `values`, or refuse it; None allows any length.

    Raises InvalidReleaseError if the shape is another one, or a number is not finite.
    """
    expected = tuple("any" if length is None else length for length in shape)
    fits = values.ndim == len(shape) and all(
        want is None or got == want for got, want in zip(values.shape, shape, strict=True)
    )
    if not fits:
        raise InvalidReleaseError(f"an array of shape {values.shape} stands where {expected} belongs")
    if not np.isfinite(values).all():
        raise InvalidReleaseError("a release holds finite numbers only")
    return values.shape
