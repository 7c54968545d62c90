"""Windows: a task that is released repeatedly, each time from the reports of one period.

Every window is a batch of its own. A report belongs to the window of its time, which its identifier fixes, and to no
other; so no server and no analyzer can move it.
"""

from typing import Self

from pydantic import Field, model_validator

from lintra_protocol.encoding.documents import Frozen, Real, fraction, omitted
from lintra_protocol.privacy.stream_matrix import StreamMatrix

MAX_WINDOWS = 2**20

MAX_MERGE = 16
"""Most windows that a task may merge: beyond that the claim says little, and longer windows cost nothing."""

MAX_STREAM = 10_000
"""Most windows of a stream."""


class Stream(Frozen):
    """How servers take back, in later windows, what they added to earlier ones (docs/proofs/together.md#streams).

    Attributes:
        damping: w, above 0 and at most 1: how much of it they take back.
        blur: rho: a server remembers its noise under noise of this part of its deviation.
        memory: for how many windows, its own included, noise is remembered; left out for all.
    """

    damping: Real
    blur: Real = "0.1"
    memory: int | None = omitted(None, ge=2, le=MAX_STREAM)

    @model_validator(mode="after")
    def _in_range(self) -> Self:
        if not 0 < fraction(self.damping) <= 1:
            raise ValueError(f"damping lies in (0, 1], got {self.damping}")
        if not 0 <= fraction(self.blur) <= 1:
            raise ValueError(f"blur lies in [0, 1], got {self.blur}")
        return self


class Windows(Frozen):
    """How the time of a task is cut into windows; lengths count its units of time.

    Attributes:
        window: the length of one.
        grace: how long after its end servers still take the reports of a window. Only then may it be closed.
        max_windows: how many there are; the task ends with the last.
        reports_per_source: in how many windows one source may answer, once in each.
        max_merge: most windows in a row whose reports may be released together; the first of them were too small.
        stream: how the noise of windows hangs together; left out where it is independent.
    """

    window: int = Field(ge=1, lt=2**31)
    grace: int = Field(ge=0, lt=2**31)
    max_windows: int = Field(ge=1, le=MAX_WINDOWS)
    reports_per_source: int = Field(ge=1, le=MAX_WINDOWS)
    max_merge: int = omitted(1, ge=1, le=MAX_MERGE)
    stream: Stream | None = omitted(None)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.reports_per_source > self.max_windows:
            raise ValueError(
                f"reports_per_source {self.reports_per_source} is more than the {self.max_windows} windows there are"
            )
        if self.max_merge > self.max_windows:
            raise ValueError(f"max_merge {self.max_merge} is more than the {self.max_windows} windows there are")
        if self.stream is not None and self.max_windows > MAX_STREAM:
            raise ValueError(f"a stream has at most {MAX_STREAM} windows, got {self.max_windows}")
        if self.stream is not None and self.max_merge > 1:
            raise ValueError("windows of a stream are never merged: use max_merge 1")
        return self

    @property
    def matrix(self) -> StreamMatrix | None:
        """Return the matrix of the stream; None where noise is independent."""
        if self.stream is None:
            return None
        blur, damping = fraction(self.stream.blur), fraction(self.stream.damping)
        return StreamMatrix(self.max_windows, self.reports_per_source, damping, blur, self.stream.memory)

    @property
    def units(self) -> int:
        """Return how many units of time all windows take."""
        return self.window * self.max_windows
