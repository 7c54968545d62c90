"""What a server remembers of the noise that it added to windows of streams: files in the key folder, in no backup.

A memory is bound to its task, to its window and to the digest of the bytes that were released with it. It is durable
before the journal says that they are, and it is used only beside them. One that is missing or damaged counts as lost:
that costs accuracy, and never privacy (docs/proofs/together.md#streams).
"""

from collections.abc import Iterable

import structlog

from lintra_protocol.crypto.ring import IntArray, ring_bytes, ring_from_bytes
from lintra_protocol.encoding.canonical import JsonValue, canonical_json, domain_hash
from lintra_protocol.privacy.stream_matrix import StreamMatrix
from lintra_server.durability.journal import BatchId, fact
from lintra_server.durability.key_files import KeyFiles
from lintra_server.storage.history import BatchHistory
from lintra_service.settings import InvalidSettingsError

WAS_RELEASED = frozenset({"released", "scrubbed"})
"""States of a window whose release left the server."""

_DIGEST_BYTES = 32

log = structlog.get_logger()


class StreamMemory:
    """The memories of one server; thread-safe. Its `repr` shows nothing."""

    def __init__(self, files: KeyFiles) -> None:
        """Keep them in files whose label says what they are."""
        self._files = files

    def write(self, batch: BatchId, released: bytes, memory: IntArray) -> None:
        """Keep what is remembered of a window, shape `(w,)`, with the bytes that are about to be released.

        What an attempt wrote that released nothing is overwritten.
        """
        secret = _digest(fact(released)) + ring_bytes(memory.astype("uint64"))
        self._files.write(batch.name, secret, *batch.bound)

    def read(self, batch: BatchId, released: JsonValue) -> IntArray | None:
        """Return what is remembered of a window, shape `(w,)`; None if it is lost.

        `released` is what the journal says of the bytes that were released (R-S3).
        """
        try:
            secret = self._files.read(batch.name, *batch.bound)
        except InvalidSettingsError:
            log.warning("a memory of noise is not what this server wrote: it counts as lost", batch=str(batch))
            return None
        if secret is None or released is None or secret[:_DIGEST_BYTES] != _digest(released):
            return None
        return ring_from_bytes(secret[_DIGEST_BYTES:]).view("int64")

    def of(self, window: BatchHistory) -> IntArray | None:
        """Return what is remembered of a window that was released, shape `(w,)`; None if it was not, or it is lost."""
        if window.state not in WAS_RELEASED:
            return None
        return self.read(window.batch, window.expected.get("aggregate", (None, 0))[0])

    def lost(self, stream: StreamMatrix, windows: Iterable[BatchHistory]) -> list[int]:
        """Return the windows of a stream that the next one takes back, and of which nothing is remembered."""
        released = {each.batch.number: each for each in windows if each.state in WAS_RELEASED}
        following = max(released, default=-1) + 1
        wanted = stream.remembered_by(following) if following < stream.rows else ()
        return [number for number in wanted if number in released and self.of(released[number]) is None]

    def forget(self, batch: BatchId) -> None:
        """Overwrite and remove what is remembered of a window; nothing happens if there is nothing."""
        self._files.destroy(batch.name)

    def forget_all(self) -> None:
        """Overwrite and remove all."""
        self._files.destroy_all_but(())

    def renew(self, batch: BatchId) -> bool:
        """Wrap a memory under the first root key; return whether it was under a later one."""
        try:
            return self._files.renew(batch.name, *batch.bound)
        except InvalidSettingsError:
            return False


def _digest(said: JsonValue) -> bytes:
    return domain_hash("released bytes", canonical_json(said))
