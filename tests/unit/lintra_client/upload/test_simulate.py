"""Many clients in worker processes; the servers listen on loopback, since workers share no memory with the test."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import numpy as np
import pytest

from lintra_client.upload.bulk import FailedRow, SendSummary
from lintra_client.upload.simulate import _joined, simulate
from lintra_protocol.errors import BatchClosedError, InvalidRowError
from support import make_task
from support.fake_servers import Network


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    network: Network
    lock = threading.Lock()

    def do_GET(self) -> None:
        # The port says which server is meant.
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        request = httpx2.Request(
            self.command, f"http://server{self.path}", content=body, headers=dict(self.headers.items())
        )
        with self.lock:
            response = self.network.servers[self.server.index].handle(request)  # type: ignore[attr-defined]
        self.send_response(response.status_code)
        for name in ("content-type", "content-length"):
            self.send_header(name, response.headers[name])
        self.end_headers()
        self.wfile.write(response.content)

    do_POST = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def listening(network: Network) -> Iterator[dict[str, str]]:
    """Serve a network on loopback, and yield where each server is reached."""
    handler = type("Handler", (_Handler,), {"network": network})
    listeners = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for _ in network.servers]
    for index, listener in enumerate(listeners):
        listener.index = index  # type: ignore[attr-defined]
        threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield {
            url: f"http://127.0.0.1:{listener.server_port}"
            for url, listener in zip(network.urls, listeners, strict=True)
        }
    finally:
        for listener in listeners:
            listener.shutdown()
            listener.server_close()


@pytest.mark.slow
def test_two_workers_send_every_row_exactly_once() -> None:
    network = Network(make_task())
    rows = np.random.default_rng(3).uniform(-0.5, 0.5, (301, 3))
    rows[:10] = 2.0
    told: list[int] = []
    with listening(network) as addresses:
        summary = simulate(network.task.task_id, addresses, rows, workers=2, progress=told.append)
    assert (summary.sent, summary.clipped, summary.failed, summary.stopped) == (301, 10, (), None)
    assert [len(server.payloads) for server in network.servers] == [301, 301, 301]
    assert told[-1] == 301
    assert told == sorted(told)


def test_rows_of_other_columns_are_refused_before_any_worker_starts() -> None:
    network = Network(make_task())
    with listening(network) as addresses, pytest.raises(InvalidRowError, match=r"expected shape \(n, 3\)"):
        simulate(network.task.task_id, addresses, np.zeros((500, 4)), workers=2)
    assert network.nothing_left()


def test_indices_in_the_joined_summary_count_over_all_slices() -> None:
    first = SendSummary(2, 1, (FailedRow(1, BatchClosedError()),))
    second = SendSummary(0, 0, (FailedRow(0, BatchClosedError()),), BatchClosedError("closed"))
    joined = _joined([first, second], [3, 1])
    assert [row.index for row in joined.failed] == [1, 3]
    assert (joined.sent, joined.clipped, str(joined.stopped)) == (2, 1, str(second.stopped))


def test_no_workers_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="worker"):
        simulate("A" * 43, ["https://a.test", "https://b.test"], np.zeros((1, 1)), workers=0)
