"""All routes of the analyzer's application, for tests that try every one of them."""

from collections.abc import Iterator

from fastapi import FastAPI
from fastapi.routing import APIRoute

from lintra_analyzer.storage import tables
from lintra_analyzer.web.app import create_app
from support.analyzer_world import Life

PARAMETERS = {"batch": "0", "token_id": "0" * 12, "kind": "means", "ending": "csv", "interval": "0-0"}
"""What stands for each; a batch and windows belong to the task of their path, and its scope is theirs."""


def routes(life: Life) -> list[tuple[str, str]]:
    """Return method and path of every route, however deep it is."""
    app = create_app(life.service)
    inner = app._app  # type: ignore[attr-defined]
    assert isinstance(inner, FastAPI)
    found = sorted(set(_flat(inner.routes)))
    # Tasks, releases, the console and its tokens are among them, or the search has missed a router.
    assert {path for _, path in found} >= {"/", "/v1/tasks", "/v1/releases/{release_id}", "/tokens", "/tasks/new"}
    return found


def _flat(items: object) -> Iterator[tuple[str, str]]:
    for route in items:  # type: ignore[attr-defined]
        if isinstance(route, APIRoute):
            yield from ((method, route.path) for method in route.methods)
        elif hasattr(route, "effective_route_contexts"):
            for context in route.effective_route_contexts():
                yield from ((method, context.path) for method in context.methods)


def filled(path: str, **values: str) -> str:
    for name, value in {**PARAMETERS, **values}.items():
        path = path.replace("{" + name + "}", value)
    assert "{" not in path, "a new parameter: say here what stands for it, and check the scope of what it names"
    return path


def stored(life: Life) -> list[object]:
    """Return everything in the database, and who is trusted."""
    engine = life.service.store._engine
    with engine.connect() as connection:
        rows = [connection.execute(table.select()).all() for table in tables.metadata.sorted_tables]
    return [*rows, life.service.store._trusted.state()]
