"""What all servers see of an honest report in its check says nothing about its row."""

import numpy as np
import pytest
from plain_verified import Sizes, polynomials
from toy_fields import best_cheat, most_survived, opened_pairs, usable_points

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.verification.checks import check_shares
from lintra_protocol.verification.fields import PRIMES, ROOTS, draw
from lintra_protocol.verification.padding import padded_rows
from lintra_protocol.verification.parameters import Parameters
from lintra_protocol.verification.points import check_points
from lintra_protocol.verification.proof import ProvenRows, proof_elements, prove
from lintra_protocol.verification.shares import split_proven
from support import source

POINTS = check_points(bytes(range(32)))
SMALL = Parameters(2, 2, 10**12)
COUNT = 4000


def opened(row: list[int], prime: int, random_bytes: RandomBytes, *, gamma: bool = True) -> list[tuple[int, int]]:
    """The sums (F, G) of reports of one row, in one field."""
    rows = np.repeat(np.array([row]), COUNT, axis=0)
    if gamma:
        proven = prove(SMALL, rows, random_bytes)
    else:
        words = padded_rows(SMALL, rows)
        blinds = draw(COUNT, 2, random_bytes)
        blinds[..., 1] = 0
        proven = ProvenRows(words, np.concatenate([blinds, proof_elements(SMALL, words, blinds)], axis=2))
    shares = split_proven(SMALL, proven, random_bytes)
    checks = [check_shares(SMALL, j, share, POINTS).view("<u8").reshape(COUNT, 4, 3) for j, share in enumerate(shares)]
    p = PRIMES[prime]
    sums = [[(int(a) + int(b)) % p for a, b in zip(*column, strict=True)]
            for column in ((checks[0][:, prime, k], checks[1][:, prime, k]) for k in (0, 1))]  # fmt: skip
    return list(zip(*sums, strict=True))


def chi_square(pairs: list[tuple[int, int]], prime: int) -> float:
    """Of 8 times 8 cells: of F, and of the one combination of F and G that no beta moves."""
    p, r = PRIMES[prime], POINTS[prime]
    at = [(pow(x, 9, p) + ROOTS[prime] * pow(x, 10, p)) % p for x in (r, pow(r, -1, p))]
    cells = np.zeros((8, 8))
    for f, g in pairs:
        cells[8 * f // p, 8 * ((f * at[1] - g * at[0]) % p) // p] += 1
    return float(((cells - COUNT / 64) ** 2 / (COUNT / 64)).sum())


# 63 degrees of freedom: above 150 with a probability of 6e-9, so eight looks are wrong once in 2e7 sets of seeds.
LIMIT = 150.0


@pytest.mark.parametrize("prime", [0, *(pytest.param(t, marks=pytest.mark.slow) for t in (1, 2, 3))])
@pytest.mark.parametrize("row", [[0, 0], [700_000, -700_000]])
def test_the_opened_sums_of_extreme_rows_are_uniform_together(row: list[int], prime: int) -> None:
    assert chi_square(opened(row, prime, source(f"opened {row} {prime}")), prime) < LIMIT


def test_with_one_blind_a_column_the_opened_sums_show_the_row() -> None:
    assert chi_square(opened([700_000, -700_000], 0, source("opened"), gamma=False), 0) > 100 * LIMIT


@pytest.mark.parametrize(
    "p", [101, pytest.param(229, marks=pytest.mark.slow), pytest.param(1009, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("powers", [1, 4])
def test_the_best_cheat_survives_exactly_2k_plus_6_of_p_minus_5_points(p: int, powers: int) -> None:
    assert len(usable_points(p)) == p - 5
    assert len(best_cheat(p, powers, seed=powers)) == 2 * powers + 6
    assert most_survived(p, powers, 20, seed=powers) <= 2 * powers + 6


@pytest.mark.parametrize("p", [101, pytest.param(229, marks=pytest.mark.slow)])
def test_opened_pairs_are_uniform_at_exactly_the_points_that_are_used(p: int) -> None:
    ones = [r for r in range(1, p) if pow(r, 4, p) == 1]
    others = usable_points(p)[:: 12 if p == 101 else 1]
    assert len(ones) == 4
    assert all(opened_pairs(p, 2, r, [1, p - 1]) < p * p for r in ones)
    assert all(opened_pairs(p, 2, r, [1, p - 1]) == p * p for r in others)


@pytest.mark.slow
def test_opened_pairs_of_the_largest_toy_field_are_uniform_at_the_points_that_are_used() -> None:
    for r in (2, 3, 500):
        assert opened_pairs(1009, 2, r, [1, 5]) == 1009**2
    assert opened_pairs(1009, 2, 1008, [1, 5]) < 1009**2


def test_no_check_share_is_computed_at_such_a_point() -> None:
    proven = prove(SMALL, np.zeros((1, 2), np.int64), source("row"))
    (share, _) = split_proven(SMALL, proven, source("shares"))
    for prime, point in ((0, ROOTS[0]), (1, 1), (2, PRIMES[2] - 1), (3, 0)):
        points = list(POINTS)
        points[prime] = point
        with pytest.raises(ValueError, match="would show the rows"):
            check_shares(SMALL, 0, share, (points[0], points[1], points[2], points[3]))


def test_at_a_point_of_fourth_power_1_the_opened_sums_show_a_column() -> None:
    # r = i: both blinds of a pair vanish in F or in G, and what is left is the column at r.
    p, r = PRIMES[0], ROOTS[0]
    shown = set()
    for blinds in ([5, 6], [1000, 77], [0, 0]):
        (f,) = polynomials(Sizes(2, 2, 100), [3, -4, 8, 3, 1, 1, 0, 0, 0], blinds, 0)
        shown.add(sum(c * pow(r, k, p) for k, c in enumerate(f)) % p)
    assert shown == {sum(a * pow(r, k, p) for k, a in enumerate([3, -4, 8, 3, 1, 1, 0, 0, 0])) % p}
