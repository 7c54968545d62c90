"""The mechanisms that a task can name; adding one means one module and one word in the list below."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.histogram import Histogram
from lintra_protocol.mechanisms.histogram_laplace import HistogramLaplace
from lintra_protocol.mechanisms.newton_step import NewtonStep
from lintra_protocol.mechanisms.osnap import Osnap
from lintra_protocol.mechanisms.osnap_published import OsnapPublished
from lintra_protocol.mechanisms.range_finder import RangeFinder
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.mechanisms.ron_gauss_centred import RonGaussCentred
from lintra_protocol.mechanisms.second_moment import SecondMoment
from lintra_protocol.mechanisms.second_moment_wishart import WishartSecondMoment
from lintra_protocol.mechanisms.sum import Sum
from lintra_protocol.mechanisms.sum_laplace import SumLaplace

MECHANISMS: dict[str, type[Mechanism]] = {
    member.model_fields["kind"].default: member
    for member in (
        Histogram,
        HistogramLaplace,
        NewtonStep,
        Osnap,
        OsnapPublished,
        RangeFinder,
        RonGauss,
        RonGaussCentred,
        Sum,
        SumLaplace,
        SecondMoment,
        WishartSecondMoment,
    )
}
"""By kind. Whoever reads a document looks a mechanism up here, and nowhere is it asked which class one is."""


@dataclass(frozen=True)
class _ByKind:
    """Validates a mechanism as the member of `MECHANISMS` that its field `kind` names."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        # A model takes the table as it is when the model is built: a task read later knows no later member.
        members = {kind: handler.generate_schema(member) for kind, member in MECHANISMS.items()}
        return core_schema.tagged_union_schema(members, discriminator="kind")


AnyMechanism = Annotated[Mechanism, _ByKind()]
"""Any member of `MECHANISMS`."""

__all__ = [
    "MECHANISMS",
    "AnyMechanism",
    "Histogram",
    "HistogramLaplace",
    "Mechanism",
    "NewtonStep",
    "Osnap",
    "OsnapPublished",
    "RangeFinder",
    "RonGauss",
    "RonGaussCentred",
    "SecondMoment",
    "Sum",
    "SumLaplace",
    "WishartSecondMoment",
]
