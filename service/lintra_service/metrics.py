"""Metrics of any service for its operator: counts and times with fixed labels; never an identifier, never a payload."""

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class RequestMetrics:
    """Answers by resource, in a registry to which a service adds its own."""

    def __init__(self) -> None:
        """Start all counts at zero."""
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "lintra_requests", "Answers by resource and status.", ["resource", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "lintra_request_seconds", "Time to an answer by resource.", ["resource"], registry=self.registry
        )
        # Labels are few, and to look them up costs more than to count.
        self._counted: dict[tuple[str, int], Counter] = {}
        self._timed: dict[str, Histogram] = {}

    def observe_request(self, resource: str, status: int, seconds: float) -> None:
        """Count one answer; `resource` is a route's template, not a path."""
        counted, timed = self._counted.get((resource, status)), self._timed.get(resource)
        if counted is None or timed is None:
            counted = self._counted[resource, status] = self._requests.labels(resource, str(status))
            timed = self._timed[resource] = self._seconds.labels(resource)
        counted.inc()
        timed.observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
