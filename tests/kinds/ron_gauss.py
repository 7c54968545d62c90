"""The conformance data of `ron_gauss`."""

import numpy as np

from lintra_protocol.encoding.documents import real
from lintra_protocol.mechanisms import RonGauss
from support.conformance import Conformance, Member, Small, upper_triangle


def uncalibrated(small: Small) -> RonGauss:
    return RonGauss(
        row_bound=real(small.row_bound),
        fraction_bits=0,
        sigma=4,
        dimension=small.columns,
        levels=(0,) * small.columns,
        bins=(0,) * small.columns,
        mean_weight="0.6",
    )


CONFORMANCE = Conformance(
    uncalibrated=uncalibrated,
    decoded=lambda mechanism, row, bound: np.concatenate([row, upper_triangle(row)]),
    run={"kind": "ron_gauss", "bins": 4},
    # With r = 0.6 the mean counts r^2 = 0.36 as much as the products: sqrt(1 + r^2) against sqrt(2) (1 + r^2 / 2).
    row_bounds=(1,),
    members={"": Member(null_mu=1.36**0.5 / (2**0.5 * 1.18), null_tolerance=1e-3)},
    one_sigma=False,
    refuses_infinity=True,
    slow=frozenset({"run", "audit of the release"}),
)
