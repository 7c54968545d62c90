"""One small file for everything that must be destroyed one day: without it, no copy of the database opens it.

A secret is durable before what it protects exists, and overwritten before it is unlinked.
"""

from collections.abc import Callable, Collection
from pathlib import Path

from lintra_server.disk.folders import destroy, make_folder, write_new

SECRET_BYTES = 32
NAME_BYTES = 16
_SUFFIX = ".secret"


class Secrets:
    """The folder of secrets; thread-safe. Its `repr` shows nothing."""

    def __init__(self, folder: Path, random_bytes: Callable[[int], bytes]) -> None:
        """Use a folder, which is made if need be."""
        make_folder(folder)
        self._folder = folder
        self._random_bytes = random_bytes

    def new(self) -> tuple[bytes, bytes]:
        """Draw a secret and make it durable; return its name and itself."""
        name, secret = self._random_bytes(NAME_BYTES), self._random_bytes(SECRET_BYTES)
        write_new(self._path(name), secret)
        return name, secret

    def get(self, name: bytes) -> bytes | None:
        """Return a secret, or None if it was destroyed, or never was in this folder."""
        try:
            secret = self._path(name).read_bytes()
        except FileNotFoundError:
            return None
        # Overwritten, but a crash came before the name was removed.
        destroyed = len(secret) != SECRET_BYTES or secret == bytes(SECRET_BYTES)
        return None if destroyed else secret

    def destroy(self, name: bytes) -> None:
        """Overwrite and remove a secret; nothing happens if there is none."""
        destroy(self._path(name))

    def destroy_all_but(self, needed: Collection[bytes]) -> int:
        """Destroy every secret that is not needed; return how many that were."""
        names = {self._path(name).name for name in needed}
        spare = [path for path in self._folder.glob(f"*{_SUFFIX}") if path.name not in names]
        for path in spare:
            destroy(path)
        return len(spare)

    def _path(self, name: bytes) -> Path:
        return self._folder / f"{name.hex()}{_SUFFIX}"
