"""Small files in the key folder that each hold one secret, wrapped under the root key and bound to what it is for.

Destroying a file destroys what it protects: without the file no copy of the database, however old, can be decrypted. A
file is durable before what it protects exists, and it is overwritten before it is unlinked. Its label, to which it is
bound, says what is in it: another content has another label.
"""

import re
from collections.abc import Collection
from pathlib import Path

from lintra_server.durability.encryption_at_rest import Vault
from lintra_server.durability.private_files import destroy, make_folder, replace, write_new

_SUFFIX = ".key"
_IS_NAME = re.compile("([0-9a-f]{2})+").fullmatch


class KeyFiles:
    """A folder of such files; thread-safe. Its `repr` shows nothing."""

    def __init__(self, folder: Path, vault: Vault, label: str) -> None:
        """Use a folder.

        `folder` is for these files alone; made when the first is written. `vault` wraps the secrets; `label` is what
        they are, which every one is bound to.
        """
        self._folder = folder
        self._vault = vault
        self._label = label

    def write(self, name: bytes, secret: bytes, *bound: bytes) -> None:
        """Write a secret durably, in the place of one of the same name that protects nothing yet.

        `bound` is what the secret belongs to; whoever reads it must say the same.
        """
        make_folder(self._folder)
        destroy(self._path(name))
        write_new(self._path(name), self._vault.wrap(secret, self._label, *bound))

    def read(self, name: bytes, *bound: bytes) -> bytes | None:
        """Return a secret, or None if it was destroyed, or never was in this folder."""
        wrapped = self._wrapped(name)
        return None if wrapped is None else self._vault.unwrap(wrapped, self._label, *bound)

    def has(self, name: bytes) -> bool:
        """Return whether there is a file of this name that was not overwritten."""
        return self._wrapped(name) is not None

    def renew(self, name: bytes, *bound: bytes) -> bool:
        """Wrap a secret under the first root key; return whether it was under a later one."""
        wrapped = self._wrapped(name)
        renewed = None if wrapped is None else self._vault.renewed(wrapped, self._label, *bound)
        if renewed is not None:
            replace(self._path(name), renewed)
        return renewed is not None

    def destroy(self, name: bytes) -> None:
        """Overwrite and remove a secret; nothing happens if there is none."""
        destroy(self._path(name))

    def names(self) -> set[bytes]:
        """Return the names of all files, also of those that were overwritten and not removed yet."""
        stems = (path.stem for path in self._folder.glob(f"*{_SUFFIX}"))
        return {bytes.fromhex(stem) for stem in stems if _IS_NAME(stem)}

    def destroy_all_but(self, needed: Collection[bytes]) -> int:
        """Destroy every secret that is not needed; return how many that were."""
        spare = self.names().difference(needed)
        for name in spare:
            self.destroy(name)
        return len(spare)

    def _wrapped(self, name: bytes) -> bytes | None:
        try:
            wrapped = self._path(name).read_bytes()
        except FileNotFoundError:
            return None
        # If it is all zeros it was overwritten, and a crash came before it was unlinked.
        return wrapped if any(wrapped) else None

    def _path(self, name: bytes) -> Path:
        return self._folder / f"{name.hex()}{_SUFFIX}"
