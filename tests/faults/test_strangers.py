"""What strangers may try: authors whose promises are worth nothing, and clients that nobody knows.

Each attack stands here twice: with its rule on it is refused and nothing is lost, with the rule off it works.
"""

from decimal import Decimal
from pathlib import Path

import pytest

from lintra_client import Policy as ClientPolicy
from lintra_protocol.errors import PolicyRefusedError
from lintra_protocol.privacy.statement import Claim
from lintra_server.settings import Policy
from support import make_task
from support.server_world import a_world, new_world, token

# --- a promise that is worth nothing --------------------------------------------------------------------------

WORTHLESS = Claim(epsilon="0.1", delta="0.99999999999999", min_clients=12)
"""Two rows are 14 deviations of this promise's noise apart: every client's row shows through."""


async def test_a_small_epsilon_beside_a_delta_near_one_is_refused_by_server_and_client(tmp_path: Path) -> None:
    world = new_world(tmp_path, "sum", claim=WORTHLESS, policy=Policy(max_epsilon=Decimal("0.1")))
    try:
        refused = await world.register(0)
        assert (refused.status_code, token(refused)) == (403, "policy_refused")
        assert "is more than 0.0001" in refused.text
    finally:
        world.close()
    with pytest.raises(PolicyRefusedError):
        ClientPolicy(max_epsilon=0.1).require(make_task("sum", claim=WORTHLESS))
    # A judge who takes every delta compares epsilon at its own all the same.
    with pytest.raises(PolicyRefusedError, match=r"epsilon is \S+ at delta 1e-06"):
        ClientPolicy(max_epsilon=0.1, max_delta=1.0).require(make_task("sum", claim=WORTHLESS))


async def test_attack_without_a_delta_of_its_own_a_judge_accepts_a_promise_that_is_worth_nothing(
    tmp_path: Path,
) -> None:
    blind = Policy(max_epsilon=Decimal("0.1"), max_delta=Decimal("0.999999999999999"), delta=Decimal(WORTHLESS.delta))
    async with a_world(tmp_path, "sum", claim=WORTHLESS, policy=blind) as world:
        assert world.task.worst_privacy().epsilon_at(1e-6) > 100
