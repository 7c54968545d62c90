"""Who may ask for what: one check for the REST interface and for the console."""

from typing import Annotated

from fastapi import Depends, Request

from lintra_analyzer.service import Service
from lintra_service.tokens import require_token


def service_of(request: Request) -> Service:
    """Return the service that a request is for."""
    service: Service = request.state.service
    return service


async def _service(request: Request) -> Service:
    return service_of(request)


ThisService = Annotated[Service, Depends(_service)]
"""The service that a request is for."""


def admit(request: Request) -> None:
    """Let a request pass.

    Raises:
        UnauthorizedError: nobody, or nobody known, asks.
    """
    require_token(request.headers.get("authorization"), service_of(request).token_hashes)
