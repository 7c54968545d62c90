"""What a client does with its row: clip it, count it in integer steps, turn it into words, add noise to each."""

from fractions import Fraction
from math import isqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Real, fraction
from lintra_protocol.mechanisms.noising import Noised
from lintra_protocol.noise.clipping import clip_norms, is_well_inside, quantise, squared_integer_bound
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA, discrete_gaussian
from lintra_protocol.privacy.statement import Neighbours

MIN_SIGMA = 4
"""Below this the discrete Gaussian is too coarse for the lattice correction (docs/explanation/privacy.md#integers)."""

ON_THE_SPHERE = 2.0**-30
"""By which part a row's norm may exceed the bound without being counted as clipped: far below a step of any grid."""


class Encoder(Noised):
    """The client's part of a mechanism (`mechanisms.base`, which says what the letters mean)."""

    row_bound: Real
    fraction_bits: int = Field(ge=0, le=40)
    sigma: int = Field(ge=MIN_SIGMA, le=MAX_SIGMA)

    takes_levels: ClassVar[bool] = False
    """Whether a category enters the encoder as the number of its level; otherwise as indicators (`schema`)."""

    # --- bounds and words -----------------------------------------------------------------------------------------

    @property
    def squared_bound(self) -> int:
        """Return the largest squared norm of a clipped row in integer steps."""
        return squared_integer_bound(fraction(self.row_bound), self.fraction_bits)

    def num_words(self, num_columns: int) -> int:
        """Return w, the ring words that one row of d columns becomes: d, and one for the clip counter."""
        return num_columns + self.clip_words

    @property
    def copies(self) -> int:
        """Return c, how many independently noised copies of a row a report holds: 1."""
        return 1

    def round_rows(self, rows: FloatArray) -> IntArray:
        """Clip normalised rows of shape `(n, d)` and count them in integer steps; same shape."""
        return quantise(rows * 2.0**self.fraction_bits, self.squared_bound)

    def encode_exactly(self, steps: IntArray) -> IntArray:
        """Turn clipped integer rows of shape `(n, d)` into noiseless reports of shape `(n, w)`: themselves."""
        return steps

    def sigmas(self, num_columns: int) -> IntArray:
        """Return the deviation of every word's noise, shape `(w,)`, none below `least_sigma`: all `sigma`."""
        return np.full(self.num_words(num_columns), self.sigma, np.int64)

    @property
    def leaves_out(self) -> bool:
        """Whether a row in which a number is missing is sent as zeros; else, as here, it has the column's centre."""
        return False

    @property
    def least_sigma(self) -> int:
        """Return the smallest deviation of any word's noise: `sigma`."""
        return self.sigma

    def squared_row_distance(self, neighbours: Neighbours) -> Fraction:
        """Return the squared distance without the clip counter.

        It is (2B)^2 where one row is replaced, B^2 where it becomes the null row.
        """
        return Fraction(4 if neighbours == "replace-one" else 1) * self.squared_bound

    def largest_word(self) -> int:
        """Return the largest absolute value of a word of a noiseless report: the integer norm bound."""
        return max(isqrt(self.squared_bound), self.clip_steps)

    @property
    def sigma_bits(self) -> int:
        """Return k if `sigma` counts steps of 2^-k: f, or 2f where it is the noise of a product."""
        return self.fraction_bits

    # --- from rows to reports --------------------------------------------------------------------------------------

    def shrinks(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say for each of some normalised rows of shape `(n, d)` whether it is too large to be encoded as it is.

        A row that lies on the sphere but for the rounding of floating point is not.
        """
        bound, filled = float(fraction(self.row_bound)) * (1 + ON_THE_SPHERE), self.filled(rows)
        if is_well_inside(filled, bound):
            return np.zeros(1, np.bool_)
        shorter: NDArray[np.bool_] = (clip_norms(filled, bound) != filled).any(axis=1)
        return shorter

    def clipping_rule(self) -> str:
        """Return in words what a client does to a row that is too large."""
        return f"rows are shrunk to norm {self.row_bound}"

    def exact_reports(self, rows: FloatArray, outside: NDArray[np.bool_] | None = None) -> IntArray:
        """Turn normalised rows of shape `(n, d)` into noiseless reports of shape `(n, w)`.

        What is missing, that is not finite, stands at its column's centre, or makes the whole report 0 (`leaves_out`).
        `rows` are of any norm. `outside` says for each whether a bound of a column moved it before, shape `(n,)`; none
        if not given. Only the clip counter looks at it.
        """
        filled = self.filled(rows)
        exact = self.encode_exactly(self.round_rows(filled))
        if self.clip_words:
            clipped = self.shrinks(rows) if outside is None else outside | self.shrinks(rows)
            exact = np.concatenate([exact, self.clip_words_of(clipped)], axis=1)
        if self.leaves_out:
            exact[~np.isfinite(rows).all(axis=1)] = 0
        return exact

    def filled(self, rows: FloatArray) -> FloatArray:
        """Return normalised rows of shape `(n, d)` with each missing number at its column's centre: 0.

        What is not finite is missing, as the schema has it; no infinite number reaches the integers.
        """
        missing = ~np.isfinite(rows)
        return np.where(missing, 0.0, rows) if missing.any() else rows

    def encode(self, rows: FloatArray, random_bytes: RandomBytes, outside: NDArray[np.bool_] | None = None) -> IntArray:
        """Clip, round and noise normalised rows of shape `(n, d)` into reports of shape `(n, w)`; on the client.

        Where servers add the noise a report has none. `rows` are of any norm.
        """
        exact = self.exact_reports(rows, outside)
        if self.noising_servers:
            return exact
        return exact + self.noise(exact.shape[0], rows.shape[1], random_bytes)

    def noise(self, num_rows: int, num_columns: int, random_bytes: RandomBytes) -> IntArray:
        """Draw the noise of `num_rows` reports, shape `(num_rows, w)`; words of equal sigma are drawn together."""
        sigmas = self.sigmas(num_columns)
        if len({self.sigma, *sigmas.tolist()}) == 1:
            return discrete_gaussian((num_rows, sigmas.size), self.sigma, random_bytes)
        result = np.empty((num_rows, sigmas.size), np.int64)
        for sigma in np.unique(sigmas):
            where = np.flatnonzero(sigmas == sigma)
            result[:, where] = discrete_gaussian((num_rows, where.size), int(sigma), random_bytes)
        return result
