"""What a release answers to questions about something that it does not hold."""

from typing import NoReturn

from lintra_analysis.releases.clipped import ClippedRows
from lintra_protocol.errors import InvalidAnalysisError


class Refusals:
    """The answers of a release that holds neither sums of rows on their own nor the joint sums of synthetic rows."""

    @property
    def clipped(self) -> ClippedRows | None:
        """Return None: nobody counted the rows that clipping changed."""
        return None

    def totals(self) -> None:
        """Return None: the release holds no sums of rows on their own."""
        return

    def rounds(self) -> NoReturn:
        """Refuse: synthetic rows are modelled on joint sums.

        Raises:
            InvalidAnalysisError: always.
        """
        refuse_rounds()

    def cells(self) -> NoReturn:
        """Refuse: the release is no histogram.

        Raises:
            InvalidAnalysisError: always.
        """
        refuse_cells()

    def range_sums(self) -> NoReturn:
        """Refuse: the release is no range finder.

        Raises:
            InvalidAnalysisError: always.
        """
        refuse_range_sums()


def refuse_range_sums() -> NoReturn:
    """Say that a release holds no products with projected columns.

    Raises:
        InvalidAnalysisError: always.
    """
    raise InvalidAnalysisError(
        "this release is no range finder; ask for `pca` or `regression`, which need all second moments, or release a "
        "range_finder where columns are too many for that"
    )


def refuse_cells() -> NoReturn:
    """Say that a release holds no cells.

    Raises:
        InvalidAnalysisError: always.
    """
    raise InvalidAnalysisError(
        "this release counts no rows in cells, so it holds no quantiles; release a histogram of these columns"
    )


def refuse_rounds() -> NoReturn:
    """Say that a release is not one that synthetic rows can be modelled on.

    Raises:
        InvalidAnalysisError: always.
    """
    raise InvalidAnalysisError(
        "synthetic rows need a release of the mechanism ron_gauss: class counts, sums, products and histograms"
    )
