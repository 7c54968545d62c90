"""The containers of docker-compose.yml on a real engine: upgraded, killed, cut off, restarted, and set back.

Images are built as the compose file says, from the base image that BASE_IMAGE names: the test needs an engine that has
it or can fetch it, `docker-compose`, and the networks of the compose file (10.77.0.0/16) free. Some minutes.
"""

import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
INSIDE = Path(__file__).with_name("inside.py")
ROWS = 300
HEALTHY_SECONDS = 60
"""From `up` until every container is healthy, on a machine with nothing else to do."""
PATIENCE = 300
"""How long other waits may take, where no promise is about time."""
TRUSTED = " ".join(f"/authorities/{name}" for name in ("a", "b", "c", "console"))
ROLES = {"server": ("server-a", "server-b", "server-c"), "analyzer": ("analyzer",)}
"""Which services run Lintra itself, by the target of their image: these are upgraded."""
SETTINGS = "/app/deploy/config/compose/server-b.toml"
RESTORE = "lintra server restore"


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


pytestmark = [pytest.mark.slow, pytest.mark.e2e]


@dataclass
class Stack:
    """The compose project of this test."""

    environment: dict[str, str]

    def __call__(self, *arguments: str, files: tuple[Path, ...] = (), check: bool = True) -> str:
        """Run docker-compose, and return what it printed."""
        named = [word for file in (ROOT / "docker-compose.yml", *files) for word in ("-f", str(file))]
        command = ["docker-compose", *named, "--project-directory", str(ROOT), *arguments]
        done = subprocess.run(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout[-2000:]}"
        return done.stdout

    def container(self, service: str) -> str:
        return self("ps", "-q", service).split()[-1]

    def inside(self, *arguments: str) -> subprocess.Popen[str]:
        """Begin what clients and analysts do, in the demonstration's container."""
        entry = f"python /app/deploy/trusting.py {TRUSTED} -- python /inside.py"
        command = ["docker-compose", "-f", str(ROOT / "docker-compose.yml"), "--project-directory", str(ROOT)]
        command += ["run", "--rm", "-T", "--no-deps", "-v", f"{INSIDE}:/inside.py:ro", "--entrypoint", entry, "demo"]
        return subprocess.Popen(
            [*command, *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )

    def asked(self, *arguments: str) -> str:
        """Do it, and return the last word that it printed."""
        out, _ = (process := self.inside(*arguments)).communicate()
        assert process.returncode == 0, out
        return out.split()[-1]

    def healthy(self, seconds: float) -> float:
        """Wait until every container is healthy, and return how long that took."""
        begun = time.monotonic()
        form = "{{ .Name }} {{ .State.Status }} {{ .State.Health.Status }}"
        while True:
            ids = self("ps", "-q").split()
            found = subprocess.run(["docker", "inspect", "-f", form, *ids], capture_output=True, text=True, check=True)
            lines = found.stdout.splitlines()
            if lines and all(line.endswith("running healthy") for line in lines):
                return time.monotonic() - begun
            assert time.monotonic() - begun < seconds, found.stdout
            time.sleep(1)


@pytest.fixture
def stack() -> Iterator[Stack]:
    if reason := missing():
        pytest.skip(reason)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    own = {"COMPOSE_PROJECT_NAME": "lintra-engine-test", "CONSOLE_PORT": port}
    made = Stack({"DOCKER_BUILDKIT": "0", "COMPOSE_DOCKER_CLI_BUILD": "0", **os.environ, **own})
    made("build", "server-a", "analyzer", "proxy-a", "demo")
    try:
        yield made
    finally:
        made("down", "--volumes", "--remove-orphans", check=False)


def previous_images(folder: Path) -> Path:
    """Build servers and analyzer of the commit before this one, and return a compose file that names them."""
    # With the modes of a work tree, so that what both commits share is built once.
    archive = subprocess.run(
        ["git", "-C", ROOT, "-c", "tar.umask=0022", "archive", "HEAD^"], stdout=subprocess.PIPE, check=True
    )
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    override: dict[str, dict[str, str]] = {}
    for role, services in ROLES.items():
        tag, recipe = f"lintra-{role}:previous", folder / "deploy/Dockerfile"
        base = f"BASE_IMAGE={os.environ.get('BASE_IMAGE', 'python:3.12-slim')}"
        command = ["docker", "build", "-q", "-f", recipe, "--target", role, "--build-arg", base, "-t", tag, folder]
        environment = {**os.environ, "DOCKER_BUILDKIT": "0"}
        subprocess.run(command, check=True, env=environment, capture_output=True)
        override |= {service: {"image": tag} for service in services}
    path = folder / "previous.yml"
    path.write_text(yaml.safe_dump({"services": override}))
    return path


@contextmanager
def sending(stack: Stack, task: str, first: int, last: int) -> Iterator[None]:
    """Send rows while something happens, which begins after the first were acknowledged, and see all acknowledged."""
    with stack.inside("send", task, str(first), str(last)) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 0
        yield
        assert process.poll() is None, "all was sent before anything happened"
        rest = process.stdout.read().split()
    assert process.returncode == 0
    assert int(rest[-1]) == last - first


def lose(stack: Stack, service: str) -> None:
    """Kill a container as a power cut would, and start it again a second later."""
    stack("kill", "-s", "SIGKILL", service)
    time.sleep(1)
    stack("start", service)


def cut(stack: Stack, service: str, network: str, alias: str) -> None:
    """Take a container off a network for some seconds."""
    name = f"lintra-engine-test_{network}"
    subprocess.run(["docker", "network", "disconnect", name, stack.container(service)], check=True)
    time.sleep(3)
    subprocess.run(["docker", "network", "connect", "--alias", alias, name, stack.container(service)], check=True)


def test_every_container_is_healthy_within_a_minute_and_a_stranger_finds_nothing_but_the_sign_in(stack: Stack) -> None:
    begun = time.monotonic()
    stack("up", "-d", "--no-build")
    stack.healthy(HEALTHY_SECONDS - (time.monotonic() - begun))
    trusted = ssl.create_default_context(cadata=stack("exec", "-T", "console", "cat", "/authority/ca.pem"))
    with httpx2.Client(base_url=f"https://localhost:{stack.environment['CONSOLE_PORT']}", verify=trusted) as browser:
        assert browser.get("/sign-in").status_code == 200
        assert browser.get("/").headers["location"].startswith("/sign-in")
        assert browser.get("/v1/releases").status_code == 401
        assert browser.get("/metrics").status_code == 404


def test_nothing_acknowledged_is_lost_by_an_upgrade_by_losses_by_a_cut_or_by_an_old_backup(
    stack: Stack, tmp_path: Path
) -> None:
    third = ROWS // 3
    stack("up", "-d", "--no-build", files=(previous_images(tmp_path),))
    stack.healthy(PATIENCE)
    task = stack.asked("create", str(ROWS))
    assert int(stack.asked("send", task, "0", str(third))) == third

    # Upgraded: other containers, the same volumes.
    before = stack.container("server-a")
    with sending(stack, task, third, 2 * third):
        stack("up", "-d", "--no-build")
        assert stack.container("server-a") != before
        lose(stack, "server-a")
        lose(stack, "proxy-b")
        cut(stack, "proxy-c", "net-c", "server-c")
    backup = stack("exec", "-T", "server-b", "lintra", "server", "backup", "--config", SETTINGS, "/data/old")
    assert f"{2 * third} reports" in backup
    with sending(stack, task, 2 * third, ROWS):
        stack("restart", "server-a", "server-b", "server-c", "proxy-a", "proxy-b", "proxy-c", "analyzer", "console")
    stack.healthy(PATIENCE)

    # One server dies in the middle of the release, which goes on when it is back. It holds every report or fails.
    releasing = stack.inside("release", task)
    time.sleep(2)
    lose(stack, "server-c")
    out, _ = releasing.communicate()
    assert (releasing.returncode, out.split()[-1]) == (0, str(ROWS))
    an_old_backup_is_refused_until_it_is_restored(stack, task)


def an_old_backup_is_refused_until_it_is_restored(stack: Stack, task: str) -> None:
    stack("stop", "server-b")
    put = "cd /data && rm -f lintra.sqlite-wal lintra.sqlite-shm && cp old/lintra.sqlite . && chmod 600 lintra.sqlite"
    stack("run", "--rm", "-T", "--no-deps", "--entrypoint", "sh", "server-b", "-c", put)
    stack("start", "server-b")
    deadline = time.monotonic() + PATIENCE
    while RESTORE not in (said := stack("logs", "--tail", "5", "server-b")):
        assert time.monotonic() < deadline, said
        time.sleep(1)
    stack("stop", "server-b")
    done = stack("run", "--rm", "-T", "--no-deps", "server-b", "restore", "--config", SETTINGS, "--from", "/data/old")
    assert "1 releases were stored again" in done
    stack("start", "server-b")
    stack.healthy(PATIENCE)
    found = stack(
        "exec", "-T", "server-b", "lintra", "server", "doctor", "--config", SETTINGS, check=False
    ).splitlines()
    # In a trial all volumes are on one disk; and the database that was replaced is kept until somebody deletes it.
    wrong = [line.split(":")[0].split(maxsplit=1)[1] for line in found if line.startswith("WRONG")]
    assert set(wrong) <= {"volumes", "old copies"}, found
    # The release stands, and is the same one.
    assert int(stack.asked("release", task)) == ROWS
