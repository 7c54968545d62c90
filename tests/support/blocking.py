"""Blocking code against an asynchronous application: a loop in another thread, and a transport into it."""

import asyncio
import threading

import httpx2

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_analyzer.web.app import create_app
from support.analyzer_world import Life


class Loop:
    """An event loop in a thread of its own, so that blocking code can be tested against asynchronous code."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: object) -> object:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)  # type: ignore[arg-type]

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Bridge(httpx2.BaseTransport):
    """Carries a blocking client's requests to the application; the first `lost` answers go astray."""

    def __init__(self, life: Life, loop: Loop, lost: int = 0) -> None:
        self._transport = httpx2.ASGITransport(create_app(life.service))
        self._loop = loop
        self.lost = lost

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        status, headers, body = self._loop.run(self._answer(request))  # type: ignore[misc]
        if self.lost:
            self.lost -= 1
            raise httpx2.ReadError("lost")
        return httpx2.Response(status, headers=headers, content=body)

    async def _answer(self, request: httpx2.Request) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        body = request.read()
        inner = httpx2.Request(request.method, request.url, headers=request.headers, content=body)
        response = await self._transport.handle_async_request(inner)
        return response.status_code, response.headers.raw, await response.aread()


class KeptOpen:
    """A client that a command does not close."""

    def __init__(self, client: AnalyzerClient) -> None:
        self._client = client

    def __enter__(self) -> AnalyzerClient:
        return self._client

    def __exit__(self, *_: object) -> None:
        pass
