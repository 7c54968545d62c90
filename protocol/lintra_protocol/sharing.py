"""Additive secret sharing over Z_{2^64} (Burkhardt et al. 2025, Appendix E).

Any N-1 of the N shares are uniform and independent of the secret; all N sum to it. In the seeded form N-1 shares are
32-byte seeds: uploads shrink to almost one share, and secrecy becomes computational.
"""

import hashlib

import numpy as np

from lintra_protocol.canonical import framed
from lintra_protocol.randomness import RandomBytes
from lintra_protocol.ring import RingArray, ring_from_bytes

SEED_BYTES = 32


def split(secret: RingArray, num_servers: int, random_bytes: RandomBytes) -> RingArray:
    """Split a secret into one share per server.

    Args:
        secret: ring elements of any shape.
        num_servers: N, at least 2.
        random_bytes: a cryptographic source; `system_randomness` outside tests.

    Returns:
        Shares of shape `(num_servers, *secret.shape)` whose sum over axis 0 is `secret`.
    """
    _require_servers(num_servers)
    masks = ring_from_bytes(random_bytes(8 * (num_servers - 1) * secret.size))
    return _complete(secret, masks.reshape(num_servers - 1, *secret.shape))


def split_seeded(secret: RingArray, num_servers: int, random_bytes: RandomBytes) -> tuple[list[bytes], RingArray]:
    """Split a secret so that all but the last server's share is a seed.

    Args:
        secret: ring elements of shape `(words,)`.
        num_servers: N, at least 2.
        random_bytes: a cryptographic source; `system_randomness` outside tests.

    Returns:
        The N-1 seeds of servers 0..N-2, and the last server's share of shape `(words,)`.
    """
    _require_servers(num_servers)
    seeds = [random_bytes(SEED_BYTES) for _ in range(num_servers - 1)]
    masks = np.stack([expand_share(seed, secret.size) for seed in seeds])
    return seeds, _complete(secret, masks)[-1]


def expand_share(seed: bytes, num_words: int) -> RingArray:
    """Expand a seed to the input share of shape `(num_words,)` that it stands for."""
    return ring_from_bytes(hashlib.shake_128(framed("share seed", seed)).digest(8 * num_words))


def combine(shares: RingArray) -> RingArray:
    """Add up the shares of shape `(N, *shape)` of all N servers; the result has shape `shape`."""
    total: RingArray = shares.sum(axis=0, dtype=np.uint64)
    return total


def _complete(secret: RingArray, masks: RingArray) -> RingArray:
    last = secret - combine(masks)
    return np.concatenate([masks, last[np.newaxis]])


def _require_servers(num_servers: int) -> None:
    if num_servers < 2:
        raise ValueError(f"sharing needs at least 2 servers, got {num_servers}")
