"""How many rows a sketch has if nobody says: those at which noise and sketching cost the same."""

import pytest

from lintra_analysis.kinds.coalition import most_rows
from lintra_analysis.kinds.context import MAX_SKETCH_WORDS
from lintra_analysis.kinds.osnap import balanced_rows, default_rows
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Claim

CLAIM = Claim(epsilon="2", delta="0.000001", min_clients=100_000)


@pytest.mark.parametrize("columns", [1000, 20_000, 33_000])
def test_a_default_sketch_of_many_columns_is_no_larger_than_a_task_allows(columns: int) -> None:
    rows = default_rows(CLAIM.model_copy(update={"min_clients": 10_000_000}), columns)
    assert rows * (columns + 1) <= MAX_SKETCH_WORDS
    assert rows == 3 * columns or (rows + 1) * (columns + 1) > MAX_SKETCH_WORDS


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.parametrize("servers", [0, 1, 2, 5])
def test_sketch_rows_under_server_noise_count_the_servers(neighbours: str, servers: int) -> None:
    claim = CLAIM.model_copy(update={"neighbours": neighbours})
    # Every server adds as much as is needed alone, so N of them leave an N-th of the rows that clients leave.
    alone = 100_000 * gaussian_mu(2, 1e-6) ** 2 / ((4 if neighbours == "replace-one" else 1) * 10)
    assert balanced_rows(claim, 10, servers) == pytest.approx(alone / max(servers, 1))
    assert default_rows(claim, 10, servers) == min(round(alone / max(servers, 1)), most_rows(claim, servers))
