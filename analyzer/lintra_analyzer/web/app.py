"""The analyzer's REST interface: it parses, asks, and answers. docs/reference/analyzer.md describes every route.

The routes are built once in a process; which service a request is for stands in its state.
"""

import functools
import time
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request, Response
from fastapi.responses import HTMLResponse
from starlette.types import ASGIApp

from lintra_analysis.spec.second_round import SecondRound
from lintra_analysis.spec.specification import Specification
from lintra_analyzer.exchange.evidence import evidence_of
from lintra_analyzer.service import Service
from lintra_analyzer.storage.rows import EVERYBODY, ServerState
from lintra_analyzer.web.admission import (
    READING,
    ThisService,
    admit,
    holder_of,
    most_bytes,
    raw_body,
    require_new,
    while_present,
)
from lintra_analyzer.web.analyses import parse_request, request_schema, summary
from lintra_analyzer.web.console.mount import mount_console
from lintra_analyzer.web.console.sign_in import Attempts
from lintra_analyzer.web.description import (
    BEARER,
    analysis_answers,
    body_of,
    describe,
    evidence_answers,
    refusals,
    sketch_answers,
)
from lintra_analyzer.web.export import analysis_response, cohort_response, evidence_response, sketch_response
from lintra_analyzer.web.lists import lists
from lintra_analyzer.web.models import Population, RequestKey, models
from lintra_analyzer.web.reference import POLICY, reference_page
from lintra_analyzer.web.views import (
    AnalysisView,
    CensusView,
    CertificateView,
    CohortView,
    JobView,
    KeysView,
    ReleaseView,
    TaskView,
    TokenRequest,
    Tokens,
    census_view,
    job_view,
    view_of,
)
from lintra_analyzer.web.window_routes import window_routes
from lintra_protocol import __version__
from lintra_protocol.errors import UnknownBatchError
from lintra_protocol.fields.windows import MAX_WINDOWS
from lintra_protocol.messages.documents import BATCH
from lintra_service.byte_budget import ByteBudget
from lintra_service.middleware import ServiceMiddleware
from lintra_service.responses import RETRY_AFTER_SECONDS

OPENAPI_PATH = "/v1/openapi.json"


def create_app(service: Service) -> ASGIApp:
    """Return the public application; whoever serves it also enters `service.running`."""
    settings = service.settings
    return ServiceMiddleware(
        _routes(),
        service.new_request_id,
        # The routes without a token have no body, but for signing in.
        lambda scope: most_bytes(scope, service),
        service.metrics,
        ByteBudget(settings.max_pending_bytes),
        trusted_proxies=settings.trusted_proxies,
        state={"service": service, "attempts": Attempts(time.monotonic)},
    )


async def _admitted(request: Request, _: Annotated[object, Depends(BEARER)]) -> None:
    # A page may lead to what is only read; what changes something would need the protection of the console's forms.
    admit(request, by_session=request.method in READING)


@functools.cache
def _routes() -> FastAPI:
    """Return the routes, for every service of this process."""
    app = FastAPI(
        title="lintra analyzer", version="1", openapi_url=OPENAPI_PATH, docs_url=None,
        redoc_url=None,
    )  # fmt: skip

    @app.get("/v1/keys", responses=refusals())
    def keys(service: ThisService) -> KeysView:
        """Return the analyzer's public keys."""
        return KeysView.model_validate(service.keys.public())

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        """Describe the interface for people."""
        return HTMLResponse(reference_page(app.openapi()), headers={"content-security-policy": POLICY})

    routers = (lists(), models(), _tasks(), _clients(), _batches(), window_routes(), _releases(), _auditing())
    for router in routers:
        app.include_router(router, dependencies=[Depends(_admitted)])
    mount_console(app)
    describe(app, __version__)
    return app


def _tasks() -> APIRouter:
    router = APIRouter(prefix="/v1/tasks", tags=["tasks"])

    @router.post("", status_code=201, responses=refusals(400, 403, 409, 502))
    async def create(
        service: ThisService,
        specification: Specification,
        request: Request,
        response: Response,
        idempotency_key: RequestKey = None,
        population: Population = EVERYBODY,
    ) -> TaskView:
        """Calibrate, sign and register a task; the same Idempotency-Key finds the same task again."""
        require_new(request, population)
        task = await service.create_task(specification, idempotency_key, population)
        # From here on a refusal names the task, which is kept and can be registered again.
        request.state.task_id = task.task_id
        states = await service.register_task(task.task_id)
        response.headers["location"] = f"/v1/tasks/{task.task_id}"
        return view_of(task, states)

    @router.post("/{task_id}/second-round", status_code=201, responses=refusals(400, 403, 404, 409, 502))
    async def create_second(
        service: ThisService, task_id: str, asked: SecondRound, request: Request, response: Response
    ) -> TaskView:
        """Make, sign and register the second of two rounds from the release of the first; again finds the same task."""
        require_new(request, service.store.task(task_id).population)
        task = await service.create_second_task(task_id, asked.bound)
        request.state.task_id = task.task_id
        states = await service.register_task(task.task_id)
        response.headers["location"] = f"/v1/tasks/{task.task_id}"
        return view_of(task, states)

    @router.get("/{task_id}", responses=refusals(400, 404))
    async def show(service: ThisService, task_id: str, live: Annotated[Literal["0", "1"], Query()] = "0") -> TaskView:
        """Describe a task; with live=1 its servers are asked now, and their counters included."""
        task = service.task(task_id)
        if live == "0":
            return view_of(task, service.store.registrations(task_id))
        states: list[ServerState] = []
        counters = []
        for state, counter in await service.live_states(task_id):
            states.append(state)
            counters.append(counter)
        return view_of(task, states, counters)

    @router.put("/{task_id}/registration", responses=refusals(400, 403, 404, 409, 502))
    async def register(service: ThisService, task_id: str) -> TaskView:
        """Bring a task to every server, also to one that lost it."""
        states = await service.register_task(task_id)
        return view_of(service.task(task_id), states)

    return router


