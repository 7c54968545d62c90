"""What an operator may see: counts and times with fixed labels; never an identifier, never a payload."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one server, in a registry of their own."""

    def __init__(self) -> None:
        """Start all counts at zero."""
        self._registry = CollectorRegistry()
        self._reports = Counter(
            "lintra_reports", "Reports by what became of them.", ["outcome"], registry=self._registry
        )
        self._requests = Counter(
            "lintra_requests", "Answers by resource and status.", ["resource", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "lintra_request_seconds", "Time to an answer by resource.", ["resource"], registry=self._registry
        )
        self._commit_seconds = Histogram("lintra_commit_seconds", "Time of a group commit.", registry=self._registry)
        self._commit_reports = Histogram(
            "lintra_commit_reports",
            "Reports in a group commit.",
            buckets=(1, 4, 16, 64, 256, 1024, 4096, 16384),
            registry=self._registry,
        )
        self.pending_bytes = Gauge(
            "lintra_pending_bytes", "Bytes of uploads being read, opened or written.", registry=self._registry
        )
        self.scrubbed = Counter(
            "lintra_scrubbed_batches", "Batches whose shares were destroyed.", registry=self._registry
        )

    def observe_reports(self, outcome: str, count: int) -> None:
        """Count reports by outcome: `accepted`, `repeated`, or an error's token."""
        self._reports.labels(outcome).inc(count)

    def observe_request(self, resource: str, status: int, seconds: float) -> None:
        """Count one answer; `resource` is a route's template, not a path."""
        self._requests.labels(resource, str(status)).inc()
        self._seconds.labels(resource).observe(seconds)

    def observe_commit(self, reports: int, seconds: float) -> None:
        """Count one group commit."""
        self._commit_seconds.observe(seconds)
        self._commit_reports.observe(reports)

    def text(self) -> bytes:
        """Return all metrics in the exposition format."""
        return generate_latest(self._registry)
