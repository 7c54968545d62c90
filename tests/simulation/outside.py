"""A server in a process of its own, behind a faulty proxy: real sockets, real signals, real disks, the real clock.

The laws and the requests are those of the servers in this process; only what lies between is real.
"""

import asyncio
import http.client
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.http.requests import MessageName, media_type, sign_request
from lintra_protocol.messages.documents import KeyList, Signed
from lintra_protocol.rules.verification import VerifiedAggregateRequest
from lintra_server import node, serve
from lintra_server.node import Node
from lintra_server.operations.backup import back_up
from lintra_server.settings import RegistrationPolicy, Settings
from lintra_server.storage.server_resources import NotStartedError, lock_folders
from lintra_server.web import app
from lintra_service.supervisor import HALTED
from simulation.books import LOST, Answer, law
from simulation.inside import InsideServer, Times, answer_of, release_of
from simulation.mutants import MUTANTS, OF_PROCESSES
from simulation.proxy import Proxy
from simulation.reading import Snapshot, read_database
from support.forks import forked, log_to
from support.pids import children, is_running
from support.server_world import ANALYZER

TRIES = 12
START_SECONDS = 60
NOTE_SECONDS = 0.2
"""How often a process notes what is stored: oftener than a product does, so that less is waited for."""
PROBE_SECONDS = 1
"""How often it looks whether its disk is well, for the same reason."""

QUESTIONS: dict[str, tuple[str, str, MessageName | None]] = {
    "census": ("GET", "census", None),
    "census ids": ("GET", "census/ids", None),
    "inventory": ("POST", "inventory", None),
    "ids": ("GET", "inventory/ids", None),
    "cohort": ("PUT", "cohort", "cohort-request"),
    "checks": ("PUT", "checks", "checks-request"),
    "checks body": ("GET", "checks/body", None),
    "verdict": ("PUT", "verdict", "verdict-request"),
    "aggregate": ("PUT", "aggregate", "aggregate-request"),
    "aggregate again": ("GET", "aggregate", None),
}
"""Method, resource of the batch, and message of every question."""


class RealTimes(Times):
    """The machine's clock; only a long wait is waited for, since nothing here counts in more than seconds."""

    def __init__(self) -> None:
        super().__init__(0.0)

    @property
    def wall(self) -> float:
        return time.time()

    @wall.setter
    def wall(self, _: float) -> None:
        pass

    def pass_(self, seconds: float) -> None:
        if seconds > 60:
            time.sleep(3.2)


def outside_settings(folder: Path, number: int, ports: Sequence[int]) -> Settings:
    """Return the settings of a server whose address is its proxy's; ports of proxy, server and operator."""
    public, own, internal = ports
    return Settings.model_validate(
        {
            "public_url": f"http://127.0.0.1:{public}",
            "port": own,
            "internal_port": internal,
            "data_dir": folder / f"data{number}",
            "key_dir": folder / f"keys{number}",
            "create_keys": True,
            "min_free_bytes": 0,
            "reserve_bytes": 65536,
            "log_level": "warning",
            "policy": RegistrationPolicy(allowed_authors="any", open=True, max_tasks=100_000),
        }
    )


