"""The conformance data of `osnap_published`."""

import numpy as np

from lintra_protocol.encoding.documents import real
from lintra_protocol.mechanisms import OsnapPublished
from support.conformance import Conformance, Member, Small


def uncalibrated(small: Small) -> OsnapPublished:
    return OsnapPublished(
        entry_bound=real(small.row_bound), fraction_bits=0, sigma=4, rows=small.rows, sparsity=small.sparsity
    )


CONFORMANCE = Conformance(
    uncalibrated=uncalibrated,
    decoded=lambda mechanism, row, bound: np.abs(row) / mechanism.sparsity**0.5,
    run={"kind": "osnap_published", "rows": 2, "entry_bound": 1, "published_epsilon": 4},
    task={"row_bound": None, "delta": 0.0001, "epsilon": 50, "min_clients": 200, "max_corrupt_clients": 0},
    is_tight=False,
    members={"": Member(), "s=2": Member(4, 2)},
    # The published calibration is undefined for fewer.
    clients=260,
    run_clients=200,
    squared_length=lambda mechanism, largest, num_words: num_words * largest**2,
    slow=frozenset({"audit of the release"}),
)
