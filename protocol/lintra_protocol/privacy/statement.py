"""What a task promises, and what the parameters and the cohort of a release actually give.

A `Claim` stands in the task, in decimal strings. A `PrivacyStatement` is computed from it, from the noise and from the
public row counts, by everybody alike; it is never read from another party. These two are all there is: a curator, an
audit and a signed record speak of privacy in them too (docs/decisions/0029-claim-and-statement.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import fsum, hypot, inf
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator

from lintra_protocol.encoding.documents import Frozen, Real, RoundedUp, RoundedUpOrNone, fraction, omitted
from lintra_protocol.errors import FalseClaimError, RowUnderfilledError
from lintra_protocol.privacy.coalition import static_quota
from lintra_protocol.privacy.discrete import discrete_epsilon, row_slack
from lintra_protocol.privacy.discrete_shift import shifted_delta, shifted_epsilon

Neighbours = Literal["replace-one", "zero-out", "add-remove"]
"""What changes: a row becomes any other, or the null row; or a person's rows are there or not, for organisations."""

Threat = Literal["static", "adaptive"]
Relation = Literal["replace-one", "zero-out", "add-remove", "replace-one within its class"]
"""Who is a neighbour in a statement; the last only where a published mechanism does not cover a change of class."""

NoiseBy = Literal["clients", "servers", "both"]
"""Who adds the noise of a release: every client to its report, every server to its sketch share, or both."""

Status = Literal["proved", "numerical supremum", "asymptotic, heuristic"]

SMOOTHING = 4.0
"""theta^2 of Theorem D1 (docs/proofs/integers.md#integers): how much honest variance pays for the lattice."""

ALONE = 3
"""How many times epsilon is the usual promise to a client of whom all others are invented."""

MAX_SLACK = 1e-12
"""Largest K of Theorems D1 and D2 that a task may have; with sigma >= 4 the true value is below 1e-19."""


class Claim(Frozen):
    """The promise of a task: (epsilon, delta) for neighbouring inputs, against whom, from how many clients on.

    `epsilon_alone` is promised, at the same delta, to a client of whom all others are invented or corrupt; left out
    where noise is not that of clients and servers (docs/proofs/servers.md#two-layers).
    """

    epsilon: Real
    delta: Real
    epsilon_alone: Real | None = omitted(None)
    neighbours: Neighbours = "replace-one"
    min_clients: int = Field(ge=2, le=2**32)
    max_corrupt_clients: int = Field(default=0, ge=0)
    threat: Threat = "static"
    delta_coalition: Real = "0"

    @model_validator(mode="after")
    def _in_range(self) -> "Claim":
        if fraction(self.epsilon) <= 0:
            raise ValueError(f"epsilon must be positive, got {self.epsilon}")
        if not 0 < fraction(self.delta) < 1:
            raise ValueError(f"delta must lie strictly between 0 and 1, got {self.delta}")
        if self.epsilon_alone is not None and fraction(self.epsilon_alone) < fraction(self.epsilon):
            raise ValueError(f"epsilon_alone {self.epsilon_alone} is below epsilon {self.epsilon}")
        if not 0 <= fraction(self.delta_coalition) < fraction(self.delta):
            raise ValueError(f"delta_coalition must lie in [0, delta), got {self.delta_coalition}")
        if self.max_corrupt_clients >= self.min_clients:
            raise ValueError(
                f"{self.max_corrupt_clients} corrupt clients among {self.min_clients} leave nobody whose noise counts"
            )
        return self

    def __str__(self) -> str:
        return f"epsilon {self.epsilon} at delta {self.delta} ({self.neighbours})"

    @property
    def float_epsilon(self) -> float:
        """Return epsilon as the nearest float."""
        return float(fraction(self.epsilon))

    @property
    def float_delta(self) -> float:
        """Return delta as the nearest float."""
        return float(fraction(self.delta))

    @property
    def alone(self) -> "Claim":
        """Return what is promised to a client of whom all others are corrupt, at `epsilon_alone` if there is one."""
        changes = {"max_corrupt_clients": self.min_clients - 1, "threat": "adaptive", "delta_coalition": "0"}
        if self.epsilon_alone is not None:
            changes |= {"epsilon": self.epsilon_alone, "epsilon_alone": None}
        return self.model_copy(update=changes)

    @property
    def noise_delta(self) -> float:
        """Return the part of delta left to the noise, after the coalition's share, rounded down."""
        return float(fraction(self.delta) - fraction(self.delta_coalition)) * (1 - 1e-15)

    def quota(self, rows: int) -> int:
        """Return how many corrupt clients one row of an `rows`-row sketch must be assumed to hold.

        An adaptive coalition sits in one row. A static one, chosen before the matrix was drawn, is spread by the
        balanced permutation; more than the quota share a row with probability at most `delta_coalition`
        (docs/proofs/sketch.md#coalitions).
        """
        corrupt = self.max_corrupt_clients
        if corrupt == 0 or rows == 1 or self.threat == "adaptive" or fraction(self.delta_coalition) == 0:
            return corrupt
        allowance = float(fraction(self.delta_coalition))
        return static_quota(corrupt, rows, allowance, balanced=True, min_clients=self.min_clients)


