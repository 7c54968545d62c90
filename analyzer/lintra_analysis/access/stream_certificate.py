"""The certificate of a stream: what the signed certificates of its windows say together.

Each window's certificate is signed by the analyzer, and names which windows' memory entered at each server, as the
server signed it. From these alone anybody computes the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from lintra_protocol.encoding.documents import rounded_up
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.rules.release import check_remembered
from lintra_protocol.task import Task


@dataclass(frozen=True)
class StreamCertificate:
    """What is promised of all windows together, which of them were released, and whose memory was missing.

    Attributes:
        privacy: of everything that one source may send, in all windows, whatever is lost or given up.
        reports_per_source: in how many windows a source may answer.
        price: S_k, by how much more than one report these move what is seen.
        windows: numbers of those that were released.
        gaps: numbers before the last of them that were not, and never will be.
        lacking: earlier released windows that did not enter a window at a server, by window and server.
        total_noise: deviation of the noise in the sum of all, in that of one server's fresh draw.
    """

    task_id: str
    privacy: PrivacyStatement
    reports_per_source: int
    price: float
    windows: tuple[int, ...]
    gaps: tuple[int, ...]
    lacking: Mapping[tuple[int, int], tuple[int, ...]]
    total_noise: float

    def lines(self) -> list[str]:
        """Return it as sentences."""
        at = f"epsilon {self.privacy.epsilon:.6g} at delta {rounded_up(self.privacy.delta)}"
        said = [
            f"all {self.reports_per_source} reports that one source may send: {at} ({self.privacy.neighbours})",
            f"they move what is seen {self.price:.4g} times as much as one",
            f"windows that were released: {_ranges(self.windows)}; never: {_ranges(self.gaps) or 'none'}",
            f"their sum has {self.total_noise:.4g} times the noise of one server's draw",
        ]
        said += [
            f"window {window}, server {server}: it took back nothing of windows {_ranges(earlier)}, of which it "
            "remembered nothing"
            for (window, server), earlier in self.lacking.items()
        ]
        return said


def stream_certificate(
    task: Task, remembered: Mapping[int, Sequence[Sequence[int]]], total_variance: float
) -> StreamCertificate:
    """Put together what windows name, each by its number: for each server the windows whose memory entered.

    `total_variance` is that of the noise in their sum, in variances of one server's draw. Raises InvalidMessageError
    if some server named windows that cannot have entered.
    """
    stream = task.stream
    if stream is None:
        raise ValueError("only the windows of a stream have one certificate")
    lacking = dict[tuple[int, int], tuple[int, ...]]()
    for window in sorted(remembered):
        possible = [earlier for earlier in stream.remembered_by(window) if earlier in remembered]
        for server, named in enumerate(remembered[window]):
            check_remembered(task, window, named)
            if absent := tuple(earlier for earlier in possible if earlier not in named):
                lacking[window, server] = absent
    windows = tuple(sorted(remembered))
    return StreamCertificate(
        task.task_id,
        task.worst_together(),
        stream.reports,
        sqrt(stream.squared_norm),
        windows,
        tuple(number for number in range(windows[-1]) if number not in remembered),
        lacking,
        sqrt(total_variance),
    )


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers in words, those in a row as first-last."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
