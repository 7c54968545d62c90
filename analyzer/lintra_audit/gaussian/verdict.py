"""White-box audit of Gaussian releases: the exact profile of two given laws against a claim, as a certified verdict.

A claim about one pair of neighbouring inputs can be refuted here, with certainty; that it holds for all pairs cannot be
shown (Wei et al. 2023, v4 Theorem 7.1, whose upper estimate must not be used to refute).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lintra_curator.ndis.certified_value import CertifiedValue
from lintra_curator.ndis.gaussian_pair import GaussianPair, pair_from_gaussians
from lintra_curator.ndis.profile_evaluation import RTOL, delta, epsilon
from lintra_protocol.crypto.ring import FloatArray

Verdict = Literal["VIOLATION", "WITHIN", "UNDECIDED"]
Law = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""From a data set to mean, shape `(k,)`, and covariance, shape `(k, k)`, of what is released about it."""


Point = tuple[float, float]
"""A claimed point of a curve: epsilon from 0 on, and the delta from 0 to 1 that there is at most."""


@dataclass(frozen=True)
class GaussianVerdict:
    """One claimed point against one pair in one direction."""

    claimed: Point  #: epsilon, and delta at most
    neighbour: str  #: which neighbouring input, in words
    #: `forward` for the given law against its neighbour's, `backward` for the reverse
    direction: Literal["forward", "backward"]
    found: CertifiedValue  #: the pair's exact delta at that epsilon

    @property
    def verdict(self) -> Verdict:
        """VIOLATION if delta is certainly above the claim, WITHIN if certainly not, else UNDECIDED."""
        most = self.claimed[1]
        if self.found.lo > most:
            return "VIOLATION"
        return "WITHIN" if self.found.hi <= most else "UNDECIDED"


@dataclass(frozen=True)
class GaussianAudit:
    """Everything that an audit of Gaussian laws found."""

    findings: tuple[GaussianVerdict, ...]  #: one for each pair, claim and direction
    worst: GaussianPair  #: the pair with the largest delta found, reversed if that direction was worse
    rtol: float  #: relative error that the profiles were computed to

    @property
    def verdict(self) -> Verdict:
        """VIOLATION if any finding is one, WITHIN if all are, else UNDECIDED."""
        verdicts = {finding.verdict for finding in self.findings}
        if "VIOLATION" in verdicts:
            return "VIOLATION"
        return "WITHIN" if verdicts == {"WITHIN"} else "UNDECIDED"

    @property
    def worst_findings(self) -> tuple[GaussianVerdict, ...]:
        """The finding with the largest delta for each claim."""
        claims = dict.fromkeys(finding.claimed for finding in self.findings)
        return tuple(
            max((each for each in self.findings if each.claimed == claim), key=lambda each: each.found.value)
            for claim in claims
        )

    def epsilon_at(self, target: float) -> CertifiedValue:
        """Return the smallest epsilon that the worst pair allows at a delta in (0, 1), in that direction."""
        return epsilon(self.worst, target, self.rtol)


def audit_pair(
    pair: GaussianPair, claims: Sequence[Point], rtol: float = RTOL, neighbour: str = "given"
) -> GaussianAudit:
    """Compare the exact profile of one pair, in both directions, with claims.

    `pair` is the law on one input against the law on a neighbouring one. `claims` are at least one point. `rtol` is the
    relative error of the profile; claims closer than it stay undecided. `neighbour` is what the pair is, in words.
    """
    return _audit([(neighbour, pair)], claims, rtol)


def audit_law(
    law: Law,
    data: FloatArray,
    claims: Sequence[Point],
    neighbours: Iterable[tuple[str, FloatArray]] | None = None,
    rtol: float = RTOL,
) -> GaussianAudit:
    """Compare the exact profiles of a mechanism on data and all its neighbours with claims.

    `law` is the mechanism, by the Gaussian law of what it releases; `data` holds rows, shape `(n, d)`. `claims` are at
    least one point. `neighbours` are (name, data) of neighbouring data sets; by default `data` without each of its
    rows.
    """
    mean, covariance = law(data)
    others = without_each_row(data) if neighbours is None else neighbours
    return _audit([(name, pair_from_gaussians(mean, covariance, *law(other))) for name, other in others], claims, rtol)


def without_each_row(data: FloatArray) -> list[tuple[str, FloatArray]]:
    """Return the data without each of its rows in turn, each of shape `(n - 1, d)`, by name."""
    return [(f"without row {row}", np.delete(data, row, axis=0)) for row in range(len(data))]


def _audit(pairs: Sequence[tuple[str, GaussianPair]], claims: Sequence[Point], rtol: float) -> GaussianAudit:
    if not (pairs and claims):
        raise ValueError("an audit needs at least one claim and one pair of neighbours")
    for at, most in claims:
        if not (0 <= at < np.inf and 0 <= most <= 1):
            raise ValueError(f"a claim has epsilon >= 0 and delta in [0, 1], got {at} and {most}")
    findings: list[GaussianVerdict] = []
    worst: tuple[float, GaussianPair] | None = None
    for name, pair in pairs:
        for direction, each in (("forward", pair), ("backward", pair.reverse())):
            found = [delta(each, at, rtol) for at, _ in claims]
            for claim, interval in zip(claims, found, strict=True):
                findings.append(
                    GaussianVerdict(claim, name, "forward" if direction == "forward" else "backward", interval)
                )
            if worst is None or found[0].value > worst[0]:
                worst = found[0].value, each
    assert worst is not None
    return GaussianAudit(tuple(findings), worst[1], rtol)
