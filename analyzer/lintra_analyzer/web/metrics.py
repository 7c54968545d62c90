"""What the analyzer counts, for Prometheus; label sets are fixed, and no label holds an identifier."""

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest


class Metrics:
    """The counters of one process."""

    def __init__(self) -> None:
        """Begin at zero, in a registry of its own."""
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "lintra_analyzer_requests", "Requests by route and status.", ["method", "route", "status"],
            registry=self._registry,
        )  # fmt: skip
        self._request_seconds = Histogram(
            "lintra_analyzer_request_seconds", "Time to answer a request.", ["route"], registry=self._registry
        )
        self._stage_seconds = Histogram(
            "lintra_analyzer_stage_seconds", "Time of a finished stage of a release.", ["stage"],
            buckets=(0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800), registry=self._registry,
        )  # fmt: skip
        self._refusals = Counter(
            "lintra_analyzer_stage_refusals", "Stages of a release that were refused.", ["stage", "problem"],
            registry=self._registry,
        )  # fmt: skip
        self._analyses = Counter(
            "lintra_analyzer_analyses", "Analyses by kind.", ["kind"], registry=self._registry
        )  # fmt: skip

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request; `route` is the pattern, not the path."""
        self._requests.labels(method, route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def stage(self, stage: str, seconds: float) -> None:
        """Count a finished stage."""
        self._stage_seconds.labels(stage).observe(seconds)

    def refused(self, stage: str, problem: str) -> None:
        """Count a refused stage."""
        self._refusals.labels(stage, problem).inc()

    def analysis(self, kind: str) -> None:
        """Count an analysis."""
        self._analyses.labels(kind).inc()

    def text(self) -> bytes:
        """Return the exposition in Prometheus' text format."""
        return generate_latest(self._registry)
