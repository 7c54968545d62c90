"""The routes that answer about several windows of a task together; they cost no privacy."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request, Response

from lintra_analysis.estimators.table import Estimate
from lintra_analysis.estimators.timeline import Timeline
from lintra_analysis.estimators.trend import TrendEstimate
from lintra_analyzer.web.admission import ThisService, holder_of, raw_body, while_present
from lintra_analyzer.web.analyses import PRIVACY_SPENT, parse_request, request_schema
from lintra_analyzer.web.combining import combine, combine_stream
from lintra_analyzer.web.description import body_of, combined_answers, interval_answers, refusals
from lintra_analyzer.web.trends import (
    TimelineRequest,
    TrendRequest,
    combined_response,
    parse_combination,
    parse_interval,
    parse_trend,
    people_in,
)
from lintra_analyzer.web.views import CombinedView, IntervalView, together_view
from lintra_protocol.task import Task

Body = Annotated[bytes, Depends(raw_body)]
Accept = Annotated[str, Header()]


def window_routes() -> APIRouter:
    """Return the routes; each answer comes in the types of an analysis."""
    router = APIRouter(prefix="/v1/tasks/{task_id}", tags=["releases"])

    @router.post(
        "/trend",
        response_model=None,
        responses={**combined_answers(TrendEstimate), **refusals(400, 404, 502)},
        openapi_extra=body_of(TrendRequest.model_json_schema()),
    )
    async def trend(
        request: Request, service: ThisService, task_id: str, body: Body, accept: Accept = "*/*"
    ) -> CombinedView | Response:
        """Combine the windows that were released."""
        task, asked = service.task(task_id), parse_trend(body)
        estimate = await while_present(request, combine(service, task_id, asked, holder_of(request).name, "trend"))
        return combined_response(task, estimate, accept) or _view(task, estimate)

    @router.post(
        "/timeline",
        response_model=None,
        responses={**combined_answers(Timeline), **refusals(400, 404, 502)},
        openapi_extra=body_of(TimelineRequest.model_json_schema()),
    )
    async def timeline(
        request: Request, service: ThisService, task_id: str, body: Body, accept: Accept = "*/*"
    ) -> CombinedView | Response:
        """Return columns over the windows of a stream: single windows, running totals, or moving sums."""
        task, asked = service.task(task_id), parse_combination("timeline", TimelineRequest, body)
        asking = combine_stream(service, task_id, asked, holder_of(request).name, "timeline")
        estimate = await while_present(request, asking)
        return combined_response(task, estimate, accept) or _view(task, estimate)

    @router.post(
        "/windows/{interval}/analyses",
        response_model=None,
        responses={**interval_answers(), **refusals(400, 404, 502)},
        openapi_extra=body_of(request_schema()),
    )
    async def analyse(
        request: Request, service: ThisService, task_id: str, interval: str, body: Body, accept: Accept = "*/*"
    ) -> IntervalView | Response:
        """Run an analysis over the windows of a stream from FIRST to LAST, added up."""
        task, asked = service.task(task_id), parse_interval(interval, parse_request(body))
        kind = asked.request.kind
        asking = combine_stream(service, task_id, asked, holder_of(request).name, kind)
        estimate = await while_present(request, asking)
        people = people_in(task, asked)
        return combined_response(task, estimate, accept, people) or IntervalView(
            **dict(_view(task, estimate)), first=asked.first, last=asked.last, kind=kind, people=people
        )

    return router


def _view(task: Task, estimate: Estimate) -> CombinedView:
    return CombinedView(
        task_id=task.task_id,
        result=dict(estimate.to_dict()),
        privacy=together_view(task),
        privacy_spent=PRIVACY_SPENT,
    )
