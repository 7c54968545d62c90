"""Windows: a task that is released repeatedly, each time from the reports of one period.

Every window is a batch of its own. A report belongs to the window of its time, which its identifier fixes, and to no
other; so no server and no analyzer can move it.
"""

from typing import Self

from pydantic import Field, model_validator

from lintra_protocol.encoding.documents import Frozen

MAX_WINDOWS = 2**20

MAX_MERGE = 16
"""Most windows that a task may merge: beyond that the claim says little, and longer windows cost nothing."""


class Windows(Frozen):
    """How the time of a task is cut into windows; lengths count its units of time.

    Attributes:
        window: the length of one.
        grace: how long after its end servers still take the reports of a window. Only then may it be closed.
        max_windows: how many there are; the task ends with the last.
        reports_per_source: in how many windows one source may answer, once in each.
        max_merge: most windows in a row whose reports may be released together; the first of them were too small.
    """

    window: int = Field(ge=1, lt=2**31)
    grace: int = Field(ge=0, lt=2**31)
    max_windows: int = Field(ge=1, le=MAX_WINDOWS)
    reports_per_source: int = Field(ge=1, le=MAX_WINDOWS)
    max_merge: int = Field(default=1, ge=1, le=MAX_MERGE, exclude_if=lambda most: most == 1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.reports_per_source > self.max_windows:
            raise ValueError(
                f"reports_per_source {self.reports_per_source} is more than the {self.max_windows} windows there are"
            )
        if self.max_merge > self.max_windows:
            raise ValueError(f"max_merge {self.max_merge} is more than the {self.max_windows} windows there are")
        return self

    @property
    def units(self) -> int:
        """Return how many units of time all windows take."""
        return self.window * self.max_windows
