"""`sum_laplace`: the plain sum of the rows with pure epsilon; the noise of honest clients adds up to Laplace noise."""

from typing import ClassVar, Literal

from lintra_protocol.mechanisms.laplace_law import LaplaceNoise
from lintra_protocol.mechanisms.layout import Layout
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.mechanisms.sum import Sum
from lintra_protocol.privacy.statement import Neighbours


class SumLaplace(Sum, LaplaceNoise):
    """The sum over all clients, as `sum`, whose release needs no delta."""

    kind: Literal["sum_laplace"] = "sum_laplace"  # type: ignore[assignment]

    allows: ClassVar[frozenset[str]] = frozenset({"dither"})
    start_bits: ClassVar[int] = 16

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return the words of `sum`."""
        return super().blocks(num_columns, setting).with_spread(self.spread)

    def squared_length(self, num_columns: int, setting: Setting) -> None:  # type: ignore[override]
        """Return None: no proof bounds reports with such noise."""
        del num_columns, setting

    def moved_words(self, neighbours: Neighbours, num_columns: int, setting: Setting) -> int:
        """Return all words: a row may move each of them."""
        del neighbours
        return self.blocks(num_columns, setting).num_words
