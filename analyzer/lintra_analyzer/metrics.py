"""An analyzer's metrics for its operator: stages of releases, and analyses."""

from prometheus_client import Counter, Histogram

from lintra_service.metrics import RequestMetrics


class Metrics(RequestMetrics):
    """The metrics of one analyzer, in a registry of their own."""

    def __init__(self) -> None:
        """Start all counts at zero."""
        super().__init__()
        self._stage_seconds = Histogram(
            "lintra_stage_seconds", "Time of a finished stage of a release.", ["stage"],
            buckets=(0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800), registry=self.registry,
        )  # fmt: skip
        self._refusals = Counter(
            "lintra_stage_refusals", "Stages of a release that were refused.", ["stage", "problem"],
            registry=self.registry,
        )  # fmt: skip
        self._analyses = Counter(
            "lintra_analyses", "Analyses by kind.", ["kind"], registry=self.registry
        )  # fmt: skip

    def stage(self, stage: str, seconds: float) -> None:
        """Count a finished stage."""
        self._stage_seconds.labels(stage).observe(seconds)

    def refused(self, stage: str, problem: str) -> None:
        """Count a refused stage."""
        self._refusals.labels(stage, problem).inc()

    def analysis(self, kind: str) -> None:
        """Count an analysis."""
        self._analyses.labels(kind).inc()
