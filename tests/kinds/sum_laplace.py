"""The conformance data of `sum_laplace`."""

from lintra_protocol.encoding.documents import real
from lintra_protocol.mechanisms import SumLaplace
from support.conformance import Conformance, Member, Reference

CONFORMANCE = Conformance(
    uncalibrated=lambda small: SumLaplace(row_bound=real(small.row_bound), fraction_bits=0, sigma=4),
    decoded=lambda mechanism, row, bound: row,
    run={"kind": "sum_laplace"},
    members={
        # Half of epsilon is a little more than half of mu.
        "": Member(null_mu=0.506, null_tolerance=2e-3),
        # The null row is not counted either: three words of R and of R/2 against two rows in the ball.
        "count": Member(options=lambda _: {"count": "noisy"}, null_mu=0.565, null_tolerance=1e-2),
    },
    reference=Reference(
        {"kind": "sum_laplace", "row_bound": "1", "fraction_bits": 10, "sigma": 2896, "shares": 8},
        num_words=2,
        decode=lambda words, columns: [((word ^ 2**63) - 2**63) / 2**10 for word in words[0]],
    ),
    noise_limits=(0.75, 3),
    noise_shared=True,
    slow=frozenset(),
)
