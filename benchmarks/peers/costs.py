"""Exact noise against OpenDP's, and the bytes of a proof against Prio3SumVec's and PINE's."""

import time
from collections.abc import Callable
from functools import partial
from math import ceil, isqrt, log2

from showing import Cell, Shown, spread

from lintra_protocol.crypto.randomness import expand
from lintra_protocol.noise.discrete_gaussian import discrete_gaussian
from lintra_protocol.verification.parameters import Parameters

DEVIATIONS = (10, 1_000, 1_000_000)
AT_ONCE = 20_000
ELEMENT_128, ELEMENT_64, SEED = 16, 8, 16
WORDS = ((100, 16), (5_151, 24), (100_000, 22))


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of some work."""
    start = time.process_time()
    work()
    return time.process_time() - start


def noise(runs: int) -> Shown:
    """Return samples of the exact discrete Gaussian per CPU second, ours and OpenDP's in turn."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    rows: list[tuple[Cell, ...]] = []
    for sd in DEVIATIONS:
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
        theirs = dp.m.make_gaussian(*space, scale=float(sd))
        pairs = []
        for run in range(runs):
            source = expand(bytes([run]) * 32, "race")
            ours = partial(discrete_gaussian, (AT_ONCE,), sd, source)
            pairs.append((seconds(ours), seconds(partial(theirs, [0] * AT_ONCE))))
        rows.append(
            (
                sd,
                spread(AT_ONCE / our for our, _ in pairs),
                spread(AT_ONCE / their for _, their in pairs),
                spread(their / our for our, their in pairs),
            )
        )
    return Shown(
        "race-noise", "Exact discrete Gaussian samples per CPU second",
        ("deviation", "Lintra", "OpenDP 0.16", "ratio"), tuple(rows),
        f"{AT_ONCE:,} samples at once, the two in turn, {runs} runs. Both are exact: no floating-point number is "
        "between the random bytes and the integer.",
    )  # fmt: skip


def sum_vec_bytes(words: int, bits: int) -> int:
    """Return what a client uploads for Prio3SumVec with two servers, without sealing and headers.

    draft-irtf-cfrg-vdaf, Field128: every bit is an element, the leader's share is written out, and so is the proof: 2
    wires a chunk, and the product polynomial of degree 2 over the calls, in powers of two. The chunk is the square root
    of the length. A helper's share and both blinds are seeds.
    """
    elements = words * bits
    chunk = max(1, isqrt(elements))
    calls = ceil(elements / chunk)
    padded = 1 << ceil(log2(calls + 1))
    proof = 2 * chunk + 2 * (padded - 1) + 1
    return ELEMENT_128 * (elements + proof) + 3 * SEED + 2 * 2 * SEED


def pine_bytes(words: int, bits: int) -> int:
    """Return what a client uploads for PINE with two servers: its words, and about what its draft adds to them.

    draft-chen-cfrg-vdaf-pine, Field64: 100 wraparound tests, each a number within alpha = 8.7 bounds in bits and one
    bit for success, and two range checks of the squared norm; proofs over chunks of the square root. The bound on the
    norm is the largest a word may have. Our reading of the draft, good to some ten per cent.
    """
    tests = 100 * (ceil(log2(2 * 8.7 * 2 ** (bits - 1))) + 1)
    elements = tests + 2 * 2 * (bits - 1)
    chunk = isqrt(elements)
    padded = 1 << ceil(log2(ceil(elements / chunk) + 1))
    squares = 2 * isqrt(words) + 2 * (1 << ceil(log2(isqrt(words) + 2)))
    return ELEMENT_64 * (words + elements + 2 * chunk + 2 * padded + squares) + 5 * SEED


def proofs() -> Shown:
    """Return what a client sends besides the words themselves, two servers."""
    rows: list[tuple[Cell, ...]] = []
    for words, bits in WORDS:
        sizes = Parameters(num_words=words, num_servers=2, squared_bound=words * 4 ** (bits - 1))
        plain = 8 * words
        ours = sizes.payload_bytes - plain
        rows.append((f"{words:,} of {bits} bits", plain, ours, sizes.check_bytes,
                     pine_bytes(words, bits) - plain, sum_vec_bytes(words, bits) - plain))  # fmt: skip
    return Shown(
        "race-proofs", "Bytes of a report besides its words of 8 bytes, so that servers know it is short",
        ("words", "the words", "Lintra, proof", "Lintra, check share", "PINE, about", "Prio3SumVec"), tuple(rows),
        "Computed from formats, two servers, without sealing. Prio3SumVec bounds every entry, PINE and "
        "Lintra bound the norm. "
        "Every server of Lintra sends its check share on, once a report; the others send verifiers of similar size. "
        "At 100,000 words PINE sends less than Lintra; rows of up to some thousand words are what Lintra is made for. "
        "No table has a service's throughput beside that of Janus or of another service for Prio. In their documents "
        "and issues (divviup/janus 224 and 2868 are about load tests) no figure with a machine beside it was found.",
    )  # fmt: skip
