"""Analyses over all windows of a task together; they are post-processing and cost no privacy."""

from collections.abc import Mapping

from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lintra_analysis.estimators.estimates import Of
from lintra_analysis.estimators.trend import TrendEstimate, trend
from lintra_analysis.releases.release import Release
from lintra_analyzer.web.analyses import PRIVACY_SPENT
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


def parse_trend(body: bytes) -> TrendRequest:
    """Read a request; raise InvalidAnalysisError if a field does not fit; the detail names it."""
    try:
        return TrendRequest.model_validate_json(body)
    except ValidationError as error:
        complaint = error.errors(include_input=False, include_url=False)[0]
        if complaint["type"] == "extra_forbidden":
            known = ", ".join(TrendRequest.model_fields)
            raise InvalidAnalysisError(f"trend has no argument {complaint['loc'][0]!r}; it has: {known}") from None
        raise InvalidAnalysisError(first_complaint(error)) from None


def trend_response(task: Task, estimate: TrendEstimate, accept: str) -> Response | None:
    """Return a trend as CSV or text if an Accept header asks for one before JSON, else None."""
    return tabular_response(estimate, accept, promise_of_all(task), f"lintra-{task.task_id}")


def promise_of_all(task: Task) -> str:
    """Return in one line what all that one source may send is promised together."""
    together = task.worst_together()
    return (
        f"epsilon {together.epsilon:.6g} at delta {rounded_up(together.delta)} ({together.neighbours}) for all "
        f"{task.reports_per_source} reports of one source; this analysis spent {PRIVACY_SPENT}"
    )
