"""How private a sketch will be whose rows overlap, before its matrix is drawn: by drawing others.

A plan is not part of any guarantee. It sets the noise, and a matrix that turns out worse than planned is not used.
"""

from functools import lru_cache

import numpy as np

from lintra_protocol.crypto.randomness import derive_seed
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import RowUnderfilledError
from lintra_protocol.privacy.coalition import static_quota
from lintra_protocol.privacy.leverage import LeverageBounds
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.transforms.osnap import BalancedOsnap

MARGIN = 1.05
"""How far above the worst simulated matrix the plan lies."""

_MOST_CLIENTS = 1 << 20
_MOST_DRAWS = 64
_WORK = 1 << 21


def block_quota(claim: Claim, rows: int, sparsity: int, matrices: int) -> int:
    """Return how many corrupt clients one row of a balanced sketch must be assumed to hold.

    `delta_coalition` is shared among the s blocks of rows, and among the matrices that may have to be drawn
    (docs/proofs/sketch.md#coalitions). `rows` are m; `sparsity` is s. `matrices` says how many may be drawn until
    one passes.
    """
    if sparsity == 1:
        return claim.quota(rows)
    allowance = float(fraction(claim.delta_coalition)) / (sparsity * matrices)
    corrupt, clients = claim.max_corrupt_clients, claim.min_clients
    if claim.threat == "adaptive" or allowance == 0 or sparsity > rows:
        return corrupt
    blocks = {rows // sparsity, -(-rows // sparsity)}
    return max(static_quota(corrupt, block, allowance, balanced=True, min_clients=clients) for block in blocks)


def planned_leverage(rows: int, sparsity: int, num_clients: int, corrupt: int, quota: int) -> float:
    """Return a leverage that a balanced sketch of a cohort will hardly exceed, against a coalition.

    The worst of up to 64 matrices (one, where they are large: then leverages hardly vary), and 5 % above it. Cohorts
    beyond 2^20 are planned for by one of 2^20 with a coalition of the same part of it, since G grows like its size.
    `rows` are m; `sparsity` is s. `num_clients` is the smallest cohort; `corrupt` is t, the size of the tolerated
    coalition. `quota` says how many of it one row may hold.
    """
    size = min(num_clients, _MOST_CLIENTS)
    draws = max(1, min(_MOST_DRAWS, _WORK // (sparsity * size + rows**2)))
    found: list[float] = []
    failures: list[RowUnderfilledError] = []
    for draw in range(draws):
        scaled = [-(-count * size // num_clients) for count in (corrupt, quota)]
        try:
            found.append(_simulated(rows, size, sparsity, draw).against(*scaled))
        except RowUnderfilledError as error:
            failures.append(error)
            if 8 * len(failures) > draws:
                raise
    return min(1.0, MARGIN * max(found) * size / num_clients)


@lru_cache(maxsize=4 * _MOST_DRAWS)
def _simulated(rows: int, size: int, sparsity: int, draw: int) -> LeverageBounds:
    """Return what a simulated sketch says; several coalitions are planned against the same ones."""
    seed = derive_seed(bytes(32), "planned leverage", draw.to_bytes(8, "big"))
    return LeverageBounds.of(rows, *BalancedOsnap(rows, size, seed, sparsity).entries(np.arange(size)))
