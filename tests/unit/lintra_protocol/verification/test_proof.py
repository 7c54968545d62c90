"""Shares are expanded, checked and judged in blocks: wherever these end, and at the ends of all ranges, bytes agree."""

import numpy as np
import pytest

from lintra_protocol.verification import proof
from lintra_protocol.verification.parameters import Parameters
from lintra_protocol.verification.proof import prove
from support import source

SMALL = Parameters(5, 2, 10**12)
COUNT = 23


def test_rows_are_proven_alike_wherever_a_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(2).integers(-1000, 1000, (COUNT, 5))
    whole = prove(SMALL, rows, source("blinds"))
    for at_once in (1, 2, 5, COUNT - 1):
        monkeypatch.setattr(proof, "_NUMBERS_AT_ONCE", at_once * 4 * (SMALL.powers + 3))
        in_blocks = prove(SMALL, rows, source("blinds"))
        np.testing.assert_array_equal(in_blocks.elements, whole.elements)
        np.testing.assert_array_equal(in_blocks.words, whole.words)
