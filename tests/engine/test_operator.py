"""deploy/operator as its README says: one operator's server joins two others, and comes through its yearly drill."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from services import free_ports

from support.containers import PATIENCE, PROJECT, ROOT, Stack
from support.containers import stack as stack  # the fixture

FOLDER = ROOT / "deploy/operator"
SETTINGS = ("--config", "/etc/lintra/server.toml")
NAME = "server-c"
"""Under which name the others know this operator's server."""
OTHERS = ("server-a", "server-b", "proxy-a", "proxy-b", "analyzer", "console")
WRITTEN = {
    "https://server.example:8443": f"https://{NAME}:8443",
    "allowed_authors = []": 'allowed_authors = "any"',
    "open = false": "open = true",
    "min_clients = 100": "min_clients = 40",
}
"""What the operator writes into the settings; everything else is as it is shipped."""

pytestmark = [pytest.mark.slow, pytest.mark.e2e]


@contextmanager
def operating(stack: Stack, folder: Path) -> Iterator[Stack]:
    """Give an operator the folder, with settings of their own, and take everything down in the end."""
    shutil.copytree(FOLDER, folder)
    settings = folder / "server.toml"
    text = settings.read_text()
    for before, after in WRITTEN.items():
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    settings.write_text(text)
    own = {"COMPOSE_PROJECT_NAME": f"{PROJECT}-operator", "SERVER_NAME": NAME, "SERVER_PORT": str(*free_ports(1))}
    made = Stack({**stack.environment, **own}, folder)
    try:
        yield made
    finally:
        made("down", "--volumes", "--remove-orphans", check=False)


def joined(stack: Stack, operator: Stack) -> None:
    """Start the two other servers and the analyzer, who trust the operator's authority, and give it a name there."""
    authority = operator("exec", "-T", "proxy", "cat", "/authority/ca.pem")
    keep = f"cat > /authority/ca.pem <<'PEM'\n{authority}\nPEM"
    stack("run", "--rm", "-T", "--no-deps", "--entrypoint", "sh", "proxy-c", "-c", keep)
    stack("up", "-d", "--no-build", "--no-deps", *OTHERS)
    command = ["docker", "network", "connect", "--alias", NAME, f"{PROJECT}_net-c", operator.container("proxy")]
    subprocess.run(command, check=True)
    stack.healthy(PATIENCE)


def words(stack: Stack, *arguments: str, given: str | None = None) -> list[set[str]]:
    """Do something inside, and return the words of every line that it printed."""
    process = stack.inside(*arguments)
    out, _ = process.communicate(given, timeout=2 * PATIENCE)
    assert process.returncode == 0, out
    return [set(line.split()) for line in out.splitlines()]


def wrong(operator: Stack) -> set[str]:
    """Return what `doctor` finds wrong, and what it advises, by the first words of each."""
    found = operator("exec", "-T", "server", "lintra", "server", "doctor", *SETTINGS, check=False).splitlines()
    named = {line.split(maxsplit=1)[1] for line in found if line.startswith(("TROUBLE", "ADVICE"))}
    known = {"data_dir and key_dir are on one volume": "volumes", "there is no witness": "no witness"}
    known["old copies"] = "old copies"
    return {next((short for words, short in known.items() if what.startswith(words)), what) for what in named}


def test_one_operator_s_server_is_founded_backed_up_lost_and_restored_and_releases_nothing_twice(
    stack: Stack, tmp_path: Path
) -> None:
    with operating(stack, tmp_path / "operator") as operator:
        # The ceremony. A trial has one disk and no neighbour, so `doctor` complains of these; of nothing else.
        founded = operator("run", "--rm", "-T", "server", "init", *SETTINGS)
        assert "a new server in /data/server" in founded
        safe = tmp_path / "safe"
        safe.mkdir()
        safe.chmod(0o777)
        keys = ("server", "keys", *SETTINGS, "--backup", "/safe/keys")
        operator("run", "--rm", "-T", "--volume", f"{safe}:/safe", *keys)
        assert list((safe / "keys").iterdir())
        operator("up", "-d", "--no-build")
        operator.healthy(PATIENCE)
        assert wrong(operator) <= {"volumes", "no witness"}
        joined(stack, operator)

        task, _, sent, _, released = words(stack, "whole")
        assert released == sent
        (waiting,) = words(stack, "open")
        assert words(stack, "stream", *waiting, given="enough\n")
        command = "/app/deploy/backing_up.py", *SETTINGS, "--folder", "/backup", "--once"
        operator("run", "--rm", "-T", "--entrypoint", "python", "backup", *command)
        backups = operator("exec", "-T", "server", "ls", "/backup").split()
        # One was made at the start, by the timer.
        assert len([name for name in backups if name.endswith("Z")]) == 2
        assert words(stack, "stream", *waiting, given="enough\n")

        # The drill: an old copy put in place by hand is refused.
        operator("stop", "server")
        put = 'cp -p "$(ls -d /backup/*Z | tail -1)"/lintra.sqlite /data/server/'
        operator("run", "--rm", "-T", "--entrypoint", "sh", "server", "-c", put)
        operator("up", "-d", "--no-build", "server")
        operator.says("server", "lintra server restore")
        operator("stop", "server")
        done = operator("run", "--rm", "-T", "server", "restore", *SETTINGS, "--from", f"/backup/{max(backups)}")
        assert "1 were given up" in done, done
        assert "acknowledged reports" in done, done
        operator("up", "-d", "--no-build", "server")
        operator.healthy(PATIENCE)
        assert wrong(operator) <= {"volumes", "no witness", "old copies"}

        # What was released is the same; what waited is given up, rather than released a second time; the next goes on.
        assert words(stack, "holds", *task)[-1] == released
        assert words(stack, "holds", *waiting)[-1] == {"refused", "abandoned"}
        held = words(stack, "whole")
        assert held[2] == held[4]
