"""`ron_gauss`: class counts, means, second moment and histograms of projected rows, enough to make synthetic rows.

After Chanyaswad, Liu, Mittal 2019 (RON-Gauss), as one integer vector per row and one sum. The row is clipped where it
is projected, in integers, so that the promise never depends on the frame; the noise is Gaussian and its joint privacy
exact (docs/explanation/privacy.md#joint).
"""

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt, sqrt
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Real, fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.base import upper_root
from lintra_protocol.mechanisms.encoder import MIN_SIGMA
from lintra_protocol.mechanisms.joint_cells import CountedCells
from lintra_protocol.mechanisms.joint_rows import JointSums, Layout, label_steps, map_rows
from lintra_protocol.mechanisms.layout import Block, Triangle
from lintra_protocol.mechanisms.layout import Layout as Blocks
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.clipping import clip_exactly
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA
from lintra_protocol.noise.joint_noise import Deviations, JointNoise
from lintra_protocol.privacy.bisection import smallest_whole
from lintra_protocol.privacy.discrete import discrete_mu, row_slack
from lintra_protocol.privacy.statement import (
    MAX_SLACK,
    SMOOTHING,
    Claim,
    Neighbours,
    PrivacyStatement,
    additive_statement,
)


class RonGauss(CountedCells):
    """The noisy sum of what a Gaussian model with histograms needs (see `mechanisms.joint` for the order of words).

    Attributes:
        sigma: deviation of a product of two different coordinates; all others follow from it (`deviations`).
        indicator: U, what a row adds to its class count and to its cells; larger means finer noise.
        mean_weight: r of docs/explanation/privacy.md#joint: larger means less noise on sums and counts, more on
            products.
    """

    counts_clipped: ClassVar[bool] = True
    takes_contributors: ClassVar[bool] = True

    kind: Literal["ron_gauss"] = "ron_gauss"
    indicator: int = Field(default=4096, ge=1, le=2**30)
    mean_weight: Real

    # --- sizes -------------------------------------------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        """Return where in a report what stands."""
        return Layout(
            num_classes=self.num_classes,
            num_coordinates=self.num_coordinates,
            per_class=self.covariance == "per_class",
            bins=tuple(number for number in self.bins if number),
            tables=self.tables,
        )

    def num_words(self, num_columns: int) -> int:
        """Return the words of counts, sums, products and all cells, and one for the clip counter."""
        return self.layout.ends[3] + self.clip_words

    # --- bounds and noise --------------------------------------------------------------------------------------

    @property
    def squared_length(self) -> int:
        """Return q = T^2 + Y^2, the largest squared norm of a coordinate vector with its label."""
        return self.bound**2 + self.label_bound**2

    @property
    def joint_noise(self) -> JointNoise:
        """Return how noise is dealt to the parts of the vector."""
        return JointNoise(
            squared_length=self.squared_length,
            indicator=self.indicator,
            num_coordinates=self.layout.num_coordinates,
            num_classes=self.num_classes,
            num_histograms=len(self.histogram_columns),
            squared_weight=fraction(self.mean_weight) ** 2,
            num_tables=len(self.pairs),
            squared_table_weight=fraction(self.pair_weight) ** 2,
            squared_count_weight=fraction(self.count_weight) ** 2,
        )

    @property
    def deviations(self) -> Deviations:
        """Return the deviations of one client's noise, in ring units."""
        return self.joint_noise.deviations(self.sigma)

    @property
    def least_sigma(self) -> int:
        """Return the smallest deviation of any word."""
        return min(self._present(self.sigma))

    def _present(self, sigma: int) -> list[int]:
        """Return the deviations of the words that there are; a clip counter has that of a product."""
        return self.joint_noise.present(sigma) + [sigma] * self.clip_words

    def sigmas(self, num_columns: int) -> IntArray:
        """Return the deviation of every word's noise, shape `(w,)`."""
        own = self.deviations
        filled = self.layout.fill(own.counts, own.sums, own.squares, own.products, own.histograms, own.tables)
        return np.pad(filled.astype(np.int64), (0, self.clip_words), constant_values=self.sigma)

    def largest_word(self) -> int:
        """Return the largest absolute value of a word of a noiseless report: T^2 or U, or the clip counter's g."""
        return max(self.bound**2, self.indicator, self.clip_steps)

    def squared_distance(self, claim: Claim, num_columns: int) -> Fraction:
        """Return the largest squared distance of neighbouring reports (Theorem J3, docs/explanation/privacy.md#joint).

        Each entry is counted in multiples of its noise's deviation over `sigma`.
        """
        return self.sigma**2 * self._squared_mu(self.sigma, claim.neighbours, 1, Fraction(0))

    def squared_row_distance(self, neighbours: Neighbours) -> Fraction:
        """Return the largest squared distance without the clip counter, at the planned proportions of the noise."""
        return self.joint_noise.squared_row_distance(neighbours)

    def _squared_mu(self, sigma: int, neighbours: Neighbours, honest: int, given_up: Fraction) -> Fraction:
        """Return mu^2 of Theorem J3, and what the clip counter adds (docs/explanation/privacy.md#clip-counter)."""

        def of_rows(which: Neighbours) -> Fraction:
            return self.joint_noise.squared_mu(sigma, which, honest, given_up)

        squared_mu = self.squared_places * self._of_persons(of_rows, neighbours)
        return squared_mu + Fraction(self.clip_steps**2) / (honest * sigma**2 - given_up)

    def _additive(self, claim: Claim, num_columns: int, num_clients: int, smallest_row: int) -> PrivacyStatement:
        """State the privacy: Theorem J3 with every variance reduced for the lattice, word by word (Theorem D1)."""
        given_up, honest = Fraction(SMOOTHING), max(smallest_row, 1)
        squared_mu = self._squared_mu(self.sigma, claim.neighbours, honest, given_up)
        num_words = self.num_words(num_columns)
        return additive_statement(
            claim,
            # The statement divides by the variance of a product; the other words' is in mu already.
            distance=upper_root(squared_mu * (honest * self.sigma**2 - given_up)),
            sigma=self.sigma,
            num_words=num_words,
            num_clients=num_clients,
            smallest_row=smallest_row,
            slack=row_slack(honest, num_words, float(self.least_sigma) ** 2, SMOOTHING),
            persons=self.persons,
        )

    @property
    def count_deviation(self) -> float:
        """Return the deviation of the sum of all classes' counts."""
        return self.deviations.counts / self.indicator * sqrt(self.num_classes)

    @property
    def has_noisy_count(self) -> bool:
        """Whether the counts of classes add up to the number of rows: only where there are classes."""
        return self.num_classes > 1

    def noisy_count_advice(self) -> str:
        """Return in words what is needed for a noisy count."""
        return "count 'noisy': ron_gauss counts rows by the classes of a label; name a label with levels"

    def noisy_rows(self, sketch: IntArray) -> float:
        """Return what the counts of all classes add up to, in rows, of a sum of shape `(1, w)`."""
        return float(sketch[0, : self.layout.ends[0]].sum()) / self.indicator

    # --- the roles' parts --------------------------------------------------------------------------------------

    def round_rows(self, rows: FloatArray) -> IntArray:
        """Turn normalised rows of shape `(n, d)` into integers of shape `(n, 1 + p + H + P)`: class, vector, cells."""
        mapped = map_rows(rows, self.levels, self.bins, self.label, self.edges)
        parts = [mapped.classes, clip_exactly(self._projected(mapped), self.bound)]
        if self.has_numeric_label:
            parts.append(label_steps(rows[:, self.label], self.label_bound))
        return np.column_stack([*parts, self.cells_of(mapped)])

    def shrinks(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say for each of some normalised rows of shape `(n, d)` whether it is longer than T where it is projected."""
        projected = self._projected(map_rows(rows, self.levels, self.bins, self.label))
        longer: NDArray[np.bool_] = np.square(projected).sum(axis=1) > self.bound**2
        return longer

    def encode_exactly(self, steps: IntArray) -> IntArray:
        """Turn what `round_rows` returns into noiseless reports of shape `(n, w)`."""
        layout = self.layout
        end = 1 + layout.num_coordinates
        return layout.pack(steps[:, 0], steps[:, 1:end], steps[:, end:], self.indicator)

    def decode(self, sketch: IntArray, num_columns: int) -> FloatArray:
        """Return the sum, shape `(w,)`: counts and cells in rows, sums and products in feature units."""
        step = 2.0**-self.fraction_bits
        values: FloatArray = sketch[0, : self.layout.ends[3]] * self.layout.fill(
            1 / self.indicator, step, step**2, step**2, 1 / self.indicator, 1 / self.indicator
        )
        return values

    def unpack(self, values: FloatArray) -> JointSums:
        """Take a sum of shape `(w,)` apart; a numeric label of 1 is `label_bound` steps of 2^-`fraction_bits`."""
        return self.layout.unpack(values)

    def clipping_rule(self) -> str:
        """Return in words what a client does to a row that is too large."""
        projected = f"projected to {self.dimension} of {self.num_features} dimensions and " if self.frame_seed else ""
        return f"mapped rows are {projected}shrunk to norm {self.row_bound}"

    # --- what a task may say -----------------------------------------------------------------------------------

    def check(self, claim: Claim, num_columns: int, max_clients: int) -> None:
        """Refuse parameters that break the claim, may overflow the ring or do not fit together.

        Raises:
            InvalidTaskError, RowUnderfilledError, FalseClaimError: see `Mechanism.check`.
        """
        self._require_shape(num_columns)
        self._require_grid()
        if fraction(self.row_bound) > 0:
            self._require_noise()
        super().check(claim, num_columns, max_clients)

    def _require_shape(self, num_columns: int) -> None:
        self._require_projection(num_columns)
        self._require_cells()
        if fraction(self.mean_weight) <= 0 or fraction(self.mean_weight) ** 2 > 2:
            raise InvalidTaskError(f"mean_weight lies between 0 and sqrt(2), got {self.mean_weight}")

    def _require_noise(self) -> None:
        found = self._present(self.sigma)
        if not MIN_SIGMA <= min(found) <= max(found) <= MAX_SIGMA:
            raise InvalidTaskError(
                f"deviations lie between {MIN_SIGMA} and {MAX_SIGMA}, got {min(found)}..{max(found)}"
            )

    def check_columns(self, columns: Sequence[Column]) -> None:
        """Refuse columns that this mechanism does not fit.

        Raises:
            InvalidTaskError: levels differ, or bounds are not mapped to -1 and 1.
        """
        super().check_columns(columns)
        self._require_values(columns)

    def calibrated(self, claim: Claim, num_columns: int, max_clients: int) -> Self:
        """Return this mechanism with the finest grid that fits, and the smallest sigma that keeps the claim."""
        self._require_shape(num_columns)
        return super().calibrated(claim, num_columns, max_clients)

    def smallest_sigma(self, claim: Claim, num_columns: int) -> int:
        """Return the smallest sigma that keeps the claim at the minimum cohort (see `Mechanism.smallest_sigma`)."""
        honest = self.smallest_row(claim.min_clients, claim)
        if honest < 1:
            self.privacy(claim, num_columns, claim.min_clients)  # which knows the words for this refusal
        if not self.bound:
            return MIN_SIGMA  # which `check` refuses
        mu = discrete_mu(claim.float_epsilon, claim.noise_delta, MAX_SLACK)
        target = Fraction(mu * (1 - 1e-11)) ** 2

        def keeps(sigma: int) -> bool:
            return (
                min(self._present(sigma)) >= MIN_SIGMA
                and self._squared_mu(sigma, claim.neighbours, honest, Fraction(SMOOTHING)) <= target
            )

        # mu^2 falls nearly as 1/sigma^2: from where nothing is rounded up to an integer, one step of that law. What is
        # left comes from the smallest deviation being whole.
        planned = self.squared_places * self.squared_person_distance(claim.neighbours) / (target * honest)
        first = max(MIN_SIGMA, isqrt(int(planned)))
        there = self._squared_mu(first, claim.neighbours, honest, Fraction(SMOOTHING))
        return smallest_whole(MIN_SIGMA, keeps, guess=isqrt(int(first**2 * there / target)) + 1)

    def blocks(self, num_columns: int, setting: Setting) -> Blocks:
        """Return counts, sums and products of classes, the cells of histograms and those of pair tables."""
        own, step, joint = self.deviations, 2.0**-self.fraction_bits, self.layout
        largest, row = max(self.bound**2, self.indicator), 1 / self.indicator
        products = Triangle(self.num_coordinates, own.products, own.squares, joint.num_blocks)
        blocks = (
            Block("counts", joint.num_counts, own.counts, self.indicator, row),
            Block("sums", self.num_classes * self.num_coordinates, own.sums, self.bound, step),
            Block("products", products.size, products, largest, step**2),
            Block("histograms", sum(joint.bins), own.histograms, self.indicator, row),
            Block("tables", sum(joint.tables), own.tables, self.indicator, row),
        )
        return Blocks(blocks, "counts" * (joint.num_counts > 0), self.indicator)
