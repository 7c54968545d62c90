"""The analyzer's internal application: alive, ready, metrics. It is never the public one."""

from starlette.types import ASGIApp

from lintra_analyzer.service import Service
from lintra_service.health_app import internal_app


def create_internal_app(service: Service) -> ASGIApp:
    """Return the internal application."""
    return internal_app("analyzer", service.readiness.require, service.metrics, service.new_request_id)
