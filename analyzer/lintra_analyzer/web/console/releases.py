"""The pages about releases: the list, the certificate of one, its numbers as files, and its replay."""

from typing import Annotated, Literal

from fastapi import Path, Query, Request
from fastapi.responses import HTMLResponse, Response

from lintra_analysis.certificate.certificate import witness_lines
from lintra_analyzer.settings import TOKEN_VARIABLE, URL_VARIABLE
from lintra_analyzer.storage.readable import purpose_in
from lintra_analyzer.web.admission import Before, ThisService, holder_of
from lintra_analyzer.web.analyses import summary
from lintra_analyzer.web.console.analysis_forms import offers_of
from lintra_analyzer.web.console.certificate import sentences
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.routing import console_router
from lintra_analyzer.web.export import CSV, JSON, NPZ, sketch_response
from lintra_analyzer.web.views import listed_release

SHOWN_ROWS = 20
"""Flagged rows and collusion levels that a page names one by one."""

TYPES = {"npz": NPZ, "json": JSON, "csv": CSV}

router = console_router()

ReleaseId = Annotated[str, Path(max_length=64)]


@router.get("/releases")
def releases(request: Request, service: ThisService, cursor: Before = None) -> HTMLResponse:
    """List the releases in the holder's scope, the newest first, a page at a time."""
    found = service.store.listed.releases(holder_of(request).scope, cursor)
    shown = [listed_release(stored) for stored in found.rows]
    tasks = service.store.listed.some_tasks([release.task_id for release in shown])
    purposes = {stored.task_id: purpose_in(stored) for stored in tasks}
    return page(
        request,
        "releases.html",
        releases=[(release, purposes[release.task_id]) for release in shown],
        following=found.following,
        cursor=cursor,
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
        witnesses=witness_lines(signed.record, task),
        population=population,
        same=service.populations.to(population).by_release,
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


@router.get("/releases/{release_id}/audit")
async def audit(
    request: Request, service: ThisService, release_id: ReleaseId, replay: Annotated[bool, Query()] = False
) -> HTMLResponse:
    """Say what a replay is, and replay the release if that is asked; it changes nothing."""
    signed = service.record(release_id)
    checks = await service.replay(signed) if replay else ()
    return page(
        request,
        "audit.html",
        record=signed.record,
        release_id=release_id,
        purpose=service.task(signed.record.task_id).purpose,
        checks=checks,
        passed=all(check.passed for check in checks),
        commands=commands_of(release_id),
        variables=(URL_VARIABLE, TOKEN_VARIABLE),
    )


def commands_of(release_id: str) -> list[tuple[str, str]]:
    """Return what a sceptic types about a release, and what each command shows.

    The analyzer's own address is not among it: it is known from the request only, where anybody may have put it. An
    identifier may begin with a hyphen, and would be taken for an option without the `--`.
    """
    return [
        (
            f"lintra analyzer download -- {release_id} audited",
            "writes audited.json, the signed certificate, audited.npz, the numbers, and audited.task.json, the task",
        ),
        (
            "lintra audit task audited.task.json",
            "computes the task's privacy again, from a public matrix, by another route than the service",
        ),
        (
            "lintra audit release --task audited.task.json",
            "lets the exact distinguishers tell apart two worlds that differ in one person, in many runs; some minutes",
        ),
        (
            "lintra audit release --task audited.task.json --fault sigma",
            "the same with too little noise, planted: this one must fail, or the audit would show nothing",
        ),
    ]
