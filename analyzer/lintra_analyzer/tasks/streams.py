"""What is asked about the windows of a stream together."""

from collections.abc import Mapping
from typing import Protocol, TypeVar

from lintra_analysis.access.stream import WindowNumbers, WindowStream, remembered_in
from lintra_analysis.certificate.certificate import SignedRecord
from lintra_analysis.releases.release import Release
from lintra_analyzer.storage.archive import Archive
from lintra_protocol.task import Task

T_co = TypeVar("T_co", covariant=True)


class Combination(Protocol[T_co]):
    """What an analyst asks about the windows of a task, from the number `first` to `last`."""

    @property
    def first(self) -> int:
        """Return the first window that takes part."""

    @property
    def last(self) -> int:
        """Return the last window that takes part."""

    def run(self, releases: Mapping[int, Release]) -> T_co:
        """Ask it."""

    def run_stream(self, stream: WindowStream) -> T_co:
        """Ask it of windows whose noise hangs together."""


class OfStream(Protocol[T_co]):
    """What is asked about windows of a stream up to `last`."""

    @property
    def last(self) -> int:
        """Return the last window that takes part."""

    def run_stream(self, stream: WindowStream) -> T_co:
        """Ask it."""


def of_stream(archive: Archive, task: Task, records: Mapping[int, bytes], asked: OfStream[T_co]) -> T_co:
    """Return what is asked about a stream, whose signed records are given by number, from its first window on."""
    windows = {}
    for number, record in records.items():
        own = SignedRecord.from_canonical(record).record
        windows[number] = WindowNumbers(remembered_in(own), *archive.read(own))
    return asked.run_stream(WindowStream(task, windows))
