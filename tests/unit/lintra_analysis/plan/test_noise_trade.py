"""Whose noise: a plan says what it would be to leave it to the servers, and plans for it when it is asked to."""

import json
import math
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from lintra_analysis.commands.plan import app
from lintra_analysis.plan.baselines import sensitivity
from lintra_analysis.plan.flags import PlanFlags
from lintra_analysis.plan.noise_trade import trade_of
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.privacy.gaussian import gaussian_mu

CLIENTS = 10_000


def question(**changes: object) -> PlanFlags:
    plain = PlanFlags(
        noise="clients",
        columns=4,
        clients=CLIENTS,
        delta="0.000001",
        corrupt=100,
        delta_coalition="0",
        rows=20,
        clip_count_weight="0",
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "number"), [("sum", "sum"), ("second_moment", "product"), ("osnap", "entry")])
@pytest.mark.parametrize("servers", [2, 3])
def test_servers_noise_has_n_times_a_curators_variance_and_clients_has_n_over_n_less_t(
    kind: str, number: str, servers: int
) -> None:
    asked = question(num_servers=servers)
    context, noised = asked.context(kind), replace(asked, noise="servers")
    by_clients, by_servers = asked.planned(kind), noised.planned(kind)
    distance = sensitivity(context) if kind != "second_moment" else 1.0  # R = B^2 for products
    curator = distance / gaussian_mu(1.0, 1e-6)
    trade = trade_of(context, by_clients)
    assert trade is not None
    assert trade.servers == servers
    assert by_servers.deviations[number] ** 2 == pytest.approx(servers * curator**2, rel=2e-3)
    assert by_clients.deviations[number] ** 2 == pytest.approx(trade.clients * curator**2, rel=2e-3)
    assert by_servers.leverage == 1
    again = trade_of(noised.context(kind), by_servers)
    assert again is not None
    assert again.servers == trade.servers
    assert again.clients <= trade.clients


def test_a_sum_of_many_entries_costs_no_more_and_a_coalition_nothing() -> None:
    asked = replace(question(noise="servers"), sparsity=4)
    four, one = asked.planned("osnap"), question(noise="servers").planned("osnap")
    assert four.deviations["entry"] == pytest.approx(one.deviations["entry"], rel=1e-3)
    assert four.sigma == pytest.approx(2 * one.sigma, rel=1e-3)
    assert len(set(four.if_colluding.values())) == 1


def test_a_hostile_client_of_a_verified_task_counts_as_one_row() -> None:
    by_clients, by_servers = (question(noise=who).planned("osnap") for who in ("clients", "servers"))
    assert by_clients.verified is not None
    assert by_servers.verified is not None
    assert by_servers.verified.influence == 1
    assert by_clients.verified.influence > 4
    assert by_servers.verified.price < by_clients.verified.price


@pytest.mark.parametrize("kind", ["range_finder", "ron_gauss", "second_moment_wishart"])
def test_kinds_that_servers_cannot_noise_are_not_planned_for_them(kind: str) -> None:
    with pytest.raises(InvalidTaskError, match="servers add it to sum, osnap, second_moment or histogram"):
        question(noise="servers").planned(kind)


def test_the_command_plans_for_servers_and_says_what_it_gives_and_costs() -> None:
    run = CliRunner()
    options = ["--clients", str(CLIENTS), "--columns", "4", "--rows", "20", "--noise", "servers"]
    shown = run.invoke(app, options)
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.output.split())
    assert "One server's noise" in text
    assert "Noise by servers: 3 times, however many are" in text
    assert "if all servers collude they see rows" in text
    found = json.loads(run.invoke(app, [*options, "--json"]).output)
    assert found["noise"]["by_servers"] == 3
    assert 1 < found["noise"]["by_clients"] < math.inf
    assert found["question"]["noise"] == "servers"
