"""A server's metrics for its operator: reports, commits, waiting uploads, and destroyed batches."""

from prometheus_client import Counter, Gauge, Histogram

from lintra_service.metrics import RequestMetrics


class Metrics(RequestMetrics):
    """The metrics of one server, in a registry of their own."""

    def __init__(self) -> None:
        """Start all counts at zero."""
        super().__init__()
        self._reports = Counter(
            "lintra_reports", "Reports by what became of them.", ["outcome"], registry=self.registry
        )
        self._counted_reports: dict[
            str, Counter
        ] = {}  # outcomes are few, and to look a label up costs more than to count
        self._commit_seconds = Histogram("lintra_commit_seconds", "Time of a group commit.", registry=self.registry)
        self._commit_reports = Histogram(
            "lintra_commit_reports",
            "Reports in a group commit.",
            buckets=(1, 4, 16, 64, 256, 1024, 4096, 16384),
            registry=self.registry,
        )
        self.pending_bytes = Gauge(
            "lintra_pending_bytes", "Bytes of uploads being read, opened or written.", registry=self.registry
        )
        self.scrubbed = Counter(
            "lintra_scrubbed_batches", "Batches whose shares were destroyed.", registry=self.registry
        )

    def observe_reports(self, outcome: str, count: int) -> None:
        """Count reports by outcome: `accepted`, `repeated`, or an error's token."""
        counted = self._counted_reports.get(outcome)
        if counted is None:
            counted = self._counted_reports[outcome] = self._reports.labels(outcome)
        counted.inc(count)

    def observe_commit(self, reports: int, seconds: float) -> None:
        """Count one group commit."""
        self._commit_seconds.observe(seconds)
        self._commit_reports.observe(reports)
