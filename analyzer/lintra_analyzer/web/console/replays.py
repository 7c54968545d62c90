"""The page that replays a release: every step from the servers' signatures to the certificate, and what it showed."""

from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import HTMLResponse

from lintra_analyzer.web.admission import ThisService
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.releases import ReleaseId
from lintra_analyzer.web.console.routing import console_router

router = console_router()


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
    )
