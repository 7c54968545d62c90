"""The analyzer's private keys: its identity, the author of its tasks, and one sealing key for each suite.

Each is a file of base64url that only its owner can read. Losing a sealing key means that no task which names it can
ever be released.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lintra_analyzer.settings import InvalidSettingsError
from lintra_protocol.canonical import base64url, parse_base64url
from lintra_protocol.errors import InvalidMessageError
from lintra_protocol.randomness import RandomBytes
from lintra_protocol.sealing import CLASSICAL, HYBRID, PRIVATE_KEY_BYTES, SealingKey, SuiteName
from lintra_protocol.signing import SigningKey

_OTHERS = 0o077
_SIGNING_KEY_BYTES = 32


@dataclass(frozen=True)
class Keys:
    """What proves who the analyzer is, signs its tasks, and opens its sketch shares."""

    identity: SigningKey
    author: SigningKey
    sealing: dict[SuiteName, SealingKey]

    @classmethod
    def generate(cls, random_bytes: RandomBytes) -> "Keys":
        """Draw all keys."""
        sealing = {suite: SealingKey.generate(suite, random_bytes) for suite in (HYBRID, CLASSICAL)}
        return cls(SigningKey.generate(random_bytes), SigningKey.generate(random_bytes), sealing)

    def public(self) -> dict[str, str | dict[str, str]]:
        """Return the public halves in base64url; operators of servers allow the author key in their policy."""
        return {
            "identity_key": self.identity.public_key,
            "author_key": self.author.public_key,
            "sealing_keys": {suite: base64url(key.public_bytes) for suite, key in self.sealing.items()},
        }


def load_keys(folder: Path, create: bool, random_bytes: RandomBytes) -> Keys:
    """Read the keys of a folder, and draw those that are missing if `create` allows it.

    Raises:
        InvalidSettingsError: a key is missing, malformed, or readable by others.
    """

    def load(name: str, length: int) -> bytes:
        return _load(folder / f"{name}.key", length, create, random_bytes)

    return Keys(
        identity=SigningKey(load("identity", _SIGNING_KEY_BYTES)),
        author=SigningKey(load("author", _SIGNING_KEY_BYTES)),
        sealing={
            suite: SealingKey(suite, load(f"sealing-{suite}", PRIVATE_KEY_BYTES[suite]))
            for suite in (HYBRID, CLASSICAL)
        },
    )


def _load(path: Path, length: int, create: bool, random_bytes: Callable[[int], bytes]) -> bytes:
    if not path.exists():
        if not create:
            raise InvalidSettingsError(f"{path} is missing; put the key back, or set create_keys = true for a new one")
        write_private(path, base64url(random_bytes(length)) + "\n")
    if path.stat().st_mode & _OTHERS:
        raise InvalidSettingsError(f"{path} can be read by others; set its mode to 0600")
    try:
        return parse_base64url(path.read_text("ascii").strip(), length)
    except (InvalidMessageError, UnicodeDecodeError):
        raise InvalidSettingsError(f"{path} does not hold {length} bytes of base64url") from None


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, durably, and never over another one.

    Raises:
        FileExistsError: there is a file already.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
