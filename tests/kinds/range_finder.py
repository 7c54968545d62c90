"""The conformance data of `range_finder`."""

from lintra_protocol.crypto.randomness import derive_seed
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.encoding.documents import real
from lintra_protocol.mechanisms import RangeFinder
from support.conformance import Conformance, Small
from support.seeds import SEED


def uncalibrated(small: Small) -> RangeFinder:
    return RangeFinder(
        row_bound=real(small.row_bound),
        fraction_bits=0,
        sigma=4,
        rank=max(1, small.columns // 2),
        omega_seed=base64url(derive_seed(SEED, "omega")),
        projected_bound=real(1.2 * small.row_bound),
    )


CONFORMANCE = Conformance(
    uncalibrated=uncalibrated,
    decoded=lambda mechanism, row, bound: row * (row @ mechanism.signs(row.size))[0],
    degree=2,
    run={"kind": "range_finder", "rank": 1},
    slow=frozenset({"run", "audit of the release"}),
)
