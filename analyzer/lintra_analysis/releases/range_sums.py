"""A released sum of products of all columns with a few: the range of second moments that are too many to release."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lintra_analysis.releases.checks import check_noise_sd, check_release, checked_shape
from lintra_analysis.releases.clipped import ClippedRows
from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.columns import ScaledColumn, positions, require_workable
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError


@dataclass(frozen=True, eq=False, repr=False)
class TargetProducts:
    """The noisy sum of z a, where a is one column moved into [-bound, bound]."""

    column: int
    bound: float  #: in normalised units
    values: FloatArray  #: shape `(d,)`
    noise_sd: float  #: sd of the noise in every entry


@dataclass(frozen=True, eq=False, repr=False)
class RangeSums:
    """The noisy sum of z (W^T z)^T, W public: M W and noise, where M is the sum of z z^T.

    The range finder of Halko, Martinsson and Tropp (2011). Rows whose W^T z is longer than `projected_bound` count
    there with a shorter one, so that M is a little too small.
    """

    columns: tuple[ScaledColumn, ...]  #: the d columns
    values: FloatArray  #: shape `(d, r)`
    projection: FloatArray  #: W, the public signs divided by sqrt(r), shape `(d, r)`
    noise_sd: float  #: sd of the noise in every entry of `values`
    num_clients: int  #: rows of Z
    row_bound: float  #: the L2 norm that no row of Z exceeds
    projected_bound: float  #: the L2 norm that no W^T z exceeds
    sums: Totals | None = None  #: of the columns, with noise of their own; None where they are not released
    targets: tuple[TargetProducts, ...] = ()  #: products of all columns with single ones
    trace: float | None = None  #: of M, with noise; None where it is not released
    trace_sd: float = 0.0  #: sd of that noise
    clipped: ClippedRows | None = None  #: how many rows clipping changed; None if nobody counted

    def __post_init__(self) -> None:
        check_release(self.columns, self.num_clients, self.row_bound)
        checked_shape(self.projection, (len(self.columns), None))
        checked_shape(self.values, self.projection.shape)
        check_noise_sd(self.noise_sd)
        require_workable(self.values, self.noise_sd, self.row_bound)
        for target in self.targets:
            checked_shape(target.values, (len(self.columns),))
            check_noise_sd(target.noise_sd)
        check_noise_sd(self.trace_sd)
        if self.trace is not None:
            checked_shape(np.array([self.trace]), (1,))

    def __repr__(self) -> str:
        return f"RangeSums(columns={len(self.columns)}, rank={self.rank}, num_clients={self.num_clients})"

    @property
    def rank(self) -> int:
        """Return r."""
        return int(self.projection.shape[1])

    def restrict(self, names: Sequence[str]) -> "RangeSums":
        """Return the release itself, if all columns are named in order.

        Raises InvalidAnalysisError if they are not; every released product has all columns in it.
        """
        if positions(self.columns, names).tolist() != list(range(len(self.columns))):
            raise InvalidAnalysisError(
                "a range finder mixes all columns in every product, so none can be left out afterwards; ask for all "
                "columns, or release one of these alone"
            )
        return self

    def table(self) -> tuple[list[str], FloatArray]:
        """Return lines, shape `(k, d)`: for the sums, if there are any, for each target and for each column of W."""
        sums = [] if self.sums is None else [self.sums.values]
        lines = [*sums, *(target.values for target in self.targets), *self.values.T]
        return [column.name for column in self.columns], np.array(lines)

    def about_means(self) -> tuple[FloatArray, FloatArray]:
        """Return the products about the means, shape `(d, r)`, and those of the targets, shape `(d, k)`.

        With m the means they are less n m (W^T m)^T, where m is drawn towards the centers as far as its noise could
        have made it so long (`kept_of_means`): else the noise of thousands of means would stand there as a direction.
        Raises InvalidAnalysisError if the sums of the columns are not released.
        """
        if self.sums is None:
            raise InvalidAnalysisError("means are not in this release; ask for a range finder with an intercept")
        means = self.sums.values / self.num_clients * self.kept_of_means
        targets = np.array([target.values for target in self.targets]).reshape(-1, len(self.columns)).T
        own = np.array([means[target.column] for target in self.targets])
        return (
            self.values - self.num_clients * np.outer(means, means @ self.projection),
            targets - self.num_clients * np.outer(means, own),
        )

    @property
    def kept_of_means(self) -> float:
        """Return what is kept of the means where products are taken about them: 1 - d s^2 / |sums|^2, at least 0.

        The positive part of James and Stein (1961), s the deviation of the noise in a sum. It is 1 without sums.
        """
        if self.sums is None:
            return 1.0
        squared, noise = float(np.square(self.sums.values).sum()), len(self.columns) * self.sums.noise_sd**2
        return max(0.0, 1.0 - noise / squared) if squared > 0 else 0.0

    @property
    def noise_of_means(self) -> float:
        """Return how large a direction the noise of the means makes in products about them, about; 0 without sums.

        With m the means and e their noise the products lose n (m e^T + e m^T) W as well, of size n |m| |e|.
        """
        if self.sums is None:
            return 0.0
        length = float(np.linalg.norm(self.sums.values)) / self.num_clients * self.kept_of_means
        return length * self.sums.noise_sd * float(np.sqrt(len(self.columns)))

    def trace_about_means(self) -> float | None:
        """Return the trace less n |m|^2 where sums are released, less what their noise adds to it; None without one."""
        if self.trace is None or self.sums is None:
            return self.trace
        squares = float(np.square(self.sums.values).sum()) - len(self.columns) * self.sums.noise_sd**2
        return self.trace - squares / self.num_clients
