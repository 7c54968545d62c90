"""A second reader of two layers: attacks with noise that is really drawn reach what T2 says, and no more.

Everybody but one client is invented, so that whoever attacks subtracts all else, and is left with that client's reports
and the floor of one honest server. Theorems are written out here, from docs/proofs/servers.md#two-layers.
"""

import math

import numpy as np
import pytest

from lintra_protocol.mechanisms import Osnap
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.privacy.windows import repeated
from support import source

ROWS, REPORTS, DRAWS = 6, 4, 3000
FOUR_DEVIATIONS = 4 / math.sqrt(2 * 3 * DRAWS)
"""Of the estimate of a deviation from three words a draw: false alarms are below 1e-4."""

pytestmark = pytest.mark.slow


def two_layers(sparsity: int, *, merges: bool) -> Measurement:
    plain = Osnap(row_bound="1", fraction_bits=0, sigma=8, rows=ROWS, sparsity=sparsity, clip_count_weight="0")
    claim = Claim(epsilon="1", delta="0.00001", neighbours="replace-one", min_clients=200, max_corrupt_clients=12,
                  threat="adaptive", epsilon_alone="3")  # fmt: skip
    return Measurement(plain, 3, Setting(floor_servers=3, merges=merges), claim).calibrated(2000)


def seen(asked: Measurement, sparsity: int, merged: int, part_of_floor: float = 1.0) -> float:
    """Return mu of the attack on one release with `merged` reports of the victim, all in the same rows."""
    random_bytes, words = source(f"second reader {sparsity} {merged}"), asked.layout.num_words
    floor = round(asked.mechanism.floor * part_of_floor)
    measured = asked.changed(floor=floor)
    column = np.zeros(ROWS, np.int64)
    column[:sparsity] = (1, -1, 1)[:sparsity]
    found = np.empty((DRAWS, words))
    for draw in range(DRAWS):
        share = np.zeros((ROWS, words), np.uint64)
        measured.add_server_noise(share, random_bytes)
        own = measured.noise(merged, random_bytes).sum(axis=0)
        found[draw] = column @ (share.view(np.int64) + np.outer(column, own)) / sparsity
    shift = merged * math.sqrt(float(asked.squared_distance))
    return shift / float(np.sqrt(np.mean(found**2)))


@pytest.mark.parametrize("merged", [1, 2])
@pytest.mark.parametrize("sparsity", [1, 2, 3])
def test_the_best_attack_on_one_client_alone_reaches_the_theorem_and_no_more(sparsity: int, merged: int) -> None:
    asked = two_layers(sparsity, merges=merged > 1)
    distance, v = math.sqrt(float(asked.squared_distance)), float(asked.mechanism.floor) ** 2
    own = float(asked.mechanism.sigma) ** 2
    counted = (v - 4) / sparsity + (own if merged == 1 else 0.0)
    bound = merged * distance / math.sqrt(counted)
    measured = seen(asked, sparsity, merged)
    assert measured <= bound * (1 + FOUR_DEVIATIONS)
    # What the attack really meets: own noise counts in each of the merged reports, once.
    true = merged * distance / math.sqrt(v / sparsity + merged * own)
    assert measured == pytest.approx(true, rel=FOUR_DEVIATIONS)
    # A server that draws three quarters of its floor is found out; where reports are merged the bound has room for it.
    assert seen(asked, sparsity, merged, 0.75) > (bound if merged == 1 else true) * (1 + FOUR_DEVIATIONS)
    # All that a source may send: k reports, or k / M merged releases of M reports each.
    one = asked.alone()
    assert one is not None
    together = repeated(one, REPORTS, merged)
    assert together.mu == pytest.approx(bound / merged * math.sqrt(merged * REPORTS), rel=1e-6)
    assert together.mu >= bound * math.sqrt(REPORTS / merged) * (1 - 1e-9)
