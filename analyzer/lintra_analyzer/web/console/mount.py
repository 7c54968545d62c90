"""The console as a part of the analyzer's application: its pages at `/`, its files at `/static`."""

from fastapi import FastAPI
from starlette.staticfiles import StaticFiles

from lintra_analyzer.web.console import (
    analyses,
    guide,
    models,
    new_task,
    privacy,
    releases,
    sending,
    sign_in,
    start,
    tasks,
    tokens,
    windows,
)
from lintra_analyzer.web.console.pages import STATIC

ROUTERS = (
    sign_in.outside,
    sign_in.inside,
    start.router,
    guide.router,
    new_task.router,
    tasks.router,
    sending.router,
    releases.router,
    analyses.router,
    windows.router,
    models.router,
    privacy.router,
    tokens.router,
)
"""One for each group of pages."""


def mount_console(app: FastAPI) -> None:
    """Serve the console."""
    for router in ROUTERS:
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
