"""`histogram_laplace`: rows in cells with pure epsilon; the noise of honest clients adds up to Laplace noise."""

from typing import ClassVar, Literal

from pydantic import Field

from lintra_protocol.mechanisms.histogram import Histogram
from lintra_protocol.mechanisms.laplace_law import LaplaceNoise
from lintra_protocol.mechanisms.layout import Layout
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Neighbours


class HistogramLaplace(Histogram, LaplaceNoise):
    """The noisy number of rows in each cell, as `histogram`, whose release needs no delta."""

    kind: Literal["histogram_laplace"] = "histogram_laplace"  # type: ignore[assignment]
    indicator: int = Field(default=64, ge=1, le=2**30)

    allows: ClassVar[frozenset[str]] = frozenset({"levels"})

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return the words of `histogram`."""
        return super().blocks(num_columns, setting).with_spread(self.spread)

    def squared_length(self, num_columns: int, setting: Setting) -> None:  # type: ignore[override]
        """Return None: no proof bounds reports with such noise."""
        del num_columns, setting

    def moved_words(self, neighbours: Neighbours, num_columns: int, setting: Setting) -> int:
        """Return two cells of each histogram; one where a row becomes the null row."""
        del num_columns, setting
        return len(self.counted_cells) * (2 if neighbours == "replace-one" else 1)
