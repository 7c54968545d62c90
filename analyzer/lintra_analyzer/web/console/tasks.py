"""The pages about tasks."""

from fastapi import Request
from fastapi.responses import HTMLResponse

from lintra_analyzer.web.admission import ThisService
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.routing import console_router
from lintra_analyzer.web.views import summary_of

router = console_router()


@router.get("/")
def tasks(request: Request, service: ThisService) -> HTMLResponse:
    """List all tasks, the newest first."""
    found = [
        summary_of(service.task(stored.task_id), service.store.registrations(stored.task_id))
        for stored in service.store.tasks()
    ]
    return page(request, "tasks.html", tasks=found)
