"""What every kind of mechanism brings to the analyst's desk: how it is asked for, and what is said before it starts."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from lintra_analysis.kinds.bounds import require_size
from lintra_analysis.kinds.by_kind import ByKind
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.fields.schema import Column, Schema
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.encoder import MIN_SIGMA
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task

M = TypeVar("M", bound=Mechanism)

Count = Literal["exact", "noisy"]


def _spelled(value: object) -> object:
    """Spell a JSON number as a decimal string; what is neither number nor text is left to be refused."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    try:
        return real(value)
    except (ValueError, ArithmeticError):
        raise ValueError("expected a number of at most 18 digits before and 40 after the point") from None


Number = Annotated[Real, BeforeValidator(_spelled), WithJsonSchema({"type": ["number", "string"]})]
"""A number, or a decimal string for those who want to choose its every digit."""


class Asked(BaseModel):
    """A part of what an analyst asks for."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class Circumstances:
    """What else was asked for, as far as a mechanism depends on it.

    Attributes:
        claim: what is promised, of two rounds together if there are two.
        row_bound: norm that rows are clipped to, in normalised units, if one was given.
        max_clients: largest cohort.
        missing: the names of columns whose numbers are expected to be missing in some rows.
        contributors: organisations that send one report each; None where every report is one row.
        noising_servers: N where every server adds the noise; 0 where clients do.
    """

    claim: Claim
    columns: Sequence[Column]
    row_bound: Real | None
    max_clients: int
    random_bytes: RandomBytes
    missing: Sequence[str] = ()
    contributors: Contributors | None = None
    noising_servers: int = 0

    def count(self, asked: Count | None) -> Count:
        """Return how rows are counted: as asked, or noisily where numbers are expected to be missing.

        The rows of organisations are counted as their own field says, and the mechanism's says nothing.

        Raises:
            InvalidTaskError: a count was asked for here, and there are contributors.
        """
        if self.contributors is not None:
            if asked is not None:
                raise InvalidTaskError("mechanism.count: with contributors it stands among their fields; leave it out")
            return "exact"
        return asked or ("noisy" if self.missing else "exact")

    def clip_weight(self, asked: Real | None) -> Real | None:
        """Return the weight of the clip counter: as asked, and none where organisations contribute."""
        return "0" if asked is None and self.contributors is not None else asked

    def uncalibrated(self, kind: str) -> dict[str, object]:
        """Return the fields of a mechanism that needs a row bound; calibration replaces grid and sigma.

        Raises:
            InvalidTaskError: the bound is missing or not positive.
        """
        if self.row_bound is None:
            raise InvalidTaskError(f"row_bound: needed for {kind}, the norm that rows are clipped to")
        if fraction(self.row_bound) <= 0:
            raise InvalidTaskError(f"row_bound: must be positive, got {self.row_bound}")
        return {"row_bound": self.row_bound, "fraction_bits": 0, "sigma": MIN_SIGMA}

    def num_columns(self, *, takes_levels: bool = False) -> int:
        """Return d, the numbers that a row becomes; a category enters as indicators unless `takes_levels`."""
        return len(Schema(tuple(self.columns), indicators=not takes_levels).encoded)

    def told(self, mechanism: M) -> M:
        """Return a mechanism that knows who contributes, and who adds the noise."""
        return mechanism.of_contributors(self.contributors).noised_by(self.noising_servers)

    def calibrated(self, mechanism: M, claim: Claim) -> M:
        """Return a mechanism with the smallest noise that keeps a claim (see `Mechanism.calibrated`)."""
        mechanism = self.told(mechanism)
        num_columns = self.num_columns(takes_levels=mechanism.takes_levels)
        require_size(mechanism, num_columns)
        return mechanism.calibrated(claim, num_columns, self.max_clients)


class MechanismSpecification(Asked):
    """How one kind of mechanism is asked for: its options under the field `mechanism`."""

    kind: str
    clip_count_weight: Number | None = Field(
        default=None,
        description="w of the clip counter, which makes all noise sqrt(1 + w^2) times as large; 0 for none; if not "
        "given, 0.2 where the mechanism can count",
    )
    is_sketch: ClassVar[bool] = False
    """Whether a report enters some rows of many, so that corrupt clients may crowd into one."""
    takes_missing: ClassVar[bool] = False
    """Whether missing numbers have a place of their own: their rows can be left out, or have a cell or none."""
    takes_contributors: ClassVar[bool] = False
    """Whether organisations can be asked for, which send one report each."""
    takes_proofs: ClassVar[bool] = False
    """Whether its reports have a bound that can be proven, so that they can be verified."""
    takes_server_noise: ClassVar[bool] = False
    """Whether servers may add the noise, each its own to its share of the release, in the place of clients."""
    takes_norm: ClassVar[bool] = True
    """Whether `row_bound` is a norm of normalised rows, which must be said; else the kind needs none, or plans one."""

    @property
    def num_rounds(self) -> int:
        """Return how many tasks it takes: 1, unless a kind says more."""
        return 1

    @property
    def first_share(self) -> Real | None:
        """Return which part of mu^2 the first of two rounds has, where both are a study that devices charge once."""
        return None

    def chosen(self, claim: Claim, columns: Sequence[Column], row_bound: Real | None) -> dict[str, object]:
        """Return by name what the kind's own rule chooses where nothing was asked for; `row_bound` may be among it."""
        del claim, columns, row_bound
        return {}

    @abstractmethod
    def wanted(self, circumstances: Circumstances) -> tuple[Claim, Mechanism]:
        """Return the claim of the first task and its calibrated mechanism.

        Raises:
            InvalidTaskError: the options do not fit the circumstances; the detail names the field.
            RowUnderfilledError: a row of the sketch would be without honest clients.
            FalseClaimError: no noise keeps the claim.
        """


def row_bound_warnings(task: Task, mechanism: Mechanism) -> list[str]:
    """Warn of a bound that no row can reach."""
    bound, farthest = float(fraction(mechanism.row_bound)), task.schema_arrays.largest_norm()
    if bound <= farthest * (1 + 1e-9):
        return []
    return [f"row_bound {bound:g} is larger than any row can be ({farthest:.6g}); it only costs noise"]


def no_warnings(task: Task, mechanism: Mechanism) -> list[str]:
    """Warn of nothing."""
    del task, mechanism
    return []


@dataclass(frozen=True)
class Asking(Generic[M]):
    """What a kind of mechanism brings here.

    Attributes:
        mechanism: the kind's class.
        specification: how it is asked for; None if it only follows another task.
        warnings: what an analyst should know about a valid task of this kind before it starts, in plain words.
        own_units: whether values enter the encoder as they are; else by default less the middle of their bounds, over
            half the width.
        second: from what two rounds promise together, the first task, its mechanism and release, and the norm that rows
            are clipped to, if given, to claim and mechanism of the second, not yet calibrated; None if the kind begins
            no second round.
    """

    mechanism: type[M]
    specification: type[MechanismSpecification] | None
    warnings: Callable[[Task, M], list[str]] = row_bound_warnings
    own_units: bool = False
    second: Callable[[Claim, Task, M, Release, Fraction | None], tuple[Claim, Mechanism]] | None = None


# Each entry is about the mechanism that it is looked up for; a type that says so for all of them cannot be written.
ASKINGS: ByKind[Asking[Any]] = ByKind("lintra_analysis.kinds", "ASKING", Asking)
"""By kind; a module of this package called like the kind holds the constant `ASKING`."""
