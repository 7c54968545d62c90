"""What a process has used, as Linux tells it: CPU seconds, and the most memory since somebody asked."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2

START_SECONDS = 300
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of all threads of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def children_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and of all that it started, those that have ended included.

    They are processes of one thread each, whose own time the kernel tells in nanoseconds, and that of those that have
    ended in ticks: a hundredth of a second of each process would be a third of what storing in groups takes.
    """
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
            own = int(stat.with_name("schedstat").read_text().split()[0]) / 1e9
        except OSError:
            continue  # it has just ended
        fields = rest.split()
        if int(name.split()[0]) == pid:
            total += own + sum(map(int, fields[13:15])) / _TICKS
        elif int(fields[1]) == pid:
            total += own
    return total


def forget_peak(pid: int) -> None:
    """Measure the peak of a process's memory from now on."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_mebibytes(pid: int) -> float:
    """Return the most memory that a process had resident since `forget_peak`."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"the process {pid} has no memory")


@contextmanager
def running_servers(configs: Sequence[Path], urls: Sequence[str]) -> Iterator[list[int]]:
    """Start `lintra server run` for each settings file, wait until it answers, and give the processes' numbers."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", "from lintra_server.cli import app; app()", "run", "--config"]
    processes = [subprocess.Popen([*command, str(config)], env=environment) for config in configs]
    try:
        for process, url in zip(processes, urls, strict=True):
            _wait(process, url)
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


def _wait(process: "subprocess.Popen[bytes]", url: str) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"a server ended with status {process.returncode}")
        try:
            httpx2.get(f"{url}/v1/keys", timeout=5)
        except httpx2.TransportError:
            time.sleep(0.1)
            continue
        return
    raise RuntimeError(f"no answer from {url}")
