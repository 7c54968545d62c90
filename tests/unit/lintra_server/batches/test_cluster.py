"""A real Dask cluster with mutual TLS: scheduler and workers are processes of their own, set up as the docs say."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal

from lintra_protocol.errors import UnavailableError
from lintra_server.batches import executors, key_broker
from lintra_server.batches.executor import InProcessExecutor, sketch_share
from lintra_server.batches.executors import DaskExecutor
from lintra_server.batches.key_broker import Certificates
from support.certificates import certificates, certificates_of
from support.server_world import a_world
from unit.lintra_server.batches.test_executors import released

pytestmark = pytest.mark.slow  # starting three processes that import Dask takes ten seconds

START_SECONDS = 120
CALM = {"DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "False", "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "False"}


@dataclass
class Cluster:
    """What is running: where, for whom, and the processes of the workers."""

    address: str
    server: Certificates
    workers: list["subprocess.Popen[bytes]"]


def options(files: Certificates) -> list[str]:
    named = {"ca-file": files.authority, "cert": files.certificate, "key": files.key}
    return [part for name, path in named.items() for part in (f"--tls-{name}", str(path))]


def of_worker(files: Certificates) -> dict[str, str]:
    """Return what a worker's environment says of TLS, as its configuration file would."""
    prefix = "DASK_DISTRIBUTED__COMM__TLS__"
    return {
        f"{prefix}CA_FILE": str(files.authority),
        f"{prefix}WORKER__CERT": str(files.certificate),
        f"{prefix}WORKER__KEY": str(files.key),
        "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
    }


@contextmanager
def a_cluster(folder: Path, environment: dict[str, str]) -> Iterator[Cluster]:
    """Run a scheduler and two workers on the loopback interface, each with a certificate of its own."""
    scheduler, server, *own = certificates_of(folder, "cluster", "scheduler", "server", "worker-1", "worker-2")
    running: list[subprocess.Popen[bytes]] = []

    def run(log: str, *arguments: str, **more: str) -> Callable[[str], str]:
        path = folder / log
        with path.open("wb") as file:
            command = [sys.executable, "-m", *arguments]
            running.append(
                subprocess.Popen(command, stdout=file, stderr=file, cwd=folder, env=os.environ | environment | more)
            )
        return lambda pattern: _said(path, pattern)

    try:
        said = run(
            "scheduler.log", "distributed.cli.dask_scheduler", "--protocol", "tls", "--host", "127.0.0.1",
            "--port", "0", "--no-dashboard", *options(scheduler),
        )  # fmt: skip
        address = said(r"tls://127\.0\.0\.1:\d+")
        waiting = [
            run(
                f"worker{number}.log", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny",
                "--no-dashboard", "--host", "127.0.0.1", "--name", str(number), *options(files), **of_worker(files),
            )
            for number, files in enumerate(own)
        ]  # fmt: skip
        for registered in waiting:
            registered("Registered to:")
        yield Cluster(address.replace("tls://", "dask://"), server, running[1:])
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait(30)


def _said(log: Path, pattern: str) -> str:
    until = time.monotonic() + START_SECONDS
    while (found := re.search(pattern, log.read_text("utf-8", "replace"))) is None:
        assert time.monotonic() < until, log.read_text("utf-8", "replace")
        time.sleep(0.1)
    return found[0]


async def test_a_cluster_with_tls_gives_the_same_bits_also_if_a_worker_is_killed_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strange = certificates(tmp_path, "strange")
    asked: list[str] = []
    monkeypatch.setattr(executors, "CONNECT_SECONDS", 10)
    async with a_world(tmp_path, "overlapping") as world:
        release = await released(world, 400, 14)
        expected = sketch_share(release, InProcessExecutor())
        with a_cluster(tmp_path, CALM) as cluster:
            executor = DaskExecutor(cluster.address, cluster.server)
            assert_array_equal(sketch_share(release, executor), expected)
            # Strangers, and whoever speaks in the clear, get nothing.
            for wrong in (DaskExecutor(cluster.address, strange), DaskExecutor(cluster.address, None)):
                with pytest.raises(UnavailableError, match="does not answer"):
                    sketch_share(release, wrong)
            handle = key_broker._Handler.handle

            def killing(self: key_broker._Handler) -> None:
                handle(self)
                asked.append("a part")
                if len(asked) == 5:
                    os.kill(cluster.workers[0].pid, signal.SIGKILL)

            monkeypatch.setattr(key_broker._Handler, "handle", killing)
            assert_array_equal(sketch_share(release, executor), expected)
            assert cluster.workers[0].wait(30) == -signal.SIGKILL
            assert cluster.workers[1].poll() is None
            assert len(asked) >= len(release.parts())
            key = release.stored.elsewhere()[1]
            for log in tmp_path.glob("*.log"):
                assert key.hex().encode() not in log.read_bytes()


async def test_workers_of_a_cluster_that_may_spill_to_disk_compute_nothing(tmp_path: Path) -> None:
    async with a_world(tmp_path, "overlapping") as world:
        release = await released(world, 60, 14)
        spilling = dict.fromkeys(CALM, "0.7")
        with a_cluster(tmp_path, spilling) as cluster, pytest.raises(UnavailableError, match="may spill to disk"):
            sketch_share(release, DaskExecutor(cluster.address, cluster.server))
