"""The page that replays a release: every step from the servers' signatures to the certificate, and what it showed."""

from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import HTMLResponse

from lintra_analyzer.settings import TOKEN_VARIABLE, URL_VARIABLE
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
