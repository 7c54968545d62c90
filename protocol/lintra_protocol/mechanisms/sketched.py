"""What the two sketches share: rows dealt to the rows of a public matrix, and a clip counter that bypasses it.

The matrix would scatter a count over its rows and give it signs. So the counter is a total: servers add up the last
word of all reports as it is, in row 0 of a column of its own, where all clients' noise stands behind it
(docs/proofs/clips.md#clip-counter).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, sqrt
from typing import ClassVar

from pydantic import Field

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import RowUnderfilledError
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.layout import CLIPPED, Block, Layout, Words
from lintra_protocol.mechanisms.noise_law import GaussianLaw, NoisyMeasurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import SMOOTHING, Neighbours


class SketchedRows(Mechanism):
    """A balanced sketch of m rows, `rows`, with s entries in every column, `sparsity`.

    A report holds the copies of a row, and behind them the clip counter if there is one. The released sketch has d
    columns, and one more for the counter: its row 0 holds the total, its other rows nothing.
    """

    rows: int = Field(ge=1, le=2**20)
    sparsity: int = Field(default=1, ge=1, le=64)

    allows: ClassVar[frozenset[str]] = frozenset({"clip counter", "dither"})
    start_bits: ClassVar[int] = 20

    noises_copies: ClassVar[bool] = False
    """Whether a report holds s copies of the row, each with noise of its own; else it holds the row once."""

    @property
    def num_rows(self) -> int:
        """Return m."""
        return self.rows

    @property
    def row_blocks(self) -> int:
        """Return s."""
        return self.sparsity

    @property
    def largest_entry(self) -> int:
        """Return the largest absolute value of an entry of a clipped row, in integer steps: the norm bound."""
        return isqrt(self.squared_bound)

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return the words of a row, in one copy or in s; all copies enter the same words of the sketch."""
        step, copies = 2.0**-self.fraction_bits / sqrt(self.sparsity), self.sparsity if self.noises_copies else 1
        return Layout((Block("row", num_columns, self.sigma, self.largest_entry, step, copies=copies),))

    def fill(self, steps: IntArray, setting: Setting) -> Mapping[str, Words]:
        """Return clipped rows, shape `(n, d)`."""
        return {"row": steps}

    def decode(self, layout: Layout, sketch: IntArray) -> FloatArray:
        """Return the sketch of shape `(m, d)` in normalised units, divided by sqrt(s)."""
        return layout.values(sketch, "row")

    def squared_distance(self, neighbours: Neighbours, num_columns: int, setting: Setting) -> Fraction:
        """Return (2B)^2 where one row is replaced, B^2 where it becomes the null row; of one copy."""
        return Fraction(4 if neighbours == "replace-one" else 1) * self.squared_bound

    def squared_clip_scale(self, num_columns: int, setting: Setting) -> Fraction:
        """Return m times the squared distance of replaced rows: behind the total stands m times a row's noise.

        So the counter makes all noise sqrt(1 + w^2) times as large, as it does in a sum. Where servers add the noise
        the total has no more than any other number, which hides a row s times. Where they add a floor, a client of whom
        all others are invented has no more behind the total than behind its row.
        """
        times = self.sparsity if setting.noising_servers or setting.floor_servers else self.rows
        return Fraction(4 * times * self.squared_bound)


@dataclass(frozen=True)
class SketchLaw(GaussianLaw):
    """Gaussian noise of rows that are dealt to the rows of a sketch, and of a clip counter that bypasses them."""

    def counter_mu(self, measured: NoisyMeasurement, num_clients: int) -> float:
        """Return what the clip counter adds to mu: the root of g^2 / ((n - t) sigma^2 - 4), rounded up; 0 without one.

        Its total is a sum of all clients' words, so that Theorem D1 holds for it with n - t honest ones, or T1 with a
        floor. Its noise is independent of the sketch's, so that both squares of mu add up.

        Raises:
            RowUnderfilledError: no honest client is left.
        """
        if CLIPPED not in measured.layout:
            return 0.0
        variance = _honest(measured, num_clients) * self.sigma**2 + self.floor**2 - SMOOTHING
        return float(measured.layout[CLIPPED].bound) / sqrt(variance) * (1 + 1e-15)

    def counter_slack(self, measured: NoisyMeasurement, num_clients: int) -> float:
        """Return K of Theorem D1 or T1 for the clip counter's total; 0 without one."""
        return self.slack(_honest(measured, num_clients), 1) if CLIPPED in measured.layout else 0.0


def _honest(measured: NoisyMeasurement, num_clients: int) -> int:
    honest = num_clients - measured.claim.max_corrupt_clients
    if honest < 1:
        raise RowUnderfilledError(f"{num_clients} clients have no honest one beyond the tolerated coalition")
    return honest
