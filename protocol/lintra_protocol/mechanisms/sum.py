"""`sum`: the plain sum of the rows, hence their mean (Burkhardt et al. 2025, Section 3.1)."""

from collections.abc import Mapping
from fractions import Fraction
from math import isqrt
from typing import ClassVar, Literal

import numpy as np

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import omitted
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.layout import Block, Layout, Words
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.mechanisms.setting_check import check_count
from lintra_protocol.privacy.statement import Claim, Neighbours


class Sum(Mechanism):
    """The sum over all clients; the servers' matrix is one row of ones.

    It may count the rows that were clipped, and those that were not left out: a row then sends half of its integer
    bound in a word more, which costs nothing where a row is replaced. In the canonical encoding `count` is left out
    where it is exact, which means the number of reports, and no word (docs/proofs/persons.md#missing-numbers).
    """

    kind: Literal["sum"] = "sum"
    count: Literal["exact", "noisy"] = omitted("exact")

    allows: ClassVar[frozenset[str]] = frozenset(
        {"contributors", "persons", "clip counter", "dither", "server noise", "floor", "stream"}
    )
    start_bits: ClassVar[int] = 24

    def leaves_out(self, setting: Setting) -> bool:
        """Whether a row in which a number is missing is sent as zeros: where rows are counted with noise."""
        return "noisy" in (self.count, setting.count)

    def count_steps(self, setting: Setting) -> int:
        """Return what a row adds to the count: half of the norm bound; of a person's bound, over the root of r."""
        return isqrt(self.person_bound(setting) // (4 * setting.rows_per_person))

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return the words of the row, and one that counts it."""
        bound, steps = isqrt(self.person_bound(setting)), self.count_steps(setting)
        row = Block("row", num_columns, self.sigma, bound, 2.0**-self.fraction_bits)
        if not self.leaves_out(setting):
            return Layout((row,))
        return Layout((row, Block("count", 1, self.sigma, steps, per=steps)), "count", steps)

    def fill(self, steps: IntArray, setting: Setting) -> Mapping[str, Words]:
        """Return the clipped rows, shape `(n, d)`, and what each counts."""
        if not self.leaves_out(setting):
            return {"row": steps}
        return {"row": steps, "count": np.full((len(steps), 1), self.count_steps(setting), np.int64)}

    def decode(self, layout: Layout, sketch: IntArray) -> FloatArray:
        """Return the sum, shape `(d,)`, in normalised units."""
        return layout.first_values(sketch, "row")

    def squared_distance(self, neighbours: Neighbours, num_columns: int, setting: Setting) -> Fraction:
        """Return the largest squared distance (docs/proofs/persons.md#missing-numbers, O2 of #organisations).

        With T the bound of a person's r rows (of one row, r = 1): 4 r T where they are replaced, also by the null row,
        since the count adds a quarter of T only. Where they are gone or null it is r T, and (g r)^2 more under a noisy
        count, of which a row sends g.
        """
        rows = setting.rows_per_person
        alone = Fraction(rows * self.person_bound(setting))
        if neighbours == "replace-one":
            return 4 * alone
        return alone + (self.count_steps(setting) * rows) ** 2 * self.leaves_out(setting)

    def squared_length(self, num_columns: int, setting: Setting) -> int:
        """Return the squared bound of a row, and the square of the count."""
        return self.squared_bound + self.leaves_out(setting) * self.count_steps(setting) ** 2

    @property
    def noisy_count_advice(self) -> str:
        """Return "": rows can always be counted with noise."""
        return ""

    def check_options(self, claim: Claim, num_columns: int, setting: Setting) -> None:
        """Refuse a count of its own where organisations contribute."""
        check_count(self.count, setting)
