"""Keys that every test knows and seeded sources of randomness: the same arguments give the same bytes."""

from lintra_protocol.crypto.randomness import RandomBytes, derive_seed, expand
from lintra_protocol.crypto.sealing import SealingKey, SuiteName
from lintra_protocol.crypto.signing import SigningKey

SEED = bytes(range(32))
"""What every key and every source below is derived from."""


def source(label: str, seed: bytes = SEED) -> RandomBytes:
    """Return a fresh stream of bytes that depends on the label alone."""
    return expand(seed, f"test {label}")


def identity(name: str) -> SigningKey:
    """Return the identity of "author", "analyzer", "server 0", "server 1", ..; or of anybody else."""
    return SigningKey(derive_seed(SEED, f"identity {name}"))


def sealing_key(name: str, suite: SuiteName = "x25519") -> SealingKey:
    """Return the sealing key of "analyzer", "server 0", "server 1", ..; or of anybody else."""
    return SealingKey.generate(suite, source(f"sealing {name}"))


def nonce(server: int) -> bytes:
    """Return the 32-byte nonce that a server commits to in its inventory."""
    return derive_seed(SEED, f"nonce {server}")
