"""Shares of proven rows: words as integers of 80 bits, whose low 64 are shares in the ring, and elements of fields.

The words of servers 0 .. N-2 are uniform below 2^g; the last server's make all N add up to the row plus O, a multiple
of 2^64. So whatever a client sends, the shares mean one integer row of words below 2^80, for the ring as for all
fields. As in the unverified form N-1 shares may be seeds.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import RingArray
from lintra_protocol.crypto.sharing import SEED_BYTES
from lintra_protocol.encoding.canonical import ByteRows, framed
from lintra_protocol.verification.fields import ELEMENT_MASK, PRIMES, FieldArray, draw, minus, over_primes
from lintra_protocol.verification.parameters import Parameters
from lintra_protocol.verification.proof import ProvenRows

WORD = np.dtype([("low", "<u8"), ("high", "<u2")])
"""A word of a share: 10 bytes, little-endian."""

_BYTES_AT_ONCE = 1 << 20

SharedWords = NDArray[np.void]
"""Words of shares as `WORD`."""


def split_proven(parameters: Parameters, proven: ProvenRows, random_bytes: RandomBytes) -> list[ByteRows]:
    """Split proven rows into one share for each server.

    `proven` is k rows. `random_bytes` are a cryptographic source: of each server but the last all words, then all
    elements.

    Returns:
        For each server the payloads, shape `(k, payload_bytes)`.
    """
    masks = [_random_shares(parameters, len(proven.words), random_bytes) for _ in range(parameters.num_servers - 1)]
    return [*masks, last_shares(parameters, proven, masks)]


def split_proven_seeded(
    parameters: Parameters, proven: ProvenRows, random_bytes: RandomBytes
) -> tuple[list[ByteRows], ByteRows]:
    """Split proven rows so that all but the last server's shares are seeds.

    Returns:
        The seeds of servers 0 .. N-2, each of shape `(k, 32)`, read row by row, and the last server's payloads.
    """
    count, others = len(proven.words), parameters.num_servers - 1
    drawn = np.frombuffer(random_bytes(SEED_BYTES * count * others), np.uint8).reshape(count, others, SEED_BYTES)
    seeds = [np.ascontiguousarray(drawn[:, server]) for server in range(others)]
    return seeds, last_shares(parameters, proven, [expand_seeds(parameters, each) for each in seeds])


def expand_seeds(parameters: Parameters, seeds: ByteRows) -> ByteRows:
    """Expand seeds, shape `(k, 32)`, to the payloads that they stand for, shape `(k, payload_bytes)`."""
    payloads = np.empty((len(seeds), parameters.payload_bytes), np.uint8)
    _expand(parameters, seeds, payloads)
    return payloads


def expanded_blocks(parameters: Parameters, seeds: ByteRows) -> Iterator[ByteRows]:
    """Yield the payloads that seeds, shape `(k, 32)`, stand for, `reports_at_once` at a time.

    A block has the shape `(b, payload_bytes)`, and is written over the one before.
    """
    step = reports_at_once(parameters)
    room = np.empty((min(step, len(seeds)), parameters.payload_bytes), np.uint8)
    for start in range(0, len(seeds), step):
        some = seeds[start : start + step]
        _expand(parameters, some, room[: len(some)])
        yield room[: len(some)]


def reports_at_once(parameters: Parameters) -> int:
    """Return how many payloads a cache holds together."""
    return max(1, _BYTES_AT_ONCE // parameters.payload_bytes)


def _expand(parameters: Parameters, seeds: ByteRows, payloads: ByteRows) -> None:
    size, kept = parameters.payload_bytes, _kept_bits(parameters)
    for seed, payload in zip(seeds, payloads, strict=True):
        stream = _stream_bytes(seed.tobytes(), size)
        np.bitwise_and(np.frombuffer(stream, np.uint8), kept, out=payload)
    # About one seed in 10^12 has a word that is no element; it is read again, one word after the other.
    highest = _raw_elements(parameters, payloads).max(axis=2, initial=0)
    for place in np.flatnonzero((highest >= np.array(PRIMES, np.uint64)).any(axis=1)):
        payloads[place] = share_of_stream(parameters, _stream(seeds[place].tobytes(), size))


@lru_cache(maxsize=4)
def _kept_bits(parameters: Parameters) -> ByteRows:
    """Return which bits of a stream are kept: g of every word, and 60 of every element; shape `(payload_bytes,)`."""
    kept = np.full((1, parameters.payload_bytes), 0xFF, np.uint8)
    words_of(parameters, kept)["high"] = _top_mask(parameters)
    _raw_elements(parameters, kept)[:] = ELEMENT_MASK
    found: ByteRows = kept[0]
    return found


def share_of_stream(parameters: Parameters, random_bytes: RandomBytes) -> ByteRows:
    """Return the payload, shape `(payload_bytes,)`, that a stream of random bytes stands for."""
    share: ByteRows = _random_shares(parameters, 1, random_bytes)[0]
    return share


def last_shares(parameters: Parameters, proven: ProvenRows, others: Sequence[ByteRows]) -> ByteRows:
    """Return the last server's payloads beside those of all others."""
    payloads = np.empty((len(proven.words), parameters.payload_bytes), np.uint8)
    low = proven.words.view(np.uint64).copy()
    high = (parameters.offset >> 64) - (proven.words < 0).astype(np.int64)
    elements = proven.elements
    for other in others:
        shared = words_of(parameters, other)
        high -= shared["high"].astype(np.int64) + (low < shared["low"])
        low -= shared["low"]
        elements = minus(elements, elements_of(parameters, other))
    words = words_of(parameters, payloads)
    words["low"], words["high"] = low, high
    _raw_elements(parameters, payloads)[:] = elements.transpose(1, 0, 2)
    return payloads


