"""The reverse proxy that deploy/ ships, run for real before a server and attacked.

It runs where nginx is installed; the container image brings its own.
"""

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path

import httpx2
import pytest
from services import free_ports

from lintra_protocol.errors import MessageTooLargeError, OverloadedError, UnavailableError
from lintra_protocol.http.requests import media_type, sign_request
from support.checked_world import LEAST, VERDICT, check_shares, framed, verified
from support.raw_connections import SECONDS, Attacker, listening, until_closed, upload_head
from support.server_world import ANALYZER, START, World, a_world, url

CONFIG = Path(__file__).parents[2] / "deploy/proxy/nginx.conf"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed on this machine; with it, this test attacks it"),
]


@contextmanager
def proxied(folder: Path, backend: int, *changes: tuple[str, str]) -> Iterator[int]:
    """Start the proxy with the shipped configuration, on free ports and with shorter times, and give its port."""
    (port,) = free_ports(1)
    text = CONFIG.read_text("utf-8")
    for before, after in (
        ("backend:8101", f"127.0.0.1:{backend}"),
        ("listen 8101", f"listen 127.0.0.1:{port}"),
        *changes,
    ):
        assert before in text
        text = text.replace(before, after)
    path = folder / "nginx.conf"
    path.write_text(text, "utf-8")
    command = [str(NGINX), "-p", str(folder), "-c", str(path), "-g", "daemon off;"]
    with subprocess.Popen(command) as process:
        try:
            deadline = time.monotonic() + SECONDS
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert process.poll() is None
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
            yield port
        finally:
            process.terminate()
            process.wait(SECONDS)


async def uploaded(world: World, port: int, label: str, **headers: str) -> httpx2.Response:
    body = await world.body(0, world.reports(1, label))
    url = f"http://127.0.0.1:{port}/v1/tasks/{world.task.task_id}/reports"
    async with httpx2.AsyncClient(timeout=SECONDS) as http:
        return await http.post(url, content=body, headers={"content-type": media_type("reports"), **headers})


async def test_reports_pass_and_half_a_body_reaches_nobody(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world, listening(world.apps[0]) as backend:
        with proxied(tmp_path, backend) as port:
            assert (await uploaded(world, port, "one")).status_code == 200
            body = await world.body(0, world.reports(1, "two"))
            async with Attacker(port) as attacker:
                await attacker.connect(upload_head(world.task.task_id, len(body)) + body[:-1])
            assert (await uploaded(world, port, "three")).status_code == 200
            assert len(world.apps[0].node.store.report_ids(1)) == 2


@pytest.mark.parametrize("rule", [True, False], ids=["deadline", "no deadline"])
async def test_silent_connections_are_closed_in_time(tmp_path: Path, rule: bool) -> None:
    limit = ("client_header_timeout 10s", f"client_header_timeout {'1s' if rule else '3600s'}")
    # So few that the attack is small; the shipped number is 4096 for each worker.
    fewer = ("worker_connections 4096", "worker_connections 64"), ("worker_processes 2", "worker_processes 1")
    async with a_world(tmp_path) as world, listening(world.apps[0]) as backend:
        with proxied(tmp_path, backend, limit, *fewer) as port:
            async with Attacker(port) as attacker:
                silent = [await attacker.connect(b"GET /v1/keys HTTP/1.1\r\nx: ") for _ in range(50)]
                if rule:
                    assert [await until_closed(reader) for reader in silent] == [b""] * 50
                    assert (await uploaded(world, port, "honest")).status_code == 200
                else:
                    more = [await attacker.connect(b"GET /v1/keys HTTP/1.1\r\nx: ") for _ in range(60)]
                    assert more
                    with pytest.raises(httpx2.TransportError):
                        await uploaded(world, port, "honest")


async def test_one_address_has_a_cap_and_is_told_in_the_words_of_the_protocol(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world, listening(world.apps[0]) as backend:
        with proxied(tmp_path, backend, ("limit_conn peers 100", "limit_conn peers 4")) as port:
            async with Attacker(port) as attacker:
                for _ in range(4):
                    await attacker.connect(upload_head(world.task.task_id, 5000) + bytes(10))
                await asyncio.sleep(0.3)
                answer = await uploaded(world, port, "honest")
            assert answer.status_code == 429
            assert answer.headers["retry-after"] == "1"
            assert_problem(answer, OverloadedError)


async def test_refusals_of_the_proxy_are_problem_documents(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        async with listening(world.apps[0]) as backend:
            with proxied(tmp_path, backend, ("client_max_body_size 128m", "client_max_body_size 10")) as port:
                assert_problem(await uploaded(world, port, "large"), MessageTooLargeError)
        folder = tmp_path / "alone"
        folder.mkdir()
        with proxied(folder, backend) as port:
            assert_problem(await uploaded(world, port, "nobody"), UnavailableError)


async def test_a_request_for_a_verdict_is_measured_by_the_service_alone(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2, change=verified) as world:
        await world.upload_everywhere(world.reports(LEAST))
        shares, bodies = await check_shares(world)
        path = f"/v1/tasks/{world.task.task_id}{VERDICT}"
        async with listening(world.apps[0]) as backend:
            with proxied(tmp_path, backend, ("client_max_body_size 128m", "client_max_body_size 10")) as port:
                async with httpx2.AsyncClient(timeout=SECONDS) as http:
                    for others, status in ((bodies[1:], 200), ([*bodies[1:], bytes(1 << 21)], 413)):
                        body = framed(shares, others)
                        signed = sign_request(ANALYZER, "PUT", f"{url(0)}{path}", body, START, world.nonces(16))
                        headers = {**signed, "content-type": media_type("verdict-request")}
                        answer = await http.put(f"http://127.0.0.1:{port}{path}", content=body, headers=headers)
                        assert answer.status_code == status, answer.text
                        assert status == 200 or "refused by the proxy" not in answer.text


async def test_the_service_sees_the_address_that_the_proxy_saw_and_not_what_a_sender_writes(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world, listening(world.apps[0]) as backend:
        node = world.apps[0].node
        seen: list[str] = []
        settings = node.settings.model_copy(update={"trusted_proxies": (ip_network("127.0.0.2/32"),)})
        object.__setattr__(node, "settings", settings)
        original = node.uploads.lease
        node.uploads.lease = lambda peer: (seen.append(peer), original(peer))[1]  # type: ignore[method-assign]
        with proxied(tmp_path, backend, ("proxy_pass http", "proxy_bind 127.0.0.2; proxy_pass http")) as port:
            answer = await uploaded(world, port, "honest", **{"x-forwarded-for": "203.0.113.5"})
        assert answer.status_code == 200
        assert seen == ["127.0.0.1"]


def assert_problem(
    answer: httpx2.Response, error: type[MessageTooLargeError | OverloadedError | UnavailableError]
) -> None:
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["type"] == f"urn:lintra:problem:{error.token}"
    assert document["title"] == error.title()
    assert document["status"] == answer.status_code
    assert document["retryable"] == error.retryable
