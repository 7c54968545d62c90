"""`ron_gauss`: class counts, means, second moment and histograms of projected rows, enough to make synthetic rows.

After Chanyaswad, Liu, Mittal 2019 (RON-Gauss), as one integer vector per row and one sum. The row is clipped where it
is projected, in integers, so that the promise never depends on the frame; the noise is Gaussian and its joint privacy
exact (docs/proofs/joint.md#joint).
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from lintra_protocol.crypto.randomness import RandomBytes, no_randomness
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Real, fraction, omitted
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.joint_cells import MAX_BINS, CountedCells
from lintra_protocol.mechanisms.joint_law import JointLaw
from lintra_protocol.mechanisms.joint_rows import FEATURE_BITS, JointSums, JointWords, label_steps, map_rows
from lintra_protocol.mechanisms.layout import CLIPPED, ROWS, Block, Layout, Products, Triangle, Words
from lintra_protocol.mechanisms.projected import MAX_FEATURES, ProjectedRows
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.clipping import clip_exactly
from lintra_protocol.noise.joint_noise import Deviations, JointNoise
from lintra_protocol.privacy.statement import Claim, Neighbours

MAX_PAIRS = 1 << 14
MAX_WEIGHT = 64
"""Largest weight of counts and of pair tables: beyond it the rest of a report is all noise."""

_Step = Annotated[int, Field(gt=-(1 << FEATURE_BITS), le=1 << FEATURE_BITS)]
_Number = Annotated[int, Field(ge=0, lt=MAX_FEATURES)]


class RonGauss(ProjectedRows):
    """The noisy sum of what a Gaussian model with histograms needs (for the order of words see `JointWords`).

    All of `edges` and below are left out of the canonical encoding where they say nothing, so that tasks without them
    keep their identifiers.

    Attributes:
        sigma: deviation of a product of two different coordinates; all others follow from it (`deviations`).
        indicator: U, what a row adds to its class count and to its cells; larger means finer noise.
        mean_weight: r of docs/proofs/joint.md#joint: larger means less noise on sums and counts, more on
            products.
        bins: for each column how many cells its histogram has, 0 for none.
        edges: for each column where its cells begin, in steps of 2^-15, the first left out; none for equal width.
        pairs: numbers of two columns that are counted together, the smaller first, in ascending order.
        pair_bins: for each column its cells in pair tables, at most those of its histogram; 0 where it is in none.
        pair_weight: of all pair tables together, where that of all histograms together is 1.
        count_weight: by which the noise of a class count is divided; at 1 counts are free.
    """

    kind: Literal["ron_gauss"] = "ron_gauss"

    indicator: int = Field(default=4096, ge=1, le=2**30)
    mean_weight: Real
    bins: tuple[Annotated[int, Field(ge=0, le=MAX_BINS)], ...]
    edges: tuple[tuple[_Step, ...], ...] = omitted(())
    pairs: tuple[tuple[_Number, _Number], ...] = omitted((), max_length=MAX_PAIRS)
    pair_bins: tuple[Annotated[int, Field(ge=0, le=MAX_BINS)], ...] = omitted(())
    pair_weight: Real = omitted("1")
    count_weight: Real = omitted("1")

    allows: ClassVar[frozenset[str]] = ProjectedRows.allows | {"floor"}

    @model_validator(mode="after")
    def _bins_of_columns(self) -> Self:
        for name, given in (("bins", self.bins), ("edges", self.edges), ("pair_bins", self.pair_bins)):
            if len(given) != len(self.levels) and (given or name == "bins"):
                raise ValueError(f"{len(self.levels)} columns have levels, {len(given)} have {name}")
        if bool(self.pairs) != bool(self.pair_bins):
            raise ValueError("pairs and pair_bins stand together")
        return self

    # --- what a report holds -------------------------------------------------------------------------------------

    @property
    def counted(self) -> CountedCells:
        """Return which cells a row enters."""
        return CountedCells(self.levels, self.label, self.bins, self.edges, self.pairs, self.pair_bins)

    @property
    def joint(self) -> JointWords:
        """Return what a report has, in the order of its words."""
        return JointWords(
            num_classes=self.num_classes,
            num_coordinates=self.num_coordinates,
            per_class=self.covariance == "per_class",
            bins=tuple(number for number in self.bins if number),
            tables=self.counted.tables,
        )

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return counts, sums and products of classes, the cells of histograms and those of pair tables."""
        sigmas, step, joint = self.deviations, 2.0**-self.fraction_bits, self.joint
        largest, row = max(self.bound**2, self.indicator), 1 / self.indicator
        products = Triangle(joint.num_coordinates, sigmas.products, sigmas.squares, joint.num_blocks)
        blocks = (
            Block("counts", joint.num_counts, sigmas.counts, self.indicator, row),
            Block("sums", self.num_classes * joint.num_coordinates, sigmas.sums, self.bound, step),
            Block("products", products.size, products, largest, step**2),
            Block("histograms", sum(joint.bins), sigmas.histograms, self.indicator, row),
            Block("tables", sum(joint.tables), sigmas.tables, self.indicator, row),
        )
        return Layout(blocks, "counts", self.indicator) if joint.num_counts else Layout(blocks)

    def fill(self, steps: IntArray, setting: Setting) -> Mapping[str, Words]:
        """Return the words of clipped rows, which `clip` returns as class, vector and cells, shape `(n, 1 + P + H)`."""
        joint, end = self.joint, 1 + self.num_coordinates
        classes, vectors = steps[:, 0], steps[:, 1:end]
        cells = joint.cell_words(steps[:, end:], self.indicator)
        pooled = joint.num_blocks == 1
        products = Products(vectors, vectors, "upper") if pooled else joint.products_by_class(classes, vectors)
        return {
            "counts": joint.by_class(classes, np.full((len(steps), 1), self.indicator, np.int64)),
            "sums": joint.by_class(classes, vectors),
            "products": products,
            "histograms": cells[:, : sum(joint.bins)],
            "tables": cells[:, sum(joint.bins) :],
        }

    def clip(self, rows: FloatArray, setting: Setting, random_bytes: RandomBytes = no_randomness) -> IntArray:
        """Turn normalised rows of shape `(n, d)` into integers of shape `(n, 1 + P + H)`: class, vector, cells.

        Raises:
            ValueError: a value is infinite, or the rows have another number of columns.
            InvalidTaskError: the task's frame is not the one that its digest names.
        """
        mapped = map_rows(rows, self.levels, self.bins, self.label, self.edges)
        parts = [mapped.classes, clip_exactly(self._projected(mapped), self.bound)]
        if self.has_numeric_label:
            parts.append(label_steps(rows[:, self.label], self.label_bound))
        return np.column_stack([*parts, self.counted.cells_of(mapped)])

    def is_clipped(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say for each of some normalised rows of shape `(n, d)` whether it is longer than T where it is projected."""
        projected = self._projected(map_rows(rows, self.levels, self.bins, self.label))
        longer: NDArray[np.bool_] = np.square(projected).sum(axis=1) > self.bound**2
        return longer

    def clipping_rule(self, setting: Setting) -> str:
        """Return in words what a client does to a row that is too large."""
        projected = f"projected to {self.dimension} of {self.num_features} dimensions and " if self.frame_seed else ""
        return f"mapped rows are {projected}shrunk to norm {self.row_bound}"

    def decode(self, layout: Layout, sketch: IntArray) -> FloatArray:
        """Return the sum, shape `(w,)`: counts and cells in rows, sums and products in feature units."""
        names = [block.name for block in layout.blocks if block.name not in {CLIPPED, ROWS}]
        return np.concatenate([layout.first_values(sketch, name) for name in names])

    def unpack(self, values: FloatArray) -> JointSums:
        """Take a sum of shape `(w,)` apart; a numeric label of 1 is `label_bound` steps of 2^-`fraction_bits`."""
        return self.joint.unpack(values)

    # --- noise, and what a row or a person can move --------------------------------------------------------------

    @property
    def squared_vector_bound(self) -> int:
        """Return q = T^2 + Y^2, the largest squared norm of a coordinate vector with its label."""
        return self.bound**2 + self.label_bound**2

    @property
    def joint_noise(self) -> JointNoise:
        """Return how noise is dealt to the parts of the vector."""
        return JointNoise(
            squared_length=self.squared_vector_bound,
            indicator=self.indicator,
            num_coordinates=self.num_coordinates,
            num_classes=self.num_classes,
            num_histograms=len(self.counted.histogram_columns),
            squared_weight=fraction(self.mean_weight) ** 2,
            num_tables=len(self.pairs),
            squared_table_weight=fraction(self.pair_weight) ** 2,
            squared_count_weight=fraction(self.count_weight) ** 2,
        )

    @property
    def deviations(self) -> Deviations:
        """Return the deviations of one client's noise, in ring units; all 0 in a document that is refused."""
        return self.joint_noise.deviations(self.sigma) if self._is_scaled else Deviations(0, 0, 0, 0, 0, 0)

    @property
    def _is_scaled(self) -> bool:
        """Whether what noise is divided by is positive."""
        weights = (self.mean_weight, self.pair_weight, self.count_weight)
        return self.bound > 0 and all(fraction(weight) for weight in weights)

    @property
    def noise_law(self) -> JointLaw:
        """Return the law of noise that is dealt to the parts of the vector."""
        return JointLaw(self.sigma, self.joint_noise, floor=self.floor)

    def squared_distance(self, neighbours: Neighbours, num_columns: int, setting: Setting) -> Fraction:
        """Return the largest squared distance of neighbouring reports (Theorem J3, docs/proofs/joint.md#joint).

        Each entry is counted in multiples of its noise's deviation over `sigma`.
        """
        return self.sigma**2 * self.noise_law.squared_mu(neighbours, setting, 1, Fraction(0))

    def squared_clip_scale(self, num_columns: int, setting: Setting) -> Fraction:
        """Return the squared distance of replaced rows at the planned proportions of the noise."""
        return self.joint_noise.squared_row_distance("replace-one") if self._is_scaled else Fraction(0)

    # --- what a task may say -----------------------------------------------------------------------------------

    @property
    def noisy_count_advice(self) -> str:
        """Return in words that classes count rows; "" if there are classes."""
        if self.num_classes > 1:
            return ""
        return "count 'noisy': ron_gauss counts rows by the classes of a label; name a label with levels"

    def check_options(self, claim: Claim, num_columns: int, setting: Setting) -> None:
        """Raise InvalidTaskError for levels, cells or weights that do not fit each other or the columns."""
        super().check_options(claim, num_columns, setting)
        self.counted.check()
        for name, weight in (("pair_weight", self.pair_weight), ("count_weight", self.count_weight)):
            if not 0 < fraction(weight) <= MAX_WEIGHT:
                raise InvalidTaskError(f"{name} lies above 0 and is at most {MAX_WEIGHT}, got {weight}")
        if self.count_weight != "1" and self.num_classes == 1:
            raise InvalidTaskError("count_weight needs a label with levels")
        if self.pair_weight != "1" and not self.pairs:
            raise InvalidTaskError("pair_weight needs pairs")
        if fraction(self.mean_weight) <= 0 or fraction(self.mean_weight) ** 2 > 2:
            raise InvalidTaskError(f"mean_weight lies between 0 and sqrt(2), got {self.mean_weight}")

    def check_columns(self, columns: Sequence[Column]) -> None:
        """Refuse columns that this mechanism does not fit.

        Raises:
            InvalidTaskError: levels differ, bounds are not mapped to -1 and 1, or cells are more than values.
        """
        super().check_columns(columns)
        self.counted.check_values(columns)
