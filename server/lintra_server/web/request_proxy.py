"""Forwards every request but uploads from the opener that received it to the gate, each over a socket pair of its own.

The gate sees the same request, and reads its body at its own pace and within its own limits. A frame is a kind, a
length and bytes.
"""

import asyncio
import json
import socket
import struct
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lintra_protocol.errors import InvalidMessageError, UnavailableError

log = structlog.get_logger()

_HEAD = struct.Struct(">cI")
_START, _PART, _LAST, _GONE = b"s", b"p", b"l", b"g"
MAX_PART_BYTES = 1 << 20
MAX_HEAD_BYTES = 1 << 20


class RequestProxy:
    """The application of an opener for what is not an upload."""

    def __init__(self, channel: socket.socket) -> None:
        """Pass ends of socket pairs through a channel to the gate."""
        self._channel = channel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the gate answer one request.

        Raises UnavailableError if it is gone, or gave up; InvalidMessageError if the sender left.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._channel, [b"r"], [theirs.fileno()])
            except OSError:
                ours.close()
                raise UnavailableError("the gate is gone") from None
        reader, writer = await asyncio.open_connection(sock=ours)
        answering = asyncio.create_task(_answer(scope, reader, send))
        # Who left reads no answer, and the gate sees by the end of the pair that it may stop.
        sending = asyncio.create_task(_pass_on(scope, receive, writer, answering.cancel))
        try:
            await asyncio.wait([answering])
            if answering.cancelled():
                raise InvalidMessageError("the sender left before the end of the answer")
            answering.result()
        finally:
            answering.cancel()
            sending.cancel()
            writer.close()


async def _pass_on(scope: Scope, receive: Receive, writer: asyncio.StreamWriter, left: Callable[[], object]) -> None:
    """Pass a request on; `left` is called when its sender leaves."""
    said = {
        "method": scope["method"],
        "http_version": scope["http_version"],
        "scheme": scope["scheme"],
        "path": scope["path"],
        "raw_path": scope["raw_path"].decode("latin-1"),
        "query_string": scope["query_string"].decode("latin-1"),
        "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]],
        "client": scope.get("client"),
        "request_id": scope["state"]["request_id"],
    }
    with suppress(OSError):  # a gate that is gone shows in the answer
        writer.write(_framed(_START, json.dumps(said).encode()))
        while (message := await receive())["type"] != "http.disconnect":
            await _write_parts(writer, message.get("body", b""), last=not message.get("more_body", False))
        writer.write(_framed(_GONE, b""))
        await writer.drain()
        left()


async def _answer(scope: Scope, reader: asyncio.StreamReader, send: Send) -> None:
    try:
        kind, data = await _frame(reader)
        said = json.loads(data)
        scope["route"] = SimpleNamespace(path=said["resource"])
        if said["error"]:
            scope["state"]["error"] = said["error"]
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in said["headers"]]
        await send({"type": "http.response.start", "status": said["status"], "headers": headers})
        while kind != _LAST:
            kind, data = await _frame(reader)
            await send({"type": "http.response.body", "body": data, "more_body": kind != _LAST})
    except (OSError, EOFError, ValueError) as error:
        raise UnavailableError(f"the gate gave up: {type(error).__name__}") from None


async def answer_forwarded(end: socket.socket, app: ASGIApp, node: object) -> None:
    """Answer, at the gate, one request that an opener received.

    `end` is this end of the request's socket pair; `node` is the server, which stands in the request's state.
    """
    reader, writer = await asyncio.open_connection(sock=end)
    scope: Scope = {}
    try:
        _, data = await _frame(reader)
        said = json.loads(data)
        scope = _scope(said, node)

        async def receive() -> Message:
            try:
                kind, part = await _frame(reader)
            except (OSError, EOFError):
                kind, part = _GONE, b""
            if kind == _GONE:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": part, "more_body": kind != _LAST}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                writer.write(_framed(_START, _started(message, scope)))
            else:
                await _write_parts(writer, message.get("body", b""), last=not message.get("more_body", False))

        await app(scope, receive, send)
        # The opener closes first: what it still sends must not meet a closed end, or the answer would be lost.
        while await reader.read(MAX_PART_BYTES):
            pass
    except (OSError, EOFError) as error:  # the opener is gone, and with it whoever asked
        log.info("a forwarded request ended early", reason=type(error).__name__)
    except Exception:  # the opener says that nobody answered
        log.error("failed", request_id=scope["state"]["request_id"] if scope else "", traceback=traceback.format_exc())
    finally:
        writer.close()


def _scope(said: dict[str, object], node: object) -> Scope:
    headers = said["headers"]
    client = said["client"]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": said["http_version"],
        "method": said["method"],
        "scheme": said["scheme"],
        "path": said["path"],
        "raw_path": str(said["raw_path"]).encode("latin-1"),
        "root_path": "",
        "query_string": str(said["query_string"]).encode("latin-1"),
        "headers": [(n.encode("latin-1"), v.encode("latin-1")) for n, v in headers]
        if isinstance(headers, list)
        else [],
        "client": tuple(client) if isinstance(client, list) else None,
        "server": None,
        "state": {"node": node, "request_id": said["request_id"]},
    }


def _started(message: Message, scope: Scope) -> bytes:
    state = scope["state"]
    headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in message.get("headers", [])]
    said = {
        "status": message["status"],
        "headers": headers,
        "resource": str(getattr(scope.get("route"), "path", "unknown")),
        "error": state.get("error") if isinstance(state, dict) else None,
    }
    return json.dumps(said).encode()


def _framed(kind: bytes, data: bytes) -> bytes:
    return _HEAD.pack(kind, len(data)) + data


async def _write_parts(writer: asyncio.StreamWriter, body: bytes, *, last: bool) -> None:
    for start in range(0, len(body), MAX_PART_BYTES):
        writer.write(_framed(_PART, body[start : start + MAX_PART_BYTES]))
        await writer.drain()
    if last:
        writer.write(_framed(_LAST, b""))
    await writer.drain()


async def _frame(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    kind, size = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    if size > MAX_PART_BYTES:
        raise EOFError
    return kind, await reader.readexactly(size)
