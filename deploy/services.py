"""Three servers and an analyzer as processes of this machine, on loopback, until the work is done."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

START_TIMEOUT = 60.0
_LOWEST_PORT, _NUM_PORTS = 20_000, 12_000


@dataclass
class Service:
    """One process: its name, command, address, and the largest memory it was seen to hold."""

    name: str
    config: Path
    url: str
    internal_url: str
    command: Sequence[str]
    process: subprocess.Popen[bytes] | None = None
    peak_memory: int = 0
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.config.with_suffix(".log")

    def start(self) -> None:
        """Start the process; what it prints goes to its log file."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=subprocess.STDOUT)

    def wait_until_ready(self) -> None:
        """Wait until the service says that it is ready.

        Raises:
            RuntimeError: it stopped, or took too long; the message ends with the last lines of its log.
        """
        deadline = time.monotonic() + START_TIMEOUT
        with httpx2.Client(timeout=2) as http:
            while time.monotonic() < deadline and self.process is not None and self.process.poll() is None:
                try:
                    if http.get(f"{self.internal_url}/readyz").status_code == 200:
                        return
                except httpx2.TransportError:
                    pass
                time.sleep(0.1)
        raise RuntimeError(f"{self.name} did not start:\n" + "\n".join(self.log.read_text().splitlines()[-10:]))

    def kill(self) -> None:
        """End the process as a power cut would."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def stop(self) -> None:
        """Ask the process to finish, and wait for it; note its peak memory first."""
        if self.process is None or self.process.poll() is not None:
            return
        self.note_memory()
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.kill()

    def note_memory(self) -> None:
        """Read the process's peak resident memory in bytes, where the system tells it."""
        if self.process is not None:
            self.peak_memory = max(self.peak_memory, peak_memory(self.process.pid))


def peak_memory(pid: int) -> int:
    """Return the peak resident memory of a living process in bytes; 0 where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


@contextmanager
def running(services: Sequence[Service]) -> Iterator[None]:
    """Run services for the length of a block, and stop them whatever happens in it."""
    try:
        for service in services:
            service.start()
        for service in services:
            service.wait_until_ready()
        yield
    finally:
        for service in services:
            service.stop()


def local_services(folder: Path, num_servers: int) -> tuple[list[Service], Service]:
    """Write the settings of N servers and an analyzer into a folder, on free ports of this machine."""
    ports = free_ports(2 * num_servers + 2)
    servers = [_server(folder, index, *ports[2 * index : 2 * index + 2]) for index in range(num_servers)]
    return servers, _analyzer(folder, [server.url for server in servers], *ports[-2:])


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens at, below those that the system gives to whoever connects."""
    found: list[int] = []
    while len(found) < count:
        port = _LOWEST_PORT + secrets.randbelow(_NUM_PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found += [port] if port not in found else []
    return found


def lintra(*arguments: str) -> list[str]:
    """Return the command line of this interpreter's `lintra`."""
    return [sys.executable, "-c", "from lintra_protocol.command import main; main()", *arguments]


def analyst_token(folder: Path) -> str:
    """Return a new analyst token; its hash is added to the file that the analyzer reads."""
    (folder / "analyzer-data").mkdir(parents=True, exist_ok=True)
    command = lintra("analyzer", "token", "--file", str(folder / "analyzer-data" / "token-hashes"))
    made = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"})
    return made.stdout.split()[-1]


def _server(folder: Path, index: int, port: int, internal_port: int) -> Service:
    name = f"server-{index}"
    config = folder / f"{name}.toml"
    config.write_text(
        f'public_url = "http://127.0.0.1:{port}"\nport = {port}\ninternal_port = {internal_port}\n'
        f'data_dir = "{name}-data"\nkey_dir = "{name}-keys"\ncreate_keys = true\n'
        '[policy]\nallowed_authors = "any"\nopen = true\n'
    )
    urls = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{internal_port}"
    return Service(name, config, *urls, lintra("server", "run", "--config", str(config)))


def _analyzer(folder: Path, server_urls: list[str], port: int, internal_port: int) -> Service:
    config = folder / "analyzer.toml"
    data = folder / "analyzer-data"
    config.write_text(
        f'port = {port}\ninternal_port = {internal_port}\ndata_dir = "{data}"\ncreate_keys = true\n'
        f'trust_on_first_use = true\ntoken_hashes_file = "{data}/token-hashes"\n'
        + "".join(f'[[servers]]\nurl = "{url}"\n' for url in server_urls)
    )
    urls = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{internal_port}"
    return Service("analyzer", config, *urls, lintra("analyzer", "run", "--config", str(config)))
