"""The question that the flags of `lintra plan` ask, from public numbers only, and the specification that they write."""

from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Literal

from pydantic import ValidationError

from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.kind import KINDS
from lintra_analysis.kinds.options import MechanismSpecification
from lintra_analysis.kinds.planned import MOST_CLIENTS, PlannedMechanism, planned_mechanism
from lintra_analysis.spec.build_task import context_of
from lintra_analysis.spec.specification import ColumnSpecification, Specification
from lintra_protocol.encoding.documents import Real, first_complaint, fraction, real
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.privacy.statement import Neighbours, NoiseBy, Threat

LABEL = "label"
"""The name of the column that a label makes."""


@dataclass(frozen=True)
class PlanFlags:
    """What is planned for; None is left to the rule of a task.

    Attributes:
        columns: d, without the label.
        clients: the smallest cohort, which errors are predicted for.
        corrupt: clients that are tolerated.
        max_clients: the largest cohort, for which the ring must have room; twice the smallest if not given.
        rows: m of the sketch.
        sparsity: s of the sketch.
        row_bound: B.
        row_norm: r, the root mean square norm of a clipped row, at most B, which it is if not given.
        features: columns that a ridge regression uses.
        rank: directions that a low-rank approximation keeps.
        intercept: the constant before every row of `second_moment`; "0" for none.
        trace: whether `second_moment` sends the squared norm as well.
        label: of `ron_gauss`: 0 for none, 1 for a number, K for a category of K levels; it is a further column.
        dimension: p of `ron_gauss`.
        bins: cells of a column's histogram.
        covariance: of `ron_gauss`, whether classes share one.
        count: whether rows with a missing number are left out and the others counted with noise.
        clip_count_weight: w of the clip counter.
        noise: who adds it; where a floor is offered both, if not given.
        epsilon_alone: promised if all others are invented; where both add noise three times epsilon, if not given.
    """

    columns: int = 10
    clients: int = 100_000
    epsilon: Real = "1"
    delta: Real | None = None
    neighbours: Neighbours = "replace-one"
    corrupt: int | None = None
    threat: Threat = "static"
    delta_coalition: Real | None = None
    max_clients: int | None = None
    rows: int | None = None
    sparsity: int = 1
    row_bound: Real = "1"
    row_norm: float | None = None
    num_servers: int = 3
    features: int = 1
    rank: int = 1
    intercept: Real = "0"
    trace: bool = False
    label: int = 0
    dimension: int | None = None
    bins: int | None = None
    covariance: Literal["pooled", "per_class"] = "pooled"
    count: Literal["exact", "noisy"] = "exact"
    clip_count_weight: Real | None = None
    noise: NoiseBy | None = None
    epsilon_alone: Real | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be planned for."""
        if min(self.columns, self.features, self.rank, self.sparsity) < 1 or self.num_servers < 2:
            raise InvalidTaskError("columns, features, rank and sparsity are at least 1, servers at least 2")
        if self.rank > self.columns or self.features > self.columns:
            raise InvalidTaskError(f"{self.columns} columns have no rank {self.rank} or {self.features} features")
        if not 0 < self.norm <= float(fraction(self.row_bound)):
            raise InvalidTaskError(f"row norm {self.norm} does not lie within the row bound {self.row_bound}")
        if not self.clients <= self.cohort <= MOST_CLIENTS:
            raise InvalidTaskError(f"{self.cohort} clients at most, but {self.clients} at least")
        if not 0 <= self.label <= 1024 or (self.bins or 0) < 0:
            raise InvalidTaskError("a label is 0 (none), 1 (a number) or up to 1024 levels; bins are 0 or more")

    @property
    def norm(self) -> float:
        """Return r."""
        return float(fraction(self.row_bound)) if self.row_norm is None else self.row_norm

    @property
    def cohort(self) -> int:
        """Return the largest cohort."""
        return 2 * self.clients if self.max_clients is None else self.max_clients

    def of_cohort(self, clients: int) -> "PlanFlags":
        """Return the same for another smallest cohort; the largest grows with it."""
        return replace(self, clients=clients, max_clients=max(self.cohort, clients))

    def specification(self, kind: str) -> Specification:
        """Return the specification of a task of one kind; columns without names are `x1` to `xd` in [-1, 1].

        Raises:
            InvalidTaskError: there is no such kind, or no specification has these numbers.
        """
        described = KINDS[kind]
        # A second round is asked for with its first.
        spec = described.spec or KINDS[described.follows].spec
        if spec is None:
            raise InvalidTaskError(f"{kind} cannot be planned for")
        if kind == "histogram" and self.bins == 0:
            raise InvalidTaskError("bins: a histogram has at least 1 cell a column")
        label = self.label if "label" in spec.model_fields else int("targets" in spec.model_fields and self.label == 1)
        try:
            return Specification(
                purpose="a plan",
                columns=list(_columns(self.columns, label)),
                mechanism=self._options(spec, label, rounds=1 if described.spec else 2),
                row_bound=self.row_bound if spec.takes_norm else None,
                epsilon=self.epsilon,
                delta=self.delta,
                neighbours=self.neighbours,
                min_clients=self.clients,
                max_clients=self.cohort,
                max_corrupt_clients=self.corrupt,
                threat=self.threat,
                # Of a sum nothing of delta need be kept for crowded rows.
                delta_coalition=self.delta_coalition if spec.is_sketch else None,
                noise=self.noise,
                epsilon_alone=self.epsilon_alone,
                verification="none",
            )
        except ValidationError as error:
            raise InvalidTaskError(first_complaint(error)) from None

    def _options(self, spec: type[MechanismSpecification], label: int, rounds: int) -> MechanismSpecification:
        """Return the options that a kind has, as far as they are given."""
        given = {
            "rows": self.rows,
            "sparsity": self.sparsity,
            "intercept": self.intercept,
            "trace": self.trace,
            "count": None if self.count == "exact" else self.count,
            "label": LABEL if label else None,
            "targets": [{"column": LABEL}] if label else None,
            "dimension": self.dimension,
            "bins": self.bins,
            "covariance": self.covariance,
            "clip_count_weight": self.clip_count_weight,
            "entry_bound": self._entry_bound(),
        }
        if not spec.takes_norm and "label" not in spec.model_fields:
            given["cells"] = self.bins
        if rounds > 1:
            given["rounds"] = rounds
        kind = spec.model_fields["kind"].annotation.__args__[0]  # type: ignore[union-attr]
        own = {name: value for name, value in given.items() if name in spec.model_fields and value is not None}
        return spec.model_validate({"kind": kind} | own)

    def _entry_bound(self) -> Real:
        """Return where entries are clipped so that no row is longer than B, in twelve digits."""
        root = Context(prec=40).sqrt(Decimal(self.columns))
        return real(Context(prec=12, rounding=ROUND_FLOOR).divide(Decimal(self.row_bound), root))

    def context(self, kind: str) -> CalibrationContext[MechanismSpecification]:
        """Return what a mechanism of a kind is calibrated for; public seeds are zero, for none is drawn.

        Raises:
            InvalidTaskError: there is no such kind, or no task has these numbers.
        """
        try:
            context = context_of(self.specification(kind), bytes, self.num_servers)
        except ValidationError as error:
            raise InvalidTaskError(first_complaint(error)) from None
        return replace(context, makes_frame=False, row_norm=self.norm, features=self.features, rank=self.rank)

    def planned(self, kind: str) -> PlannedMechanism:
        """Build a mechanism of a kind as a task would have it, and predict what it releases."""
        return planned_mechanism(kind, self.context(kind))


@lru_cache(maxsize=8)
def _columns(number: int, label: int) -> tuple[ColumnSpecification, ...]:
    columns = tuple(ColumnSpecification(name=f"x{k}", lower="-1", upper="1") for k in range(1, number + 1))
    if label == 1:
        return (*columns, ColumnSpecification(name=LABEL, lower="-1", upper="1"))
    if label:
        category = {"name": LABEL, "kind": "category", "levels": [str(level) for level in range(label)]}
        return (*columns, ColumnSpecification.model_validate(category))
    return columns