def _clients() -> APIRouter:
    router = APIRouter(prefix="/v1/tasks", tags=["clients"])

    @router.post("/{task_id}/tokens", status_code=201, responses=refusals(400, 404, 409))
    def tokens(service: ThisService, task_id: str, asked: TokenRequest) -> Tokens:
        """Make tokens for clients; nothing is kept of them."""
        return Tokens(tokens=service.make_tokens(task_id, asked.count))

    @router.get("/{task_id}/census", responses=refusals(403, 404, 409, 502))
    async def census(
        service: ThisService, task_id: str, batch: Annotated[int, Query(ge=0, lt=MAX_WINDOWS)] = BATCH
    ) -> CensusView:
        """Ask every server what it holds of the open batch; it changes nothing."""
        return census_view(service.task(task_id), await service.census(task_id, batch))

    return router


def _batches() -> APIRouter:
    router = APIRouter(prefix="/v1/tasks", tags=["releases"])

    @router.put(
        "/{task_id}/batches/{batch}/release",
        status_code=202,
        responses={200: {"model": JobView, "description": "It is released."}, **refusals(400, 403, 404, 409)},
    )
    async def start(service: ThisService, task_id: str, batch: str, response: Response) -> JobView:
        """Start the release of a batch, or go on with it; 200 when it is done."""
        view = job_view(service.start_release(task_id, _number(batch)))
        _point(response, view)
        return view

    @router.get("/{task_id}/batches/{batch}/release", responses=refusals(404))
    def progress(service: ThisService, task_id: str, batch: str, response: Response) -> JobView:
        """Say how far the release of a batch is."""
        view = job_view(service.job(task_id, _number(batch)))
        if view.state == "running":
            response.headers["retry-after"] = str(RETRY_AFTER_SECONDS)
        return view

    return router


def _releases() -> APIRouter:
    router = APIRouter(prefix="/v1/releases", tags=["releases"])

    @router.get("/{release_id}", responses=refusals(404))
    def show(service: ThisService, release_id: str) -> ReleaseView:
        """Return a release's signed record."""
        signed = service.record(release_id)
        return ReleaseView(release_id=release_id, record=signed.record, signature=signed.signature)

    @router.get("/{release_id}/sketch", response_class=Response, responses={**sketch_answers(), **refusals(404, 502)})
    def sketch(service: ThisService, release_id: str, accept: Annotated[str, Header()] = "*/*") -> Response:
        """Return the released numbers: .npz by default, JSON or CSV if the Accept header asks for it."""
        signed = service.record(release_id)
        return sketch_response(service, signed.record, accept)

    @router.post(
        "/{release_id}/analyses",
        response_model=None,
        responses={**analysis_answers(), **refusals(400, 404, 502)},
        openapi_extra=body_of(request_schema()),
    )
    async def analyse(
        request: Request,
        service: ThisService,
        release_id: str,
        body: Annotated[bytes, Depends(raw_body)],
        accept: Annotated[str, Header()] = "*/*",
    ) -> AnalysisView | Response:
        """Run an analysis; it costs no privacy. It comes as CSV or text if the Accept header asks for it."""
        signed = service.record(release_id)
        asked = parse_request(body)
        estimate = await while_present(request, service.analyse(signed, asked, holder_of(request).name))
        return analysis_response(signed.record, estimate, accept) or AnalysisView(
            release_id=release_id,
            kind=asked.kind,
            result=dict(estimate.to_dict()),
            certificate=CertificateView.model_validate(summary(signed.record)),
        )

    return router


def _auditing() -> APIRouter:
    """Return the routes for whoever derives a release again."""
    router = APIRouter(prefix="/v1/releases", tags=["releases"])

    @router.get(
        "/{release_id}/cohort", response_model=None, responses={200: {"model": CohortView}, **refusals(404, 502)}
    )
    def cohort(service: ThisService, release_id: str) -> Response:
        """Return the report identifiers of a release, so that its seed and matrix can be derived again."""
        record = service.record(release_id)
        return cohort_response(record.record, service.cohort_ids(record))

    @router.get(
        "/{release_id}/evidence", response_class=Response, responses={**evidence_answers(), **refusals(404, 502)}
    )
    def evidence(service: ThisService, release_id: str) -> Response:
        """Return what the servers of a verified task signed, and the bodies that their verdict comes from, as one file.

        `lintra audit replay` checks it, with the servers' public keys and nothing else.
        """
        signed = service.record(release_id)
        members = evidence_of(service.task(signed.record.task_id), signed, service.store)
        return evidence_response(release_id, members)

    return router


def _number(batch: str) -> int:
    number = int(batch) if batch.isascii() and batch.isdecimal() and len(batch) < 8 else -1
    if str(number) != batch:
        raise UnknownBatchError("a batch has a number; that of a task without windows is 0")
    return number


def _point(response: Response, view: JobView) -> None:
    """Say where to look next, and when."""
    if view.release_id is not None:
        response.status_code = 200
        response.headers["location"] = f"/v1/releases/{view.release_id}"
        return
    response.headers["location"] = f"/v1/tasks/{view.task_id}/batches/{view.batch}/release"
    response.headers["retry-after"] = str(RETRY_AFTER_SECONDS)
