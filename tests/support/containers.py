"""The containers of a compose file on a real engine, for the tests of deploy/.

Images are built as the compose file says, from the base image that BASE_IMAGE names. An engine that has it or can fetch
it is needed, `docker-compose`, and the networks of the compose file (10.77.0.0/16) free.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from services import free_ports

ROOT = Path(__file__).resolve().parents[2]
INSIDE = ROOT / "tests/engine/inside.py"
PROJECT = "lintra-engine-test"
PATIENCE = 300.0
"""Seconds that a wait may take where no promise is about time."""
TRUSTED = " ".join(f"/authorities/{name}" for name in ("a", "b", "c", "console"))
HEALTH = "{{ .Name }} {{ .State.Status }} {{ with .State.Health }}{{ .Status }}{{ else }}unchecked{{ end }}"


def missing() -> str | None:
    """Return why there is nothing to test on, or None."""
    if shutil.which("docker") is None or shutil.which("docker-compose") is None:
        return "docker and docker-compose are not installed; where an engine runs, this test starts the containers"
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        return "no container engine answers (DOCKER_HOST says where); with one, this test starts the containers"
    base = os.environ.get("BASE_IMAGE", "python:3.12-slim")
    for command in ("image", "inspect", base), ("pull", base):
        if subprocess.run(["docker", *command], capture_output=True, check=False).returncode == 0:
            return None
    return f"the base image {base} is neither here nor fetched; BASE_IMAGE may name another"


@dataclass(frozen=True)
class Stack:
    """A compose project of the tests.

    Attributes:
        environment: of docker-compose.
        folder: where its compose file lies, and where an operator would type the commands.
        options: what stands before docker-compose's command, such as profiles.
    """

    environment: dict[str, str]
    folder: Path = ROOT
    options: tuple[str, ...] = ()

    def __call__(self, *arguments: str, check: bool = True) -> str:
        """Run docker-compose, and return what it printed."""
        done = subprocess.run(
            ["docker-compose", *self.options, *arguments], cwd=self.folder, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout[-2000:]}"
        return done.stdout

    def having(self, *options: str) -> "Stack":
        """Return the same project, with these options before every command."""
        return replace(self, options=options)

    def container(self, service: str) -> str:
        """Return the identifier of a service's container."""
        return self("ps", "-q", service).split()[-1]

    def inside(self, *arguments: str) -> subprocess.Popen[str]:
        """Begin what clients and analysts do, in the demonstration's container."""
        entry = f"python /app/deploy/trusting.py {TRUSTED} -- python /inside.py"
        command = ["docker-compose", *self.options, "run", "--rm", "-T", "--no-deps", "-v", f"{INSIDE}:/inside.py:ro"]
        command += ["--entrypoint", entry, "demo", *arguments]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def asked(self, *arguments: str) -> str:
        """Do it, and return the last word that it printed."""
        out, _ = (process := self.inside(*arguments)).communicate()
        assert process.returncode == 0, out
        return out.split()[-1]

    def health(self) -> list[str]:
        """Return a line for every container: its name, whether it runs, and its health."""
        ids = self("ps", "-q").split()
        command = ["docker", "inspect", "-f", HEALTH, *ids]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines() if ids else []

    def healthy(self, seconds: float, but: str = "") -> float:
        """Wait until every container is healthy, or runs where nobody checks, and return how long that took.

        Args:
            seconds: how long to wait.
            but: a service that need not be healthy.
        """
        begun = time.monotonic()
        while True:
            lines = self.health()
            needed = [line for line in lines if not (but and f"_{but}_" in line.split()[0])]
            if needed and all(line.endswith(("running healthy", "running unchecked")) for line in needed):
                return time.monotonic() - begun
            assert time.monotonic() - begun < seconds, "\n".join(lines)
            time.sleep(0.5)

    def says(self, service: str, words: str) -> None:
        """Wait until the last lines of a service's log hold some words."""
        eventually(lambda: words in self("logs", "--tail", "5", service), lambda: self("logs", "--tail", "20", service))


def eventually(holds: Callable[[], bool], shown: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until something holds; where it does not in time, say what was seen."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, shown()
        time.sleep(1)


def lose(stack: Stack, service: str) -> None:
    """Kill a container as a power cut would, and start it again a second later."""
    stack("kill", "-s", "SIGKILL", service)
    time.sleep(1)
    stack("start", service)


def cut(stack: Stack, service: str, network: str, alias: str) -> None:
    """Take a container off a network for some seconds."""
    name, container = f"{PROJECT}_{network}", stack.container(service)
    subprocess.run(["docker", "network", "disconnect", name, container], check=True)
    time.sleep(3)
    subprocess.run(["docker", "network", "connect", "--alias", alias, name, container], check=True)


def size(image: str) -> int:
    """Return how many bytes an image has, unpacked."""
    done = subprocess.run(["docker", "image", "inspect", image], capture_output=True, text=True, check=True)
    return int(json.loads(done.stdout)[0]["Size"])


@contextmanager
def project() -> Iterator[Stack]:
    """Build the images of the plain stack, and take everything down in the end."""
    own = {"COMPOSE_PROJECT_NAME": PROJECT, "CONSOLE_PORT": str(*free_ports(1))}
    stack = Stack({"DOCKER_BUILDKIT": "0", "COMPOSE_DOCKER_CLI_BUILD": "0", **os.environ, **own})
    stack("build", "server-a", "analyzer", "proxy-a", "demo")
    try:
        yield stack
    finally:
        stack("--profile", "postgres", "--profile", "dask", "--profile", "monitoring", "down", "-v", "--remove-orphans",
              check=False)  # fmt: skip


@pytest.fixture
def stack() -> Iterator[Stack]:
    """Return the project of this test; a file that wants it imports this name."""
    if reason := missing():
        pytest.skip(reason)
    with project() as made:
        yield made
