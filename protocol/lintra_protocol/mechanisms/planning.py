"""How private a sketch will be whose rows overlap, before its matrix is drawn: by drawing others.

A plan is not part of any guarantee. It sets the noise, and a matrix that turns out worse than planned is not used.
"""

import numpy as np

from lintra_protocol.errors import RowUnderfilledError
from lintra_protocol.privacy.leverage import worst_leverage
from lintra_protocol.randomness import derive_seed
from lintra_protocol.transforms.osnap import BalancedOsnap

MARGIN = 1.05
"""How far above the worst simulated matrix the plan lies."""

_MOST_CLIENTS = 1 << 20
_MOST_DRAWS = 64
_WORK = 1 << 21


def planned_leverage(rows: int, sparsity: int, num_clients: int, corrupt: int, quota: int) -> float:
    """Return a leverage that a balanced sketch of a cohort will hardly exceed, against a coalition.

    The worst of up to 64 matrices (one, where they are large: then leverages hardly vary), and 5 % above it. Cohorts
    beyond 2^20 are planned for by one of 2^20 with a coalition of the same part of it, since G grows like its size.

    Args:
        rows: m.
        sparsity: s.
        num_clients: the smallest cohort.
        corrupt: t, the size of the tolerated coalition.
        quota: how many of it one row may hold.

    Raises:
        RowUnderfilledError: more than one matrix in eight is singular, or does not withstand the coalition.
    """
    size = min(num_clients, _MOST_CLIENTS)
    reports = np.arange(size)
    draws = max(1, min(_MOST_DRAWS, _WORK // (sparsity * size + rows**2)))
    found: list[float] = []
    failures: list[RowUnderfilledError] = []
    for draw in range(draws):
        seed = derive_seed(bytes(32), "planned leverage", draw.to_bytes(8, "big"))
        row_numbers, signs = BalancedOsnap(rows, size, seed, sparsity).entries(reports)
        scaled = [-(-count * size // num_clients) for count in (corrupt, quota)]
        try:
            found.append(worst_leverage(rows, row_numbers, signs, *scaled))
        except RowUnderfilledError as error:
            failures.append(error)
            if 8 * len(failures) > draws:
                raise
    return min(1.0, MARGIN * max(found) * size / num_clients)
