"""Lists that arrive in ranges: gone on with where an answer broke off."""

import hashlib
from collections.abc import AsyncIterator

import httpx2
import pytest

from lintra_analyzer.exchange.list_download import Arriving
from lintra_protocol.encoding.canonical import HASH_BYTES
from lintra_protocol.errors import InventoryMismatchError, LintraError, MessageTooLargeError

LIST = b"".join(sorted(hashlib.sha256(bytes([number])).digest() for number in range(7)))
ROOT = "a-root"


class Broken(httpx2.AsyncByteStream):
    """The beginning of an answer whose connection breaks."""

    def __init__(self, begin: bytes) -> None:
        self._begin = begin

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._begin
        raise httpx2.ReadError("broken")


async def test_a_list_is_gone_on_with_where_its_answer_broke_off() -> None:
    taken = bytearray()
    come = Arriving(taken.extend, len(LIST))
    assert come.wanted(ROOT) == {}
    with pytest.raises(httpx2.ReadError):
        await come.read(httpx2.Response(200, stream=Broken(LIST[: 2 * HASH_BYTES + 5])))
    assert come.wanted(ROOT) == {"range": f"bytes=64-{len(LIST) - 1}", "if-range": f'"{ROOT}"'}
    headers = {"content-range": f"bytes 64-{len(LIST) - 1}/{len(LIST)}"}
    await come.read(httpx2.Response(206, headers=headers, stream=httpx2.ByteStream(LIST[64:])))
    assert bytes(taken) == LIST
    # A server that knows no ranges sends all again, and what is known is passed over.
    taken.clear()
    come = Arriving(taken.extend, len(LIST))
    with pytest.raises(httpx2.ReadError):
        await come.read(httpx2.Response(200, stream=Broken(LIST[:70])))
    await come.read(httpx2.Response(200, stream=httpx2.ByteStream(LIST)))
    assert bytes(taken) == LIST


@pytest.mark.parametrize(
    ("content_range", "body", "error"),
    [
        ("bytes 32-223/224", LIST, InventoryMismatchError),
        ("bytes 0-223/256", LIST, InventoryMismatchError),
        ("", LIST, InventoryMismatchError),
        ("bytes 0-223/224", LIST[:-32], InventoryMismatchError),
        ("bytes 0-223/224", LIST + bytes(32), MessageTooLargeError),
    ],
)
async def test_another_range_than_was_asked_for_is_refused(
    content_range: str, body: bytes, error: type[LintraError]
) -> None:
    come = Arriving(lambda _: None, len(LIST))
    answer = httpx2.Response(206, headers={"content-range": content_range}, stream=httpx2.ByteStream(body))
    with pytest.raises(error):
        await come.read(answer)
