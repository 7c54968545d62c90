"""Receives a list of identifiers: in ranges if it is long, and continued where an answer broke off.

What a range holds is not believed: the whole list is hashed while it arrives, and its root stands in what the server
signed. So ranges are only about how much has to be sent again.
"""

from collections.abc import Callable

import httpx2

from lintra_protocol.encoding.canonical import HASH_BYTES
from lintra_protocol.errors import InvalidMessageError, InventoryMismatchError, MessageTooLargeError

RANGE_BYTES = 64 << 20
"""What is asked for together: two million identifiers."""

_PARTIAL = 206


class Arriving:
    """A list that arrives; only whole identifiers of it count."""

    def __init__(self, take: Callable[[bytes], object], size: int) -> None:
        """Have nothing yet.

        `take` is given the list from its beginning to its end, in chunks of whole identifiers. `size` is that of the
        list, in bytes.
        """
        self._take = take
        self._size = size
        self.came = 0

    def wanted(self, root: str) -> dict[str, str]:
        """Return the headers that ask for what comes next of the list with this root; none if that is all of it."""
        if self._end - self.came == self._size:
            return {}
        return {"range": f"bytes={self.came}-{self._end - 1}", "if-range": f'"{root}"'}

    async def read(self, response: httpx2.Response) -> None:
        """Take an answer; also of one that breaks off what came of it.

        Raises:
            MessageTooLargeError: it is longer than what was asked for; nothing beyond that was read.
            InvalidMessageError: it is not a whole number of identifiers.
            InventoryMismatchError: it is shorter, or another range.
        """
        partial = response.status_code == _PARTIAL
        end = self._end if partial else self._size
        if partial and not self._fits(response.headers.get("content-range", "")):
            raise InventoryMismatchError("another range was sent than the one that was asked for")
        # Whoever knows no ranges, or has another list by now, sends all.
        known, rest = 0 if partial else self.came, b""

        def take(chunk: bytes) -> None:
            nonlocal known, rest
            new = chunk[known:]
            known -= len(chunk) - len(new)
            rest += new
            whole = len(rest) // HASH_BYTES * HASH_BYTES
            self._take(rest[:whole])
            self.came += whole
            rest = rest[whole:]

        await pour(response, end - self.came if partial else max(end, HASH_BYTES), take)
        if rest:
            raise InvalidMessageError(f"identifiers take {HASH_BYTES} bytes each, {len(rest)} were left over")
        if self.came != end:
            raise InventoryMismatchError(f"{self.came} bytes came of a list of {self._size}")

    @property
    def _end(self) -> int:
        return min(self.came + RANGE_BYTES, self._size)

    def _fits(self, content_range: str) -> bool:
        begins, _, size = content_range.rpartition("/")
        return begins.startswith(f"bytes {self.came}-") and size == str(self._size)


async def pour(response: httpx2.Response, limit: int, take: Callable[[bytes], object]) -> None:
    """Read an answer a chunk at a time.

    Raises MessageTooLargeError if it is longer than `limit` bytes; nothing beyond was taken.
    """
    size = 0
    async for chunk in response.aiter_raw():
        size += len(chunk)
        if size > limit:
            raise MessageTooLargeError(f"an answer of at most {limit} bytes was expected")
        take(chunk)
