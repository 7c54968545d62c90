"""The analyzer's private keys: its identity, the author of its tasks, and one sealing key for each suite.

Each is a file of base64url that only its owner can read. Losing a sealing key means that no task which names it can
ever be released.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lintra_analysis.spec.build_task import PartyKeys
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.sealing import CLASSICAL, HYBRID, PRIVATE_KEY_BYTES, SealingKey, SuiteName
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.crypto.tokens import derived_keys, key_commitment
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.task import ServerEntry
from lintra_service.secrets import read_secret

_SIGNING_KEY_BYTES = 32
TOKEN_SECRET_BYTES = 32


@dataclass(frozen=True)
class AnalyzerKeys:
    """What proves who the analyzer is, signs its tasks, opens its sketch shares, and makes tokens for its clients."""

    identity: SigningKey
    author: SigningKey
    sealing: dict[SuiteName, SealingKey]
    tokens: bytes = field(repr=False)

    @classmethod
    def generate(cls, random_bytes: RandomBytes) -> "AnalyzerKeys":
        """Draw all keys."""
        sealing = {suite: SealingKey.generate(suite, random_bytes) for suite in (HYBRID, CLASSICAL)}
        identity, author = SigningKey.generate(random_bytes), SigningKey.generate(random_bytes)
        return cls(identity, author, sealing, random_bytes(TOKEN_SECRET_BYTES))

    @property
    def public_keys(self) -> PartyKeys:
        """Return the public halves as a task names them."""
        sealing = {suite: base64url(key.public_bytes) for suite, key in self.sealing.items()}
        return PartyKeys(self.author.public_key, self.identity.public_key, sealing, self.token_commitments)

    def token_keys(self, servers: Sequence[ServerEntry]) -> tuple[bytes, ...]:
        """Return the keys with which some servers check tokens of this author's tasks."""
        return derived_keys(self.tokens, [entry.identity_key for entry in servers])

    def token_commitments(self, servers: Sequence[ServerEntry]) -> tuple[str, ...]:
        """Return the hashes of these keys, as a task names them."""
        return tuple(map(key_commitment, self.token_keys(servers)))

    def public(self) -> dict[str, str | dict[str, str]]:
        """Return the public halves in base64url; operators of servers allow the author key in their policy."""
        return {
            "identity_key": self.identity.public_key,
            "author_key": self.author.public_key,
            "sealing_keys": {suite: base64url(key.public_bytes) for suite, key in self.sealing.items()},
        }


def load_keys(folder: Path, create: bool, random_bytes: RandomBytes) -> AnalyzerKeys:
    """Read the keys of a folder, and draw those that are missing if `create` allows it."""

    def load(name: str, length: int) -> bytes:
        return read_secret(folder / f"{name}.key", length, create, random_bytes)[0]

    return AnalyzerKeys(
        identity=SigningKey(load("identity", _SIGNING_KEY_BYTES)),
        author=SigningKey(load("author", _SIGNING_KEY_BYTES)),
        sealing={
            suite: SealingKey(suite, load(f"sealing-{suite}", PRIVATE_KEY_BYTES[suite]))
            for suite in (HYBRID, CLASSICAL)
        },
        tokens=load("tokens", TOKEN_SECRET_BYTES),
    )
