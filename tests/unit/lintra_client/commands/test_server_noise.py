"""A device that is asked for a row without noise is told so, and who sees it then."""

import pytest

from lintra_client.commands.task_facts import facts as facts_of
from lintra_client.task_check import ClientPolicy
from lintra_protocol.cli import describe
from support import make_task


@pytest.mark.parametrize("noise", ["clients", "servers"])
def test_a_device_is_told_who_adds_the_noise_and_what_all_servers_together_see(noise: str) -> None:
    task = make_task("sum", min_clients=12, max_corrupt_clients=2, noise=noise)
    facts, words = facts_of(task, ClientPolicy()), " ".join(describe(task))
    assert ("noise" in facts) == (noise == "servers")
    if noise == "servers":
        assert "if all servers collude they see the row" in facts["noise"]
        assert facts["max_corrupt_clients"] == "any number"
        assert "then every server adds noise" in words
        assert "any number of others corrupt; if all servers collude they see rows without noise" in words
        assert "one honest server's noise behind every released number" in words
    else:
        assert facts["max_corrupt_clients"] == "2"
        assert "then every client adds noise" in words
