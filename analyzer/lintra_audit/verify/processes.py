"""Servers as processes of this machine, on loopback: the product's own, or copies that lack one rule.

All are forked from one process that has loaded the program, so that a server is up in a fraction of a second.
"""

import multiprocessing
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from http.client import HTTPConnection
from pathlib import Path

from lintra_audit.verify.disabled_rules import disable
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_server import serve
from lintra_server.settings import RegistrationPolicy, Settings

START_SECONDS = 60.0
"""Seconds after which a server that has not answered counts as not started."""

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class ServerFolder:
    """Where a server of the audit is.

    `port` is on loopback. `key` is its identity, which the audit knows since it starts the server; so it can also play
    the server itself. `folder` is where its files are, None if nobody runs it.
    """

    port: int
    key: SigningKey
    folder: Path | None = None

    @property
    def url(self) -> str:
        """Return its address."""
        return f"http://{_LOOPBACK}:{self.port}"


def new_server_folder() -> ServerFolder:
    """Return a place for a server that nobody runs: a free port, and a new key."""
    return ServerFolder(free_ports(1)[0], SigningKey.generate(system_randomness))


@contextmanager
def running(folder: Path, count: int, rule: str | None) -> Iterator[list[ServerFolder]]:
    """Run so many servers, without a rule if one is named, until the block ends; they keep their files in a folder.

    Raises RuntimeError if one did not start; the message ends with what it wrote.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    started = []
    try:
        for port, internal_port in zip(free_ports(count), free_ports(count), strict=True):
            own = folder / str(port)
            own.mkdir(mode=0o700)
            process = context.Process(target=_serve, args=(own, port, internal_port, rule))
            process.start()
            started.append((port, process, own))
        for port, process, own in started:
            deadline = time.monotonic() + START_SECONDS
            while not _answers(port):
                if time.monotonic() > deadline or not process.is_alive():
                    raise RuntimeError(f"a server did not start:\n{_log(own)}")
                time.sleep(0.02)
        yield [ServerFolder(port, _identity(own), own) for port, _, own in started]
    finally:
        for _, process, _ in started:
            process.terminate()
        for _, process, _ in started:
            process.join(20)
            if process.is_alive():
                process.kill()
                process.join()


def _settings(folder: Path, port: int, internal_port: int) -> Settings:
    return Settings(
        public_url=f"http://{_LOOPBACK}:{port}",
        port=port,
        internal_port=internal_port,
        data_dir=folder / "data",
        key_dir=folder / "keys",
        create_keys=True,
        min_free_bytes=0,
        reserve_bytes=0,
        policy=RegistrationPolicy(allowed_authors="any", open=True, max_rejected=Decimal("0.5")),
    ).placed(folder)


def _serve(folder: Path, port: int, internal_port: int, rule: str | None) -> None:
    """Serve in this process; what it writes goes to a file."""
    log = os.open(folder / "log", os.O_CREAT | os.O_WRONLY, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if rule is not None:
        disable(rule)
    serve.run(_settings(folder, port, internal_port))


def _identity(folder: Path) -> SigningKey:
    """Return the key of a server that runs: the audit started it, and may play it."""
    return SigningKey(parse_base64url((folder / "keys" / "identity.key").read_text("utf-8").strip()))


def _log(folder: Path) -> str:
    log = folder / "log"
    return log.read_text("utf-8")[-2000:] if log.exists() else "it wrote nothing"


def _answers(port: int) -> bool:
    connection = HTTPConnection(_LOOPBACK, port, timeout=2)
    try:
        connection.request("GET", "/v1/keys")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nothing listens on right now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((_LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
