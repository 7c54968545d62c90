"""Analyses over all windows of a task together; they are post-processing and cost no privacy."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lintra_analysis.access.stream import WindowStream
from lintra_analysis.estimators.estimates import Of
from lintra_analysis.estimators.table import Estimate
from lintra_analysis.estimators.timeline import Over, Timeline
from lintra_analysis.estimators.trend import TrendEstimate, trend
from lintra_analysis.releases.release import Release
from lintra_analyzer.web.analyses import PRIVACY_SPENT, Request
from lintra_analyzer.web.export import tabular_response
from lintra_analyzer.web.requests import Number
from lintra_protocol.encoding.documents import first_complaint, rounded_up
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.fields.windows import MAX_WINDOWS
from lintra_protocol.task import Task


class TrendRequest(BaseModel):
    """The mean of a column in every window that was released, in all of them together, and how it changes.

    `first` is the first window that takes part. `last` is the last one; the task's last if left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: str
    of: Of = "population"
    confidence: Number = Field(default=0.95, gt=0, lt=1)
    first: int = Field(default=0, ge=0, lt=MAX_WINDOWS, strict=True)
    last: int = Field(default=MAX_WINDOWS - 1, ge=0, lt=MAX_WINDOWS, strict=True)

    def run(self, releases: Mapping[int, Release]) -> TrendEstimate:
        """Run the estimator."""
        return trend(releases, self.column, self.confidence, of=self.of)

    def run_stream(self, stream: WindowStream) -> TrendEstimate:
        """Run the estimator over windows whose noise hangs together."""
        return stream.trend(self.column, self.confidence, of=self.of, since=self.first, until=self.last)


class TimelineRequest(BaseModel):
    """Columns over the windows of a stream: of each, of all up to each (totals), or of `width` in a row (moving).

    Totals begin with the window `first`; `last` is the last one that takes part.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    columns: tuple[str, ...] | None = None
    over: Over = "totals"
    width: int = Field(default=4, ge=1, lt=MAX_WINDOWS, strict=True)
    of: Of = "cohort"
    confidence: Number = Field(default=0.95, gt=0, lt=1)
    first: int = Field(default=0, ge=0, lt=MAX_WINDOWS, strict=True)
    last: int = Field(default=MAX_WINDOWS - 1, ge=0, lt=MAX_WINDOWS, strict=True)

    def run_stream(self, stream: WindowStream) -> Timeline:
        """Run the estimator."""
        if self.over == "totals":
            return stream.totals(self.columns, self.confidence, of=self.of, since=self.first, until=self.last)
        width = 1 if self.over == "windows" else self.width
        return stream.moving(width, self.columns, self.confidence, of=self.of, since=self.first, until=self.last)


@dataclass(frozen=True)
class IntervalRequest:
    """An analysis of the windows of a stream from `first` to `last`, added up."""

    first: int
    last: int
    request: Request

    def run_stream(self, stream: WindowStream) -> Estimate:
        """Run the analysis."""
        return self.request.run(stream.release(self.first, self.last))


def parse_interval(interval: str, request: Request) -> IntervalRequest:
    """Read windows as `FIRST-LAST`; raise InvalidAnalysisError if that is not what it is."""
    first, _, last = interval.partition("-")
    if not all(part.isascii() and part.isdecimal() and len(part) < 8 for part in (first, last)):
        raise InvalidAnalysisError(f"windows of a stream are named as FIRST-LAST, such as 0-51; got {interval[:40]!r}")
    return IntervalRequest(int(first), int(last), request)


_R = TypeVar("_R", bound=BaseModel)


def parse_combination(kind: str, model: type[_R], body: bytes) -> _R:
    """Read a request; raise InvalidAnalysisError if a field does not fit; the detail names it."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        complaint = error.errors(include_input=False, include_url=False)[0]
        if complaint["type"] == "extra_forbidden":
            known = ", ".join(model.model_fields)
            raise InvalidAnalysisError(f"{kind} has no argument {complaint['loc'][0]!r}; it has: {known}") from None
        raise InvalidAnalysisError(first_complaint(error)) from None


def parse_trend(body: bytes) -> TrendRequest:
    """Read a request for a trend."""
    return parse_combination("trend", TrendRequest, body)


def people_in(task: Task, interval: IntervalRequest) -> str:
    """Return what an answer about windows that were added up takes for granted of the people in them.

    A source has at most so many reports in them; their sum varies by at most that times as much, in squares, as if all
    were independent.
    """
    most = min(task.reports_per_source, interval.last - interval.first + 1)
    if most == 1:
        return "each report is another source's"
    return (
        f"a source may have {most} of these reports: what is said of a population takes them for different people's, "
        f"and the sampling part of its errors may be up to {math.sqrt(most):.3g} times larger"
    )


def combined_response(task: Task, estimate: Estimate, accept: str, people: str = "") -> Response | None:
    """Return an answer about windows as CSV or text if an Accept header asks for one before JSON, else None."""
    said = "; ".join(filter(None, (promise_of_all(task), people)))
    return tabular_response(estimate, accept, said, f"lintra-{task.task_id}")


def promise_of_all(task: Task) -> str:
    """Return in one line what all that one source may send is promised together."""
    together = task.worst_together()
    return (
        f"epsilon {together.epsilon:.6g} at delta {rounded_up(together.delta)} ({together.neighbours}) for all "
        f"{task.reports_per_source} reports of one source; this analysis spent {PRIVACY_SPENT}"
    )