@dataclass(frozen=True)
class IfColluding:
    """Epsilon at the claim's delta if this part of the cohort colludes; infinite where no privacy is left."""

    percent: int
    epsilon: RoundedUpOrNone

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="forbid")


@dataclass(frozen=True)
class PrivacyStatement:
    """What was computed of the privacy of one release: a point (epsilon, delta), and the Gaussian curve through it.

    With the curve, every neighbour pair is at most as distinguishable as N(0,1) and N(mu,1) but for slack and
    `delta_coalition`. Where the noise has no such curve mu is infinite, and only the point is known.

    Attributes:
        epsilon: smallest epsilon at `delta`; infinite where nothing is promised.
        delta: the claim's delta; where only a point is known, an upper bound of the delta at the claim's epsilon.
        mu: Gaussian privacy parameter after the lattice correction (Dong, Roth, Su 2022).
        slack: K of Theorem D1 or D2, the price of integers; 0 for continuous laws.
        delta_coalition: probability that a static coalition fills a row beyond its quota; with Wishart noise, also that
            of what no mu covers.
        delta_shares: how far what is seen besides the release, shares of verified reports, is from saying nothing; it
            counts 1 + e^epsilon times. A document without it says 0.
        honest_clients: smallest number of honest clients whose noise stands behind a released entry; where servers add
            the noise it is 1, an honest server, and no client.
        leverage: that of the honest client of whom the release shows most: one over the honest clients of its row,
            added up over its rows where each has a copy of its own, or an upper bound of its leverage score where rows
            share noise. mu is distance times sqrt(leverage) over sigma, and what a sketch's clip counter adds.
        mechanism: what made the release, where the statement goes about alone; else empty.
        status: "proved" if a proof covers every pair of neighbours; "numerical supremum" if the worst pair was searched
            for; "asymptotic, heuristic" if the law itself holds only in the limit. A document without it says "proved".
        note: the argument, in a few words, or why there is none.
        remark: what has to be said beside these numbers as a warning; mostly nothing.
        if_colluding: epsilon if other parts of the cohort leave out their noise than were promised for.
        trusted: who has to be honest.
        persons: to whom it is promised, in words, where organisations contribute: "persons, each with at most 20 rows
            in at most 1 organisation"; empty where it is a client with its row.
        noise: who adds it. Where servers do, one honest server's is enough, and any number of clients may be corrupt:
            `max_corrupt_clients` is all but the one whose row it is about. A document without it says "clients".
        epsilon_alone: epsilon at `delta` if all other clients are invented or corrupt; infinite, and left out of a
            document, where nothing was promised of that.
    """

    neighbours: Relation
    epsilon: RoundedUpOrNone
    delta: RoundedUp
    mu: RoundedUpOrNone = field(default_factory=lambda: inf)  # a plain default would have to stand in JSON
    slack: RoundedUp = 0.0
    delta_coalition: RoundedUp = 0.0
    delta_shares: Annotated[RoundedUp, Field(exclude_if=lambda part: part == 0.0)] = 0.0
    num_clients: int = 1
    honest_clients: int = 1
    leverage: RoundedUp = 1.0
    max_corrupt_clients: int = 0
    threat: Threat = "static"
    mechanism: Annotated[str, Field(exclude=True)] = ""
    status: Annotated[Status, Field(exclude_if=lambda status: status == "proved")] = "proved"
    note: Annotated[str, Field(exclude_if=lambda note: note == "")] = ""
    remark: str = ""
    if_colluding: tuple[IfColluding, ...] = ()
    trusted: str = ""
    not_promised: tuple[str, ...] = ()
    persons: Annotated[str, Field(exclude_if=lambda persons: persons == "")] = ""
    noise: Annotated[NoiseBy, Field(exclude_if=lambda noise: noise == "clients")] = "clients"
    epsilon_alone: Annotated[RoundedUpOrNone, Field(exclude_if=lambda epsilon: epsilon == inf)] = field(
        default_factory=lambda: inf
    )

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="forbid")

    def __post_init__(self) -> None:
        """Refuse numbers that no release has.

        Raises:
            ValueError: a number is negative or not a number, or a probability above 1; the text names it.
        """
        for name in ("epsilon", "mu", "slack", "leverage", "delta", "delta_coalition", "delta_shares"):
            value = getattr(self, name)
            most = 1.0 if name.startswith("delta") else inf
            # Only where nothing is promised, or no curve is known, a number is infinite.
            if not 0 <= value <= most or (value == inf and name not in ("epsilon", "mu")):
                raise ValueError(f"{name} of a statement lies between 0 and {most:g}, got {value}")
        if min(self.num_clients, self.honest_clients) < 1 or self.max_corrupt_clients < 0:
            raise ValueError(
                f"a statement is about at least one honest client, got {self.honest_clients} of {self.num_clients}, "
                f"{self.max_corrupt_clients} corrupt"
            )

    def __str__(self) -> str:
        whom = f", {self.persons}" * bool(self.persons)
        return f"epsilon {self.epsilon:.6g} at delta {self.delta:g} ({self.neighbours}{whom})"

    def by_servers(self) -> "PrivacyStatement":
        """Return the same of noise that servers add: against all other clients, who may choose their places late."""
        corrupt = max(self.num_clients - 1, self.max_corrupt_clients)
        return replace(self, max_corrupt_clients=corrupt, threat="adaptive", noise="servers")

    @property
    def behind(self) -> str:
        """Return in words whose noise stands behind every released number."""
        clients = f"{self.honest_clients} honest clients" + " and one honest server" * (self.noise == "both")
        return clients if self.noise != "servers" else "one honest server's noise"

    def delta_at(self, epsilon: float) -> float:
        """Return the smallest delta for which the release is known to be (epsilon, delta)-differentially private."""
        if self.mu == inf:
            return min(1.0, self.delta) if epsilon >= self.epsilon else 1.0
        noise = shifted_delta(epsilon, self.mu, self.slack, self.delta_shares)
        return min(1.0, self.delta_coalition + noise)

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon for which the release is known to be (epsilon, delta)-differentially private."""
        if self.mu == inf:
            return self.epsilon if delta >= self.delta else inf
        left = delta - self.delta_coalition
        if left <= 0:
            return inf
        return shifted_epsilon(self.mu, left * (1 - 1e-15), self.slack, self.delta_shares)

    def require(self, claim: Claim) -> None:
        """Check that the release is at least as private as a task promises.

        Raises:
            FalseClaimError: it is not, or not for the claim's neighbours and coalition, or not proved; the detail has
                what differs.
        """
        self.require_proof(claim)
        if not self.slack <= MAX_SLACK:
            raise FalseClaimError(f"the noise is too coarse for integers: slack {self.slack:.3g} exceeds {MAX_SLACK}")
        if not self.delta_at(claim.float_epsilon) <= claim.float_delta:
            raise FalseClaimError(
                f"promised epsilon {claim.epsilon} at delta {claim.delta}, but the parameters give "
                f"epsilon {self.epsilon!r} ({self.behind} behind every released number)"
            )

    def require_proof(self, claim: Claim) -> None:
        """Check that the statement is about a claim's neighbours, against its coalition at least, and proved.

        Raises:
            FalseClaimError: it is not.
        """
        if self.neighbours != claim.neighbours:
            raise FalseClaimError(
                f"the claim is about neighbours {claim.neighbours!r}, and what was computed about {self.neighbours!r}"
            )
        # A coalition that may choose its place late can do all that one can which was there before.
        adaptive = claim.threat == "adaptive" and claim.max_corrupt_clients > 0
        if self.max_corrupt_clients < claim.max_corrupt_clients or (adaptive and self.threat != "adaptive"):
            raise FalseClaimError(
                f"the claim is against {claim.max_corrupt_clients} corrupt clients ({claim.threat}), and what was "
                f"computed against {self.max_corrupt_clients} ({self.threat})"
            )
        if self.status != "proved":
            raise FalseClaimError(f"a claim needs a proof; what was computed is a {self.status}: {self.note}")


def additive_statement(
    claim: Claim,
    *,
    distance: float,
    sigma: int,
    num_clients: int,
    smallest_row: int,
    slack: float,
    beside: float = 0.0,
    persons: str = "",
    floor: int = 0,
) -> PrivacyStatement:
    """State the privacy of integer sums with discrete Gaussian noise (Theorems D1 and T1, docs/proofs).

    Args:
        claim: who is a neighbour, and which coalition is tolerated.
        distance: largest Euclidean distance of two neighbouring encodings, in ring units, each entry counted in
            multiples of its own noise's sigma over `sigma`.
        sigma: deviation of one client's noise, in ring units.
        num_clients: size of the cohort.
        smallest_row: how many honest clients add up in the emptiest released row.
        slack: K of Theorem D1 at this row size, and of what is released beside the sums.
        beside: mu of what is released beside the sums, with noise of its own.
        persons: to whom it is promised, where organisations contribute.
        floor: deviation of the noise that one honest server adds, in ring units; 0 for none.

    Raises:
        RowUnderfilledError: some row has no honest client beyond what the lattice correction uses up.
    """
    variance = smallest_row * sigma**2 + floor**2 - SMOOTHING
    if smallest_row < 1 or variance <= 0:
        raise RowUnderfilledError(f"a row holds {smallest_row} honest clients beyond the tolerated coalition")
    mu, leverage = hypot(distance / variance**0.5, beside), 1 / (smallest_row + floor**2 / sigma**2)
    return _statement(claim, mu, num_clients, smallest_row, leverage, slack, persons)


def alone_statement(claim: Claim, *, mu: float, entries: int, slack: float, persons: str = "") -> PrivacyStatement:
    """State the privacy of a client of whom all others are corrupt (Theorem T2, docs/proofs/servers.md).

    `claim` is that of `Claim.alone`; a client's column has so many `entries`.
    """
    return _statement(claim, mu, claim.min_clients, 1, float(entries), slack, persons)


def copies_statement(
    claim: Claim,
    *,
    distance: float,
    sigma: int,
    num_words: int,
    num_clients: int,
    row_sizes: Sequence[int],
    slack: float = 0.0,
    beside: float = 0.0,
) -> PrivacyStatement:
    """State the privacy of sums of several copies of each report, every copy with noise of its own in one row.

    Rows are independent: squared distances add up, and so does K (docs/proofs/sketch.md#published-calibration).

    Args:
        claim: who is a neighbour, and which coalition is tolerated.
        distance: largest Euclidean distance of two neighbouring encodings of one copy, in ring units.
        sigma: deviation of one copy's noise, in ring units.
        num_words: ring words in a copy.
        num_clients: size of the cohort.
        row_sizes: how many honest clients add up in each row that the worst victim's copies enter.
        slack: K of Theorem D1 of what is released beside the sums; that of the rows is added.
        beside: mu of what is released beside the sums, with noise of its own.

    Raises:
        RowUnderfilledError: some row has no honest client beyond what the lattice correction uses up.
    """
    smallest_row = min(row_sizes)
    if smallest_row < 1 or smallest_row * sigma**2 <= SMOOTHING:
        raise RowUnderfilledError(f"a row holds {smallest_row} honest clients beyond the tolerated coalition")
    shown = fsum(1 / (size * sigma**2 - SMOOTHING) for size in row_sizes)
    leverage = fsum(1 / size for size in row_sizes)
    own = fsum(row_slack(size, num_words, float(sigma) ** 2, SMOOTHING) for size in row_sizes)
    mu = hypot(distance * shown**0.5, beside)
    return _statement(claim, mu, num_clients, smallest_row, leverage, own + slack)


def smoothed_statement(
    claim: Claim,
    *,
    distance: float,
    sigma: int,
    leverage: float,
    num_clients: int,
    smallest_row: int,
    slack: float,
    beside: float = 0.0,
) -> PrivacyStatement:
    """State the privacy of an integer sketch with smoothing noise (Theorems 1 and D2, docs/proofs).

    `leverage` is an upper bound of any honest client's against the tolerated coalition, `slack` K of Theorem D2 and of
    what is released beside the sketch; the others are those of `additive_statement`.

    Raises:
        RowUnderfilledError: some row has no honest client.
    """
    if smallest_row < 1:
        raise RowUnderfilledError(f"a row holds {smallest_row} honest clients beyond the tolerated coalition")
    mu = hypot(distance * leverage**0.5 / sigma, beside)
    return _statement(claim, mu, num_clients, smallest_row, leverage, slack)


def _statement(
    claim: Claim, mu: float, num_clients: int, smallest_row: int, leverage: float, slack: float, persons: str = ""
) -> PrivacyStatement:
    mu *= 1 + 1e-12  # a shade up: division and root round to nearest
    return PrivacyStatement(
        neighbours=claim.neighbours,
        epsilon=discrete_epsilon(mu, claim.noise_delta, slack),
        delta=claim.float_delta,
        mu=mu,
        slack=slack,
        delta_coalition=float(fraction(claim.delta_coalition)),
        num_clients=num_clients,
        honest_clients=smallest_row,
        leverage=leverage,
        max_corrupt_clients=claim.max_corrupt_clients,
        threat=claim.threat,
        persons=persons,
    )
