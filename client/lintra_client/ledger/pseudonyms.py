"""Pseudonyms of persons in the ledger and the outbox: an HMAC of the name under a key that only this device has.

Who reads these files, or a copy of them, learns how many persons answered what, and cannot try names without the key.
"""

import base64
import hmac
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from lintra_protocol.fields.person_names import person_name

KEY_BYTES = 32

# No name holds a NUL, so that these are HMACs of no name.
_CHECK = b"\0check"


class Pseudonyms:
    """The pseudonyms under one key; `repr` does not show it."""

    def __init__(self, key: bytes) -> None:
        """Use a key of `KEY_BYTES` bytes."""
        self._key = key

    def of(self, name: object) -> str:
        """Return the pseudonym of whoever is named, HMAC-SHA256 of `person_name` in base64url."""
        return self._mac(person_name(name).encode())

    @property
    def check(self) -> str:
        """Return what is the same for the same key, and tells nothing of it."""
        return self._mac(_CHECK)

    def _mac(self, message: bytes) -> str:
        found = hmac.digest(self._key, message, "sha256")
        return base64.urlsafe_b64encode(found).rstrip(b"=").decode()


def key_path(ledger: Path) -> Path:
    """Return where the key of a ledger lies: beside it."""
    return ledger.with_name(f"{ledger.name}.key")


def load_pseudonyms(path: Path) -> Pseudonyms:
    """Return the pseudonyms under the key in a file, which afterwards only its owner may read.

    Raises OSError if it is missing, or holds no key.
    """
    try:
        known = path.stat()
    except FileNotFoundError:
        raise OSError(
            f"its key {path} is missing, without which nobody in it is known again; put the file back where it was"
        ) from None
    if not stat.S_ISREG(known.st_mode) or known.st_size != KEY_BYTES:
        raise OSError(f"its key {path} is no file of {KEY_BYTES} bytes; put the one back that was there")
    if known.st_mode & 0o077:
        path.chmod(0o600)
    return Pseudonyms(path.read_bytes())


def make_key(path: Path) -> None:
    """Write a new key to a file that is on disk when this returns; a key that is there already stays."""
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".new")  # with mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        # Unlike a rename, a link never takes the place of a key that another process made meanwhile.
        with suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to disk."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
