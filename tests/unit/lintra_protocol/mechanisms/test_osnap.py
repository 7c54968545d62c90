"""The sketch as a mechanism."""

import numpy as np
import pytest

from lintra_protocol.errors import UnsupportedFeatureError
from lintra_protocol.mechanisms import Osnap, Sum
from lintra_protocol.privacy.statement import Claim

CLAIM = Claim(epsilon="1", delta="0.000001", min_clients=64)


def test_balance_makes_a_row_cost_what_its_share_of_the_clients_would() -> None:
    sketch = Osnap(row_bound="1", fraction_bits=10, sigma=1000, rows=8)
    total = Sum(row_bound="1", fraction_bits=10, sigma=1000)
    assert sketch.privacy(CLAIM, 5, 64).mu == total.privacy(CLAIM, 5, 8).mu


def test_a_static_coalition_costs_less_than_an_adaptive_one() -> None:
    sketch = Osnap(row_bound="1", fraction_bits=10, sigma=1000, rows=8)
    corrupt = {"max_corrupt_clients": 100, "min_clients": 8000}
    static = CLAIM.model_copy(update=corrupt | {"delta_coalition": "0.0000001"})
    adaptive = static.model_copy(update={"threat": "adaptive"})
    assert sketch.privacy(static, 5, 8000).honest_clients > sketch.privacy(adaptive, 5, 8000).honest_clients == 900


def test_more_than_one_entry_in_a_column_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError):
        Osnap(row_bound="1", fraction_bits=10, sigma=1000, rows=8, sparsity=2).privacy(CLAIM, 5, 64)


def test_decoding_keeps_rows_and_columns() -> None:
    sketch = np.array([[4, -8], [0, 1]])
    decoded = Osnap(row_bound="1", fraction_bits=2, sigma=4, rows=2).decode(sketch, 2)
    np.testing.assert_array_equal(decoded, [[1.0, -2.0], [0.0, 0.25]])
