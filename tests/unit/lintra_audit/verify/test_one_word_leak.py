"""What one server learns of a row of one word."""

import numpy as np

from lintra_audit.verify import disabled_rules
from lintra_audit.verify.one_word_leak import added, pair_in, pair_of, rows_that_fit
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.verification.checks import check_shares
from lintra_protocol.verification.fields import ROOTS
from lintra_protocol.verification.parameters import Parameters
from lintra_protocol.verification.points import check_points
from lintra_protocol.verification.proof import prove
from lintra_protocol.verification.shares import split_proven

POINTS = check_points(bytes(32))


def test_one_usable_point_says_nothing_of_a_row_and_a_second_or_a_bad_one_says_all() -> None:
    parameters, row = Parameters(1, 2, 10**8), 517
    payloads = split_proven(
        parameters, prove(parameters, np.array([[row]]), expand(bytes(32), "a")), expand(bytes(32), "b")
    )

    def opened(point: int) -> tuple[int, int]:
        first = payloads[0][0].tobytes()
        # The first server's share in plain integers is that of a last server, but for the offset.
        words = Parameters(1, 2, 10**8)
        moved = sum(words.offset * pow(point, k, disabled_rules.points.PRIMES[0]) for k in range(words.padded))
        inverse = pow(point, -1, disabled_rules.points.PRIMES[0])
        back = sum(words.offset * pow(inverse, k, disabled_rules.points.PRIMES[0]) for k in range(words.padded))
        own = pair_of(parameters, first, point)
        return added([(own[0] + moved, own[1] + back), pair_of(parameters, payloads[1][0].tobytes(), point)])

    second = check_points(bytes(31) + b"1")
    tried = range(row - 20, row + 21)
    known = added(pair_in(parameters, check_shares(parameters, j, each, POINTS).tobytes(), 0)
                  for j, each in enumerate(payloads))  # fmt: skip
    assert known == opened(POINTS[0])
    assert rows_that_fit(parameters, tried, [POINTS], [known]) == list(tried)
    assert rows_that_fit(parameters, tried, [POINTS, second], [known, opened(second[0])]) == [row]
    bad = (ROOTS[0], *POINTS[1:])
    assert rows_that_fit(parameters, tried, [bad], [opened(bad[0])]) == [row]
