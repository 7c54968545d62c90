"""What an operator may see of any service: counts and times with fixed labels; never an identifier, never a payload."""

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

    def observe_request(self, resource: str, status: int, seconds: float) -> None:
        """Count one answer; `resource` is a route's template, not a path."""
        self._requests.labels(resource, str(status)).inc()
        self._seconds.labels(resource).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
