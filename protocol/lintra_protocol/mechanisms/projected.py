"""What the two mechanisms on projected rows share: columns to features, the public frame, the integer bound."""

from collections.abc import Sequence
from math import isqrt
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidMessageError, InvalidTaskError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.joint_rows import FEATURE_BITS, MappedRows, feature_slices, project
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.transforms.orthonormal import frame, frame_digest

MAX_FEATURES = 1 << 20
MAX_FRAME_WORK = 1 << 27
"""Largest number of features times squared dimension: a frame of this size takes up to ten seconds."""

NO_LABEL = -1

Hash = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9_-]{43})?$")]


class ProjectedRows(Mechanism):
    """A sum over rows that are mapped to features in [-1, 1] and projected by a public frame.

    A number is one feature, a category of more than two levels one per level, the label none. Projected rows are
    clipped to norm `row_bound`.

    Attributes:
        row_bound: norm that projected rows are clipped to, in feature units.
        sigma: deviation of a product of two different coordinates.
        dimension: p; with as many features there is no projection.
        frame_seed: what the frame is made of; empty without projection.
        frame_digest: of the frame; a client that derives another one stops.
        label: number of the column that is the label, or -1: its levels are classes, or it is one more coordinate.
        levels: for each column how many levels it has, 0 for a number.
        covariance: whether the products are added up over all classes or for each.
    """

    dimension: int = Field(ge=1, le=2**15)
    frame_seed: Hash = ""
    frame_digest: Hash = ""
    label: int = Field(default=NO_LABEL, ge=NO_LABEL, lt=MAX_FEATURES)
    levels: tuple[Annotated[int, Field(ge=0, le=1024)], ...]
    covariance: Literal["pooled", "per_class"] = "pooled"

    start_bits: ClassVar[int] = 20
    allows: ClassVar[frozenset[str]] = frozenset({"contributors", "clip counter", "levels"})

    @model_validator(mode="after")
    def _label_is_a_column(self) -> Self:
        if self.label >= len(self.levels):
            raise ValueError(f"label {self.label} is not the number of one of {len(self.levels)} columns")
        return self

    # --- sizes -------------------------------------------------------------------------------------------------

    @property
    def num_classes(self) -> int:
        """Return K: the levels of the label, or 1."""
        return max(1, self.levels[self.label]) if self.label >= 0 else 1

    @property
    def has_numeric_label(self) -> bool:
        """Return whether the label is one more coordinate."""
        return self.label >= 0 and self.num_classes == 1

    @property
    def num_coordinates(self) -> int:
        """Return P: p, and one more for a numeric label."""
        return self.dimension + self.has_numeric_label

    @property
    def num_blocks(self) -> int:
        """Return how many matrices of products there are."""
        return self.num_classes if self.covariance == "per_class" else 1

    @property
    def feature_levels(self) -> list[int]:
        """Return the levels of the columns that are not the label."""
        return [number for column, number in enumerate(self.levels) if column != self.label]

    @property
    def num_features(self) -> int:
        """Return how many features a row has."""
        slices = feature_slices(self.feature_levels)
        return slices[-1].stop if slices else 0

    @property
    def bound(self) -> int:
        """Return T, the largest norm of a projected row in integer steps."""
        return isqrt(self.squared_bound)

    @property
    def label_bound(self) -> int:
        """Return Y, the steps of a numeric label of 1: half of T, rounded up; 0 without."""
        return (self.bound + 1) // 2 if self.has_numeric_label else 0

    @property
    def sigma_bits(self) -> int:
        """Return 2f."""
        return 2 * self.fraction_bits

    # --- the roles' parts --------------------------------------------------------------------------------------

    def with_centre_for_missing(self, rows: FloatArray) -> FloatArray:
        """Return the rows, shape `(n, d)`, as they are: what is missing has no cell, and its features are filled in."""
        return rows

    def public_frame(self) -> IntArray | None:
        """Return the frame of shape `(num_features, dimension)` in steps of 2^-15; None for no projection.

        Raises InvalidTaskError if the task's digest is that of another frame.
        """
        if not self.frame_seed:
            return None
        found = frame(parse_base64url(self.frame_seed, 32), self.num_features, self.dimension)
        if frame_digest(found) != self.frame_digest:
            raise InvalidTaskError("frame_digest is not that of the frame that frame_seed makes")
        return found

    def _projected(self, mapped: MappedRows) -> IntArray:
        return project(mapped.features, self.public_frame(), self.fraction_bits)

    # --- what a task may say -----------------------------------------------------------------------------------

    def check_options(self, claim: Claim, num_columns: int, setting: Setting) -> None:
        """Raise InvalidTaskError for levels, a frame or a covariance that do not fit each other or the columns."""
        if len(self.levels) != num_columns:
            raise InvalidTaskError(f"levels are those of {len(self.levels)} columns, the task has {num_columns}")
        if 1 in self.levels:
            raise InvalidTaskError("a category has at least 2 levels")
        self._check_frame()
        if self.covariance == "per_class" and self.num_classes == 1:
            raise InvalidTaskError("covariance per_class needs a label with levels")

    def check_grid(self, num_columns: int, setting: Setting) -> None:
        """Raise InvalidTaskError for a grid finer than that of features, and one on which no row is left."""
        if self.fraction_bits > FEATURE_BITS:
            raise InvalidTaskError(f"features have {FEATURE_BITS} fraction bits, got {self.fraction_bits}")
        if fraction(self.row_bound) > 0 and not self.bound:
            raise InvalidTaskError(f"row_bound {self.row_bound} is below one step of 2^-{self.fraction_bits}")

    def _check_frame(self) -> None:
        features = self.num_features
        if not self.dimension <= features <= MAX_FEATURES:
            raise InvalidTaskError(f"dimension {self.dimension} does not fit {features} features")
        if bool(self.frame_seed) != bool(self.frame_digest):
            raise InvalidTaskError("frame_seed and frame_digest stand together")
        if bool(self.frame_seed) != (self.dimension < features):
            raise InvalidTaskError(f"a frame is needed exactly if {features} features become fewer numbers")
        if self.frame_seed and features * self.dimension**2 > MAX_FRAME_WORK:
            raise InvalidTaskError(f"a frame of {features} x {self.dimension} takes a client too long")
        try:
            for text in filter(None, (self.frame_seed, self.frame_digest)):
                parse_base64url(text, 32)
        except InvalidMessageError as error:
            raise InvalidTaskError(f"frame: {error.detail}") from None

    def check_columns(self, columns: Sequence[Column]) -> None:
        """Refuse columns that this mechanism does not fit.

        Raises InvalidTaskError if levels differ, or bounds are not mapped to -1 and 1.
        """
        for column, num_levels in zip(columns, self.levels, strict=True):
            if len(column.levels) != num_levels:
                raise InvalidTaskError(f"column {column.name!r} has {len(column.levels)} levels, not {num_levels}")
            lower, upper = fraction(column.lower), fraction(column.upper)
            width, middle = (upper - lower) / 2, (upper + lower) / 2
            off = max(abs(fraction(column.center) - middle), abs(fraction(column.scale) - width))
            if not num_levels and off > width / 10**9:
                raise InvalidTaskError(f"column {column.name!r}: center and scale must map its bounds to -1 and 1")
