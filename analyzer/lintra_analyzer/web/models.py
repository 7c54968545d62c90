"""The routes of models: several rounds, each a task, that the analyzer makes one after the other."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from lintra_analysis.estimators.estimates import Of
from lintra_analysis.spec.build_task import claim_of
from lintra_analysis.spec.specification import Specification
from lintra_analyzer.access import MOST_NAME
from lintra_analyzer.service import Service
from lintra_analyzer.storage.pages import PAGE
from lintra_analyzer.storage.rows import EVERYBODY, Problem
from lintra_analyzer.tasks.models import MOST_WINDOWS, OWN_KEYS, Model, ModelState
from lintra_analyzer.tasks.populations import spent_together
from lintra_analyzer.web.admission import Before, ThisService, holder_of, require_new, while_present
from lintra_analyzer.web.analyses import parse_request, summary
from lintra_analyzer.web.description import analysis_answers, refusals
from lintra_analyzer.web.export import analysis_response
from lintra_analyzer.web.requests import LogitRequest
from lintra_analyzer.web.views import AnalysisView, CertificateView
from lintra_protocol.errors import InvalidAnalysisError

Population = Annotated[str, Query(min_length=1, max_length=MOST_NAME, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""Whose rows a task is about, in the analyst's words: what is spent about the same people adds up."""


def _callers(key: str) -> str:
    if key.startswith(OWN_KEYS):
        raise ValueError(f"keys that begin with {OWN_KEYS!r} are the analyzer's own; take another")
    return key


RequestKey = Annotated[Annotated[str, AfterValidator(_callers)] | None, Header(alias="idempotency-key", max_length=200)]
"""What names a request. With a key of the analyzer's own, somebody could put a task among the rounds of any model."""


class ModelRequest(BaseModel):
    """A model in rounds: either the same people answer several, or every window has people of its own."""

    model_config = ConfigDict(extra="forbid")

    specification: Specification
    windows: int = Field(
        default=1, ge=1, le=MOST_WINDOWS, strict=True, description="how many windows, each with people of its own"
    )


class RoundView(BaseModel):
    """One round; T and whether it passes compare it with the round before that was released."""

    model_config = ConfigDict(frozen=True)

    number: int
    task_id: str
    state: str
    problem: Problem | None
    release_id: str | None
    num_clients: int | None
    statistic: float | None
    passes: bool | None


class EpsilonAtDelta(BaseModel):
    """Epsilon at delta; None where nothing is promised."""

    model_config = ConfigDict(frozen=True)

    epsilon: str | None
    delta: str


class ModelView(BaseModel):
    """A model: its rounds, what they say, and what was reserved and spent of privacy.

    `reserved` is the promise of all rounds to one person, and `spent` what the rounds that were released come to. Where
    every window has people of its own it is the promise of each window.
    """

    model_config = ConfigDict(frozen=True)

    task_id: str
    purpose: str
    target: str
    windows: int
    most_rounds: int
    state: ModelState
    ended: str | None
    rounds: list[RoundView]
    release_id: str | None
    status: str | None
    said: str | None
    reserved: EpsilonAtDelta
    spent: EpsilonAtDelta


class ModelSummary(BaseModel):
    """One line about a model."""

    model_config = ConfigDict(frozen=True)

    task_id: str
    purpose: str
    windows: int
    ended: str | None


