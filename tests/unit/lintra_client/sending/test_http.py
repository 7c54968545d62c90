"""Requests over real sockets: connections are kept, answers belong to their requests, and nobody is trusted unseen."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from lintra_client.sending import http
from lintra_client.sending.http import (
    AnswerTooLongError,
    BrokenAnswerError,
    Connections,
    HttpAnswer,
    ThroughHttpx,
    http_of,
)
from support.names import certificate

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\ncontent-length: 2\r\n\r\nok"


@dataclass
class Listening:
    """A server that says what it is told to, and keeps what it was asked."""

    url: str = ""
    connections: int = 0
    asked: list[bytes] = field(default_factory=list)

    async def request(self, reader: asyncio.StreamReader) -> bytes:
        """Read one request, body included."""
        head = await reader.readuntil(b"\r\n\r\n")
        lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
        whole = head + await reader.readexactly(int(lengths[0]) if lengths else 0)
        self.asked.append(whole)
        return whole


@asynccontextmanager
async def listening(
    says: bytes | Callable[[Listening], Talk], tls: ssl.SSLContext | None = None
) -> AsyncIterator[Listening]:
    """Answer every request with the same bytes, or talk as told."""
    found = Listening()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.connections += 1
        try:
            if not isinstance(says, bytes):
                await says(found)(reader, writer)
                return
            while True:
                await found.request(reader)
                writer.write(says)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield found
    finally:
        server.close()


async def post(connections: Connections, url: str, body: bytes = b"12") -> HttpAnswer:
    return await asyncio.wait_for(connections.send("POST", f"{url}/a?b=c", {"x-y": "z"}, body), 10)


async def test_a_connection_is_kept_and_a_request_says_no_more_than_it_must() -> None:
    connections = Connections()
    async with listening(OK) as server:
        for _ in range(3):
            answer = await post(connections, server.url)
            assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"ok", "a/b")
        await connections.close()
    assert server.connections == 1
    host = server.url.removeprefix("http://").encode()
    assert set(server.asked) == {
        b"POST /a?b=c HTTP/1.1\r\nhost: " + host + b"\r\nx-y: z\r\ncontent-length: 2\r\n\r\n12"
    }


async def test_a_server_that_says_it_closes_is_asked_on_another_connection() -> None:
    connections = Connections()
    async with listening(OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")) as server:
        assert [(await post(connections, server.url)).body for _ in range(2)] == [b"ok", b"ok"]
        await connections.close()
    assert server.connections == 2


async def test_a_connection_that_the_server_has_closed_meanwhile_is_not_used_again() -> None:
    def once(server: Listening) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.request(reader)
            writer.write(OK)

        return talk

    connections = Connections()
    async with listening(once) as server:
        await post(connections, server.url)
        await asyncio.sleep(0.05)
        await post(connections, server.url)
        await connections.close()
    assert server.connections == 2


async def test_a_connection_that_was_idle_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = Connections()
    async with listening(OK) as server:
        await post(connections, server.url)
        monkeypatch.setattr(http, "KEPT_SECONDS", 0.0)
        await post(connections, server.url)
        await connections.close()
    assert server.connections == 2


async def test_an_answer_of_a_request_that_was_given_up_is_never_taken_for_the_next_ones() -> None:
    def late(server: Listening) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                asked = await server.request(reader)
                await asyncio.sleep(0.1 if asked.endswith(b"11") else 0)
                writer.write(OK[:-2] + asked[-2:])

        return talk

    connections = Connections()
    async with listening(late) as server:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connections.send("POST", server.url, {}, b"11"), 0.02)
        assert (await post(connections, server.url, b"22")).body == b"22"
        await connections.close()


async def test_pieces_and_words_ahead_of_an_answer_are_read_as_http_says() -> None:
    hint, head = b"HTTP/1.1 103 Early Hints\r\n\r\n", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    chunked = hint + head + b"1\r\no\r\n1\r\nk\r\n0\r\n\r\n"
    connections = Connections()
    async with listening(chunked) as server:
        assert [(await post(connections, server.url)).body for _ in range(2)] == [b"ok", b"ok"]
        await connections.close()
    assert server.connections == 1


@pytest.mark.parametrize("says", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"])
async def test_what_is_not_http_is_an_error_of_the_connection(says: bytes) -> None:
    async with listening(says) as server:
        with pytest.raises(BrokenAnswerError):
            await post(Connections(), server.url)


async def test_an_answer_that_ends_too_early_is_an_error_of_the_connection() -> None:
    def short(server: Listening) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.request(reader)
            writer.write(OK[:-1])

        return talk

    async with listening(short) as server:
        with pytest.raises(OSError):  # noqa: PT011  # whoever retries takes any
            await post(Connections(), server.url)


async def test_an_answer_beyond_the_limit_is_not_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_ANSWER_BYTES", 1)
    async with listening(OK) as server:
        with pytest.raises(AnswerTooLongError):
            await post(Connections(), server.url)


async def test_a_server_that_refuses_before_it_has_read_everything_is_heard() -> None:
    def early(_server: Listening) -> Talk:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            while await reader.read(1 << 20):
                pass

        return talk

    connections = Connections()
    async with listening(early) as server:
        assert (await post(connections, server.url, bytes(8 << 20))).status == 413
        await connections.close()


async def test_at_once_there_are_only_so_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 3)
    connections = Connections()
    async with listening(OK) as server:
        answers = await asyncio.gather(*(post(connections, server.url) for _ in range(20)))
        await connections.close()
    assert len(answers) == 20
    assert server.connections <= 3


@pytest.mark.parametrize("name", ["https_proxy", "HTTP_PROXY", "ALL_PROXY"])
async def test_where_there_is_a_proxy_it_is_asked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for known in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(known, raising=False)
        monkeypatch.delenv(known.upper(), raising=False)
    assert isinstance(http_of(None, 1.0), Connections)
    monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert isinstance(http_of(None, 1.0), ThroughHttpx)


async def test_a_transport_is_used_and_a_librarys_error_keeps_its_name_only() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("a secret", request=request)

    with pytest.raises(OSError) as caught:  # noqa: PT011  # named after the library's
        await http_of(httpx2.MockTransport(answer), 1.0).send("POST", "http://a.test/b", {}, b"c")
    assert type(caught.value).__name__ == "ConnectError"
    assert "secret" not in str(caught.value)


async def test_over_tls_only_a_server_is_asked_whom_somebody_vouches_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, key = certificate(tmp_path, ["localhost"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(chain, key)
    async with listening(OK, context) as server:
        url = server.url.replace("127.0.0.1", "localhost").replace("http:", "https:")
        with pytest.raises(ssl.SSLCertVerificationError):
            await post(Connections(), url)
        monkeypatch.setenv("SSL_CERT_FILE", str(chain))
        with pytest.raises(ssl.SSLCertVerificationError):  # it is another's name
            await post(Connections(), url.replace("localhost", "127.0.0.1"))
        connections = Connections()
        assert [(await post(connections, url)).body for _ in range(2)] == [b"ok", b"ok"]
        await connections.close()
    assert len(server.asked) == 2
