"""The server's internal application: alive, ready, metrics. For operators, on a port of its own."""

from starlette.types import ASGIApp

from lintra_server.node import Node
from lintra_service.internal import internal_app


def create_internal_app(node: Node) -> ASGIApp:
    """Return the internal ASGI application of one server."""
    return internal_app("server", node.check, node.metrics, node.new_request_id)