def _run(settings: Settings, offset: float, log: str, planted: str, workers: int) -> None:
    """Be a server: what `lintra server run` does, with the machine's clock wrong by `offset` seconds."""
    log_to(log)
    right = time.time
    time.time = lambda: right() + offset
    app.create_app.__kwdefaults__["now"] = time.time
    node.NOTE_SECONDS = NOTE_SECONDS
    serve.PROBE_SECONDS = PROBE_SECONDS
    if planted:
        (MUTANTS | OF_PROCESSES)[planted].plant(pytest.MonkeyPatch())
    try:
        serve.run(settings, workers)
    except Exception as error:
        sys.stderr.write(f"REFUSED {type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(3)


@dataclass
class OutsideServer(InsideServer):
    """One server's folders, its process while it runs, and the proxy before it.

    Attributes:
        workers: how many processes take uploads, if not the server's own.
        expected: words of tracebacks that faults of this simulation make.
    """

    proxy: Proxy | None = None
    process: BaseProcess | None = None
    planted: str = ""
    workers: int = 1
    expected: tuple[str, ...] = ()
    log: Path = Path()
    starts: int = 0

    @property
    def node(self) -> Node:
        raise RuntimeError("nobody looks into another process")

    @property
    def is_up(self) -> bool:
        return self.process is not None

    # --- its life --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the process and wait until it answers.

        Raises:
            NotStartedError: with what it printed.
        """
        self.halts.clear()
        self.starts += 1
        self.log = self.data_dir.parent / f"{self.data_dir.name}-{self.starts}.log"
        process = forked(_run, self.settings, self.offset, str(self.log), self.planted, self.workers)
        deadline = time.monotonic() + START_SECONDS
        while (keys := self._keys()) is None:
            process.join(0.05)
            if process.exitcode is not None:
                raise NotStartedError(self.log.read_text().rpartition("REFUSED ")[2])
            if time.monotonic() > deadline:
                process.kill()
                raise RuntimeError(f"the server does not answer: {self.log.read_text()[-1000:]}")
        self.process = process
        if keys:
            first = next(key for key in keys if key.suite == "x25519")
            self.known_key = parse_base64url(first.key_id), parse_base64url(first.public_key)
        if self.identity is None:
            self.identity = self.settings.signing_key(system_randomness)

    def _keys(self) -> tuple | None:
        """Return the keys that the server offers, none with a wrong clock; None if it does not answer."""
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", self.settings.port, timeout=10)) as connection:
                connection.request("GET", "/v1/keys")
                answer = connection.getresponse()
                body = answer.read()
        except OSError:
            return None
        return Signed[KeyList].from_canonical(body).message.keys if answer.status == 200 else ()

    def kill(self) -> None:
        """SIGKILL. (law) Its openers end by themselves."""
        process, self.process = self.process, None
        if process is not None:
            openers = self._openers(process)
            process.kill()
            process.join()
            self._require_ended(openers)

    def kill_opener(self, chance: random.Random) -> None:
        """SIGKILL to one of the processes that take uploads."""
        openers = [] if self.process is None else self._openers(self.process)
        if openers:
            os.kill(chance.choice(openers), signal.SIGKILL)

    def _openers(self, process: BaseProcess) -> list[int]:
        """Return the processes that a thread of the server started; a server without openers has none."""
        return children(process.pid) if self.workers > 1 and process.pid is not None else []

    @staticmethod
    def _require_ended(openers: Sequence[int]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while lingering := [each for each in openers if is_running(each)]:
            law(time.monotonic() < deadline, "an opener outlives its gate", lingering)
            time.sleep(0.02)

    def terminate(self) -> None:
        """SIGTERM. (law) The process ends by itself, and says that nothing was wrong."""
        status = self.end()
        law(status in (0, None), "SIGTERM does not end a server in order", status)

    def end(self) -> int | None:
        """SIGTERM. (law) The process ends by itself; return its status, None if there was none."""
        process, self.process = self.process, None
        if process is None:
            return None
        openers = self._openers(process)
        process.terminate()
        process.join(30)
        self._require_ended(openers)
        law(process.exitcode is not None, "SIGTERM does not end a server")
        return process.exitcode

    def note(self) -> None:
        """Wait until the process has noted what it holds."""
        time.sleep(2 * NOTE_SECONDS)
        self.look()

    def upkeep(self) -> None:
        """Wait; the hourly upkeep comes at a start only, for no simulation lasts an hour."""
        self.note()

    def look(self) -> None:
        """See whether the process ended itself."""
        if self.process is not None and self.process.exitcode is not None and not self.halts:
            self.halts.append(f"exit status {self.process.exitcode}")
            law(self.process.exitcode == HALTED, "a process ended without a word", self.process.exitcode)

    def new_node(self, settings: Settings | None = None) -> Node:
        """Be a second process on the same folders."""
        lock_folders(settings or self.settings, system_randomness)
        raise AssertionError("two processes own one key folder")

    def sealing_key(self) -> tuple[bytes, bytes]:
        return self.known_key

    def back_up(self, folder: Path) -> Snapshot:
        list(back_up(self.settings, folder))
        return read_database(folder / self.database.name, self.key_dir / "journal")

    def tracebacks(self) -> list[str]:
        """Return what stands in the logs that should not."""
        texts = [path.read_text() for path in self.data_dir.parent.glob(f"{self.data_dir.name}-*.log")]
        lines = (line for text in texts for line in text.splitlines())
        found = [line for line in lines if "Traceback" in line and not any(words in line for words in self.expected)]
        # A disk that may be full may hold the beginning of a line.
        return [line for line in found if not self.expected or line.endswith("}")]

    # --- requests --------------------------------------------------------------------------------------------

    async def upload(self, requests: Sequence[tuple[str, bytes]]) -> list[Answer]:
        """Send some uploads at the same moment, each as often as it takes to get an answer."""
        headers = {"content-type": media_type("reports")}
        answers = [self._tried("POST", f"/v1/tasks/{task}/reports", body, headers) for task, body in requests]
        return list(await asyncio.gather(*answers))

    async def ask(self, task_id: str, name: str, body: bytes = b"", batch: int = 0) -> Answer:
        """Ask what the author or the analyst asks; every try is signed anew."""
        meanwhile, self.meanwhile = self.meanwhile, None
        if name == "register":
            sort = media_type("registration" if b'"token_key"' in body else "task")
            return await self._tried("PUT", f"/v1/tasks/{task_id}", body, {"content-type": sort})
        method, resource, message = QUESTIONS[name]
        if release_of(body) is VerifiedAggregateRequest:
            message = "verified-aggregate-request"
        headers = {"content-type": media_type(message)} if message else {}
        path = f"/v1/tasks/{task_id}/batches/{batch}/{resource}"
        if name == "inventory" and body:
            path, body = f"{path}?first={int(body)}", b""
        asked = self._answered(method, path, body, headers)
        if meanwhile is None:
            return await asked
        answer, _ = await asyncio.gather(asked, meanwhile())
        return answer

    async def _answered(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        """Ask for a step until it is done, as an analyzer does."""
        while True:
            answer = await self._tried(method, path, body, headers, signed=True)
            while answer.status == 202:
                await asyncio.sleep(0.1)
                answer = await self._tried("GET", path.partition("?")[0], b"", {}, signed=True)
                if answer.problem in ("batch_open", "not_found"):
                    break  # it began anew and knows nothing of it
            else:
                return answer

    async def _tried(
        self, method: str, path: str, body: bytes, headers: dict[str, str], *, signed: bool = False
    ) -> Answer:
        for _ in range(TRIES):
            if not self.is_up or self.proxy is None:
                return LOST
            own = dict(headers)
            if signed:
                url = f"{self.settings.public_url}{path}"
                own |= sign_request(ANALYZER, method, url, body, int(time.time()), system_randomness(16))
            answer = await _exchange(self.proxy.port, method, path, body, own)
            self.look()
            if answer is not None or self.halts:
                return answer or LOST
            self.proxy.counts["request sent again"] += 1
        return LOST


async def _exchange(port: int, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer | None:
    """Send one request; None if there is no whole answer of the server itself."""
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head += f"host: 127.0.0.1:{port}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
            data = await reader.read()
        finally:
            writer.close()
    except OSError:
        return None
    start, found, content = data.partition(b"\r\n\r\n")
    lines = start.lower().split(b"\r\n")
    # An answer that is cut within its head has no end of the head, or no length.
    if not found or f"content-length: {len(content)}".encode() not in lines:
        return None
    status = int(lines[0].split()[1])
    if status >= 400 and b"content-type: application/problem+json" not in lines:
        return None
    return answer_of(status, content)
