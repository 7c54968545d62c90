"""Additive secret sharing over Z_{2^64} (Burkhardt et al. 2025, Appendix E).

Any N-1 of the N shares are uniform and independent of the secret; all N sum to it. In the seeded form N-1 shares are
32-byte seeds: uploads shrink to almost one share, and secrecy becomes computational. In the spread form every share is
a seed and one part in N of the words, so that no server carries all of them.
"""

import hashlib

import numpy as np

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import RingArray, ring_bytes, ring_from_bytes
from lintra_protocol.encoding.canonical import framed

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


def split_bytes(secret: RingArray, num_servers: int, random_bytes: RandomBytes) -> list[bytes]:
    """Return the shares that `split` makes of a secret of shape `(words,)`, each as `ring_bytes` has it."""
    _require_servers(num_servers)
    size = 8 * secret.size
    drawn = random_bytes((num_servers - 1) * size)
    last = secret - combine(ring_from_bytes(drawn).reshape(num_servers - 1, secret.size))
    return [*(drawn[start : start + size] for start in range(0, len(drawn), size)), ring_bytes(last)]


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


def part_of(server: int, num_servers: int, num_words: int) -> slice:
    """Return which words a server holds as they are in the spread form: j w / N, rounded down, to (j + 1) w / N."""
    return slice(server * num_words // num_servers, (server + 1) * num_words // num_servers)


def split_spread(secret: RingArray, num_servers: int, random_bytes: RandomBytes) -> tuple[list[bytes], list[RingArray]]:
    """Split a secret so that every server's share is a seed but for its own part of the words.

    There the share is what the other servers' seeds leave of the secret. Whoever lacks one server's seed sees words
    that this seed hides in all other parts, and in that server's part nothing of the secret at all.

    Args:
        secret: ring elements of shape `(words,)`.
        num_servers: N, at least 2.
        random_bytes: a cryptographic source; `system_randomness` outside tests.

    Returns:
        The N seeds, and for each server the words of its part (`part_of`).
    """
    _require_servers(num_servers)
    seeds = [random_bytes(SEED_BYTES) for _ in range(num_servers)]
    return seeds, spread_parts(secret, np.stack([expand_share(seed, secret.size) for seed in seeds]))


def spread_parts(secret: RingArray, masks: RingArray) -> list[RingArray]:
    """Return what all others' masks, of shape `(N, words)`, leave of a secret in each server's part."""
    left, size = secret - combine(masks), secret.size
    parts = [part_of(server, len(masks), size) for server in range(len(masks))]
    return [left[part] + masks[server, part] for server, part in enumerate(parts)]


def expand_spread(payload: bytes, server: int, num_servers: int, num_words: int) -> RingArray:
    """Return the share of shape `(num_words,)` that a seed and the words of a server's part stand for."""
    share = expand_share(payload[:SEED_BYTES], num_words).copy()
    share[part_of(server, num_servers, num_words)] = ring_from_bytes(payload[SEED_BYTES:])
    return share


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
