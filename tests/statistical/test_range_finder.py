"""What a release of a range finder holds is the product that the design says, with the noise that is planned."""

import math

import numpy as np
import pytest

from lintra_analysis.plan.flags import PlanFlags
from lintra_protocol.mechanisms.range_finder import RangeFinder
from lintra_protocol.privacy.gaussian import gaussian_mu
from support import source
from support.measured import encode_rows, measurement_of

CLIENTS, COLUMNS, BLOCK = 4000, 128, 200


@pytest.mark.slow
def test_a_released_word_has_the_planned_deviation_around_the_sum_of_clipped_products() -> None:
    # 8192 words: the measured deviation has a deviation of .8 % itself.
    flags = PlanFlags(columns=COLUMNS, clients=CLIENTS, delta="0.000001", corrupt=0, clip_count_weight="0")
    option = flags.planned("range_finder")
    mechanism = option.mechanism
    assert isinstance(mechanism, RangeFinder)
    rng, random_bytes = np.random.default_rng(1), source("range finder")
    rows = rng.normal(size=(CLIENTS, COLUMNS)) * np.arange(1, COLUMNS + 1) ** -0.5
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    total = sum(
        encode_rows(mechanism, rows[start : start + BLOCK], random_bytes).sum(axis=0)
        for start in range(0, CLIENTS, BLOCK)
    )
    released = mechanism.unpack(measurement_of(mechanism, COLUMNS).decode(np.array([total]))).projected
    bound, projection = float(mechanism.projected_bound), mechanism.signs(COLUMNS) / math.sqrt(mechanism.rank)
    seen = rows @ projection
    seen *= np.minimum(1.0, bound / np.linalg.norm(seen, axis=1))[:, np.newaxis]
    measured = float((released - rows.T @ seen).std())
    planned = option.deviations["projected product"]
    assert measured == pytest.approx(planned, rel=0.02)
    assert measured != pytest.approx(1.05 * planned, rel=0.02)
    # As the theory has it: 2 B C / mu, and not the root of two that a forgotten factor would make of it.
    assert planned == pytest.approx(2 * bound / gaussian_mu(1.0, 1e-6), rel=1e-4)
