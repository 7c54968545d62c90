"""`ron_gauss_centred`: the second of two rounds, products of projected rows about the means that the first released.

About its class's mean a row is shorter than about the middle of the bounds, so that the products need less noise. The
centres are released numbers and stand in the task; counts, sums and histograms were the first round's.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from lintra_protocol.crypto.randomness import RandomBytes, no_randomness
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.encoding.documents import Identifier
from lintra_protocol.errors import InvalidMessageError, InvalidTaskError
from lintra_protocol.mechanisms.base import squared_distance_of_persons
from lintra_protocol.mechanisms.directions import SECOND_OF_TWO
from lintra_protocol.mechanisms.joint_rows import FEATURE_BITS, label_steps, map_rows
from lintra_protocol.mechanisms.layout import Block, Layout, Products, Triangle, Words
from lintra_protocol.mechanisms.projected import ProjectedRows
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.clipping import clip_exactly
from lintra_protocol.privacy.statement import Claim, Neighbours, PrivacyStatement

MAX_CENTRE = 1 << 25
"""Largest entry of a centre in steps of 2^-15; no feature of any projected row is larger."""

MAX_SQUARED_CENTRE = 1 << 58
"""Largest squared norm of a centre: differences to it keep their squares below 2^62."""

Entry = Annotated[int, Field(ge=-MAX_CENTRE, le=MAX_CENTRE)]


class RonGaussCentred(ProjectedRows):
    """The noisy sum of u u^T, u a projected row less the centre of its class and then clipped to `row_bound`.

    A report is the upper triangle in the order (1,1), (1,2), .., (2,2), .., pooled or in the block of the row's class.
    A numeric label is the last coordinate, in steps of 1 / `label_bound`, and is clipped together with the others.

    Attributes:
        row_bound: norm that centred rows are clipped to, in feature units.
        after: identifier of the task of the first round.
        centers: for each class its centre in steps of 2^-15: of a feature unit, or of a numeric label of 1.
    """

    kind: Literal["ron_gauss_centred"] = "ron_gauss_centred"
    after: Identifier
    centers: tuple[tuple[Entry, ...], ...]

    allows: ClassVar[frozenset[str]] = ProjectedRows.allows | {"floor"}

    @model_validator(mode="after")
    def _one_centre_for_each_class(self) -> Self:
        if [len(centre) for centre in self.centers] != [self.num_coordinates] * self.num_classes:
            raise ValueError(f"{self.num_classes} centers of {self.num_coordinates} numbers each are needed")
        if self.has_numeric_label and abs(self.centers[0][-1]) > 1 << FEATURE_BITS:
            raise ValueError("the center of a numeric label lies between its bounds")
        return self

    @property
    def triangle(self) -> int:
        """Return P (P + 1) / 2, the words of one matrix of products."""
        return self.num_coordinates * (self.num_coordinates + 1) // 2

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return the products, pooled or of each class."""
        sigmas = Triangle.of_products(self.num_coordinates, self.sigma, self.num_blocks)
        return Layout((Block("products", sigmas.size, sigmas, self.bound**2, 4.0**-self.fraction_bits),))

    def fill(self, steps: IntArray, setting: Setting) -> Mapping[str, Words]:
        """Return the products of clipped rows, which `clip` returns as class and vector, shape `(n, 1 + P)`."""
        vectors = steps[:, 1:]
        if self.num_blocks == 1:
            return {"products": Products(vectors, vectors, "upper")}
        blocks = np.zeros((len(steps), self.num_blocks, self.triangle), np.int64)
        blocks[np.arange(len(steps)), steps[:, 0]] = Products(vectors, vectors, "upper").of_each_row()
        return {"products": blocks.reshape(len(steps), -1)}

    def squared_distance(self, neighbours: Neighbours, num_columns: int, setting: Setting) -> Fraction:
        """Return the largest squared distance of neighbouring products in multiples of `sigma`: T^4, or T^4 / 2.

        Theorem J6 (docs/proofs/joint.md#joint); the same pooled and by class. Of persons it is Lemma O0's.
        """

        def of_rows(between: Neighbours) -> Fraction:
            return Fraction(self.bound**4, 1 if between == "replace-one" else 2)

        return squared_distance_of_persons(of_rows, neighbours, setting)

    # --- the roles' parts --------------------------------------------------------------------------------------

    def steps_of_centers(self) -> IntArray:
        """Return what is subtracted from rows of each class, shape `(K, P)`: centres on the row's grid.

        Features in steps of 2^-f, a numeric label in steps of 1 / `label_bound`; rounded half up.
        """
        centres = np.array(self.centers, np.int64)
        bits = FEATURE_BITS - self.fraction_bits
        result: IntArray = centres + (1 << bits >> 1) >> bits
        if self.has_numeric_label:
            result[:, -1] = centres[:, -1] * self.label_bound + (1 << FEATURE_BITS - 1) >> FEATURE_BITS
        return result

    def _centred(self, rows: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the class of each row, shape `(n,)`, and the row about its centre, shape `(n, P)`."""
        mapped = map_rows(rows, self.levels, (0,) * len(self.levels), self.label)
        parts = [self._projected(mapped)]
        if self.has_numeric_label:
            parts.append(label_steps(rows[:, self.label], self.label_bound)[:, np.newaxis])
        return mapped.classes, np.hstack(parts) - self.steps_of_centers()[mapped.classes]

    def clip(self, rows: FloatArray, setting: Setting, random_bytes: RandomBytes = no_randomness) -> IntArray:
        """Turn normalised rows of shape `(n, d)` into integers of shape `(n, 1 + P)`: class and clipped vector."""
        classes, vectors = self._centred(rows)
        return np.column_stack([classes, clip_exactly(vectors, self.bound)])

    def is_clipped(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say for each of some normalised rows of shape `(n, d)` whether it is farther than T from its centre."""
        longer: NDArray[np.bool_] = np.square(self._centred(rows)[1]).sum(axis=1) > self.bound**2
        return longer

    def decode(self, layout: Layout, sketch: IntArray) -> FloatArray:
        """Return the products, shape `(w,)` without the clip counter, in squared feature units."""
        return layout.first_values(sketch, "products")

    def unpack(self, values: FloatArray) -> FloatArray:
        """Return a decoded sum as symmetric matrices of shape `(1, P, P)`, or `(K, P, P)` by class.

        A numeric label of 1 is `label_bound` steps of 2^-`fraction_bits`.

        Raises:
            ValueError: another number of words.
        """
        if values.shape != (self.num_blocks * self.triangle,):
            raise ValueError(f"expected {self.num_blocks * self.triangle} words, got an array of shape {values.shape}")
        first, second = np.triu_indices(self.num_coordinates)
        matrices = np.zeros((self.num_blocks, self.num_coordinates, self.num_coordinates))
        matrices[:, first, second] = values.reshape(self.num_blocks, -1)
        matrices[:, second, first] = matrices[:, first, second]
        return matrices

    def clipping_rule(self, setting: Setting) -> str:
        """Return in words what a client does to a row that is too large."""
        projected = f"projected to {self.dimension} of {self.num_features} dimensions, " if self.frame_seed else ""
        return f"mapped rows are {projected}taken about the centre of their class and shrunk to norm {self.row_bound}"

    def remark(self, privacy: PrivacyStatement) -> str:
        """Return that this promise is not the whole of what the same people are promised."""
        del privacy
        return f"{SECOND_OF_TWO}, and rows of both rounds have the larger epsilon that stands beside them"

    @property
    def noisy_count_advice(self) -> str:
        """Return in words what is possible instead of a noisy count."""
        return "count 'noisy': products about centres count no rows; use count 'exact', in the first round too"

    # --- what a task may say -----------------------------------------------------------------------------------

    def check_options(self, claim: Claim, num_columns: int, setting: Setting) -> None:
        """Raise InvalidTaskError for options of no projection, centres out of reach, or no first round."""
        super().check_options(claim, num_columns, setting)
        if max(sum(entry**2 for entry in centre) for centre in self.centers) > MAX_SQUARED_CENTRE:
            raise InvalidTaskError("a centre is farther from the middle than any row can be")
        try:
            parse_base64url(self.after, 32)
        except InvalidMessageError as error:
            raise InvalidTaskError(f"after: {error.detail}") from None
