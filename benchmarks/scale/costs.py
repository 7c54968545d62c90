"""What a release cost, stage by stage."""

from dataclasses import dataclass

Answer = tuple[str, float, float]
"""What was asked of a server beside the release, when, and after how many seconds it was answered."""


@dataclass(frozen=True)
class StageCost:
    """What one stage cost: the analyzer's and the busiest server's CPU seconds and MiB, seconds, bytes both ways."""

    stage: str
    analyzer_cpu: float
    server_cpu: float
    analyzer_peak: float
    server_peak: float
    seconds: float
    wire: int
    began: float = 0.0
    """On the machine's clock."""


@dataclass(frozen=True)
class ReleaseCost:
    """What one release cost, whose sketch was checked against the rows.

    Attributes:
        answers: what the last server answered meanwhile, and for a while before, if it was asked.
    """

    num_reports: int
    num_servers: int
    stages: tuple[StageCost, ...]
    answers: tuple[Answer, ...] = ()

    @property
    def cpu(self) -> float:
        """Return the CPU seconds of the analyzer and one server together."""
        return self.analyzer_cpu + self.server_cpu

    @property
    def analyzer_cpu(self) -> float:
        """Return the analyzer's CPU seconds."""
        return sum(stage.analyzer_cpu for stage in self.stages)

    @property
    def server_cpu(self) -> float:
        """Return the busiest server's CPU seconds."""
        return sum(stage.server_cpu for stage in self.stages)

    @property
    def analyzer_peak(self) -> float:
        """Return the analyzer's peak in MiB."""
        return max(stage.analyzer_peak for stage in self.stages)

    @property
    def server_peak(self) -> float:
        """Return the largest server's peak in MiB."""
        return max(stage.server_peak for stage in self.stages)
