"""Shares are expanded, checked and judged in blocks: wherever these end, and at the ends of all ranges, bytes agree."""

import numpy as np
import plain_verified as plain
import pytest

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.verification import checks, fields, proof, shares
from lintra_protocol.verification.checks import accepted, check_shares, check_shares_of_seeds, passed_in
from lintra_protocol.verification.fields import PRIMES, FieldArray, fold, halve, inner, joined
from lintra_protocol.verification.parameters import Parameters
from lintra_protocol.verification.points import check_points
from lintra_protocol.verification.proof import prove
from lintra_protocol.verification.shares import (
    expand_seeds,
    reports_at_once,
    ring_words,
    ring_words_of_seeds,
    split_proven_seeded,
)
from support import source

POINTS = check_points(bytes(range(32)))
SMALL = Parameters(5, 2, 10**12)
COUNT = 23


def sizes_of(parameters: Parameters) -> plain.Sizes:
    return plain.Sizes(parameters.num_words, parameters.num_servers, parameters.squared_bound)


def seeds_of(count: int) -> np.ndarray:
    return np.frombuffer(source("seeds")(32 * count), np.uint8).reshape(count, 32)


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three, four and five reports at a time, so that no two kinds of block end together."""
    width = 5 * SMALL.columns
    monkeypatch.setattr(checks, "_FLOATS_AT_ONCE", 3 * 24 * width)
    monkeypatch.setattr(checks, "_NUMBERS_AT_ONCE", 4 * 4 * SMALL.check_elements)
    monkeypatch.setattr(shares, "_BYTES_AT_ONCE", 5 * SMALL.payload_bytes)


@pytest.mark.usefixtures("short_blocks")
def test_blocks_change_no_byte_of_words_check_shares_and_verdict() -> None:
    assert reports_at_once(SMALL) == 5
    rows = np.random.default_rng(1).integers(-1000, 1000, (COUNT, 5))
    seeds, last = split_proven_seeded(SMALL, prove(SMALL, rows, source("blinds")), source("seeds"))
    first = expand_seeds(SMALL, seeds[0])
    np.testing.assert_array_equal(ring_words_of_seeds(SMALL, seeds[0]), ring_words(SMALL, first))
    found = check_shares_of_seeds(SMALL, 0, seeds[0], POINTS)
    of_last = check_shares(SMALL, 1, last, POINTS)
    np.testing.assert_array_equal(found, check_shares(SMALL, 0, first, POINTS))
    for server, payloads, own in ((0, first, found), (1, last, of_last)):
        for payload, share in zip(payloads, own, strict=True):
            expected = plain.check_share(
                sizes_of(SMALL), server, plain.parse(sizes_of(SMALL), payload.tobytes()), list(POINTS)
            )
            assert share.view("<u8").reshape(4, -1).tolist() == expected
    for place in range(COUNT):
        wrong = of_last.copy()
        wrong[place, 8 * (place % (4 * SMALL.check_elements))] ^= 1
        assert np.flatnonzero(~accepted(SMALL, [found, wrong], POINTS)).tolist() == [place]


def test_rows_are_proven_alike_wherever_a_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(2).integers(-1000, 1000, (COUNT, 5))
    whole = prove(SMALL, rows, source("blinds"))
    for at_once in (1, 2, 5, COUNT - 1):
        monkeypatch.setattr(proof, "_NUMBERS_AT_ONCE", at_once * 4 * (SMALL.powers + 3))
        in_blocks = prove(SMALL, rows, source("blinds"))
        np.testing.assert_array_equal(in_blocks.elements, whole.elements)
        np.testing.assert_array_equal(in_blocks.words, whole.words)


def test_seeds_with_words_that_are_no_elements_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = [prime - 2**59 for prime in PRIMES]  # every second word is no element
    for module in (plain, shares, fields):
        monkeypatch.setattr(module, "PRIMES", fewer)
    seeds = seeds_of(4)
    for seed, payload in zip(seeds, expand_seeds(SMALL, seeds), strict=True):
        assert payload.tobytes() == plain.payload(plain.seed_share(sizes_of(SMALL), seed.tobytes()))


def test_one_word_that_is_no_element_is_found_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = seeds_of(3)
    honest = expand_seeds(SMALL, seeds)
    again: list[bytes] = []

    def read_again(parameters: Parameters, _stream: object) -> np.ndarray:
        again.append(b"")
        return np.zeros(parameters.payload_bytes, np.uint8)

    monkeypatch.setattr(shares, "share_of_stream", read_again)
    stream_bytes = shares._stream_bytes
    for prime, place in ((0, 0), (1, SMALL.elements - 1), (3, 4)):
        at = SMALL.words_bytes + 8 * (prime * SMALL.elements + place)
        wrong = PRIMES[prime].to_bytes(8, "little")

        def planted(seed: bytes, count: int, at: int = at, wrong: bytes = wrong) -> bytes:
            found = stream_bytes(seed, count)
            return found[:at] + wrong + found[at + 8 :] if seed == seeds[1].tobytes() else found

        monkeypatch.setattr(shares, "_stream_bytes", planted)
        found = expand_seeds(SMALL, seeds)
        assert not found[1].any()
        np.testing.assert_array_equal(found[[0, 2]], honest[[0, 2]])
    assert len(again) == 3


@pytest.mark.parametrize(("words", "servers"), [(1, 2), (5, 3), (2041, 16), (5151, 2)])
def test_the_largest_check_shares_are_judged_as_plain_integers_are(words: int, servers: int) -> None:
    parameters = Parameters(words, servers, 2**62 - 1)
    largest = np.repeat(np.array(PRIMES, np.uint64) - np.uint64(1), parameters.check_elements)
    drawn = np.random.default_rng(2).integers(2**60 - 10**6, 2**60 - 400, largest.size, dtype=np.uint64)
    rows = np.stack([largest, drawn]).view(np.uint8)
    total = [[servers * int(number) for number in each] for each in (largest, drawn)]
    for row, found in zip(total, passed_in(parameters, [rows] * servers).T.tolist(), strict=True):
        assert found == [plain_passes(parameters, row, t) for t in range(4)]
    fitting = drawn.copy().reshape(4, -1)
    for t, prime in enumerate(PRIMES):
        own = [int(number) for number in fitting[t]]
        pairs = zip(own[: parameters.columns], own[parameters.columns : -1], strict=True)
        wanted = servers**2 * sum(f * g for f, g in pairs) - parameters.squared_bound
        fitting[t, -1] = wanted * pow(servers, -1, prime) % prime
    assert passed_in(parameters, [fitting.reshape(1, -1).view(np.uint8)] * servers).all()


def plain_passes(parameters: Parameters, total: list[int], t: int) -> bool:
    own = total[t * parameters.check_elements :][: parameters.check_elements]
    pairs = zip(own[: parameters.columns], own[parameters.columns : -1], strict=True)
    return (sum(f * g for f, g in pairs) - parameters.squared_bound - own[-1]) % PRIMES[t] == 0


def test_inner_products_of_128_numbers_are_exact_however_large_these_are() -> None:
    numbers: FieldArray = np.full((4, 128, 3), 2**64 - 1, np.uint64)
    numbers[:, :, 1] = 2**60 - 1
    numbers[:, ::3, 2] = np.uint64(2**60)
    expected = [
        [sum(int(n) ** 2 for n in numbers[t, :, k]) % prime for k in range(3)] for t, prime in enumerate(PRIMES)
    ]
    upper = np.empty_like(numbers)
    fold(numbers, upper)
    assert (numbers < np.uint64(2**60 + 2**13)).all()
    halve(numbers, upper)
    assert inner((upper, numbers), (upper, numbers)).tolist() == expected


@pytest.mark.parametrize("value_limbs", [2, 4, 5])
def test_the_largest_sums_of_products_of_limbs_are_put_together_exactly(value_limbs: int) -> None:
    products: FloatArray = np.full((4, 2, 3, value_limbs, 3), float(2**53 - 1))
    products[..., 1] = np.random.default_rng(3).integers(2**52, 2**53, products.shape[:-1])
    products[..., 2] = 0
    found = joined(products)
    weights = {(j, k): 1 << 20 * j + 16 * k for j in range(3) for k in range(value_limbs)}
    for t, prime in enumerate(PRIMES):
        for side in range(2):
            for last in range(3):
                total = sum(weight * int(products[t, side, j, k, last]) for (j, k), weight in weights.items())
                assert int(found[t, side, last]) == total % prime
