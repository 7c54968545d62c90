"""Receives bodies of check shares: they follow the JSON that names them, and go to files piece by piece."""

import asyncio
import hashlib
import struct
from collections.abc import Sequence
from contextlib import ExitStack

from starlette.types import Receive

from lintra_protocol.errors import InvalidMessageError, MessageTooLargeError, UnavailableError
from lintra_protocol.http.requests import SignedRequest
from lintra_service.responses import GRACE_SECONDS, announced_length, next_chunk
from lintra_service.spooled_bodies import BodyFolder, BodyWriter

MAX_HEAD_BYTES = 1 << 20
"""Of the signed check shares of 16 servers."""

BYTES_PER_SECOND = 1 << 16
"""After the grace a body must have come at least this fast on average."""

_LENGTH = struct.Struct(">I")


class ReceivedBody:
    """A request with bodies on its way: `encode_sealed_document`'s framing, with bodies for what is sealed."""

    def __init__(self, writers: Sequence[BodyWriter]) -> None:
        """Expect a head, and then so many bodies, each as long as its writer says."""
        self._writers = list(writers)
        self._left = [writer.size for writer in writers]
        self._head = bytearray()
        self._hash = hashlib.sha256()

    @property
    def head(self) -> bytes:
        """Return the JSON in front; raise InvalidMessageError if something is missing."""
        if not self._has_head or any(self._left):
            raise InvalidMessageError("a verdict is asked for with all check shares, and with the others' bodies")
        return bytes(self._head[_LENGTH.size :])

    @property
    def sha256(self) -> bytes:
        """Return the hash of all that came."""
        return self._hash.digest()

    def take(self, piece: bytes) -> None:
        """Take the next bytes.

        Raises MessageTooLargeError if the head is too long, or something comes behind the last body.
        """
        self._hash.update(piece)
        rest = memoryview(piece)
        while len(rest) and not self._has_head:
            wanted = self._head_bytes - len(self._head)
            self._head += rest[:wanted]
            rest = rest[wanted:]
        for place, writer in enumerate(self._writers):
            part = rest[: self._left[place]]
            if len(part):
                writer.add(part)
                self._left[place] -= len(part)
                rest = rest[len(part) :]
        if len(rest):
            raise MessageTooLargeError("something comes behind the last body")

    @property
    def _head_bytes(self) -> int:
        if len(self._head) < _LENGTH.size:
            return _LENGTH.size
        length: int = _LENGTH.unpack_from(self._head)[0]
        if length > MAX_HEAD_BYTES:
            raise MessageTooLargeError(f"at most {MAX_HEAD_BYTES} bytes of signed check shares")
        return _LENGTH.size + length

    @property
    def _has_head(self) -> bool:
        return len(self._head) >= _LENGTH.size and len(self._head) == self._head_bytes


async def receive_bodies(
    receive: Receive, content_length: str | None, signed: SignedRequest, folder: BodyFolder, sizes: Sequence[int]
) -> tuple[bytes, list[bytes]]:
    """Store the bodies of a request; return what stands in front of them, and their hashes. Memory holds a piece.

    `receive` is the request's channel; `content_length` is the header, if there was one. `signed` says whose digest the
    whole must have; `folder` says where the bodies go. `sizes` are those of the bodies, in order.

    Raises:
        MessageTooLargeError, InvalidMessageError: it is longer or shorter than it must be, or ends early.
        UnauthorizedError: it is not what was signed.
        UnavailableError: the sender is too slow.
    """
    announced_length(content_length, _LENGTH.size + MAX_HEAD_BYTES + sum(sizes))
    with ExitStack() as files:
        writers = [files.enter_context(folder.writer(size)) for size in sizes]
        incoming = ReceivedBody(writers)
        loop, taken, more = asyncio.get_running_loop(), 0, True
        began = loop.time()
        try:
            async with asyncio.timeout_at(began + GRACE_SECONDS) as deadline:
                while more:
                    chunk, more = await next_chunk(receive)
                    taken += len(chunk)
                    # In a thread, since a disk may be slow: other requests wait for the loop.
                    await asyncio.to_thread(incoming.take, chunk)
                    # The deadline follows what came, so a sender gains nothing by spreading its bytes.
                    deadline.reschedule(began + GRACE_SECONDS + taken / BYTES_PER_SECOND)
        except TimeoutError:
            raise UnavailableError(f"{taken} bytes came in {loop.time() - began:.0f} s, which is too slow") from None
        # Before any file gets its name: the head that chose the bodies is only now known to be signed.
        signed.require_sha256(incoming.sha256)
        return incoming.head, [await asyncio.to_thread(writer.finish) for writer in writers]
