"""The promise about the rows behind a release, in numbers and in words."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Promise:
    """What is promised about the rows behind a release, in numbers and in words.

    Attributes:
        epsilon: at `delta`; infinite where nothing is promised.
        delta: 0 for pure differential privacy.
        neighbours: "replace-one" or "zero-out"; "replace-one within its class" where a change of class is not covered.
        mechanism: what made the release.
        note: the promise in words, or why there is none.
        mu: of Gaussian differential privacy, where it applies.
    """

    epsilon: float
    delta: float
    neighbours: str
    mechanism: str
    note: str
    mu: float | None = None

    def __str__(self) -> str:
        return f"epsilon {self.epsilon:.6g} at delta {self.delta:g} ({self.neighbours})"
