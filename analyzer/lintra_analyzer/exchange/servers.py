"""The analyzer's connection to one server: signed requests, bounded answers, and retries of temporary failures.

A step that takes a server longer than a request is asked for until it is done, however long that is; only a server that
does not answer is given up.
"""

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Protocol, TypeVar

import httpx2
import stamina

from lintra_analyzer.exchange.list_download import Arriving, pour
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import HASH_BYTES, base64url, parse_base64url
from lintra_protocol.errors import (
    BatchOpenError,
    ChecksMismatchError,
    InternalError,
    InvalidMessageError,
    InventoryMismatchError,
    LintraError,
    OverloadedError,
    UnauthorizedError,
    UnavailableError,
    UnknownResourceError,
)
from lintra_protocol.http import problems
from lintra_protocol.http.requests import NONCE_BYTES, MessageName, media_type, require_media_type, sign_request
from lintra_protocol.messages.documents import KeyList, Progress, Signed
from lintra_service.mapped_lists import ListFolder
from lintra_service.spooled_bodies import BodyFolder

T = TypeVar("T")

_UNDERWAY = 202

MAX_DOCUMENT_BYTES = 8 << 20
"""Largest JSON answer that is read; binary answers have limits of their own."""

LONGEST_WAIT = 30.0
"""Seconds until a server is asked again that said that it is at work, whatever it would like."""

_TEMPORARY = (UnavailableError, OverloadedError, InternalError)


class HttpClient(Protocol):
    """The seam between the analyzer and the network."""

    def build_request(
        self, method: str, url: str, *, content: bytes | AsyncIterable[bytes], headers: dict[str, str]
    ) -> httpx2.Request:
        """Return a request that was not sent yet."""

    async def send(self, request: httpx2.Request, *, stream: bool) -> httpx2.Response:
        """Send it; with `stream`, the body is still to be read."""


@dataclass(frozen=True)
class Patience:
    """How often a server is asked again that does not answer now, and after how many seconds at first and at most."""

    attempts: int
    wait: float
    wait_max: float


@dataclass(frozen=True)
class ListChunks:
    """A body that is too large for the memory.

    `begin` gives it from its beginning, piece by piece; it is read once to be signed, and once to be sent.
    """

    size: int
    begin: Callable[[], Iterator[bytes]]

    async def sent(self) -> AsyncIterator[bytes]:
        """Give it piece by piece, read in another thread."""
        pieces = self.begin()
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece


@dataclass(frozen=True)
class Underway:
    """A server's word that it is at a step, and after how many seconds it is asked again."""

    progress: Progress
    wait: float


@dataclass(frozen=True)
class Network:
    """What all requests share: the HTTP client, who signs, and the outside world's clock and randomness."""

    http: HttpClient
    identity: SigningKey
    patience: Patience
    now: Callable[[], int]
    random_bytes: RandomBytes


