"""Who hangs up in the middle of a request or an answer is a line in the log at most, and nothing waits for him."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterator, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import structlog
import uvloop
from fastapi import FastAPI, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp

from lintra_protocol.errors import LintraError
from lintra_server.node import Node
from lintra_server.web.request_proxy import RequestProxy, answer_forwarded
from lintra_server.web.upload_route import Front
from lintra_service.byte_budget import ByteBudget
from lintra_service.middleware import ServiceMiddleware
from lintra_service.responses import as_lintra_error, problem, read_body
from support.raw_connections import SECONDS, listening, upload_head
from support.server_world import a_world

PIECE = bytes(1 << 16)
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
ASKED = {
    "half an upload": lambda task: upload_head(task, 300) + b"half",
    "half a body": lambda _: b"PUT /up HTTP/1.1\r\nhost: a\r\ncontent-length: 90000\r\n\r\n" + bytes(80_000),
    "half a chunk": lambda _: b"PUT /up HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n9\r\nhalf",
    "half a head": lambda _: b"PUT /up HTTP/1.1\r\nhos",
    "a download": lambda _: b"GET /big HTTP/1.1\r\nhost: a\r\n\r\n",
    "a download of known length": lambda _: b"GET /sized HTTP/1.1\r\nhost: a\r\n\r\n",
    "an answer that takes its time": lambda _: b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n",
    "several at once": lambda _: b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n" * 3,
}
FACES = ("server", "opener", "analyzer")


def routes() -> FastAPI:
    """Return an application that takes a body, and gives long and late answers."""
    app = FastAPI()
    app.add_exception_handler(LintraError, lambda _, error: problem(as_lintra_error(error), "a"))

    def pieces() -> Iterator[bytes]:
        for _ in range(500):
            yield PIECE

    @app.put("/up")
    async def up(request: Request) -> Response:
        with ByteBudget(1 << 24).lease("a") as lease:
            body = await read_body(request.receive, request.headers.get("content-length"), 1 << 20, lease)
        return Response(str(len(body)))

    @app.get("/big")
    def big() -> Response:
        return StreamingResponse(pieces())

    @app.get("/sized")
    def sized() -> Response:
        return StreamingResponse(pieces(), headers={"content-length": str(500 * len(PIECE))})

    @app.get("/slow")
    async def slow() -> Response:
        await asyncio.sleep(0.2)
        return Response("late")

    return app


@dataclass
class Face:
    """One of the applications that a listener serves, around `routes`."""

    app: ASGIApp
    forwarded: list[asyncio.Task[None]] = field(default_factory=list)


@asynccontextmanager
async def facing(kind: str, node: Node) -> AsyncIterator[Face]:
    """Give the face of a server, of a server's opener with its gate, or of an analyzer."""
    if kind == "server":
        yield Face(Front(node, routes()))
    elif kind == "analyzer":
        yield Face(ServiceMiddleware(routes(), node.new_request_id, 1 << 20, node.metrics, ByteBudget(1 << 24)))
    else:
        channel, far = socket.socketpair()
        inner, loop = routes(), asyncio.get_running_loop()
        face = Face(Front(node, RequestProxy(channel)))

        def ready() -> None:
            _, descriptors, _, _ = socket.recv_fds(far, 1, 1)
            for descriptor in descriptors:
                end = socket.socket(fileno=descriptor)
                face.forwarded.append(loop.create_task(answer_forwarded(end, inner, node)))

        loop.add_reader(far.fileno(), ready)
        with channel, far:
            yield face
            loop.remove_reader(far.fileno())


async def hang_up(port: int, sent: bytes, *, reset: bool, read: bool) -> None:
    """Send something, perhaps read a little of the answer, and leave."""
    loop = asyncio.get_running_loop()
    with socket.socket() as one:
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await loop.sock_connect(one, ("127.0.0.1", port))
        await loop.sock_sendall(one, sent)
        if read:
            await loop.sock_recv(one, 100)
        await asyncio.sleep(0.05)
        if reset:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def left(folder: Path, kind: str, *, reset: bool) -> dict[str, list[MutableMapping[str, object]]]:
    """Let somebody leave in every way, and return what was logged when nothing waits for him any more."""
    found = {}
    async with a_world(folder) as world, facing(kind, world.apps[0].node) as face:
        for name, asked in ASKED.items():
            with structlog.testing.capture_logs() as lines:
                async with listening(face.app) as port:
                    sent = asked(world.task.task_id)
                    await hang_up(port, sent, reset=reset, read=b"GET /big" in sent or b"GET /sized" in sent)
                    await asyncio.sleep(0.3)
                    async with asyncio.timeout(SECONDS):
                        await asyncio.gather(*face.forwarded)
            found[name] = list(lines)
    return found


@pytest.mark.grid(3)
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("kind", FACES)
@pytest.mark.parametrize("loop", LOOPS)
def test_who_hangs_up_is_a_line_in_the_log_at_most(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, loop: str, kind: str, reset: bool
) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        found = runner.run(left(tmp_path, kind, reset=reset))
    for name, lines in found.items():
        assert {line["log_level"] for line in lines} <= {"info"}, (name, lines)
    assert [record.getMessage() for record in caplog.records] == []
