"""The mechanisms that a task can name; adding one means one module and one word in this union."""

from typing import Annotated

from pydantic import Field

from lintra_protocol.mechanisms.osnap import Osnap
from lintra_protocol.mechanisms.osnap_published import OsnapPublished
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.mechanisms.ron_gauss_centred import RonGaussCentred
from lintra_protocol.mechanisms.second_moment import SecondMoment
from lintra_protocol.mechanisms.second_moment_wishart import WishartSecondMoment
from lintra_protocol.mechanisms.sum import Sum

AnyMechanism = Annotated[
    Osnap | OsnapPublished | RonGauss | RonGaussCentred | Sum | SecondMoment | WishartSecondMoment,
    Field(discriminator="kind"),
]

__all__ = [
    "AnyMechanism",
    "Osnap",
    "OsnapPublished",
    "RonGauss",
    "RonGaussCentred",
    "SecondMoment",
    "Sum",
    "WishartSecondMoment",
]
