"""The containers of docker-compose.yml on a real engine: upgraded, killed, cut off, restarted, and set back.

What an engine needs for it stands in support/containers.py. Some minutes.
"""

import os
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
import yaml

from support.containers import PATIENCE, ROOT, Stack, cut, lose
from support.containers import stack as stack  # the fixture

ROWS = 300
HEALTHY_SECONDS = 60
"""From `up` until every container is healthy."""
ROLES = {"server": ("server-a", "server-b", "server-c"), "analyzer": ("analyzer",)}
"""Which services run Lintra itself, by the target of their image: these are upgraded."""
MIGRATIONS = ROOT / "server/lintra_server/storage/migrations/versions"
SETTINGS = "/app/deploy/config/compose/server-b.toml"
RESTORE = "lintra server restore"

pytestmark = [pytest.mark.slow, pytest.mark.e2e]


def commit_before(migration: Path) -> str:
    """Return the last commit that did not have a migration."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--diff-filter=A", "--format=%H^", "--", str(migration)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def older_images(folder: Path) -> Path:
    """Build servers and analyzer of the last commit with an older database; return a compose file that names them.

    Code, packages and their versions are that commit's; the recipe and the settings are today's.
    """
    newest = max(MIGRATIONS.glob("r*.py"))
    command = ["git", "-C", str(ROOT), "-c", "tar.umask=0022", "archive", commit_before(newest)]
    archive = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    assert not (folder / newest.relative_to(ROOT)).exists()
    shutil.rmtree(folder / "deploy")
    shutil.copytree(ROOT / "deploy", folder / "deploy")
    shutil.copy(ROOT / ".dockerignore", folder)
    # What today's roles load later was not among their packages then.
    tried = folder / "deploy/images/tried.py"
    text = tried.read_text()
    assert text.count("in LATER[role]:") == 1
    tried.write_text(text.replace("in LATER[role]:", "in ():"))
    override: dict[str, dict[str, str]] = {}
    for role, services in ROLES.items():
        tag, recipe = f"lintra-{role}:older", folder / "deploy/Dockerfile"
        base = f"BASE_IMAGE={os.environ.get('BASE_IMAGE', 'python:3.12-slim')}"
        build = ["docker", "build", "-q", "-f", recipe, "--target", role, "--build-arg", base, "-t", tag, folder]
        subprocess.run(build, check=True, env={**os.environ, "DOCKER_BUILDKIT": "0"}, capture_output=True)
        override |= {service: {"image": tag} for service in services}
    path = folder / "older.yml"
    path.write_text(yaml.safe_dump({"services": override}))
    return path


def schema(stack: Stack, service: str) -> str:
    """Return the number of the last migration that a service's database has."""
    found = "import sqlite3,glob;print(sqlite3.connect(glob.glob('/data/*.sqlite')[0]).execute("
    asked = found + "'SELECT version_num FROM alembic_version').fetchone()[0])"
    return stack("exec", "-T", service, "python", "-c", asked).split()[-1]


@contextmanager
def sending(stack: Stack, task: str, first: int, last: int) -> Iterator[None]:
    """Send rows while something happens, which begins after the first were acknowledged, and see all acknowledged."""
    with stack.inside("send", task, str(first), str(last)) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 0
        yield
        assert process.poll() is None, "the clients gave up"
        rest = process.communicate("enough\n")[0].split()
    assert process.returncode == 0
    assert int(rest[-1]) == last - first


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
    older = stack.having("-f", "docker-compose.yml", "-f", str(older_images(tmp_path)))
    older("up", "-d", "--no-build")
    # The analyzer of then may have no console, which is what the console's proxy asks for.
    older.healthy(PATIENCE, but="console")
    task = stack.asked("create", str(ROWS))
    assert int(stack.asked("send", task, "0", str(third))) == third

    # Upgraded: other containers, the same volumes, other tables.
    before, tables = stack.container("server-a"), schema(stack, "server-a")
    with sending(stack, task, third, 2 * third):
        stack("up", "-d", "--no-build")
        assert stack.container("server-a") != before
        lose(stack, "server-a")
        lose(stack, "proxy-b")
        cut(stack, "proxy-c", "net-c", "server-c")
    assert schema(stack, "server-a") > tables
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
    stack.says("server-b", RESTORE)
    stack("stop", "server-b")
    done = stack("run", "--rm", "-T", "--no-deps", "server-b", "restore", "--config", SETTINGS, "--from", "/data/old")
    assert "1 releases were stored again" in done
    stack("start", "server-b")
    stack.healthy(PATIENCE)
    found = stack(
        "exec", "-T", "server-b", "lintra", "server", "doctor", "--config", SETTINGS, check=False
    ).splitlines()
    # In a trial all volumes are on one disk; and the database that was replaced is kept until somebody deletes it.
    assert not [line for line in found if line.startswith("TROUBLE")], found
    assert any(line.startswith("ADVICE   old copies") for line in found), found
    # The release stands, and is the same one.
    assert int(stack.asked("release", task)) == ROWS
