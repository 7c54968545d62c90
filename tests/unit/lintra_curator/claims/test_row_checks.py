"""Rows of a curator: those inside the ball pass as they are."""

import numpy as np
import pytest

from lintra_curator.claims.row_checks import bounded_rows


def test_a_row_on_the_sphere_passes_unclipped() -> None:
    row = np.array([[0.6, 0.8]])
    assert bounded_rows(row, 1.0, clip=False) == pytest.approx(row, rel=1e-12)
    assert np.linalg.norm(bounded_rows(1e300 * row, 1.0)) == pytest.approx(1.0)