def ring_words(parameters: Parameters, payloads: ByteRows) -> RingArray:
    """Return the ring words, shape `(k, w)`, that payloads share: they are what is added up."""
    return words_of(parameters, payloads)["low"][:, : parameters.num_words].astype(np.uint64)


def ring_words_of_seeds(parameters: Parameters, seeds: ByteRows) -> RingArray:
    """Return the ring words, shape `(k, w)`, that payloads share for which seeds, shape `(k, 32)`, stand."""
    found, done = np.empty((len(seeds), parameters.num_words), np.uint64), 0
    for payloads in expanded_blocks(parameters, seeds):
        found[done : done + len(payloads)] = words_of(parameters, payloads)["low"][:, : parameters.num_words]
        done += len(payloads)
    return found


def words_of(parameters: Parameters, payloads: ByteRows) -> SharedWords:
    """Return the words of payloads, padding and all, as `WORD`, shape `(k, W)`; a view."""
    return payloads[:, : parameters.words_bytes].view(WORD)


def elements_of(parameters: Parameters, payloads: ByteRows) -> FieldArray:
    """Return the elements of payloads, shape `(4, k, 2L + K + 3)`."""
    return np.ascontiguousarray(_raw_elements(parameters, payloads).transpose(1, 0, 2))


def malformed(parameters: Parameters, server: int, payloads: ByteRows) -> NDArray[np.bool_]:
    """Say for each of some payloads that arrived at a server whether a number in it is out of range, shape `(k,)`.

    No element may reach its prime, and but for the last server no word 2^g: then no client can share anything but
    integers below 2^80, on which the proof rests.
    """
    wrong = np.zeros(len(payloads), np.bool_)
    wrong |= (_raw_elements(parameters, payloads) >= _limits()).any(axis=(1, 2))
    if server < parameters.num_servers - 1:
        wrong |= (words_of(parameters, payloads)["high"] > _top_mask(parameters)).any(axis=1)
    return wrong


def _random_shares(parameters: Parameters, count: int, random_bytes: RandomBytes) -> ByteRows:
    """Read shares from a source of randomness: all words first, each kept to g bits."""
    payloads = np.empty((count, parameters.payload_bytes), np.uint8)
    read = random_bytes(parameters.words_bytes * count)
    payloads[:, : parameters.words_bytes] = np.frombuffer(read, np.uint8).reshape(count, -1)
    words_of(parameters, payloads)["high"] &= _top_mask(parameters)
    drawn = draw(count, parameters.elements, random_bytes)
    _raw_elements(parameters, payloads)[:] = drawn.transpose(1, 0, 2)
    return payloads


def _raw_elements(parameters: Parameters, payloads: ByteRows) -> NDArray[np.uint64]:
    """Return the elements of payloads as they stand there, shape `(k, 4, 2L + K + 3)`; a view."""
    numbers = payloads[:, parameters.words_bytes :].view("<u8")
    return numbers.reshape(len(payloads), len(PRIMES), parameters.elements)


def _top_mask(parameters: Parameters) -> np.uint16:
    """Return which of the upper 16 bits of a word may be set in a share of g bits."""
    return np.uint16((1 << parameters.word_bits - 64) - 1)


def _limits() -> FieldArray:
    """Return the primes, to stand beside elements of shape `(k, 4, e)`."""
    return over_primes(PRIMES, 2)


def _stream_bytes(seed: bytes, count: int) -> bytes:
    return hashlib.shake_128(framed("verified share seed", seed)).digest(count)


def _stream(seed: bytes, at_once: int) -> RandomBytes:
    """Return a source that reads a seed's stream from its beginning."""
    held, taken = _stream_bytes(seed, at_once), 0

    def read(count: int) -> bytes:
        nonlocal held, taken
        while taken + count > len(held):
            held = _stream_bytes(seed, 2 * len(held))
        taken += count
        return held[taken - count : taken]

    return read
