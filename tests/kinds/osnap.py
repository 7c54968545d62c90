"""The conformance data of `osnap`."""

import numpy as np

from lintra_protocol.encoding.documents import real
from lintra_protocol.mechanisms import Osnap
from support.conformance import Conformance, Member, Small


def uncalibrated(small: Small) -> Osnap:
    return Osnap(row_bound=real(small.row_bound), fraction_bits=0, sigma=4, rows=small.rows, sparsity=small.sparsity)


CONFORMANCE = Conformance(
    uncalibrated=uncalibrated,
    decoded=lambda mechanism, row, bound: np.abs(row) / mechanism.sparsity**0.5,
    run={"kind": "osnap", "rows": 4},
    members={"": Member(), "s=2": Member(4, 2), "s=4": Member(8, 4)},
)
