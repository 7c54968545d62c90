"""What is planned for: public numbers only, a cohort and the rows that it is expected to have."""

from dataclasses import dataclass, replace
from typing import Literal

from pydantic import ValidationError

from lintra_analysis.kinds.coalition import CLIENTS_PER_ROW, most_rows, usual_claim
from lintra_protocol.encoding.documents import Real, first_complaint, fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Claim, NoiseBy

MOST_CLIENTS = 2**32
"""A task may have no more (docs/reference/protocol.md)."""


@dataclass(frozen=True)
class Question:
    """What is planned for.

    Attributes:
        columns: d.
        claim: the promise; its `min_clients` is the cohort that errors are predicted for.
        max_clients: for which the ring must have room.
        rows: m of the sketch, or None for the rule.
        sparsity: s of the sketch.
        row_bound: B.
        row_norm: r, the root mean square norm of a clipped row, at most B.
        num_servers: N.
        features: columns that a ridge regression uses.
        rank: directions that a low-rank approximation keeps.
        intercept: the constant before every row of `second_moment`; "0" for none.
        trace: whether `second_moment` sends the squared norm as well.
        label: of `ron_gauss`: 0 for none, 1 for a number, K for a category of K levels; it is a further column.
        dimension: p of `ron_gauss`, or None for the rule.
        bins: cells of a column's histogram for `ron_gauss`.
        covariance: of `ron_gauss`, whether classes share one.
        count: whether rows with a missing number are left out and the others counted with noise.
        clip_count_weight: w of the clip counter; if not given, the usual one where a mechanism can count.
        usual_coalition: whether the tolerated coalition follows from the smallest cohort (see `usual_claim`).
        noise: who adds it.
    """

    columns: int
    claim: Claim
    max_clients: int
    rows: int | None = None
    sparsity: int = 1
    row_bound: Real = "1"
    row_norm: float = 1.0
    num_servers: int = 3
    features: int = 1
    rank: int = 1
    intercept: Real = "0"
    trace: bool = False
    label: int = 0
    dimension: int | None = None
    bins: int = 16
    covariance: Literal["pooled", "per_class"] = "pooled"
    clip_count_weight: Real | None = None
    count: Literal["exact", "noisy"] = "exact"
    usual_coalition: bool = False
    noise: NoiseBy = "clients"

    def __post_init__(self) -> None:
        """Refuse what cannot be planned for."""
        if min(self.columns, self.features, self.rank, self.sparsity) < 1 or self.num_servers < 2:
            raise InvalidTaskError("columns, features, rank and sparsity are at least 1, servers at least 2")
        if self.rank > self.columns or self.features > self.columns:
            raise InvalidTaskError(f"{self.columns} columns have no rank {self.rank} or {self.features} features")
        if not 0 < self.row_norm <= float(fraction(self.row_bound)):
            raise InvalidTaskError(f"row norm {self.row_norm} does not lie within the row bound {self.row_bound}")
        if not self.claim.min_clients <= self.max_clients <= MOST_CLIENTS:
            raise InvalidTaskError(f"{self.max_clients} clients at most, but {self.claim.min_clients} at least")
        if not 0 <= self.label <= 1024 or self.bins < 0:
            raise InvalidTaskError("a label is 0 (none), 1 (a number) or up to 1024 levels; bins are 0 or more")

    @property
    def noising_servers(self) -> int:
        """Return N where servers add the noise, 0 where clients do."""
        return self.num_servers if self.noise == "servers" else 0

    @property
    def sensitivity(self) -> float:
        """Return Delta, the distance of two neighbouring rows, in normalised units."""
        return float(fraction(self.row_bound)) * (2 if self.claim.neighbours == "replace-one" else 1)

    @property
    def mu(self) -> float:
        """Return mu*, the Gaussian privacy parameter that the claim leaves to the noise."""
        return gaussian_mu(self.claim.float_epsilon, self.claim.noise_delta)

    @property
    def expected_trace(self) -> float:
        """Return the expected trace of the Gram matrix, n r^2."""
        return self.claim.min_clients * self.row_norm**2

    @property
    def best_rows(self) -> float:
        """Return m*, where the predicted error of the sketch is smallest: n r^2 mu^2 / (Delta^2 d).

        Where each of N servers adds as much noise as is needed it is an N-th of that.
        """
        own = self.expected_trace * (self.mu / self.sensitivity) ** 2 / self.columns
        return own / max(self.noising_servers, 1)

    @property
    def sketch_rows(self) -> int:
        """Return the rows asked for, or the rule's: m* in whole rows, from 3d on, with 30 honest clients each."""
        if self.rows is not None:
            return self.rows
        wanted = max(round(self.best_rows), 3 * self.columns, 2 * self.rank, self.sparsity)
        if self.claim.min_clients < 2 * CLIENTS_PER_ROW:
            return 1
        return max(1, min(wanted, most_rows(self.claim, self.noising_servers), 2**20))

    def with_claim(self, **changes: object) -> "Question":
        """Return the question with other numbers in its claim; the largest cohort grows with the smallest.

        Raises:
            InvalidTaskError: no claim has these numbers.
        """
        try:
            free = {"max_corrupt_clients": 0, "delta_coalition": "0"} if self.usual_coalition else {}
            claim = Claim.model_validate(self.claim.model_dump() | free | changes)
            if self.usual_coalition:
                claim = usual_claim(
                    epsilon=claim.epsilon,
                    delta=claim.delta,
                    neighbours=claim.neighbours,
                    min_clients=claim.min_clients,
                    threat=claim.threat,
                    is_sketch=True,
                    noise=self.noise,
                )
        except ValidationError as error:
            raise InvalidTaskError(first_complaint(error)) from None
        return replace(self, claim=claim, max_clients=max(self.max_clients, claim.min_clients))

    def of_a_sum(self) -> "Question":
        """Return the question for a mechanism of one row: nothing of delta need be kept for crowded ones."""
        return replace(self, claim=self.claim.model_copy(update={"delta_coalition": "0"}))
