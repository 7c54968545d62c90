"""The server's internal application: alive, ready, metrics. For operators, on a port of its own."""

from collections.abc import Callable

from starlette.types import ASGIApp

from lintra_server.node import Node
from lintra_service.health_app import internal_app


def create_internal_app(node: Node, check: Callable[[], None] | None = None) -> ASGIApp:
    """Return the internal ASGI application of one server; `check` raises if requests cannot be served."""
    return internal_app("server", check or node.check, node.metrics, node.new_request_id)
