"""Sources of random bytes: the operating system, or a seed that both ends of a test or a share know.

A source is any function from a byte count to that many bytes. Nothing in this package draws randomness by itself.
"""

import os
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from lintra_protocol.encoding.canonical import domain_hash

RandomBytes = Callable[[int], bytes]


def keystream(seed: bytes) -> RandomBytes:
    """Return a source that reads the AES-256-CTR keystream of a 32-byte seed from its beginning.

    Equal seeds give equal streams, however the reads are cut. One seed serves one purpose: derive it with
    `derive_seed`, never share it between two. Raises ValueError if the seed has another length.
    """
    if len(seed) != 32:
        raise ValueError(f"a keystream seed has 32 bytes, got {len(seed)}")
    # A fixed counter start is safe because every seed is used for exactly one stream.
    encryptor = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor()
    return lambda count: encryptor.update(bytes(count))


def keystream_blocks(seed: bytes, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Return some blocks of a seed's keystream, shape `(k, 16)`: number r is the 16 bytes from 16 r on.

    `seed` is 32 bytes; `numbers` has shape `(k,)`, not negative.
    """
    counters = np.zeros((len(numbers), 2), ">u8")
    counters[:, 1] = numbers
    # The blocks of counter mode are the encrypted counters themselves, in any order.
    encrypted = Cipher(algorithms.AES(seed), modes.ECB()).encryptor().update(counters.tobytes())  # noqa: S305
    return np.frombuffer(encrypted, np.uint8).reshape(-1, 16)


def derive_seed(seed: bytes, label: str, *parts: bytes) -> bytes:
    """Derive the 32-byte seed of one labelled purpose from another seed."""
    return domain_hash("derive", seed, label.encode(), *parts)


def expand(seed: bytes, label: str) -> RandomBytes:
    """Return the stream of `seed` for one labelled purpose."""
    return keystream(derive_seed(seed, label))


def system_randomness(count: int) -> bytes:
    """Return `count` bytes from the operating system's generator."""
    return os.urandom(count)


def no_randomness(count: int) -> bytes:
    """Refuse to give any bytes: the default of what reads randomness only in some tasks.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{count} random bytes are needed: dithered rounding takes a source of them")


def bulk_system_randomness() -> RandomBytes:
    """Return a fast source for many draws: an AES-256-CTR stream seeded once from the operating system.

    As strong as AES-256 and about twenty times faster than asking the system for every byte. Make one for each
    block of work and let it go; never fork with one, since both processes would continue the same stream.
    """
    return keystream(os.urandom(32))
