"""The blocking client works without an event loop, beside a running one, and from several threads."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lintra_client import BlockingClient, ClientPolicy
from lintra_protocol.errors import InvalidRowError, PolicyRefusedError
from support import make_task, source
from support.fake_servers import IMPATIENT, NOW, Network

ROW = [0.5, -0.25, 0.125]


def blocking(network: Network, policy: ClientPolicy | None = None) -> BlockingClient:
    options = {"retries": IMPATIENT, "now": lambda: NOW, "transport": network}
    return BlockingClient(network.task.task_id, network.urls, policy=policy, ledger=None, **options)  # type: ignore[arg-type]


def client_threads() -> int:
    return sum(thread.name == "lintra-client" for thread in threading.enumerate())


def test_rows_are_sent_without_an_event_loop() -> None:
    network = Network(make_task())
    with blocking(network) as client:
        assert client.task == network.task
        receipt = client.send(ROW, random_bytes=source("client"))
        assert client.deliver(client.prepare(ROW, random_bytes=source("client"))).report_id == receipt.report_id
        assert client.send_many(np.zeros((300, 3))).sent == 300
    assert len(network.servers[0].payloads) == 301
    assert client_threads() == 0


async def test_rows_are_sent_inside_a_running_event_loop() -> None:
    network = Network(make_task())
    with blocking(network) as client:
        client.send(ROW)
    assert len(network.servers[0].payloads) == 1


def test_the_first_use_opens_the_client_and_a_forgotten_one_ends_its_thread() -> None:
    network = Network(make_task())
    client = blocking(network)
    client.send(ROW)
    assert client_threads() == 1
    del client
    assert client_threads() == 0


def test_errors_arrive_as_they_are_and_leave_the_client_usable() -> None:
    network = Network(make_task())
    with blocking(network) as client:
        with pytest.raises(InvalidRowError, match="a, b, c"):
            client.send([0, 0, 0, 0])
        client.send(ROW)
    assert len(network.servers[0].payloads) == 1


def test_a_refused_task_leaves_no_thread_behind() -> None:
    with pytest.raises(PolicyRefusedError), blocking(Network(make_task()), ClientPolicy(max_epsilon=0.1)):
        pass
    assert client_threads() == 0


def test_several_threads_share_one_client() -> None:
    network = Network(make_task())
    with blocking(network) as client, ThreadPoolExecutor(4) as pool:
        receipts = list(pool.map(client.send, [ROW] * 20))
    assert len({receipt.report_id for receipt in receipts}) == len(network.servers[0].payloads) == 20
    assert network.servers[0].requests.count("GET /v1/keys") == 1
