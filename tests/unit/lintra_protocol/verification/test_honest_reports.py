"""Honest reports always pass: the bound is one that noise hardly ever exceeds, and a row that does is noised again."""

import math

import numpy as np
import pytest

from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.noise.discrete_gaussian import discrete_gaussian
from support import make_task, source
from support.measured import measurement_of, reports_without_noise


def random_rows(count: int, seed: int, bound: float = 3.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-bound, bound, (count, 3))


def squared_bound_of(mechanism: Mechanism) -> int:
    longest = measurement_of(mechanism).squared_length
    assert longest is not None
    return longest


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("sum", {}),
        ("sum", {"clip_count_weight": "0.3"}),
        ("sum", {"count": "noisy"}),
        ("osnap", {"clip_count_weight": "0.3"}),
        ("second_moment", {}),
        ("second_moment", {"intercept": "0.5", "trace": True}),
        ("second_moment", {"intercept": "0.5", "trace": True, "count": "noisy", "clip_count_weight": "0.3"}),
        ("histogram", {}),
        ("range_finder", {}),
        ("range_finder", {"trace": True, "intercept": "0.5", "clip_count_weight": "0.3"}),
    ],
)
def test_no_noiseless_report_is_longer_than_its_mechanism_says_and_some_are_nearly_as_long(
    kind: str, options: dict[str, object]
) -> None:
    mechanism = make_task(kind).mechanism.model_copy(update=options)
    rows = np.concatenate([random_rows(300, 1), 5 * np.eye(3), [[np.nan, 1, 1]]])
    exact = reports_without_noise(mechanism, rows, np.ones(len(rows), np.bool_))
    longest = max(sum(word**2 for word in row) for row in exact.tolist())
    assert longest <= squared_bound_of(mechanism)
    # The projection of a range finder is clipped apart from the row: both are longest in few rows only.
    assert longest > (0.3 if kind == "range_finder" else 0.9) * squared_bound_of(mechanism)


def tail_bound(longest: int, variances: IntArray, t: float) -> float:
    """What a squared norm exceeds with probability e^-t at most."""
    largest = int(variances.max())
    under_root = float((variances.astype(float) ** 2).sum()) + 2 * largest * longest
    return longest + float(variances.sum()) + 2 * math.sqrt(t * under_root) + 2 * t * largest


@pytest.mark.parametrize("t", [math.log(2), math.log(10), math.log(100)])
@pytest.mark.parametrize("length", [0, 3000])
def test_noised_rows_exceed_the_tails_at_most_as_often_as_proven(t: float, length: int) -> None:
    count, sigmas = 20_000, np.array([300, 300, 424])
    row = np.array([0, 0, length])  # along the widest noise
    noise = np.stack([discrete_gaussian(count, int(s), source(f"noise {k}")) for k, s in enumerate(sigmas)], axis=1)
    squares = np.square(row + noise).sum(axis=1)
    exceeded = float((squares > tail_bound(length**2, sigmas**2, t)).mean())
    # Six deviations of a fraction: a false alarm once in 10^9.
    assert exceeded <= math.exp(-t) + 6 * math.sqrt(math.exp(-t) / count)
    # Without the row in the deviation, rows far out exceed what would then be promised.
    if length and t > 1:
        careless = length**2 + (sigmas**2).sum() + 2 * math.sqrt(t * (sigmas.astype(float) ** 4).sum())
        assert (squares > careless + 2 * t * 424**2).mean() > math.exp(-t) + 6 * math.sqrt(math.exp(-t) / count)
