"""What each rule of verified reports is for: with the rule a lie is found, without it the attack works.

The lies themselves stand in the vectors; here the plain reference takes a rule away.
"""

import numpy as np
import plain_verified as plain
import pytest
from cases_verified import BLINDS, SMALL, lies, shared, squares_of

from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.rules.release import draw_matrix
from support import make_task, nonce

POINTS = plain.points(bytes(range(32)))
PRIMES = list(plain.PRIMES)
OVER = 10**9
"""By how much a liar's squared norm exceeds the bound."""


def verdict(shares: list[plain.Share], sizes: plain.Sizes = SMALL, points: list[int] = POINTS, **off: range) -> bool:
    checks = [plain.check_share(sizes, server, share, points) for server, share in enumerate(shares)]
    return plain.passes(sizes, checks, **off)


def test_two_primes_alone_would_let_their_product_pass() -> None:
    lie = lies()["the bound and the product of two primes"]
    assert verdict(lie, primes=range(2))
    assert not verdict(lie, primes=range(3))
    assert not verdict(lie)


def test_the_low_bits_alone_would_let_a_square_of_2_to_the_64_pass() -> None:
    words = [2**32, 0, *squares_of(100, 7)]
    assert sum(word**2 for word in words) % 2**64 == 100
    assert not verdict(shared(words))


def test_without_i_blinds_make_up_for_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    words = squares_of(100 + OVER, 9)
    blinds = []
    for p, i in zip(plain.PRIMES, plain.ROOTS, strict=True):
        # beta^2 + gamma^2 = (beta + i gamma)(beta - i gamma) is whatever the liar lacks: -OVER times 1.
        half, lacks = pow(2, -1, p), -OVER % p
        blinds.append([(lacks + 1) * half % p, (lacks - 1) * half * pow(i, -1, p) % p])
    assert not verdict(shared(words, blinds=blinds))
    monkeypatch.setattr(plain, "ROOTS", [0, 0, 0, 0])
    assert verdict(shared(words, blinds=blinds))


def test_without_a_bound_on_words_the_product_of_all_primes_passes() -> None:
    product = PRIMES[0] * PRIMES[1] * PRIMES[2] * PRIMES[3]
    lie = shared(squares_of(100 + product, 9))
    assert verdict(lie)
    assert not all(plain.well_formed(SMALL, server, share) for server, share in enumerate(lie))
    # Three primes' product does not fit either: no word below 2^80 is long enough, nor are nine of them.
    assert PRIMES[1] * PRIMES[2] * PRIMES[3] > 9 * 2**160


def test_two_check_points_show_a_short_row() -> None:
    sizes, row = plain.Sizes(1, 2, 10**6), 517
    p, i = PRIMES[0], plain.ROOTS[0]

    def opened(candidate: int, blinds: list[int], r: int) -> list[int]:
        a = [candidate, *plain.padding([candidate], sizes.bound)]
        (f,) = plain.polynomials(sizes, a, blinds, 0)
        return [sum(c * pow(x, k, p) for k, c in enumerate(f)) % p for x in (r, pow(r, -1, p))]

    def consistent(points: list[int]) -> list[int]:
        seen = [opened(row, BLINDS[0], r) for r in points]
        found = []
        for candidate in range(500, 530):
            # From what the first point shows follow the blinds that this candidate would have had.
            r = points[0]
            (m11, m12), (m21, m22) = [
                [(pow(x, k, p) + i * pow(x, k + 1, p)) % p for k in (sizes.powers, sizes.powers + 2)]
                for x in (r, pow(r, -1, p))
            ]
            lacks = [(a - b) % p for a, b in zip(seen[0], opened(candidate, [0, 0], r), strict=True)]
            inverse = pow(m11 * m22 - m12 * m21, -1, p)
            blinds = [(m22 * lacks[0] - m12 * lacks[1]) * inverse % p, (m11 * lacks[1] - m21 * lacks[0]) * inverse % p]
            if [opened(candidate, blinds, r) for r in points] == seen:
                found.append(candidate)
        return found

    assert consistent([12345]) == list(range(500, 530))
    assert consistent([12345, 67890]) == [row]


def test_a_matrix_drawn_before_the_verdict_lets_a_lying_server_isolate_a_victim() -> None:
    task = make_task("osnap", rows=12, min_clients=96, verification="norm", max_rejected="0.1", num_servers=2)
    cohort = ReportIds.of(bytes([number]) * 32 for number in range(120))
    first, second = [nonce(0), nonce(1)], [nonce(2), nonce(3)]

    def rows_of(ids: ReportIds, nonces: list[bytes]) -> np.ndarray:
        matrix = draw_matrix(task, 0, ids.root, nonces, len(ids)).matrix
        return matrix.entries(np.arange(len(ids)))[0][:, 0]

    # Whoever knows the matrix at the verdict makes all others in the victim's row fail, as many as the task allows.
    known = rows_of(cohort, first)
    beside = np.flatnonzero(known == known[0])
    others = np.setdiff1d(beside, [0])
    assert len(others) <= 120 - task.least_accepted(120)
    left = np.setdiff1d(np.arange(120), others)
    assert (known[left] == known[0]).sum() == 1
    # Drawn from the accepted reports and from nonces that nobody knew then, the victim's row is as full as any other.
    ids = list(cohort)
    drawn = rows_of(ReportIds.of(ids[place] for place in left), second)
    assert np.bincount(drawn, minlength=12).min() == len(left) // 12
