"""Compares noise of the servers with noise of the clients.

Clients' noise has n / (n - t) times the variance of a trusted curator's; that at most t clients are corrupt is an
assumption which nobody checks. Servers' noise has N times that variance, for any clients
(docs/explanation/servers-noise.md#noise-by-the-servers).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.planned import PlannedMechanism
from lintra_protocol.errors import LintraError
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.collusion import half_of
from lintra_protocol.mechanisms.setting import Setting


@dataclass(frozen=True)
class Trade:
    """The noise of clients against the noise of servers, for one mechanism.

    Attributes:
        clients: variance of the noise over that of a trusted curator, where clients add it; infinite where the
            coalition leaves no honest client behind some row.
        servers: the same where servers add it: N.
        corrupt: clients that are tolerated in the first case; in the second any number is.
        influence: how far one hostile client of a verified task may move a sum, in lengths of the longest report, where
            clients add the noise; where servers do it is 1. None where reports are not verified.
    """

    clients: float
    servers: int
    corrupt: int
    influence: float | None

    @property
    def document(self) -> dict[str, float | None]:
        """Return both factors as JSON holds them: None where no noise of clients is enough."""
        return {"by_clients": self.clients if self.clients < math.inf else None, "by_servers": self.servers}

    @property
    def words(self) -> str:
        """Return the same in a sentence."""
        first = f"{self.clients:.3g} times a curator's variance" if self.clients < math.inf else "no noise is enough"
        moved = ""
        if self.influence is not None:
            moved = f", and a verified client counts as 1 instead of {self.influence:.3g} of the longest rows"
        return (
            f"Noise by clients: {first}, if at most {self.corrupt:,} of them are corrupt. Noise by servers: "
            f"{self.servers} times, however many are{moved}; if all servers collude they see rows"
        )


def trade_of(context: CalibrationContext[Any], planned: PlannedMechanism) -> Trade | None:
    """Return the trade of a mechanism, whichever of both it was planned for; None if servers cannot add its noise."""
    mechanism, claim = planned.mechanism, context.claim
    if "server noise" not in mechanism.allows or context.first is not None:
        return None
    verified = planned.verified if context.noise != "servers" else None
    return Trade(
        clients=_over_a_curator(mechanism, context),
        servers=context.num_servers,
        corrupt=claim.max_corrupt_clients,
        influence=None if verified is None else verified.influence,
    )


def _over_a_curator(mechanism: Mechanism, context: CalibrationContext[Any]) -> float:
    """Return how many clients stand in the emptiest row, corrupt ones too, over those whose noise counts there.

    A claim for noise by servers keeps nothing of delta for a crowded row; the clients' would keep half of it.
    """
    claim = context.claim
    if context.noise == "servers" and mechanism.num_rows > 1 and claim.threat == "static":
        claim = claim.model_copy(update={"delta_coalition": half_of(claim.delta)})
    alone = claim.model_copy(update={"max_corrupt_clients": 0})
    try:
        measured = replace(context.measured(mechanism), setting=Setting(context.contributors))
        honest, everybody = (replace(measured, claim=each).emptiest_row(claim.min_clients) for each in (claim, alone))
    except LintraError:
        return math.inf
    return everybody / honest if honest > 0 else math.inf
