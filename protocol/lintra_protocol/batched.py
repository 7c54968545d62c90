"""When a task collects, and how its reports are cut into batches."""

from typing import Literal, Self

from pydantic import Field, model_validator

from lintra_protocol.documents import Frozen
from lintra_protocol.errors import InvalidMessageError
from lintra_protocol.windows import Windows


class Batched(Frozen):
    """A task as far as it has times and batches.

    Times count units of `time_precision` seconds since the epoch; `not_before` is inclusive, `not_after` exclusive.
    """

    batches: Literal["single", "windowed"] = "single"
    windows: Windows | None = Field(default=None, exclude_if=lambda windows: windows is None)
    time_precision: int = Field(default=3600, ge=1, le=31_536_000)
    not_before: int = Field(ge=0, lt=2**53)
    not_after: int = Field(gt=0, lt=2**53)

    @model_validator(mode="after")
    def _times_fit(self) -> Self:
        if self.not_before >= self.not_after:
            raise ValueError(f"not_before {self.not_before} is not before not_after {self.not_after}")
        if (self.windows is None) != (self.batches == "single"):
            raise ValueError(f"windows belong to a task with batches 'windowed', and to no other; got {self.batches!r}")
        if self.windows is not None and self.not_before + self.windows.units != self.not_after:
            raise ValueError(
                f"{self.windows.max_windows} windows of {self.windows.window} units from {self.not_before} on end at "
                f"{self.not_before + self.windows.units}, not at {self.not_after}"
            )
        return self

    @property
    def num_batches(self) -> int:
        """Return how many batches the task may have: one, or one for each window."""
        return 1 if self.windows is None else self.windows.max_windows

    @property
    def reports_per_source(self) -> int:
        """Return how many reports one source may send, each to another batch."""
        return 1 if self.windows is None else self.windows.reports_per_source

    @property
    def max_merge(self) -> int:
        """Return how many windows in a row may be released together; 1 if each is released alone or not at all."""
        return 1 if self.windows is None else self.windows.max_merge

    def group(self, batch: int, first: int | None) -> range:
        """Return the batches that are released together as `batch`: from `first` to it, or it alone.

        Raises:
            InvalidMessageError: the task does not merge these.
        """
        if first is None:
            return range(batch, batch + 1)
        if not 0 <= first < batch or batch - first >= self.max_merge:
            raise InvalidMessageError(f"windows {first} to {batch}: this task merges at most {self.max_merge} in a row")
        return range(first, batch + 1)

    def batch_of(self, time: int) -> int:
        """Return the number of the batch that a report of this time belongs to.

        Args:
            time: in the task's units.

        Raises:
            ValueError: the time lies outside the task.
        """
        if not self.not_before <= time < self.not_after:
            raise ValueError(f"time {time} lies outside [{self.not_before}, {self.not_after})")
        return 0 if self.windows is None else (time - self.not_before) // self.windows.window

    def span(self, batch: int) -> tuple[int, int]:
        """Return the first unit of time of a batch and the first one after it.

        Raises:
            ValueError: the task has no such batch.
        """
        if not 0 <= batch < self.num_batches:
            raise ValueError(f"the task has batches 0 to {self.num_batches - 1}, not {batch}")
        if self.windows is None:
            return self.not_before, self.not_after
        begins = self.not_before + batch * self.windows.window
        return begins, begins + self.windows.window
