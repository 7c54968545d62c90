"""Shares of a proof: the same as in plain integers, in blocks of any size."""

import numpy as np
import plain_verified as plain
import pytest

from lintra_protocol.crypto.ring import from_ring
from lintra_protocol.crypto.sharing import combine
from lintra_protocol.verification import checks, fields, shares
from lintra_protocol.verification.checks import accepted, check_shares, check_shares_of_seeds
from lintra_protocol.verification.fields import PRIMES
from lintra_protocol.verification.padding import padded_rows
from lintra_protocol.verification.parameters import Parameters
from lintra_protocol.verification.points import check_points
from lintra_protocol.verification.proof import proof_elements, prove
from lintra_protocol.verification.shares import (
    elements_of,
    expand_seeds,
    reports_at_once,
    ring_words,
    ring_words_of_seeds,
    share_of_stream,
    split_proven,
    split_proven_seeded,
    words_of,
)
from support import source

POINTS = check_points(bytes(range(32)))
LONGEST = 2**61 + 12345


def sizes_of(parameters: Parameters) -> plain.Sizes:
    return plain.Sizes(parameters.num_words, parameters.num_servers, parameters.squared_bound)


def rows_of(parameters: Parameters, number: int) -> np.ndarray:
    """Rows of many sizes within the bound, with both signs; the last is the zero row."""
    most = int((parameters.squared_bound / parameters.num_words) ** 0.5)
    rows = np.random.default_rng(number).integers(-most, most + 1, (number, parameters.num_words))
    rows[-1] = 0
    return rows


@pytest.mark.parametrize(
    ("words", "servers"),
    [
        (1, 2),
        (12, 2),
        (12, 3),
        (12, 16),
        pytest.param(78, 3, marks=pytest.mark.slow),
        pytest.param(78, 16, marks=pytest.mark.slow),
        pytest.param(1326, 2, marks=pytest.mark.slow),
    ],
)
def test_proof_shares_checks_and_verdict_are_those_of_plain_integers(words: int, servers: int) -> None:
    parameters = Parameters(words, servers, LONGEST)
    sizes, rows = sizes_of(parameters), rows_of(parameters, 2)
    proven = prove(parameters, rows, source("blinds"))
    for place, row in enumerate(rows.tolist()):
        a = row + plain.padding(row, LONGEST)
        assert proven.words[place].tolist() == a
        for t in range(4):
            own = proven.elements[t, place].tolist()
            assert own[2 * sizes.columns :] == plain.proof(sizes, a, own[: 2 * sizes.columns], t)
    shares = split_proven(parameters, proven, source("shares"))
    np.testing.assert_array_equal(from_ring(combine(np.stack([ring_words(parameters, s) for s in shares]))), rows)
    checks = [check_shares(parameters, server, share, POINTS) for server, share in enumerate(shares)]
    assert accepted(parameters, checks, POINTS).all()
    for place in range(len(rows)):
        parsed = [plain.parse(sizes, share[place].tobytes()) for share in shares]
        assert all(plain.well_formed(sizes, server, share) for server, share in enumerate(parsed))
        expected = [plain.check_share(sizes, server, share, list(POINTS)) for server, share in enumerate(parsed)]
        found = [check[place].view("<u8").reshape(4, -1).tolist() for check in checks]
        assert found == expected
        assert plain.passes(sizes, expected)


@pytest.mark.parametrize("words", [1, 2, 9, 12, 56, 78, 200])
@pytest.mark.parametrize("squared_bound", [LONGEST, 2**40])
def test_a_row_alone_gets_the_proof_that_it_gets_among_others(words: int, squared_bound: int) -> None:
    parameters = Parameters(words, 3, squared_bound)
    rows = padded_rows(parameters, rows_of(parameters, 3))
    blinds = fields.draw(len(rows), 2 * parameters.columns, source("blinds"))
    blinds[:, 0] = fields.over_primes(PRIMES, 2) - np.uint64(1)
    together = proof_elements(parameters, rows, blinds)
    for place in range(len(rows)):
        alone = proof_elements(parameters, rows[place : place + 1], blinds[:, place : place + 1])
        np.testing.assert_array_equal(alone[:, 0], together[:, place])


@pytest.mark.parametrize("servers", [2, 3])
def test_seeds_stand_for_shares_that_mean_the_same_row(servers: int) -> None:
    parameters = Parameters(5, servers, 10**12)
    rows = rows_of(parameters, 3)
    seeds, last = split_proven_seeded(parameters, prove(parameters, rows, source("blinds")), source("seeds"))
    shares = [*(expand_seeds(parameters, each) for each in seeds), last]
    np.testing.assert_array_equal(from_ring(combine(np.stack([ring_words(parameters, s) for s in shares]))), rows)
    for place in range(3):
        words, elements = plain.seed_share(sizes_of(parameters), seeds[0][place].tobytes())
        assert shares[0][place].tobytes() == plain.payload((words, elements))


@pytest.mark.parametrize("prime", range(4))
def test_words_of_a_stream_that_are_no_elements_are_skipped_also_a_fields_last(prime: int) -> None:
    parameters = Parameters(2, 2, 100)
    sizes = sizes_of(parameters)
    size = parameters.elements
    numbers = [number << 60 | number for number in range(1, 4 * size + 1)]  # the upper bits are dropped
    for place in (prime * size + 3, (prime + 1) * size):  # within a field, and its last element
        numbers.insert(place, PRIMES[prime] + 5)
    words = bytes(range(10 * sizes.padded))
    stream = words + b"".join((number % 2**64).to_bytes(8, "little") for number in numbers)
    taken = 0

    def random_bytes(wanted: int) -> bytes:
        nonlocal taken
        taken += wanted
        return stream[taken - wanted : taken]

    share = share_of_stream(parameters, random_bytes)
    expected = plain.read_share(sizes, stream)
    assert share.tobytes() == plain.payload(expected[:2])
    assert taken == expected[2] == len(stream)
    assert elements_of(parameters, share[np.newaxis])[:, 0].ravel().tolist() == list(range(1, 4 * size + 1))


@pytest.mark.parametrize("byte", [b"\x00", b"\xff"])
def test_masks_at_the_ends_of_their_range_are_carried_exactly(byte: bytes) -> None:
    parameters = Parameters(2, 16, 2 * (2**30) ** 2)
    rows = np.array([[2**30, -(2**30)], [-(2**30), 2**30]])
    proven = prove(parameters, rows, source("blinds"))
    of_words = parameters.words_bytes * len(rows)
    shares = split_proven(parameters, proven, lambda size: (byte if size == of_words else b"\x00") * size)
    words = [words_of(parameters, share) for share in shares]
    integers = sum(each["high"].astype(object) * 2**64 + each["low"].astype(object) for each in words)
    assert (integers - parameters.offset == proven.words).all()
    checks = [check_shares(parameters, server, share, POINTS) for server, share in enumerate(shares)]
    assert accepted(parameters, checks, POINTS).all()


SMALL = Parameters(5, 2, 10**12)
COUNT = 23


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
