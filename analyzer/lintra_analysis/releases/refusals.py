"""What a release answers to questions about something that it does not hold."""

from typing import NoReturn

from lintra_analysis.releases.clipped import ClippedRows
from lintra_analysis.releases.directions import Directions
from lintra_protocol.errors import InvalidAnalysisError


class NoDirections:
    """What a release says that is about columns and not about directions."""

    @property
    def directions(self) -> Directions | None:
        """Return None: a product is one of columns."""
        return None


class NoRounds(NoDirections):
    """The answer of a release that is not of synthetic rows."""

    def rounds(self) -> NoReturn:
        """Refuse: synthetic rows are modelled on joint sums.

        Raises:
            InvalidAnalysisError: always.
        """
        raise InvalidAnalysisError(
            "synthetic rows need a release of the mechanism ron_gauss: class counts, sums, products and histograms"
        )


class NoCells(NoDirections):
    """The answer of a release that is no histogram."""

    def cells(self) -> NoReturn:
        """Refuse: the release is no histogram.

        Raises:
            InvalidAnalysisError: always.
        """
        raise InvalidAnalysisError(
            "this release counts no rows in cells, so it holds no quantiles; release a histogram of these columns"
        )


class NoRangeSums(NoDirections):
    """The answer of a release that is no range finder."""

    def range_sums(self) -> NoReturn:
        """Refuse: the release is no range finder.

        Raises:
            InvalidAnalysisError: always.
        """
        raise InvalidAnalysisError(
            "this release is no range finder; ask for `pca` or `regression`, which need all second moments, or "
            "release a range_finder where columns are too many for that"
        )


class Refusals(NoRounds, NoCells, NoRangeSums):
    """The answers of a release that holds none of these, nor sums of rows on their own."""

    @property
    def clipped(self) -> ClippedRows | None:
        """Return None: nobody counted the rows that clipping changed."""
        return None

    def totals(self) -> None:
        """Return None: the release holds no sums of rows on their own."""
        return
