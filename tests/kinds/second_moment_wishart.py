"""The conformance data of `second_moment_wishart`."""

import numpy as np

from lintra_protocol.encoding.documents import real
from lintra_protocol.mechanisms import WishartSecondMoment
from support.conformance import Conformance

CONFORMANCE = Conformance(
    uncalibrated=lambda small: WishartSecondMoment(row_bound=real(small.row_bound), fraction_bits=0, sigma=4),
    decoded=lambda mechanism, row, bound: np.outer(row, row),
    degree=2,
    run={"kind": "second_moment_wishart"},
    task={"min_clients": 24},
    # Wishart noise is undefined for fewer.
    clients=40,
    # One client's Wishart noise has a kurtosis of 15 at most.
    noise_limits=(0.16, 1.15),
    # Both curves tend to Gaussian ones with the ratio of `second_moment`; that against the null row is the heavier.
    null_range=(2**-0.5, 0.9),
    slow=frozenset({"run", "audit of the release", "audit of the task", "clip counter", "plan", "reading"}),
)