class Server:
    """One of the servers, by its address."""

    def __init__(self, network: Network, index: int, url: str) -> None:
        """Talk to the server at `url`, which errors call by its index."""
        self._network = network
        self.index = index
        self.url = url

    async def ask(
        self,
        method: str,
        path: str,
        answer: MessageName,
        *,
        body: bytes | ListChunks = b"",
        message: MessageName | None = None,
        limit: int = MAX_DOCUMENT_BYTES,
    ) -> bytes:
        """Send a signed request until it is answered, and return the answer's body.

        A server that is at the step for long says so: then it is asked for the step's document until that is there.
        `method` is in upper case; `path` is from the server's root. `answer` is the message that a good answer must be.
        `body` is that of the request, whole or in pieces. `message` is what the body is, if there is one; `limit` is
        the largest answer in bytes.

        Raises:
            LintraError: the server's own refusal, its detail behind the server's name.
            UnavailableError: no answer after all attempts; or the server forgot the step as often.
            MessageTooLargeError: the answer exceeds the limit; nothing beyond it was read.
        """
        headers = {} if message is None else {"content-type": media_type(message)}

        async def read(response: httpx2.Response) -> bytes | Underway:
            data = await _bounded(response, limit)
            if response.status_code != _UNDERWAY:
                return data
            return Underway(Progress.from_canonical(data), _seconds(response.headers.get("retry-after", "")))

        for _ in range(self._network.patience.attempts):
            said = await self._patiently(lambda: self._ask_once(method, path, answer, body, headers, read))
            try:
                while isinstance(said, Underway):
                    await asyncio.sleep(said.wait)
                    said = await self._patiently(lambda: self._ask_once("GET", path, answer, b"", {}, read))
            except (BatchOpenError, UnknownResourceError):
                continue  # it knows nothing of the step that it was at: it began anew, and is asked again
            return said
        with self.blame():
            raise UnavailableError(f"it began {method} {path} again and again, and never finished it")

    async def fetch_list(self, path: str, folder: ListFolder, count: int, root: str, wrong: str) -> ReportIds:
        """Get the list of identifiers that a server signed, and put it into a folder; memory holds a chunk of it.

        A list that is in the folder already, another server's or a census's, is not sent again: its root stands for it.
        A long list comes in ranges. Of an answer that breaks off what came is kept, and the rest is asked for. `path`
        is from the server's root; `folder` says where it stays if it is the right one. `root` is its Merkle root, in
        base64url; `wrong` is what is said of another list. Raises InventoryMismatchError if it is another list.
        """
        if (held := await asyncio.to_thread(folder.find, parse_base64url(root, HASH_BYTES), count)) is not None:
            return held
        with folder.writer() as writer:
            arriving = Arriving(writer.add, HASH_BYTES * count)

            async def more() -> None:
                await self._ask_once("GET", path, "ids", b"", arriving.wanted(root), arriving.read)

            await self._patiently(more)
            while arriving.came < HASH_BYTES * count:
                await self._patiently(more)
            with self.blame():
                if (writer.count, base64url(writer.root)) != (count, root):
                    raise InventoryMismatchError(wrong)
            return await asyncio.to_thread(writer.finish)

    async def fetch_body(self, path: str, folder: BodyFolder, size: int, digest: bytes) -> None:
        """Get the body of a check share that a server signed, and put it into a folder; memory holds a piece of it.

        Raises ChecksMismatchError if it is another one.
        """

        async def read(response: httpx2.Response) -> None:
            with folder.writer(size) as writer:
                await pour(response, size, writer.add)
                if await asyncio.to_thread(writer.finish) != digest:
                    raise ChecksMismatchError("the body of its check share is not the one that it signed")

        await self._patiently(lambda: self._ask_once("GET", path, "checks", b"", {}, read))

    async def _patiently(self, once: Callable[[], Awaitable[T]]) -> T:
        patience = self._network.patience
        async for attempt in stamina.retry_context(
            on=_TEMPORARY,
            attempts=patience.attempts,
            timeout=None,
            wait_initial=patience.wait,
            wait_max=patience.wait_max,
            wait_jitter=patience.wait,
        ):
            with attempt:
                return await once()
        raise AssertionError("the last attempt returns or raises")  # pragma: no cover

    async def identity_key(self) -> str:
        """Return the identity key that the server itself claims and proves to hold."""
        with self.blame():
            data = await self.ask("GET", "/v1/keys", "keys")
            signed = Signed[KeyList].from_canonical(data)
            return signed.verified(signed.message.identity_key).identity_key

    def blame(self) -> "_Blame":
        """Return a context that puts this server's name before the detail of every refusal."""
        return _Blame(f"server {self.index} ({self.url})")

    async def _ask_once(
        self,
        method: str,
        path: str,
        answer: MessageName,
        body: bytes | ListChunks,
        headers: Mapping[str, str],
        read: Callable[[httpx2.Response], Awaitable[T]],
    ) -> T:
        network = self._network
        # Time and nonce are fresh in every attempt: a server refuses a nonce that it has seen.
        url, nonce = self.url + path, network.random_bytes(NONCE_BYTES)
        content: bytes | AsyncIterable[bytes]
        if isinstance(body, bytes):
            content, signed = body, sign_request(network.identity, method, url, body, network.now(), nonce)
        else:
            pieces, headers = body.begin(), {**headers, "content-length": str(body.size)}
            signed = await asyncio.to_thread(sign_request, network.identity, method, url, pieces, network.now(), nonce)
            content = body.sent()
        # Limits count the bytes that arrive, so they must be the answer's own.
        headers = {**signed, **headers, "accept-encoding": "identity"}
        with self.blame():
            try:
                request = network.http.build_request(method, url, content=content, headers=headers)
                response = await network.http.send(request, stream=True)
                try:
                    if not response.is_success:
                        raise _refusal(response, await _bounded(response, MAX_DOCUMENT_BYTES))
                    expected = "progress" if response.status_code == _UNDERWAY else answer
                    require_media_type(response.headers.get("content-type"), expected)
                    return await read(response)
                finally:
                    await response.aclose()
            except httpx2.TransportError as error:
                raise UnavailableError(f"no answer to {method} {path}: {type(error).__name__}") from None


class _Blame:
    """See `Server.blame`; a refusal passes through several contexts but is named once."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, LintraError) and not error.detail.startswith(self._name):
            raise type(error)(f"{self._name}: {error.detail or error.title()}") from None


async def _bounded(response: httpx2.Response, limit: int) -> bytes:
    data = BytesIO()
    await pour(response, limit, data.write)
    return data.getvalue()  # which is no copy


def _seconds(retry_after: str) -> float:
    """Return how long to wait until a server is asked again; at least a moment, whatever it says."""
    wished = float(retry_after) if retry_after.isascii() and retry_after.isdecimal() and len(retry_after) < 6 else 1.0
    return min(max(wished, 0.1), LONGEST_WAIT)


def _refusal(response: httpx2.Response, data: bytes) -> LintraError:
    """Rebuild the error that the server raised, if it said so in our words."""
    if response.headers.get("content-type", "").partition(";")[0] == problems.MEDIA_TYPE:
        try:
            document = parse_problem(data)
        except InvalidMessageError as error:
            return error
        return problems.from_problem(document)
    if response.status_code in {502, 503, 504}:
        return UnavailableError(f"status {response.status_code}")
    if response.status_code == 401:
        return UnauthorizedError("status 401")
    return InvalidMessageError(f"status {response.status_code} without a problem document")


def parse_problem(data: bytes) -> dict[str, object]:
    """Parse a problem document, which need not be canonical; raise InvalidMessageError if it is no JSON object."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise InvalidMessageError("the problem document is not JSON") from None
    if not isinstance(document, dict):
        raise InvalidMessageError("the problem document is not a JSON object")
    return document
