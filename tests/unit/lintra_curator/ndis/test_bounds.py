"""Constants of the published bounds."""

import numpy as np
import pytest

from lintra_curator.ndis.bounds import log_kappa


def test_kappa_is_the_best_constant() -> None:
    loss = np.linspace(0, 40, 400_001)
    for s in (0.1, 1.0, 7.0):
        ratio = (-np.expm1(-loss)) * np.exp(-s * loss)
        assert np.log(ratio.max()) == pytest.approx(float(log_kappa(np.array([s]))[0]), abs=1e-7)
