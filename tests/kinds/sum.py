"""The conformance data of `sum`."""

from lintra_protocol.encoding.documents import real
from lintra_protocol.mechanisms import Sum
from support.conformance import Conformance, Member

CONFORMANCE = Conformance(
    uncalibrated=lambda small: Sum(row_bound=real(small.row_bound), fraction_bits=0, sigma=4),
    decoded=lambda mechanism, row, bound: row,
    run={"kind": "sum"},
    members={
        "": Member(),
        # The null row is not counted either: B^2 + B^2/4 against 4 B^2.
        "count": Member(options=lambda _: {"count": "noisy"}, null_mu=5**0.5 / 4, null_tolerance=1e-3),
    },
    slow=frozenset(),
)
