"""The head of a request has a limit, tried on real sockets against the real listener, with the rule and without it."""

import asyncio
import json
import tracemalloc
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from lintra_analyzer.web.app import create_app
from lintra_service import listener
from support.analyzer_world import living
from support.raw_connections import SECONDS, Attacker, listening, until_closed

ENDLESS = 40
SENT_BYTES = 1 << 20
"""Which each of the endless heads would have, if they were read."""

MOST_HELD_BYTES = ENDLESS * 2 * listener.HEAD_BYTES
START = b"POST /any HTTP/1.1\r\nhost: a\r\n"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the number of fields and the length of the body."""
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    await PlainTextResponse(f"{len(scope['headers'])} {size}")(scope, receive, send)


HEADS = {
    "one long field": START + b"x: " + b"a" * listener.HEAD_BYTES + b"\r\n\r\n",
    "a field without an end": START + b"x: " + b"a" * 2 * listener.HEAD_BYTES,
    "a name without an end": START + b"x" * 2 * listener.HEAD_BYTES,
    "an address without an end": b"GET /" + b"a" * 2 * listener.HEAD_BYTES,
    "a long address": b"GET /" + b"a" * listener.HEAD_BYTES + b" HTTP/1.1\r\nhost: a\r\n\r\n",
    "many fields": START + b"x: 1\r\n" * listener.HEAD_FIELDS + b"\r\n",
    "five million bytes": START + (b"x: " + b"a" * 4000 + b"\r\n") * 1250 + b"\r\n",
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
async def test_a_head_that_is_too_large_is_answered_431_and_the_connection_is_closed(head: bytes) -> None:
    async with listening(echo) as port, Attacker(port) as attacker:
        reader = await attacker.connect(head)
        first, _, document = (await until_closed(reader)).partition(b"\r\n\r\n")
        assert first.startswith(b"HTTP/1.1 431 ")
        assert b"content-type: application/problem+json" in first
        said = json.loads(document)
        assert (said["type"], said["status"]) == ("urn:lintra:problem:head_too_large", 431)
        assert said["detail"] == "at most 32768 bytes and 100 fields"


async def test_server_and_analyzer_refuse_such_a_head_and_go_on(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        for app in (life.servers[0], create_app(life.service)):
            async with listening(app) as port, Attacker(port) as attacker:
                reader = await attacker.connect(HEADS["five million bytes"])
                assert (await until_closed(reader)).startswith(b"HTTP/1.1 431 ")
                reader = await attacker.connect(b"GET /v1/keys HTTP/1.1\r\nhost: a\r\n\r\n")
                assert b" 200 " in await asyncio.wait_for(reader.readline(), SECONDS)


async def test_a_head_just_below_the_limits_is_answered() -> None:
    fields = b"".join(b"x%02d: %b\r\n" % (number, b"a" * 300) for number in range(listener.HEAD_FIELDS - 2))
    head = START + fields + b"content-length: 5\r\n\r\n"
    assert len(head) < listener.HEAD_BYTES
    async with listening(echo) as port, Attacker(port) as attacker:
        reader = await attacker.connect(head + b"12345")
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS)
        assert await asyncio.wait_for(reader.readexactly(5), SECONDS) == b"100 5"


@pytest.mark.parametrize("rule", [True, False], ids=["bounded", "endless"])
async def test_forty_endless_heads_take_little_memory(monkeypatch: pytest.MonkeyPatch, rule: bool) -> None:
    if not rule:
        monkeypatch.setattr(listener, "HEAD_BYTES", 1 << 40)
    async with listening(echo) as port, Attacker(port) as attacker:
        for _ in range(ENDLESS):
            await attacker.connect(START + b"x: ")
        part = b"a" * (1 << 14)
        tracemalloc.start()
        try:
            for _ in range(SENT_BYTES // len(part)):
                with suppress(ConnectionError):
                    await attacker.send(part)
                await asyncio.sleep(0)
            await asyncio.sleep(0.2)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (held < MOST_HELD_BYTES) == rule, held


async def test_fields_behind_a_body_have_the_same_limit() -> None:
    head = START + b"transfer-encoding: chunked\r\n\r\n5\r\n12345\r\n"
    async with listening(echo) as port, Attacker(port) as attacker:
        reader = await attacker.connect(head + b"0\r\n")
        trickling = asyncio.create_task(attacker.trickle(b"x: " + b"a" * 4000 + b"\r\n", 0.01))
        assert b" 200 " not in await until_closed(reader)
        trickling.cancel()


async def test_a_large_body_in_small_pieces_is_no_head() -> None:
    async def pieces() -> object:
        for _ in range(100):
            yield b"a" * 4000

    async with listening(echo) as port, httpx2.AsyncClient(timeout=SECONDS) as http:
        for _ in range(2):
            answer = await http.post(f"http://127.0.0.1:{port}/any", content=pieces())  # type: ignore[arg-type]
            assert answer.text.endswith(" 400000")


async def test_what_is_no_request_is_refused_as_a_problem() -> None:
    async with listening(echo) as port, Attacker(port) as attacker:
        answer = await until_closed(await attacker.connect(b"\x16\x03\x01\x00\r\n\r\n"))
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b'"urn:lintra:problem:invalid_message"' in answer


@pytest.mark.parametrize("rule", [True, False], ids=["closed", "held"])
async def test_a_blank_line_after_an_answer_does_not_hold_the_connection(rule: bool) -> None:
    async with listening(echo, header_seconds=0.3 if rule else 3600) as port, Attacker(port) as attacker:
        reader = await attacker.connect(b"GET /any HTTP/1.1\r\nhost: a\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n1 0"), SECONDS)
        await attacker.send(b"\r\n")
        try:
            assert await asyncio.wait_for(reader.read(), 2) == b""
            assert rule
        except TimeoutError:
            assert not rule
