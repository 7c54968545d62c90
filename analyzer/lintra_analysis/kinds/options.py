"""How an analyst asks for a mechanism: parts of a specification, and the options of one kind."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from lintra_protocol.encoding.documents import Real, real
from lintra_protocol.fields.schema import Column
from lintra_protocol.privacy.statement import Claim

Count = Literal["exact", "noisy"]
Rounding = Literal["nearest", "dithered"]


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


class SpecPart(BaseModel):
    """A part of what an analyst asks for."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class MechanismSpecification(SpecPart):
    """How one kind of mechanism is asked for: its options under the field `mechanism`."""

    kind: str
    clip_count_weight: Number | None = Field(
        default=None,
        description="w of the clip counter, which makes all noise sqrt(1 + w^2) times as large; 0 for none; if not "
        "given, 0.2 where the mechanism can count",
    )
    rounding: Rounding | None = Field(
        default=None,
        description="how clients make numbers whole: nearest, or dithered, which adds noise in place of a bias; if not "
        "given, dithered where the mechanism can be",
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
    takes_floor: ClassVar[bool] = False
    """Whether servers may add a floor of noise beside that of clients, so that something is promised alone."""
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

    def defaults(self, claim: Claim, columns: Sequence[Column], row_bound: Real | None) -> dict[str, object]:
        """Return by name what `lintra plan --propose` fills in; `row_bound` may be among it."""
        del claim, columns, row_bound
        return {}
