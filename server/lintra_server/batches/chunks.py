"""Pieces of long differences between lists, from when they come until the request that names them is answered.

They are files that nothing depends on: after a restart, or a day, they are gone, and whoever sent them sends them
again. A piece is named by its hash, so it cannot be replaced by another one. Its content is checked as if it stood in
the request.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lintra_protocol.cohort import differences
from lintra_protocol.cohort.differences import POSITION_BYTES, ListDifference, piece_hash
from lintra_protocol.cohort.report_ids import decode_positions
from lintra_protocol.errors import InvalidMessageError, MessageTooLargeError, UnavailableError, UnknownResourceError
from lintra_protocol.messages.documents import CohortRequest, DifferenceInPieces
from lintra_service.mapped_lists import ListCopy
from lintra_service.scratch import Scratch

KEPT_SECONDS = 24 * 3600.0
"""How long pieces wait for the request that names them."""


class PendingChunks:
    """The pieces that wait; thread-safe, since a file is either whole or not there."""

    def __init__(self, folder: Path, scratch: Scratch, min_free_bytes: int) -> None:
        """Have none.

        `folder` is for nothing else; it is emptied. `scratch` says where the identifiers of a difference are put
        together. `min_free_bytes` is what must stay free on the disk.
        """
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        self._folder = folder
        self._scratch = scratch
        self._min_free_bytes = min_free_bytes

    def put(self, batch: int, name: str, piece: bytes, most: int) -> None:
        """Keep a piece; the same one again is harmless.

        `batch` says whose request will name it; `piece` is at most `differences.PIECE_BYTES`. `most` says how many
        bytes all pieces of this batch may have.

        Raises:
            InvalidMessageError: it is empty, or its hash is another.
            MessageTooLargeError: more pieces than the differences of the batch's lists can have.
            UnavailableError: the disk is nearly full.
        """
        if not piece or piece_hash(piece) != name:
            raise InvalidMessageError("a piece is named by its SHA-256 in base64url, and is not empty")
        folder = self._folder / str(batch)
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / name
        if path.exists():
            return
        if sum(_sizes(folder)) + len(piece) > most:
            raise MessageTooLargeError(f"the differences of this batch's lists can have at most {most} bytes")
        if shutil.disk_usage(folder).free < self._min_free_bytes + len(piece):
            raise UnavailableError("the disk is nearly full, and what is left is for releases")
        descriptor, coming = tempfile.mkstemp(dir=folder)
        with os.fdopen(descriptor, "wb") as file:
            file.write(piece)
        Path(coming).replace(path)

    def require(self, batch: int, request: CohortRequest) -> None:
        """Check that every piece is here that a request names, or raise UnknownResourceError."""
        for difference in request.differences:
            if isinstance(difference, DifferenceInPieces):
                for name in difference.pieces:
                    if not (self._folder / str(batch) / name).exists():
                        raise UnknownResourceError(f"piece {name} was not sent, or was forgotten; send all again")

    def read(self, batch: int, num_own: int, sent: DifferenceInPieces) -> ListDifference:
        """Return a difference whose pieces came; its identifiers stand in a copy that nobody can change.

        `num_own` is the length of this server's own list.

        Raises:
            UnknownResourceError: a piece is not here.
            InvalidMessageError: positions or identifiers are not spelled as they must be, or there are more positions
                than places.
            UnavailableError: there is no room for a copy.
        """
        if sent.missing_bytes > POSITION_BYTES * num_own:
            raise InvalidMessageError(f"{num_own} reports have no positions of {sent.missing_bytes} bytes")
        left, missing = sent.missing_bytes, bytearray()
        with ListCopy(self._scratch, max(0, self._bytes(batch, sent.pieces) - left)) as copy:
            for name in sent.pieces:
                piece = self._piece(batch, name)
                missing += piece[:left]
                if left < len(piece):
                    copy.add(piece[left:])
                left = max(left - len(piece), 0)
            if left:
                raise InvalidMessageError("the positions of a difference are cut off")
            return ListDifference(sent.server, decode_positions(bytes(missing)), copy.finish())

    def forget(self, batch: int) -> None:
        """Remove the pieces of a batch."""
        shutil.rmtree(self._folder / str(batch), ignore_errors=True)

    def forget_old(self, now: float | None = None) -> None:
        """Remove the pieces of batches to which none came for a day."""
        until = (time.time() if now is None else now) - KEPT_SECONDS
        for folder in self._folder.iterdir():
            with suppress(OSError):
                if folder.stat().st_mtime < until:
                    shutil.rmtree(folder, ignore_errors=True)

    def _bytes(self, batch: int, names: Iterable[str]) -> int:
        """Return how long pieces are together; those that are not here, or are not whole, are found out later."""
        found = 0
        for name in names:
            with suppress(FileNotFoundError):
                found += min((self._folder / str(batch) / name).stat().st_size, differences.PIECE_BYTES)
        return found

    def _piece(self, batch: int, name: str) -> bytes:
        with suppress(FileNotFoundError), (self._folder / str(batch) / name).open("rb") as file:
            piece = file.read(differences.PIECE_BYTES)
            if piece_hash(piece) == name:
                return piece
        raise UnknownResourceError(f"piece {name} was not sent, or was forgotten; send all again")


def _sizes(folder: Path) -> Iterable[int]:
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # renamed just now
            yield path.stat().st_size
