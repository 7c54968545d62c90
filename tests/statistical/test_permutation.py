"""How a network deals fixed coalitions to rows: like a random permutation, which two rounds do not."""

from math import sqrt

import numpy as np
import pytest
from scipy import stats

from lintra_protocol.crypto.randomness import derive_seed, keystream
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.transforms.permutation import ROUNDS, FeistelOrder
from support import SEED

FALSE_ALARM = 1e-7
"""Of one family of coalitions at one size."""


def coalitions(size: int, part: int = 20) -> dict[str, IntArray]:
    """Return coalitions of 5 % that know the structure of the network, all fixed before any seed."""
    count = size // part
    side = int(np.ceil(np.sqrt(size)))
    drawn = np.random.default_rng(1).permutation(size)[:count]
    ranks = np.arange(size)
    # Whole columns of Z_a x Z_a: all their members have few right halves.
    halves = ranks[ranks % side < side // part]
    return {
        "contiguous": np.arange(count),
        "every 20th": np.arange(0, size, part),
        "equal right halves": halves,
        "random": drawn,
    }


def p_value(size: int, members: IntArray, rows: int, rounds: int, draws: int) -> float:
    """Return how likely row counts this uneven, this even, or this like their neighbours' are for random permutations.

    Counts are hypergeometric: x is a count less its mean over its deviation. Over rows and draws, the sum of x^2 is
    nearly a chi-square, that of each x times the next row's nearly normal with a variance of one a row, and the largest
    count obeys the union bound. The smallest of the four p-values, times five, since one has two sides.
    """
    count, sizes = len(members), size // rows + (np.arange(rows) < size % rows)
    mean = count * sizes / size
    deviation = np.sqrt(mean * (1 - sizes / size) * (size - count) / (size - 1))
    squares, neighbours, tail = 0.0, 0.0, 1.0
    for draw in range(draws):
        stream = keystream(derive_seed(SEED, "coalitions", size.to_bytes(8, "big"), draw.to_bytes(8, "big")))
        counts = np.bincount(FeistelOrder(size, stream, rounds).positions(members) % rows, minlength=rows)
        x = (counts - mean) / deviation
        squares += float(x @ x) * (rows - 1) / rows
        neighbours += float(x @ np.roll(x, 1)) + 1  # each pair has the covariance -1/(rows - 1)
        most = int(np.argmax(x))
        tail = min(tail, float(stats.hypergeom.sf(counts[most] - 1, size, count, sizes[most])))
    degrees = draws * (rows - 1)
    alike = 2 * stats.norm.sf(abs(neighbours) / sqrt(draws * rows))
    found = (stats.chi2.sf(squares, degrees), stats.chi2.cdf(squares, degrees), alike, rows * draws * tail)
    return float(min(1.0, 5 * min(found)))


def check(size: int, rows: int, draws: int) -> None:
    for name, members in coalitions(size).items():
        assert p_value(size, members, rows, ROUNDS, draws) > FALSE_ALARM, name
    worst = min(p_value(size, members, rows, 2, draws) for members in coalitions(size).values())
    assert worst < FALSE_ALARM**2


def test_ten_rounds_deal_coalitions_like_a_random_permutation_and_two_do_not() -> None:
    check(10_007, 64, 40)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "rows"), [((1 << 20) + 7, 1024), (3_000_000, 256), (4_000_037, 4096)])
def test_so_they_do_where_networks_are_used(size: int, rows: int) -> None:
    check(size, rows, 12)


@pytest.mark.slow
def test_every_round_number_from_three_on_passes_and_one_fails_at_once() -> None:
    members = coalitions(100_003)
    for rounds in range(3, 11):
        assert min(p_value(100_003, own, 256, rounds, 30) for own in members.values()) > FALSE_ALARM, rounds
    assert p_value(100_003, members["contiguous"], 256, 1, 3) < FALSE_ALARM**2
