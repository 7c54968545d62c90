"""A witness: a place on another machine that remembers where the journal stands.

When both folders are set back together, as a snapshot of the whole machine does, nothing on the machine can tell. The
witness can: it is asked before every step, and moved on after the step's journal line, which succeeds for one only of
two copies that try.
"""

import hmac
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from lintra_protocol.encoding.canonical import base64url, framed, parse_base64url
from lintra_protocol.errors import InvalidMessageError
from lintra_server.durability.journal import EMPTY, Head
from lintra_server.durability.private_files import sync_folder, write_new

_KEPT = 16


class WitnessError(OSError):
    """The witness cannot be reached, or does not hold what a witness holds."""


class Witness(Protocol):
    """Remembers one head; every method may raise `WitnessError`."""

    def read(self) -> Head:
        """Return what it remembers; the empty head if it was never told anything."""

    def advance(self, may_follow: Callable[[Head], bool], after: Head) -> bool:
        """Remember `after` durably if it may follow what is remembered; return whether it is remembered now."""


class FolderWitness:
    """A folder on another machine's volume: one small file for each of the last heads, named by its length.

    A file comes into being whole, by a hard link, which fails if the name is taken: two copies of a server that take
    the same step at the same time cannot both succeed, also on a network file system.
    """

    def __init__(self, folder: Path, key: bytes, random_bytes: Callable[[int], bytes]) -> None:
        """Use a folder, authenticated with the journal's key, so that who runs the other machine cannot forge it."""
        self._folder = folder
        self._key = key
        self._random_bytes = random_bytes

    def read(self) -> Head:
        """Return the longest head that the folder remembers; the empty one if it is empty.

        Raises WitnessError if the folder cannot be read, or this server did not write what is in it.
        """
        numbers = self._numbers()
        if not numbers:
            return EMPTY
        try:
            text = self._path(numbers[-1]).read_text("ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise WitnessError(f"the witness {self._folder} cannot be read: {type(error).__name__}") from None
        digest, _, mac = text.strip().partition(" ")
        try:
            head = Head(numbers[-1], parse_base64url(digest))
        except InvalidMessageError:
            head = EMPTY
        # The MAC covers the length, so a file under another number is refused as well.
        if not hmac.compare_digest(mac.encode(), self._mac(head).encode()):
            raise WitnessError(f"{self._folder} is no witness of this journal")
        return head

    def advance(self, may_follow: Callable[[Head], bool], after: Head) -> bool:
        """Remember `after` durably if it may follow what is remembered; return whether it is remembered now."""
        seen = self.read()
        if seen != after and may_follow(seen):
            self._add(after)
            # Whoever was paused before it added its file finds here that others went on.
            seen = self.read()
        return seen == after

    def tell(self, head: Head) -> None:
        """Remember a first head.

        Raises WitnessError if something is remembered already, or the folder cannot be written.
        """
        if self._numbers():
            raise WitnessError(f"{self._folder} remembers something already; name an empty folder")
        self._add(head)

    def reset(self, head: Head) -> None:
        """Remember a head and nothing else, whatever was there."""
        for number in self._numbers():
            self._path(number).unlink(missing_ok=True)
        self._add(head)

    def _add(self, head: Head) -> None:
        temporary = self._folder / f".{self._random_bytes(8).hex()}"
        try:
            write_new(temporary, f"{base64url(head.digest)} {self._mac(head)}\n".encode())
            try:
                os.link(temporary, self._path(head.length))
            # Another copy of this server was first: `advance` reads what that one wrote.
            except FileExistsError:
                pass
            finally:
                temporary.unlink(missing_ok=True)
            sync_folder(self._folder)
            for number in self._numbers()[:-_KEPT]:
                self._path(number).unlink(missing_ok=True)
        except OSError as error:
            raise WitnessError(f"the witness {self._folder} cannot be written: {type(error).__name__}") from None

    def _numbers(self) -> list[int]:
        try:
            return sorted(int(path.name) for path in self._folder.iterdir() if path.name.isdigit())
        except OSError as error:
            raise WitnessError(f"the witness {self._folder} cannot be read: {type(error).__name__}") from None

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}"

    def _mac(self, head: Head) -> str:
        parts = head.length.to_bytes(8, "big"), head.digest
        return base64url(hmac.new(self._key, framed("witness", *parts), sha256).digest())