def models() -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix="/v1/models", tags=["models"])

    @router.post("", status_code=201, responses=refusals(400, 403, 409, 502))
    async def create(
        service: ThisService,
        asked: ModelRequest,
        request: Request,
        response: Response,
        idempotency_key: RequestKey = None,
        population: Population = EVERYBODY,
    ) -> ModelView:
        """Make the first round of a model; the others follow by themselves, each when the one before is released."""
        require_new(request, population)
        task = await service.models.create(asked.specification, asked.windows, idempotency_key, population)
        request.state.task_id = task.task_id
        await service.register_task(task.task_id)
        response.headers["location"] = f"/v1/models/{task.task_id}"
        return model_view(service, service.models.show(task.task_id))

    @router.get("", responses=refusals())
    def list_models(
        service: ThisService,
        request: Request,
        response: Response,
        cursor: Before = None,
        limit: Annotated[int, Query(ge=1, le=PAGE, description="Most entries of a page.")] = PAGE,
    ) -> list[ModelSummary]:
        """List the models in the token's scope, the newest first; the header Link leads to the next page."""
        return _page(service, request, response, cursor, limit)

    @router.get("/{task_id}", responses=refusals(404))
    def show(service: ThisService, task_id: str) -> ModelView:
        """Return a model, named by the task of its first round: its rounds with T, and what was reserved and spent."""
        return model_view(service, service.models.show(task_id))

    @router.post("/{task_id}/stop", responses=refusals(404))
    def stop(service: ThisService, task_id: str) -> ModelView:
        """Make no further round; what was released stays, and so does what devices have set aside."""
        service.models.stop(task_id)
        return model_view(service, service.models.show(task_id))

    @router.get(
        "/{task_id}/estimate", response_model=None, responses={**analysis_answers("logit"), **refusals(400, 404, 502)}
    )
    async def estimate(
        request: Request,
        service: ThisService,
        task_id: str,
        of: Of = "population",
        confidence: Annotated[float, Query(gt=0, lt=1)] = 0.95,
        missing: Annotated[float, Query(ge=0, lt=1)] = 0.0,
        accept: Annotated[str, Header()] = "*/*",
    ) -> AnalysisView | Response:
        """Return the logistic regression of the last round that was released; it costs no privacy."""
        asked = LogitRequest(kind="logit", of=of, confidence=confidence, missing=missing)
        return await _estimate(service, request, service.models.show(task_id).release_id, asked, accept)

    return router


def _page(service: Service, request: Request, response: Response, cursor: int | None, limit: int) -> list[ModelSummary]:
    found = service.store.listed.models(holder_of(request).scope, cursor, limit)
    if found.following is not None:
        response.headers["link"] = f'<?cursor={found.following}&limit={limit}>; rel="next"'
    return [ModelSummary(purpose=service.task(each.task_id).purpose, **vars(each)) for each in found.rows]


async def _estimate(
    service: Service, request: Request, release_id: str | None, asked: LogitRequest, accept: str
) -> AnalysisView | Response:
    if release_id is None:
        raise InvalidAnalysisError("no round of this model is released yet")
    signed, wanted = service.record(release_id), parse_request(asked.model_dump_json().encode())
    found = await while_present(request, service.analyse(signed, wanted, holder_of(request).name))
    return analysis_response(signed.record, found, accept) or AnalysisView(
        release_id=release_id,
        kind=wanted.kind,
        result=dict(found.to_dict()),
        certificate=CertificateView.model_validate(summary(signed.record)),
    )


def model_view(service: Service, model: Model) -> ModelView:
    """Describe a model."""
    estimate, released, lines = model.estimate, 0, []
    records = []
    for number, each in enumerate(model.rounds, 1):
        tested = None
        if each.release_id is not None:
            records.append(service.record(each.release_id).record)
            tested, released = None if estimate is None else estimate.rounds[released], released + 1
        state = "refused" if each.refused else "collecting" if each.job is None else each.job.state
        problem = each.refused[0].problem if each.refused else None if each.job is None else each.job.problem
        lines.append(
            RoundView(
                number=number,
                task_id=each.task_id,
                state=state,
                problem=problem,
                release_id=each.release_id,
                num_clients=None if tested is None else tested.num_clients,
                statistic=None if tested is None else tested.statistic,
                passes=None if tested is None or tested.statistic is None else tested.passes,
            )
        )
    claim = claim_of(model.specification)
    promises = [record.privacy for record in records]
    if model.stored.windows > 1:  # every person is in one of them: the least private says what that costs
        promises = sorted(promises, key=lambda privacy: privacy.mu)[-1:]
    spent = spent_together(promises)
    return ModelView(
        task_id=model.task.task_id,
        purpose=model.task.purpose,
        target=model.target,
        windows=model.stored.windows,
        most_rounds=max(model.stored.windows, model.specification.mechanism.num_rounds),
        state=model.state,
        ended=model.stored.ended,
        rounds=lines,
        release_id=model.release_id,
        status=None if estimate is None else estimate.status,
        said=None if estimate is None else estimate.said,
        reserved=EpsilonAtDelta(epsilon=claim.epsilon, delta=claim.delta),
        spent=EpsilonAtDelta(
            epsilon="0" if spent is None else spent.epsilon, delta="0" if spent is None else spent.delta
        ),
    )
