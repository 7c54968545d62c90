"""The pages about releases: the list, the certificate of one, and its numbers as files."""

from typing import Annotated, Literal

from fastapi import Path, Request
from fastapi.responses import HTMLResponse, Response

from lintra_analysis.record import ReleaseRecord
from lintra_analyzer.service import Service
from lintra_analyzer.web.admission import ThisService, visible_records
from lintra_analyzer.web.analyses import summary
from lintra_analyzer.web.console.certificate import promised, sentences, spent_together
from lintra_analyzer.web.console.offers import offers_of
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.routing import console_router
from lintra_analyzer.web.export import CSV, JSON, NPZ, sketch_response
from lintra_analyzer.web.views import release_summary

SHOWN_ROWS = 20
"""Flagged rows and collusion levels that a page names one by one."""

TYPES = {"npz": NPZ, "json": JSON, "csv": CSV}

router = console_router()

ReleaseId = Annotated[str, Path(max_length=64)]


@router.get("/releases")
def releases(request: Request, service: ThisService) -> HTMLResponse:
    """List all releases, the newest first, with what they promise together."""
    records = [signed.record for signed in visible_records(request)]
    purposes = {task_id: service.task(task_id).purpose for task_id in {record.task_id for record in records}}
    return page(
        request,
        "releases.html",
        releases=[(release_summary(record), purposes[record.task_id]) for record in records],
        together=spent_together(promised(records)),
    )


@router.get("/releases/{release_id}")
def release(request: Request, service: ThisService, release_id: ReleaseId) -> HTMLResponse:
    """Show the certificate of a release, and what can be asked of it."""
    signed = service.record(release_id)
    task = service.task(signed.record.task_id)
    population = service.store.task(task.task_id).population
    offers, refused = offers_of(service.opened(signed))
    return page(
        request,
        "release.html",
        record=signed.record,
        release_id=release_id,
        signature=signed.signature,
        task=task,
        sentences=sentences(signed.record, task),
        warnings=summary(signed.record)["warnings"],
        population=population,
        same=spent_together(promised(_same_people(service, population))),
        offers=offers,
        refused=refused,
        most=SHOWN_ROWS,
    )


@router.get("/releases/{release_id}/numbers.{ending}")
def numbers(service: ThisService, release_id: ReleaseId, ending: Literal["npz", "json", "csv"]) -> Response:
    """Return the released numbers as a file."""
    response = sketch_response(service, service.record(release_id).record, TYPES[ending])
    response.headers.setdefault("content-disposition", f'attachment; filename="lintra-{release_id}.{ending}"')
    return response


def _same_people(service: Service, population: str) -> list[ReleaseRecord]:
    """Return the records of all releases about a population, whoever may look at them."""
    about = {stored.task_id for stored in service.store.tasks() if stored.population == population}
    return [signed.record for signed in service.records() if signed.record.task_id in about]
