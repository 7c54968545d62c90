"""The conformance data of `ron_gauss_centred`."""

from lintra_protocol.encoding.documents import real
from lintra_protocol.mechanisms import RonGaussCentred
from support.conformance import Conformance, Member, Small, upper_triangle


def uncalibrated(small: Small) -> RonGaussCentred:
    return RonGaussCentred(
        row_bound=real(small.row_bound),
        fraction_bits=0,
        sigma=4,
        dimension=small.columns,
        levels=(0,) * small.columns,
        after="A" * 43,
        centers=((0,) * small.columns,),
    )


CONFORMANCE = Conformance(
    uncalibrated=uncalibrated,
    decoded=lambda mechanism, row, bound: upper_triangle(row),
    run={"kind": "ron_gauss", "bins": 0, "rounds": 2},
    task={"epsilon": 10},
    row_bounds=(1,),
    members={"": Member(null_mu=2**-0.5)},
    second_round=True,
    refuses_infinity=True,
)
