"""The pages about tasks."""

from fastapi import Request
from fastapi.responses import HTMLResponse

from lintra_analyzer.web.admission import ThisService, visible_tasks
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.routing import console_router
from lintra_analyzer.web.views import summary_of

router = console_router()


@router.get("/")
def tasks(request: Request, service: ThisService) -> HTMLResponse:
    """List all tasks, the newest first."""
    found = [summary_of(*described) for described in map(service.described, visible_tasks(request))]
    return page(request, "tasks.html", tasks=found)
